"""The order of replies of a group, from their nodes."""

from __future__ import annotations

from termchat.conversation.tree import Conversation, Span
from termchat.conversation.walk_groups import ids_of_beam, ranking_of
from termchat.decoding.group import BeamSettings
from termchat.decoding.records import Beam, Beams, Ranked, Reason, Record, Token
from tests.made_records import add_all, step, user
from tests.made_walks import group, siblings, walked


def nodes(*streams: list[Record]) -> dict[int, list[Span]]:
    chat = Conversation()
    user(chat, "hi", [1, 2, 3])
    found: dict[int, list[Span]] = {}
    for walk, (node, records) in enumerate(zip(siblings(chat, len(streams)), streams, strict=True)):
        add_all(node, records)
        found[walk] = [Span(node, len(node.ids))]
    return found


def likely(records: list[Record], *logprobs: float) -> list[Record]:
    """The same with other logprobs."""
    left = iter(logprobs)
    return [
        step(**{name: getattr(r, name) for name in r.__struct_fields__} | {"logprob": next(left)})
        if isinstance(r, Token)
        else r
        for r in records
    ]


def test_the_likeliest_reply_that_ended_is_the_best() -> None:
    of = group(3, kind="best")
    found = nodes(
        likely(walked([1], 0, of, [b"a", b"b"]), -1.0, -2.0),
        likely(walked([1], 1, of, [b"a"]), -0.5),
        likely(walked([1], 2, of, [b"a"], "length"), -0.125),
    )
    assert ranking_of(found, of).walks == [
        Ranked(1, -0.5, -0.5, 1),
        Ranked(0, -1.5, -1.5, 2),
        Ranked(2, None, -0.125, 1),
    ]


def test_a_vote_counts_answers_and_leaves_out_what_has_none() -> None:
    of = group(5, kind="vote", answer=r"\d+")
    texts = (b"is 42", b"41 or 42", b"I do not know", b"43", b"41")
    ends: tuple[Reason, ...] = ("end", "stop", "end", "end", "length")
    found = nodes(
        *(walked([1], walk, of, [text], end) for walk, (text, end) in enumerate(zip(texts, ends, strict=True)))
    )
    ranked = ranking_of(found, of).walks
    assert [(one.walk, one.answer, one.votes) for one in ranked[:3]] == [(0, "42", 2), (1, "42", 2), (3, "43", 1)]
    assert {(one.walk, one.answer, one.score) for one in ranked[3:]} == {(2, None, None), (4, None, None)}


def test_thoughts_have_no_vote() -> None:
    of = group(1, kind="vote", answer=r"\d+")
    (spans,) = nodes(walked([1], 0, of, [b"41 ", b"42"])).values()
    spans[0].node.tokens.thought = 2
    assert ranking_of({0: spans}, of).walks[0].answer is None


def test_beams_have_the_scores_of_the_search_in_the_order_of_the_engine() -> None:
    of = group(2, kind="beams", beams=BeamSettings(2, 0.5, 2))
    found = nodes(walked([1], 0, of, [b"a", b"b"]), walked([1], 1, of, [b"a", b"c"], "length"))
    found[1][0].node.tokens.ids[1] = 7
    found[0][0].node.beams = [
        Beams(0, [Beam(0, 0, 1000, "a", -1.0, -1.0), Beam(1, 0, 1001, "b", -2.0, -2.0)], []),
        Beams(
            1,
            [
                Beam(0, 0, 7, "c", -2.0, -2.1),
                Beam(1, 1, 1001, "b", -9.0, -9.0),
                Beam(2, 0, 1001, "b", -1.0, -1.4, True),
            ],
            [],
        ),
    ]
    assert [(one.walk, one.score, one.tokens) for one in ranking_of(found, of).walks] == [(0, -1.4, 2), (1, -2.1, 2)]
    assert ids_of_beam(found[0][0].node.beams, Beam(3, 1, 5, "d", -9.0, -9.0), 1) == [1001, 5]
