"""Replies to different prompts in one batch: each is what it is alone, and what prompts share is decoded once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from termchat.decoding.drafting import DraftSettings
from termchat.decoding.group import Group
from termchat.decoding.records import Failed, Finished, Prefill, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Event, Generate, Join, ModelSpec, Prefilling, ReplyRequest
from tests.engine.conftest import know_rows, records, tokens
from tests.engine.walking import of, plain, walk, walked

FREE = Tuning(max_tokens=6, temperature=1.0)
TEXTS = (
    "The ship sailed on over the wide, quiet water. ",
    "Niemand wusste, woher der Brief kam. ",
    "def mean(values: list[float]) -> float: return sum(values) / len(values)\n",
)
LENGTHS = (5, 300, 64, 63, 127, 20, 128, 7, 190, 65, 33, 250, 90, 12, 150, 41)


@pytest.fixture(scope="module")
def session(small_model_path: Path) -> Iterator[ModelSession]:
    spec = ModelSpec(str(small_model_path), "small", context=2048, threads=1)
    with closing(know_rows(ModelSession(spec, lambda _: None))) as made:
        yield made


def prompts(session: ModelSession) -> list[list[int]]:
    """Sixteen prompts of 5 to 300 tokens. Some begin alike, two are the same, and one is the beginning of another."""
    texts = [session.model.tokenize(text * 60, special=False) for text in TEXTS]
    made = [[*texts[at % 3][: length - 1], 500 + at] for at, length in enumerate(LENGTHS)]
    made[9], made[13] = list(made[6]), made[1][:12]
    return made


def group(ids: list[list[int]], tuning: Tuning = FREE) -> Generate:
    replies = [
        ReplyRequest(own, tuning.samplers(), tuning.conditions(), 40 + number, number) for number, own in enumerate(ids)
    ]
    return Generate(replies, Group(1, "walks", len(ids)))


def alone(session: ModelSession, one: ReplyRequest) -> list[object]:
    session.cache.rewind_to(0)
    return [*records(session, Generate([ReplyRequest(one.ids, one.samplers, one.conditions, one.seed)]))]


def check_each(session: ModelSession, stream: list[Event], command: Generate) -> None:
    for one in command.replies:
        own, single = plain(of(stream, one.number)), plain(alone(session, one))  # type: ignore[arg-type]
        assert tokens(own) == tokens(single)
        assert own[-1] == single[-1]
        (start,) = [record for record in own if isinstance(record, Start)]
        assert (start.prompt_ids, start.exact, start.threads) == (one.ids, True, 1)


def test_each_of_sixteen_prompts_is_answered_as_alone(session: ModelSession) -> None:
    command = group(prompts(session))
    session.cache.rewind_to(0)
    stream = walked(session, command)
    check_each(session, stream, command)


def test_what_prompts_share_is_decoded_once_and_is_on_record(session: ModelSession) -> None:
    ids = session.model.tokenize(TEXTS[0] * 60, special=False)
    first, second = ids[:150], [*ids[:100], 7, *ids[:40]]
    command = group([first, second, list(first)])
    session.cache.rewind_to(0)
    stream = walked(session, command)
    read = {event.walk: event for event in stream if isinstance(event, Prefill)}
    assert [(one.tokens, one.reused) for one in (read[0], read[1], read[2])] == [(150, 0), (141, 0), (150, 0)]
    assert read[0].shapes == [63, 63, 23, 1]
    assert read[1].shapes == [63, 37, 40, 1]
    assert [(said.done, said.total) for said in stream if isinstance(said, Prefilling)] == [
        (63, 191), (126, 191), (149, 191), (150, 191), (190, 191),
    ]  # fmt: skip
    assert len(session.cache.ids) == 150
    assert session.cache.capacity - session.cache.free == 150 + 41 + 3 * 5
    again = walked(session, command)
    reused = {event.walk: event.reused for event in again if isinstance(event, Prefill)}
    assert reused == {0: 149, 1: 100, 2: 149}


def test_one_of_them_that_joins_and_one_that_is_kept_go_on(session: ModelSession) -> None:
    ids = session.model.tokenize(TEXTS[0] * 60, special=False)
    first, second = ids[:40], [*ids[:30], 7, 8, 9]
    command = group([first, second])
    late = walk(2, FREE, 9, ids=list(second))
    session.cache.rewind_to(0)
    stream = walked(session, command, {(0, 3): [Join(late)]})
    single = alone(session, late)
    own = of(stream, 2)
    assert [t.candidates for t in tokens(own)] == [t.candidates for t in tokens(single)]  # type: ignore[arg-type]
    stream = walked(session, command)
    kept = [*second, *(token.id for token in tokens(of(stream, 1)))]
    assert session.keep_reply(1).cells == len(kept) - 1
    assert session.cache.ids == kept[:-1]


def test_drafts_change_nothing(session: ModelSession) -> None:
    ids = session.model.tokenize(TEXTS[0] * 60, special=False)
    tuning = Tuning(max_tokens=20, temperature=0.0)
    command = group([ids[:60], [*ids[:33], *ids[:20]]], tuning)
    session.cache.rewind_to(0)
    without = walked(session, command)
    session.cache.rewind_to(0)
    drafted = walked(session, Generate(command.replies, command.group, draft=DraftSettings("ngram", always=True)))
    for number in (0, 1):
        pairs = zip(tokens(of(drafted, number)), tokens(of(without, number)), strict=True)
        assert all(
            (a.id, a.logit, a.probability, a.candidates) == (b.id, b.logit, b.probability, b.candidates)
            for a, b in pairs
        )
    assert sum(event.accepted or 0 for event in drafted if isinstance(event, Finished)) > 0


def test_a_prompt_without_room_fails_alone(session: ModelSession) -> None:
    long = session.model.tokenize(TEXTS[1] * 300, special=False)
    command = group([long[:40], long[: session.cache.capacity + 1], [5, *long[:2020]], long[:30]])
    session.cache.rewind_to(0)
    stream = walked(session, command)
    (failed,) = [event for event in stream if isinstance(event, Failed)]
    assert (failed.walk, failed.kind) == (1, "context")
    ends = {event.walk: event for event in stream if isinstance(event, Finished)}
    assert [ends[number].reason for number in (0, 3)] == ["length", "length"]
    assert (ends[2].reason, ends[2].tokens) == ("context", 0)
    assert not [event for event in stream if isinstance(event, Token) and event.walk == 1]
