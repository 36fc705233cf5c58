"""The same bits from a real model, whatever was done to the reply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termchat.decoding.records import Finished, Prefill, SettingsRecord, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Adjust, Cancel, Force, Inspect, ModelSpec, Pause, Paused, Resume, Scripted, Steer, Step
from tests.engine.bare_loop import bare_greedy
from tests.engine.conftest import prompt, records, request, tokens
from tests.engine.steered import (
    KNOBS,
    SEEDS,
    TUNING,
    Deed,
    check_script_and_fork,
    deeds_of,
    numbers,
    paused,
    serves,
    steered,
)


@pytest.fixture(scope="module")
def story(session: ModelSession) -> list[int]:
    """A prompt whose reply is long enough, and no foregone conclusion: other processors draw other replies."""
    for animal in ("fox", "crow", "wolf", "bear", "hare", "frog"):
        ids = prompt(session, f"Tell me a story about a {animal} who said: Hello! And then? Use short sentences.")
        if serves(tokens(records(session, request(ids, TUNING)))):
            return ids
    raise AssertionError("no reply will do")


@pytest.fixture(scope="module")
def whole(session: ModelSession, story: list[int]) -> list[Token]:
    """The reply that nobody stops."""
    return tokens(records(session, request(story, TUNING)))


def test_questions_asked_while_it_waits_do_not_disturb_it(
    session: ModelSession, story: list[int], whole: list[Token]
) -> None:
    asked: list[tuple[Token, bool]] = []

    def curious() -> Iterable[Steer]:
        while True:
            at = len(asked)
            for ids, step in (([*story, *(t.id for t in whole[:at])], at), (story[:20], 0), (story, 0)):
                look = Inspect(ids, TUNING.samplers(), 7, step)
                found = session.inspect_step(look, alone=False, wanted=lambda: False)
                if ids is not story[:20] and step == at and len(ids) == len(story) + at:
                    fresh = found
            asked.append(fresh)
            session.model.tokenize("while it waits", special=False)
            yield Step()

    stream = steered(session, request(story, TUNING, paused=True), curious())
    assert numbers(stream) == numbers(whole)
    assert len(asked) == 48
    # The pending step is looked at without another pass, and is what is then taken.
    assert [recomputed for _, recomputed in asked] == [False] * 48
    assert [(t.id, t.logit, t.candidates) for t, _ in asked] == [(t.id, t.logit, t.candidates) for t in whole]


def test_knobs_turned_while_it_waits_reshape_what_is_pending(
    session: ModelSession, story: list[int], whole: list[Token]
) -> None:
    hot = Tuning(max_tokens=48, temperature=2.0, top_k=3, repeat_penalty=1.1)
    turned = Adjust(hot.samplers(), hot.conditions())
    back = Adjust(TUNING.samplers(), TUNING.conditions())
    stream = steered(session, request(story, TUNING), [turned, back, Resume()], {9: [Pause()]})
    first, second, third = paused(stream)
    assert [type(event) for event in stream if isinstance(event, SettingsRecord | Paused)] == [
        SettingsRecord, Paused, SettingsRecord, Paused, SettingsRecord, Paused,
    ]  # fmt: skip
    assert [stop.token.settings for stop in (first, second, third)] == [0, 1, 2]
    path = [*story, *(t.id for t in whole[:9])]
    expected = session.inspect_step(Inspect(path, hot.samplers(), 7, 9), alone=False, wanted=lambda: False)[0]
    assert second.token.stages == expected.stages
    assert [(c.id, c.probability, c.removed_by) for c in second.token.candidates] == [
        (c.id, c.probability, c.removed_by) for c in expected.candidates
    ]
    assert second.token.logit != 0
    assert (third.token.id, third.token.candidates) == (first.token.id, first.token.candidates)
    assert numbers(stream) == numbers(whole)


def test_forced_tokens_and_then_on_as_a_bare_loop_would(session: ModelSession, story: list[int]) -> None:
    greedy = Tuning(temperature=0, max_tokens=24)
    free = tokens(records(session, request(story, greedy)))
    words = session.model.tokenize(" purple elephants danced", special=False)
    stream = steered(session, request(story, greedy), [Force(words), Resume()], {8: [Pause()]})
    told = tokens([e for e in stream if not isinstance(e, Paused)])
    path = [*story, *(t.id for t in free[:8]), *words]
    expected = bare_greedy(session, path, 24 - 8 - len(words))
    assert [t.id for t in told] == [*path[len(story) :], *expected]
    assert [t.step for t in told if t.forced] == list(range(8, 8 + len(words)))
    assert [stop.token.step for stop in paused(stream)] == [8, 8 + len(words)]
    for t in told:
        mine = next(c for c in t.candidates if c.id == t.id)
        assert (mine.logit, mine.logprob, mine.probability) == (t.logit, t.logprob, t.probability)
        if t.forced and t.rank > 0:  # the chain leaves one token when greedy
            assert t.probability == 0.0
            assert mine.removed_by is not None
    assert len(next(t for t in told if t.forced and t.rank >= 20).candidates) == 21


@pytest.fixture(scope="module")
def small(small_model_path: Path) -> Iterator[ModelSession]:
    """A session with a tenth of the model, for many long replies."""
    with closing(
        ModelSession(ModelSpec(str(small_model_path), "small", context=2048, threads=1), lambda _: None)
    ) as session:
        yield session


@settings(max_examples=4, deadline=None)
@given(knobs=KNOBS, deeds=deeds_of(300, 40_000), seed=SEEDS, cut=st.integers(1, 200))
def test_whatever_is_done_to_a_long_reply_its_script_and_its_forks_are_exact(
    small: ModelSession, knobs: Tuning, deeds: list[Deed], seed: int, cut: int
) -> None:
    ids = small.model.tokenize("Once upon a time there was a long", special=False)
    check_script_and_fork(small, ids, knobs, deeds, seed, cut)


def test_a_script_names_the_threads_and_they_are_given_back(session: ModelSession, story: list[int]) -> None:
    command = request(story, Tuning(max_tokens=3), script=(Scripted(0, threads=2), Scripted(1, threads=1)))
    stream = records(session, command)
    start = stream[0]
    assert isinstance(start, Start)
    assert start.threads == 2
    changes = [(record.number, record.threads) for record in stream if isinstance(record, SettingsRecord)]
    assert changes == [(0, 2), (1, 1)]
    assert [t.settings for t in tokens(stream)] == [0, 1, 1]
    assert session.cache.threads == 1
    session.cache.rewind_to(0)
    rebuilt = records(session, command)
    session.cache.rewind_to(0)
    assert numbers(records(session, command)) == numbers(rebuilt)


def test_what_is_kept_in_the_cache_is_reused_after_all_that(
    session: ModelSession, story: list[int], whole: list[Token]
) -> None:
    stream = steered(session, request(story, TUNING, paused=True), [Step(), Step(), Cancel()])
    path = [*story, *(t.id for t in stream if isinstance(t, Token))]
    rest = records(session, request([*path], TUNING, done=2))
    prefill = next(record for record in rest if isinstance(record, Prefill))
    assert prefill.reused == len(path) - 1
    assert numbers(rest) == numbers(whole)[2:]


def test_a_stop_sequence_that_names_a_control_token_ends_the_reply_there(session: ModelSession) -> None:
    (start,) = session.model.tokenize("<|im_start|>", special=True)
    asked = Tuning(temperature=0, max_tokens=9, stop=("<|im_start|>",))
    stream = records(session, request(prompt(session, "Count."), asked, script=(Scripted(3, start),)))
    end = stream[-1]
    assert isinstance(end, Finished)
    assert (end.reason, end.detail, end.held, end.tokens) == ("stop", "<|im_start|>", "", 4)
    freely = Tuning(temperature=0, max_tokens=9)
    assert len(tokens(records(session, request(prompt(session, "Count."), freely, script=(Scripted(3, start),))))) == 9
