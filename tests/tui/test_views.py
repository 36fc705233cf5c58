"""What a person reads of a token, a reply and its branches, in known situations."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len

from termchat.chat.questions import Rescored, WhyNot
from termchat.conversation.position import summarise_whatif
from termchat.conversation.session import Breakpoint
from termchat.conversation.tree import Conversation, Node, Span
from termchat.decoding.conditions import Length, Stop, Text, Threshold
from termchat.decoding.records import (
    ABSENT,
    UNKNOWN,
    Candidate,
    DrawnThere,
    Explanation,
    ModelIdentity,
    Penalised,
    Reason,
    Remedy,
    StageEffect,
    Token,
    TokenBias,
)
from termchat.decoding.samplers import SamplerSettings, Tuning
from termchat.engine.port import Explained, Scored, Tokenized
from termchat.tui.draw.ink import Line
from termchat.tui.lists.branch_tree import BranchList, leaf_of, tree_rows
from termchat.tui.lists.compare import ComparedReply, Comparison, compare, compare_lines, summary
from termchat.tui.lists.small_dialogs import BreakpointsDialog
from termchat.tui.lists.tokenizer import piece_flow, piece_lines, pieces_title
from termchat.tui.pages.record import Shown, from_columns, step_lines
from termchat.tui.pages.token_answers import ending_lines, list_remedies, whatif_lines, why_lines
from termchat.tui.themes.library import PLAIN
from tests import made_records
from tests.chats import chat_on
from tests.tui.fake_engine import FakeEngine, replaced

HOSTILE = "\x1b]0;owned\x07\x9b31m\u202e\r\x00"
FOX = made_records.token(5, b" fox", " fox", token_id=1)


def read(lines: list[Line]) -> list[str]:
    return [line.text.rstrip() for line in lines]


def words(lines: list[Line]) -> str:
    return " ".join(" ".join(read(lines)).split())


def is_clean(lines: list[Line]) -> bool:
    """Whether nothing in it could steer a terminal or turn the order of what is read."""
    return all(unicodedata.category(char) not in ("Cc", "Cf") for line in lines for char in line.text)


def replied(*texts: str, reason: Reason = "end", chat: Conversation | None = None, **fields: list[object]) -> Node:
    """A message and a reply of such tokens; `fields` replace those of each of them."""
    chat = chat or Conversation()
    made_records.user(chat, "tell me", [1, 2])
    return grown(made_records.reply(chat), *texts, reason=reason, **fields)


def grown(node: Node, *texts: str, reason: Reason = "end", first: int = 0, **fields: list[object]) -> Node:
    node.add(made_records.settings())
    for index, text in enumerate(texts):
        step = first + index
        token = made_records.token(step, text.encode("utf-8", "surrogatepass"), text)
        node.add(replaced(token, **{name: values[index] for name, values in fields.items()}))
    node.add(made_records.finished(reason))
    return node


# --- one token -------------------------------------------------------------------------------------------------------


def test_the_record_says_what_the_model_wanted_what_the_chain_left_and_what_the_dice_did() -> None:
    settings = SamplerSettings(temperature=1.2, top_k=0, repeat_penalty=1.1)
    lines = step_lines(Shown(FOX, samplers=settings, seed=9), 44, 40)
    told = words(lines)
    for fact in (
        "TOKEN 5 ·fox as recorded", "rank 1", "model 53.8%", "after 44.0%", "entropy 3.90 bit", "p(end) 0.20%", "dice +0.12",
        "decode 6.1 ms", "sample 0.31 ms", "id 1 ", "bytes 20 66 6f 78", "position 35", "mu 9.50",
        "LEFT AFTER penalties 49152 top_k 40 min_p 4 temperature 4", "SETTINGS repeat 1.1 last_n 64 top_p 0.95",
        "temp 1.2 seed 9",
    ):  # fmt: skip
        assert fact in told
    assert "top_k 0" not in told  # off
    rows = read(lines)
    first = rows.index("CANDIDATES   logit   model   after") + 1
    assert rows[first] == "1 ·c0         18.2   60.7%   50.0%"  # e to the -0.5, and 1/2
    assert rows[first + 1] == "2 ·c1         17.2   22.3%   25.0% ●"  # e to the -1.5, and 1/4
    assert rows[first + 19] == "  ·cut        -3.0   <0.1%  cut min_p"
    assert len(rows) < 40


def test_where_there_is_little_room_the_token_that_was_drawn_is_still_among_the_candidates() -> None:
    drawn_last = replaced(FOX, id=18)
    rows = read(step_lines(Shown(drawn_last), 44, 12))
    assert len(rows) == 12
    (taken,) = [row for row in rows if row.endswith("●")]
    assert taken.split()[0] == "·c18"  # no number: that key takes what belongs there


def test_a_near_tie_is_told_in_a_sentence_and_the_margin_with_its_unit() -> None:
    tied = replaced(FOX, margin=0.0314, near_tie=True)
    for lines in (step_lines(Shown(tied), 44, 40), step_lines(Shown(tied), 44, 40, bars=True, numbered=False)):
        told = words(lines)
        assert "Near tie: with a different number of threads or batch size, a different token may win." in told
        assert "margin 0.03 nats" in told
        assert max(cell_len(line.text) for line in lines) <= 44
    for near_tie in (None, False):
        told = words(step_lines(Shown(replaced(FOX, margin=0.0, near_tie=near_tie)), 44, 40))
        assert "Near tie" not in told
        assert "margin 0.00 nats" in told
    assert "margin" not in words(step_lines(Shown(FOX), 44, 40))


def test_what_waits_says_why_and_nothing_of_a_sampling_that_has_not_been() -> None:
    waiting = replaced(FOX, bytes="🦊!!".encode(), sample_us=0, forced=True)
    lines = step_lines(Shown(waiting, "PENDING", "waiting: entropy > 3", pending=True), 44, 20)
    assert read(lines)[0] == "PENDING 5 🦊!!  waiting: entropy > 3  forced"
    assert cell_len(lines[0].text) == 44
    assert "sample" not in words(lines)
    assert "bytes f0 9f a6 8a …" in words(lines)


def test_what_memory_alone_holds_of_a_token_is_shown_with_the_way_to_the_rest() -> None:
    node = replied("Once", " upon", probability=[0.5, 0.125], entropy=[1.0, 2.25])
    told = words(step_lines(Shown(from_columns(node, 1, 8)), 44, 20))
    for fact in (
        "TOKEN 8 ·upon",
        "after 12.5%",
        "entropy 2.25 bit",
        "bytes 20 75 70 6f …",
        "i asks the model for them",
    ):
        assert fact in told
    assert "position" not in told


def test_a_control_token_goes_by_its_name_and_one_without_a_name_by_a_sign() -> None:
    end = replaced(FOX, id=2, bytes=b"", candidates=[Candidate(2, "<|im_end|>", 9.0, -0.5, 0.6, 0.0, None)])
    assert read(step_lines(Shown(end), 44, 20))[0] == "TOKEN 5 <|im_end|>  as recorded"
    assert read(step_lines(Shown(replaced(end, candidates=[])), 44, 20))[0] == "TOKEN 5 ∅  as recorded"


# --- why not ---------------------------------------------------------------------------------------------------------


def why_not(*, drawn: bool = False, text: str = " cat", loss: float = 0.5, more: int = 0) -> WhyNot:
    stages = [
        StageEffect("penalties", -2.5, 0.04, 49152, False),
        StageEffect("top_k", -2.5, 0.05, 40, False),
        StageEffect("min_p", None, None, 4, True),
        StageEffect("temperature", None, None, 4, False),
    ]
    remedies = [Remedy("min_p", "<=", 0.01, False), Remedy("temperature", ">=", 1.6, True)]
    explanation = Explanation(
        9, text, -2.0, -3.0, 12, 0.25, -0.25, stages, None if drawn else "min_p",
        Penalised(loss, list(range(3, 11))), [] if drawn else remedies, 9 if drawn else 7, " dog",
    )  # fmt: skip
    pieces = {position: f" p{position}" for position in range(3, 11)}
    return WhyNot(replied("a"), 7, False, text, more, Explained(explanation, recomputed=True), pieces)


def test_why_not_has_the_way_through_the_chain_the_cut_and_what_it_would_have_taken() -> None:
    lines = why_lines(why_not(more=2), 43)
    rows = read(lines)
    assert rows[:2] == ["WHY NOT ·cat  with its original settings", "recomputed"]
    assert rows[2:4] == ["as token 7  id 9  logit -2.00  rank 13", "model 5.0%  dice -0.25"]  # e to the -3 is 0.0498
    assert rows[5] == "penalties            -2.50     4.0%   49152"
    assert rows[7] == "min_p                      cut here       4"
    assert rows[8] == "temperature                       –       4"
    told = words(lines)
    assert 'Cut by min_p; the dice picked "·dog".' in told
    assert "To survive it needs min_p ≤ 0.01. Then it wins with temperature ≥ 1.6 and these dice." in told
    assert "Penalties took 0.50 from its logit, because of ·p5 at 5, ·p6 at 6, " in told
    assert "·p10 at 10 and 2 more." in told
    assert "Your text starts with this token; 2 more would follow." in told


def test_why_the_drawn_one_needs_no_remedy_and_penalties_can_add() -> None:
    told = words(why_lines(why_not(drawn=True, loss=-1.25), 43))
    assert told.startswith("WHY ·cat")
    assert "The dice picked it, at 25.0% after the chain." in told
    assert "Penalties added 1.25 to its logit" in told
    assert "wins" not in told


def test_greedy_cuts_nothing_but_takes_the_highest() -> None:
    for drawn, says in ((True, "It has the highest logit, which temperature 0 takes."), (
        False, 'Temperature 0 takes the highest logit, which is that of "·dog".'
    )):  # fmt: skip
        why = why_not(drawn=drawn)
        stages = [StageEffect("top_k", -2.5, 0.05, 40, False), StageEffect("temperature", None, None, 1, not drawn)]
        it = replaced(why.explained.explanation, stages=stages, removed_by=None if drawn else "temperature")
        told = words(why_lines(msgspec.structs.replace(why, explained=Explained(it, recomputed=True)), 60))
        assert says in told
        assert ("not highest" in told) is not drawn
        assert not [word for word in ("cut", "Cut", "dice picked") if word in told]


def drawn_there(index: int = 0, *, rank: int = UNKNOWN, winner: int = 7, now: bool = False) -> WhyNot:
    """Where a server drew: the token has 1 %, that which stands there 4 %, the likeliest 50 %."""
    own, won, best = (math.log(share) for share in (0.01, 0.04, 0.5))
    there = DrawnThere(20, won, 2, 3, " bird", best)
    bias = TokenBias(9, " cat", -1.5)
    explanation = Explanation(
        9, " cat", ABSENT, own, rank, ABSENT, ABSENT, [], None, None, [], winner, " dog" if winner == 7 else " cat",
        bias, None, there,
    )  # fmt: skip
    return WhyNot(replied("a"), index, now, "", 0, Explained(explanation, recomputed=True), {})


def test_why_not_of_a_server_that_draws_says_what_it_tells_and_no_more() -> None:
    lines = why_lines(drawn_there(), 43)
    assert read(lines)[:3] == ["WHY NOT ·cat", "as token 0  id 9  rank > 20  model 1.0%", "logprob -4.61"]
    told = words(lines)
    assert 'The server drew "·dog", with 4.0% by the model: 4.0 times as likely.' in told
    assert 'The likeliest was "·bird", with 50.0%: 50 times as likely.' in told
    assert "not among the 20 likeliest tokens" in told
    assert "A logit bias adds -1.5 to its logit." in told
    assert "The server does not tell what its sampler chain cut. An engine that draws here does: a model on" in told
    assert not [word for word in ("nan", "dice", "STAGE", "knobs", "Cut by", "after", "–") if word in told]


def test_why_the_one_that_a_server_drew_and_one_that_was_forced() -> None:
    told = words(why_lines(drawn_there(rank=5, winner=9, now=True), 43))
    assert told.startswith("WHY ·cat")
    assert "rank 6" in told
    assert "The server drew it." in told
    assert "not among" not in told
    assert "With the current knobs: A logit bias" in told
    why = drawn_there()
    why.node.tokens.forced[0] = True
    assert '"·dog" was not drawn, but forced there, with 4.0% by the model: 4.0 times as likely.' in words(
        why_lines(why, 80)
    )


KEEPS = Remedy("top_p", ">=", 0.97, False)


@pytest.mark.parametrize(
    ("ways", "said"),
    [
        ([KEEPS], ["To survive it needs top_p ≥ 0.97"]),
        (
            [KEEPS, Remedy("min_p", "<=", 0.0000123, False), Remedy("temperature", ">=", None, True)],
            [
                "To survive it needs top_p ≥ 0.97, min_p ≤ 1.2e-05",
                "Even then it wins at no temperature with these dice",
            ],
        ),
        (
            [Remedy("temperature", ">=", 1.2, True, until=1.5)],
            ["It wins with temperature from 1.2 to 1.5 and these dice"],
        ),
        (
            [KEEPS, Remedy("temperature", "<=", 0.0, True)],
            ["To survive it needs top_p ≥ 0.97", "Then it wins with temperature = 0 and these dice"],
        ),
        ([Remedy("repeat_penalty", "=", 1.0, False)], ["With repeat_penalty = 1 it survives"]),
        ([Remedy("repeat_penalty", "=", 1.0, True)], ["With repeat_penalty = 1 it wins with these dice"]),
        ([Remedy("top_n_sigma", ">=", None, False)], ["No top_n_sigma keeps it"]),
        ([Remedy("temperature", ">=", None, True)], ["It wins at no temperature with these dice"]),
    ],
)
def test_remedies_say_which_knobs_it_takes(ways: list[Remedy], said: list[str]) -> None:
    assert list_remedies(ways) == said


# --- what if ---------------------------------------------------------------------------------------------------------


def rescored(
    now: list[str], probabilities: list[float], *, recomputed: bool = True, temperature: float = 0.8
) -> Rescored:
    """A reply of the letters a, b, … of which these would be drawn."""
    texts = [f" {letter}" for letter in "abcdefgh"[: len(now)]]
    ids, drawn = [ord(text[1]) for text in texts], [ord(text[1]) for text in now]
    scored = Scored(drawn, now, probabilities, recomputed)
    settings = SamplerSettings(temperature=temperature)
    return Rescored(replied(*texts), settings, [], ids, texts, scored, summarise_whatif(ids, drawn, probabilities))


def test_what_if_says_what_stays_where_it_parts_and_what_becomes_impossible() -> None:
    replay = rescored([" a", " b", " X", " d"], [0.5, 0.5, 0.25, 0.0])
    lines = whatif_lines(replay, ["temperature 0.8 → 1.2", "top_k 40 → 5"], 44, 30)
    rows = read(lines)
    assert rows[:2] == ["WHAT IF  same dice, 4 tokens", "temperature 0.8 → 1.2, top_k 40 → 5"]
    stays = next(row for row in rows if row.startswith("stays"))
    assert (stays.count("━"), stays.count("─"), stays[-5:]) == (24, 8, "75.0%")  # three of four, on 32 cells
    assert "differs at 2  ·c  → ·X" in rows
    assert "would be cut 1 of 4" in rows
    assert rows[-2].split() == ["2", "·c", "→", "·X", "25.0%"]
    assert rows[-1].split() == ["3", "·d", "→", "·d", "cut"]
    greedy = read(whatif_lines(rescored([" a", " X"], [1.0, 0.0], temperature=0.0), [], 44, 30))
    assert "not highest 1 of 2" in greedy
    assert greedy[-1].split() == ["1", "·b", "→", "·X", "0.0%"]
    assert "Recomputed, in batches: near-ties may be decided differently" in words(lines)
    assert "Recomputed ±1.3%, in batches" in words(whatif_lines(replay, [], 44, 30, 0.013))


def test_what_if_nothing_changes_and_while_the_answer_is_awaited() -> None:
    same = whatif_lines(rescored([" a", " b"], [0.5, 0.5], recomputed=False), [], 44, 30)
    assert "Every token would stay the same." in words(same)
    assert "No knob has changed yet" in words(same)
    assert "nearly tied" not in words(same)  # these are the distributions of then
    assert "CHANGED TOKENS" not in words(same)
    assert "re-reading the reply" in words(whatif_lines(None, [], 44, 30))


# --- how it ended ----------------------------------------------------------------------------------------------------


def test_the_end_has_its_trace_its_reason_and_the_places_where_it_was_nearest() -> None:
    node = replied(" a", " b", "\n", "", p_end=[0.001, 0.5, 0.25, 0.9], rank=[0, 0, 0, 3])
    assert read(ending_lines([Span(node, 4)], 44, 20)) == [
        "P(END)  4 tokens, 0% to 100%",
        "▁▅▃█",  # in eighths
        "The model ended the reply.",
        "The end token had rank 4; p(end) was 90.00%.",
        "HIGHEST",
        "    3 the end token                   90.00%",
        "    1 before ·b                       50.00%",
        "    2 before ⏎                        25.00%",
        "    0 before ·a                        0.10%",
    ]


def test_an_end_that_was_never_near_has_a_flat_trace() -> None:
    node = replied(" a", " b", " c", reason="length", p_end=[0.00001, 0.00009, 0.00002])
    assert read(ending_lines([Span(node, 3)], 44, 20))[1] == "▁▁▁"


def test_a_long_trace_keeps_every_peak() -> None:
    node = replied(*["x"] * 100, reason="length", p_end=[1.0 if step == 57 else 0.0 for step in range(100)])
    assert "▁▁▁▁█▁▁▁▁" in read(ending_lines([Span(node, 100)], 10, 20))


def test_what_a_stop_sequence_held_back_is_shown() -> None:
    node = replied("a")
    node.add(made_records.finished("stop", "\n6.", "\n6. b"))
    told = words(ending_lines([Span(node, 1)], 44, 20))
    assert 'Stop sequence "\\n6.".' in told
    assert 'not shown: "\\n6. b"' in told


# --- branches --------------------------------------------------------------------------------------------------------


@pytest.fixture
def forked() -> tuple[Conversation, Node, Node]:
    """A reply of four tokens, and a branch named wolf from behind its second."""
    chat = Conversation()
    first = replied("Once", " upon", " a", " time", chat=chat)
    other = chat.grow_node("assistant", parent=first.number, at=2)
    grown(other, " the", " moon", first=2, id=[71, 72])
    other.name = "wolf"
    return chat, first, other


def tree(chat: Conversation, width: int, *, selected: int = 0, marked: int | None = None) -> list[Line]:
    """The lines of the branches."""
    branches = BranchList(chat, PLAIN)
    branches.show_rows()
    branches.marked = marked
    return branches.draw(range(len(branches.rows)), selected, width)


def test_the_tree_steps_to_the_right_at_a_fork_and_says_where_it_left(forked: tuple[Conversation, Node, Node]) -> None:
    chat, first, other = forked
    rows = tree_rows(chat)
    lines = tree(chat, 50, selected=1, marked=other.number)
    assert read(lines) == [
        "● tell me",
        "● Once upon a time                           4 tok",
        "└ ◆ wolf  the moon                    at 2 · 2 tok",
    ]
    assert [line.ground for line in lines] == ["", "panel", ""]
    assert [leaf_of(chat, row.node) for row in rows] == [other.number, first.number, other.number]


def test_replies_without_text_say_how_they_differ() -> None:
    chat = Conversation()
    chat.grow_node("user", parent=None, at=0, text="tell me")
    for reason, detail, stops, temperature, seed in (
        ("stop", "}", ("}",), 0.8, 1),
        ("end", "", (), 0.8, 1),
        ("user", "", (), 1.2, 2),
    ):
        node = chat.grow_node("assistant", parent=1, at=0)
        node.add(made_records.start([1], seed))
        node.add(made_records.settings(stops=stops, temperature=temperature))
        node.add(made_records.finished(reason, detail))  # type: ignore[arg-type]
    lines = read(tree(chat, 100))
    assert [line.strip(" └├●○").split("  ")[0] + "; " + line.split("  ")[-1].strip() for line in lines[1:]] == [
        'no text: stop sequence "}"; seed 1 · temperature 0.8 · stop "}" · 0 tok',
        "no text: ended by the model; seed 1 · temperature 0.8 · 0 tok",
        "no text: stopped; seed 2 · temperature 1.2 · 0 tok",
    ]


def test_what_is_deleted_is_not_in_the_tree(forked: tuple[Conversation, Node, Node]) -> None:
    chat, _, other = forked
    chat.delete_node(other.number)
    assert len(tree_rows(chat)) == 2


def test_branches_beside_each_other_count_by_ids_and_mark_where_they_part(
    forked: tuple[Conversation, Node, Node],
) -> None:
    chat, first, other = forked
    comparison = compared(chat, first, other)
    assert summary(comparison) == "the first 2 tokens are identical; then 2 left, 2 right"
    lines = compare_lines(comparison, 41, ("shown", "wolf"))
    assert read(lines) == [
        "shown               │ wolf",
        "Once upon a time    │ Once upon the moon",
    ]
    marked = [text for text, ink in lines[-1].runs if ink.ground == "accent"]
    assert marked == [" a", " the"]
    assert summary(compared(chat, first, first)) == "identical, 4 tokens"


def compared(chat: Conversation, left: Node, right: Node, beside: Conversation | None = None) -> Comparison:
    return compare(ComparedReply(chat, left.number), ComparedReply(beside or chat, right.number))


def drawn(
    chat: Conversation, message: Node, *pieces: str, model: ModelIdentity = made_records.MODEL, **made: Any
) -> Node:
    """A reply with its records: `made` are its seed, and its settings."""
    node = chat.grow_node("assistant", parent=message.number, at=len(message.ids))
    seed, stops, limit = made.pop("seed", 42), made.pop("stops", ()), made.pop("max_tokens", 0)
    node.add(msgspec.structs.replace(made_records.start([1], seed), model=model))
    node.add(made_records.settings(0, stops=stops, max_tokens=limit, **made))
    for step, piece in enumerate(pieces):
        node.add(made_records.token(step, piece.encode(), piece))
    node.add(made_records.finished(tokens=len(pieces)))
    return node


def test_replies_say_what_differs_beside_their_words() -> None:
    chat = Conversation("Be kind.")
    asked = chat.grow_node("user", parent=None, at=0, text="hi")
    plain = drawn(chat, asked, "Hello", " there")
    turned = drawn(chat, asked, "Hello", " you", seed=7, temperature=1.5, stops=("\n",), max_tokens=9)
    turned.add(made_records.settings(1, temperature=1.0))  # in its middle: both are told
    turned.settings_at[1] = 1
    again = chat.grow_node("user", parent=None, at=0, text="hi")
    again.system = "Be brief."
    other = drawn(
        chat, again, "Hello", " there", model=msgspec.structs.replace(made_records.MODEL, name="gemma", sha256="cd")
    )
    assert [tuple(one) for one in compared(chat, plain, turned).differing] == [
        ("seed", "42", "7"),
        ("temperature", "0.8", "1.5 → 1.0"),
        ("stop", "off", '"\\n" → off'),
        ("max_tokens", "off", "9 → off"),
    ]
    comparison = compared(chat, plain, other)
    assert [tuple(one) for one in comparison.differing] == [
        ("model", "smollm2 Q4_1", "gemma Q4_1"),
        ("system prompt", "Be kind.", "Be brief."),
    ]
    assert summary(comparison) == "identical, 2 tokens"  # of two models the words count, not the ids
    assert read(compare_lines(comparison, 61, ("one", "other"))) == [
        "one                           │ other",
        "model smollm2 Q4_1            │ model gemma Q4_1",
        "system prompt Be kind.        │ system prompt Be brief.",
        "                              │",
        "Hello there (ends here)       │ Hello there (ends here)",
    ]
    rows = read(tree(chat, 200))
    assert [row.split("  ")[-1].strip() for row in rows] == [
        "prompt: Be kind.",
        "seed 42 · temperature 0.8 · 2 tok",
        'seed 7 · temperature 1.5 → 1.0 · stop "\\n" → off · max_tokens 9 → off · 2 tok',
        "prompt: Be brief.",
        "2 tok",
    ]


def test_replies_of_two_chats_and_such_without_tokens_are_compared() -> None:
    chat, elsewhere = Conversation(), Conversation()
    one = drawn(chat, chat.grow_node("user", parent=None, at=0, text="hi"), "Hello", " there")
    asked = elsewhere.grow_node("user", parent=None, at=0, text="good day")
    other = elsewhere.grow_node("assistant", parent=asked.number, at=0)
    other.add(made_records.finished(held="Hello there"))
    comparison = compared(chat, one, other, elsewhere)
    assert ("message", "hi", "good day") in [tuple(found) for found in comparison.differing]
    assert summary(comparison) == "different from the first token; 2 left, 1 right"
    assert "Hello there" in read(compare_lines(comparison, 81))[-1].split("│")[1]


def test_what_lets_a_reply_go_on_is_no_difference() -> None:
    chat = Conversation()
    asked = chat.grow_node("user", parent=None, at=0, text="hi")
    one, other = (drawn(chat, asked, "a") for _ in range(2))
    for node, length in ((one, Length(5)), (other, Length(9, extra=4))):
        node.settings[0] = msgspec.structs.replace(node.settings[0], conditions=(length,))
    assert compared(chat, one, other).differing == []


# --- lists -----------------------------------------------------------------------------------------------------------


def test_the_tokenizer_has_number_id_piece_and_bytes_and_marks_what_steers() -> None:
    tokenized = Tokenized(
        [1, 9690, 198, 7], [b"", b" fox", b"\n", b"\xf0\x9f"], ["<|im_start|>", " fox", "\n", "\ufffd"], [0]
    )
    rows = [row.split() for row in read(piece_lines(tokenized, 60))]
    assert rows == [
        ["0", "1", "<|im_start|>", "control"],
        ["1", "9690", "·fox", "20", "66", "6f", "78"],
        ["2", "198", "⏎", "0a"],
        ["3", "7", "<F0><9F>", "f0", "9f"],
    ]
    assert pieces_title(tokenized) == "4 tokens (1 control), 6 characters (3 letters), 7 bytes"
    assert pieces_title(Tokenized([5], [b"a"])) == "1 token, 1 character (1 letter), 1 byte"
    assert pieces_title(Tokenized([5, 6], [b" ", b"3 \xc3\xa9"]), "3 é") == "2 tokens, 3 characters (1 letter), 4 bytes"


def test_pieces_in_line_alternate_show_spaces_and_break_where_a_line_ends() -> None:
    pieces = [b"The", b" fox", b"\n", b"\n\n", b" runs", b"  ", b"x" * 25]
    tokenized = Tokenized([*range(100, 107)], pieces, [piece.decode() for piece in pieces], [4])
    lines = piece_flow(tokenized, 20, ids=False)
    assert read(lines) == ["The·fox⏎", "⏎⏎", "·runs··", "x" * 20, "x" * 5]
    inks = [ink for text, ink in lines[0].runs]
    assert inks[0] != inks[1] != inks[2]
    assert [ink.underline for ink in inks] == [False, True, False]  # a mark without colours
    assert lines[2].runs[0][1].color == "stamp"
    assert read(piece_flow(tokenized, 20, ids=True))[:3] == ["The 100  ·fox 101", "⏎ 102", "⏎⏎ 103"]
    assert read(piece_flow(Tokenized([7], [b"a\n\nb"]), 20, ids=True)) == ["a⏎⏎", "b 7"]


def rule_lines(rules: list[Breakpoint], width: int) -> list[Line]:
    dialog = BreakpointsDialog(chat_on(FakeEngine(), Tuning()), PLAIN)
    return [dialog.line(rule, width, chosen=False) for rule in rules]


def test_a_rule_says_whether_it_is_on_what_it_does_and_when() -> None:
    rules = [
        (Threshold("entropy", ">", 3.0), True), (Stop("\n6."), False), (Text("fo+", True, "stop"), True),
        (Length(64), True),
    ]  # fmt: skip
    lines = rule_lines([Breakpoint(*rule) for rule in rules], 40)
    assert read(lines) == [
        "[x] pauses at  entropy > 3",
        '[ ] stops  at  sequence "\\n6."',
        "[x] stops  at  /fo+/",
        "[x] stops  at  max_tokens 64",
    ]


# --- all of them -----------------------------------------------------------------------------------------------------


def hostile_token() -> Token:
    candidates = [Candidate(1, HOSTILE, 9.0, -0.5, 0.5, 0.0, None)]
    return replaced(FOX, bytes=HOSTILE.encode(), text=HOSTILE, candidates=candidates)


def hostile_branches() -> tuple[Conversation, Node]:
    chat = Conversation()
    node = replied(HOSTILE, HOSTILE, chat=chat)
    node.name = HOSTILE
    chat.nodes[node.parent or 0].written = HOSTILE
    return chat, node


def hostile_tree(width: int) -> list[Line]:
    chat, _ = hostile_branches()
    return tree(chat, width)


def hostile_comparison(width: int) -> list[Line]:
    chat, node = hostile_branches()
    other, beside = hostile_branches()
    other.first_system, other.nodes[1].written = HOSTILE, f"2 {HOSTILE}"
    return compare_lines(compared(chat, node, beside, other), width, (HOSTILE, HOSTILE))


def hostile_ending(width: int) -> list[Line]:
    _, node = hostile_branches()
    node.add(made_records.finished("stop", HOSTILE, HOSTILE))
    return ending_lines([Span(node, 2)], width, 30)


VIEWS: dict[str, Callable[[int], list[Line]]] = {
    "record": lambda width: step_lines(
        Shown(hostile_token(), "PENDING", "waiting: " + HOSTILE, samplers=SamplerSettings(), pending=True), width, 30
    ),
    "why": lambda width: why_lines(why_not(text=HOSTILE), width),
    "what if": lambda width: whatif_lines(rescored([HOSTILE, HOSTILE], [0.5, 0.0]), [HOSTILE], width, 30),
    "ending": hostile_ending,
    "tree": hostile_tree,
    "compare": hostile_comparison,
    "pieces": lambda width: piece_lines(Tokenized([1], [HOSTILE.encode()], [HOSTILE], [0]), width),
    "rules": lambda width: rule_lines([Breakpoint(Text(HOSTILE, regex=True)), Breakpoint(Stop(HOSTILE))], width),
}


@pytest.mark.parametrize("width", [36, 43, 58])
@pytest.mark.parametrize("view", VIEWS)
def test_foreign_text_steers_nothing_and_no_line_is_wider_than_the_panel(view: str, width: int) -> None:
    lines = VIEWS[view](width)
    assert is_clean(lines)
    assert any(mark in words(lines) for mark in ("␛", r"\u001b"))
    assert [line.text for line in lines if cell_len(line.text) > width] == []
