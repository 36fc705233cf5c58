"""Drafts for several replies at once change no record but the times and what is told of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from termchat.decoding.drafting import DraftSettings
from termchat.decoding.records import Finished, Prefill, SettingsRecord, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama import speculation
from termchat.engine.llama.cache import SPLIT
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Adjust, Cancel, Generate, Pause, Resume, Score, Scripted, Step
from tests.asking import ask_for, change, only
from tests.engine.conftest import records, tokens
from tests.engine.drafting import LENGTH, SCHEMA, SETTINGS, ids_of, same, session_of
from tests.engine.walking import Fork, alone, ask, of, plain, to, walk, walked

ON = DraftSettings("ngram")
FREE = Tuning(temperature=1.1, top_k=0, max_tokens=LENGTH)


class Knowing:
    """Drafts what a walk is going to say, with faults."""

    by, why = "ngram", ""
    said: list[list[int]]
    faults = 0.3

    def __init__(self, ids: list[int], _judge: object) -> None:
        self._random = Random(len(ids))

    def learn_round(self, *_: object) -> None:
        pass

    def expect_speedup(self, *_: object) -> float:
        return 2.0

    def propose_ids(self, ids: list[int], most: int, _times: object) -> list[int]:
        whole = next((known for known in self.said if known[: len(ids)] == ids), ids)
        known = whole[len(ids) :][: self._random.randint(1, most)]
        return [i if self._random.random() > self.faults else (i + 1) % 1000 for i in known]


@pytest.fixture(scope="module")
def small(small_model_path: Path) -> Iterator[ModelSession]:
    with closing(session_of(small_model_path)) as made:
        yield made


@pytest.fixture
def knowing(monkeypatch: pytest.MonkeyPatch) -> type[Knowing]:
    made = type("MyKnowing", (Knowing,), {"said": []})
    monkeypatch.setattr(speculation, "Ngrams", made)
    return made


def both(
    session: ModelSession, knowing: type[Knowing], command: Generate, at: object = None, when_paused: object = ()
) -> tuple[list[object], list[object]]:
    """All that the walks say, without and with drafts."""
    session.cache.rewind_to(0)
    without = walked(session, command, at, when_paused)  # type: ignore[arg-type]
    numbers = {event.walk for event in without if isinstance(event, Token)}
    knowing.said = [
        [*(start.prompt_ids), *(t.id for t in tokens(of(without, number)))]
        for number in numbers
        if (start := of(without, number)[0])
    ]
    session.cache.rewind_to(0)
    return without, walked(session, change(command, draft=ON), at, when_paused)  # type: ignore[arg-type]


def check(without: list[object], drafted: list[object]) -> None:
    numbers = {event.walk for event in without if isinstance(event, Token)}
    for number in numbers:
        assert same(of(drafted, number)) == same(of(without, number))  # type: ignore[arg-type]
    ends = [event for event in drafted if isinstance(event, Finished)]
    assert sum(end.drafted or 0 for end in ends) > sum(end.accepted or 0 for end in ends) > len(ends)


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("prompt", [40, SPLIT - 12])
def test_all_records_are_those_without_drafts(
    small: ModelSession, knowing: type[Knowing], count: int, prompt: int
) -> None:
    tunings = [tuning.turn_knobs({"max_tokens": LENGTH}) for tuning in SETTINGS.values()]
    command = ask(ids_of(small, prompt), [walk(i, tunings[(i + prompt) % len(tunings)], 30 + i) for i in range(count)])
    without, drafted = both(small, knowing, command)
    check(without, drafted)
    rounds = sum(event.rounds or 0 for event in drafted if isinstance(event, Finished))
    assert rounds > 2 * count


def test_a_constraint_holds_within_rounds(small: ModelSession, knowing: type[Knowing]) -> None:
    walks = [walk(i, FREE, i, constraint=SCHEMA) for i in range(2)]
    check(*both(small, knowing, ask(ids_of(small, 40), walks)))


def test_knobs_pauses_steps_joins_and_ends_in_the_middle_of_rounds(small: ModelSession, knowing: type[Knowing]) -> None:
    knowing.faults = 0.1
    command = ask(ids_of(small, SPLIT - 8), [walk(i, FREE, i) for i in range(3)])
    both(small, knowing, command)
    cold = FREE.turn_knobs({"temperature": 0.3})
    late = walk(3, FREE, 9)
    at = {
        (0, 3): [to(1, Pause())],
        (0, 6): [to(1, Step()), Adjust(cold.samplers(), cold.conditions(), {})],
        (0, 9): [to(1, Resume()), Fork(late, 0, 4)],
        (2, 12): [to(2, Cancel())],
    }
    small.cache.rewind_to(0)
    stream = walked(small, change(command, draft=ON), at)
    assert sum(event.accepted or 0 for event in stream if isinstance(event, Finished)) > 3
    for one in command.replies:
        own = tokens(of(stream, one.number))
        turned = next((t.step for t in own if t.settings > own[0].settings and not _only_drafts(stream, t)), len(own))
        script = (Scripted(turned, samplers=cold.samplers(), origin={}),) if turned < len(own) else ()
        whole = tokens(alone(small, command, one, script=script))[: len(own)]
        assert [_drawn(t) for t in own] == [_drawn(t) for t in whole]
    fork = tokens(of(stream, 3))
    begun = tuple(Scripted(t.step, t.id) for t in tokens(of(stream, 0))[:4])
    assert [_drawn(t) for t in fork] == [_drawn(t) for t in tokens(alone(small, command, late, script=begun))[4:]]


def _drawn(token: Token) -> tuple[object, ...]:
    return token.step, token.id, token.logit, token.probability, token.candidates


def _only_drafts(stream: list[object], token: Token) -> bool:
    """Whether the settings that the token was drawn with are, but for drafts, those that the reply began with."""
    own = [record for record in of(stream, token.walk or 0) if isinstance(record, SettingsRecord)]
    return own[0].samplers == next(record for record in own if record.number == token.settings).samplers


@pytest.mark.parametrize("kept", [0, 2])
def test_the_one_that_is_kept_goes_on_with_nothing_decoded_again(
    small: ModelSession, knowing: type[Knowing], kept: int
) -> None:
    command = ask(ids_of(small, SPLIT - 6), [walk(i, FREE, i) for i in range(3)])
    _, drafted = both(small, knowing, command)
    ids = [*only(command).ids, *(t.id for t in tokens(of(drafted, kept)))]
    later = Tuning(max_tokens=LENGTH + 6, temperature=1.0)

    def go_on() -> list[object]:
        return records(small, ask_for(ids, later.samplers(), later.conditions(), 5, done=LENGTH))  # type: ignore[return-value]

    found = small.keep_reply(kept)
    assert small.cache.ids == ids[: found.cells]
    assert found.cells == len(ids) - 1
    more = go_on()
    prefill = next(record for record in more if isinstance(record, Prefill))
    assert (prefill.reused, prefill.shapes) == (len(ids) - 1, [1])
    small.cache.rewind_to(0)
    walked(small, command)
    small.keep_reply(kept)
    assert tokens(plain(go_on())) == tokens(plain(more))  # type: ignore[arg-type]


def test_drafts_leave_cells_for_every_token(small: ModelSession, knowing: type[Knowing]) -> None:
    knowing.faults = 0.9
    count, left = 4, 30
    ids = ids_of(small, small.cache.capacity - count * left)
    tuning = FREE.turn_knobs({"max_tokens": left})
    without, drafted = both(small, knowing, ask(ids, [walk(i, tuning, i) for i in range(count)]))
    for number in range(count):
        assert same(of(drafted, number)) == same(of(without, number))  # type: ignore[arg-type]


def test_a_draft_model_is_for_one_reply_at_a_time(small: ModelSession) -> None:
    command = ask(ids_of(small, 40), [walk(i, FREE, i) for i in range(2)], draft=DraftSettings("model"))
    stream = walked(small, command)
    assert {event.drafted for event in stream if isinstance(event, Finished)} == {None}
    told = next(record for record in of(stream, 0) if hasattr(record, "drafting"))
    assert "one reply at a time" in told.drafting  # type: ignore[union-attr]


def test_questions_between_tokens_do_not_disturb_them(small: ModelSession, knowing: type[Knowing]) -> None:
    """A what-if decodes many rows, where the rows of walks are that have not drawn yet."""
    ids = ids_of(small, 40)
    command = ask(ids, [walk(i, FREE, 30 + i) for i in range(3)])
    without, _ = both(small, knowing, command)
    small.cache.rewind_to(0)
    drafted: list[object] = []
    for number, events in enumerate(small.generate(change(command, draft=ON), lambda: None, lambda: None, 0.0)):
        drafted += events
        question = Score([*ids_of(small, 30), *[500 + number % 7] * 20], 20, FREE.samplers(), number)
        small.score_reply(question, alone=False, progress=lambda *_: None, wanted=lambda: True)
    check(without, drafted)
