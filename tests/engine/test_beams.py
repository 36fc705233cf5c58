"""Beam search with the real model: against brute force, against greedy decoding, and what its records say."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from termchat.decoding.constraint import Constraint
from termchat.decoding.group import BeamSettings, Group
from termchat.decoding.records import Beam, Beams, Finished, Prefill, SettingsRecord, Shape, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.native import LIB
from termchat.engine.port import (
    Cancel,
    EngineError,
    Event,
    FirstToken,
    Generate,
    ModelSpec,
    Pause,
    Paused,
    Prefilling,
    Resume,
    Scripted,
    Steer,
    Step,
    WalksFinished,
)
from tests.asking import ask_for, events_of
from tests.decoding import plain_beams
from tests.engine.conftest import know_rows, prompt, records, request, tokens

PENALTIES = (0.0, 0.5, 1.0, 2.0)
QUESTION = "Is Paris in France? Answer with one word."


def session_of(path: Path, **more: object) -> ModelSession:
    spec = ModelSpec(str(path), "smollm2", context=1024, threads=1, threads_batch=2)
    return know_rows(ModelSession(msgspec.structs.replace(spec, **more), lambda _: None))


@pytest.fixture(scope="module")
def whole(model_path: Path) -> Iterator[ModelSession]:
    with closing(session_of(model_path)) as made:
        yield made


@pytest.fixture(scope="module")
def small(small_model_path: Path) -> Iterator[ModelSession]:
    with closing(session_of(small_model_path)) as made:
        yield made


def searching(ids: list[int], how: BeamSettings, tuning: Tuning, **more: object) -> Generate:
    group = Group(5, "beams", how.n_best, beams=how)
    return ask_for(ids, tuning.samplers(), tuning.conditions(), 7, group=group, **more)  # type: ignore[arg-type]


def searched(session: ModelSession, command: Generate, poll: Callable[[], Steer | None] = lambda: None) -> list[Event]:
    made = events_of(session, command, poll, perf_counter())  # type: ignore[arg-type]
    return [event for event in made if not isinstance(event, Prefilling)]


def walks(events: list[Event]) -> list[list[Token]]:
    """The tokens of each walk, by its number."""
    count = sum(isinstance(event, Finished) for event in events)
    return [[token for token in tokens(events) if token.walk == walk] for walk in range(count)]


def ids_of(walk: list[Token]) -> list[int]:
    return [token.id for token in walk]


def steps_of(events: list[Event]) -> list[Beams]:
    return [event for event in events if isinstance(event, Beams)]


def finished(events: list[Event]) -> list[Finished]:
    return [event for event in events if isinstance(event, Finished)]


def shapes_of(events: list[Event]) -> list[Shape]:
    """Those of the prompt, which was decoded whole."""
    prefill = next(event for event in events if isinstance(event, Prefill))
    assert prefill.reused == 0
    return list(map(Shape, prefill.shapes, prefill.threads))


def scored(walk: list[Token], penalty: float) -> float:
    return sum(token.logprob for token in walk) / len(walk) ** penalty


# --- what it finds ---------------------------------------------------------------------------------------------------


class BareRows:
    """What a bare llama.cpp loop and numpy, in float64, leave of the `kept` most likely tokens at a temperature."""

    def __init__(self, session: ModelSession, ids: list[int], kept: int, temperature: float) -> None:
        self.session, self.ids, self.kept, self.temperature = session, ids, kept, temperature
        self.tokens, self.ends = session.model.n_vocab, frozenset(session.model.end_ids)
        self.rows: dict[plain_beams.Ids, NDArray[np.float64]] = {}
        session.cache.rewind_to(0)
        self._decode(ids[:-1])

    def _decode(self, ids: list[int]) -> None:
        array = (LIB.llama_token * len(ids))(*ids)
        assert LIB.llama_decode(self.session.cache.pointer, LIB.llama_batch_get_one(array, len(ids))) == 0

    def row(self, ids: plain_beams.Ids) -> NDArray[np.float64]:
        if ids not in self.rows:
            cache = self.session.cache
            LIB.llama_memory_seq_rm(cache.memory, 0, len(self.ids) - 1, -1)
            for token in (self.ids[-1], *ids):
                self._decode([token])
            found = np.ctypeslib.as_array(LIB.llama_get_logits_ith(cache.pointer, -1), (self.tokens,))
            logits = found.astype(np.float64) / self.temperature
            logits[np.argsort(-logits, kind="stable")[self.kept :]] = -np.inf
            logits -= logits.max()
            self.rows[ids] = logits - math.log(np.exp(logits).sum())
        return self.rows[ids]


@pytest.fixture(scope="module")
def bare(whole: ModelSession) -> Iterator[BareRows]:
    """Eight tokens a step, three steps."""
    rows = BareRows(whole, prompt(whole, QUESTION), 8, 0.9)
    every = list(plain_beams.sequences(rows, 3))
    LIB.llama_memory_clear(whole.cache.memory, True)
    assert 300 < len(every) < 512  # some end before
    return rows


@pytest.mark.parametrize(("penalty", "early"), [*((penalty, False) for penalty in PENALTIES), (1.0, True)])
def test_the_n_best_are_those_of_a_plain_search_over_a_bare_loop(
    whole: ModelSession, bare: BareRows, penalty: float, early: bool
) -> None:
    tuning = Tuning(temperature=0.9, top_k=8, top_p=1.0, min_p=0.0, max_tokens=3)
    for width in range(1, 9):
        how = BeamSettings(width, penalty, width, early, after_chain=True)
        events = searched(whole, searching(bare.ids, how, tuning))
        expected = plain_beams.search(bare, how, 3)
        assert [tuple(ids_of(walk)) for walk in walks(events)] == [ids for _, ids in expected]
        values = [sum(math.log(t.probability) for t in walk) / len(walk) ** penalty for walk in walks(events)]
        assert values == pytest.approx([value for value, _ in expected], abs=1e-5)


@pytest.fixture(scope="module")
def likeliest(whole: ModelSession) -> BareRows:
    """Four tokens a step, three steps."""
    rows = BareRows(whole, prompt(whole, QUESTION), 4, 0.9)
    assert len(list(plain_beams.sequences(rows, 3))) > 30
    LIB.llama_memory_clear(whole.cache.memory, True)
    return rows


@pytest.mark.parametrize("penalty", PENALTIES)
def test_as_wide_as_all_that_is_possible_it_finds_the_best_of_all(
    whole: ModelSession, likeliest: BareRows, penalty: float
) -> None:
    how = BeamSettings(16, penalty, 16, after_chain=True)
    expected = plain_beams.best_of_all(likeliest, how, 3)
    tuning = Tuning(temperature=0.9, top_k=4, top_p=1.0, min_p=0.0, max_tokens=3)
    events = searched(whole, searching(likeliest.ids, how, tuning))
    assert [tuple(ids_of(walk)) for walk in walks(events)] == [ids for _, ids in expected]


@pytest.mark.parametrize("penalty", PENALTIES)
def test_one_beam_is_greedy_decoding(whole: ModelSession, penalty: float) -> None:
    ids = prompt(whole, "What is the capital of France?")
    greedy = tokens(records(whole, request(ids, Tuning(temperature=0, max_tokens=16))))
    (walk,) = walks(searched(whole, searching(ids, BeamSettings(1, penalty), Tuning(max_tokens=16))))
    assert ids_of(walk) == ids_of(greedy)
    assert [(t.logit, t.logprob, t.rank, t.entropy) for t in walk] == [
        (t.logit, t.logprob, t.rank, t.entropy) for t in greedy
    ]
    assert all(t.rank == 0 for t in walk)


# --- what its records say --------------------------------------------------------------------------------------------


def numbers(walk: list[Token]) -> list[Token]:
    """All but the times, and what is of the walk."""
    return [
        msgspec.structs.replace(
            token, decode_us=0, sample_us=0, walk=None, near_tie=None, candidates=list(token.candidates)
        )
        for token in walk
    ]


@pytest.mark.parametrize("after_chain", [False, True])
def test_each_walk_is_bit_for_bit_what_its_ids_give_alone(small: ModelSession, after_chain: bool) -> None:
    ids = prompt(small, "Count to ten.")
    tuning = Tuning(temperature=0.8, repeat_penalty=1.3, max_tokens=12)
    how = BeamSettings(5, 1.0, 5, after_chain=after_chain)
    events = searched(small, searching(ids, how, tuning))
    start = events[0]
    assert isinstance(start, Start)
    assert start.exact
    for walk in walks(events):
        script = tuple(Scripted(step, token.id) for step, token in enumerate(walk))
        alone = tokens(records(small, request(ids, tuning, script=script)))
        assert numbers(walk) == numbers(alone)


@pytest.mark.parametrize("context", [1024, 110])
def test_a_walk_that_is_kept_goes_on_with_nothing_decoded_again(small_model_path: Path, context: int) -> None:
    with closing(session_of(small_model_path, context=context)) as session:
        ids, tuning = prompt(session, "Tell me a story."), Tuning(repeat_penalty=1.1, max_tokens=40)
        events = searched(session, searching(ids, BeamSettings(4, 1.0, 4), tuning))
        start, walk = events[0], ids_of(walks(events)[2])
        assert isinstance(start, Start)
        assert start.exact is (context == 1024)
        kept = session.keep_reply(2)
        assert kept.cells == len(ids) + 39
        with pytest.raises(EngineError, match="the cells of walk 1 are gone"):
            session.keep_reply(1)
        script = tuple(Scripted(step, token) for step, token in enumerate(walk))
        longer = Tuning(repeat_penalty=1.1, max_tokens=44)
        onward = records(session, request(ids + walk, longer, done=40, shapes=shapes_of(events) + [Shape(1, 1)] * 39))
        started, prefill = onward[0], onward[2]
        assert isinstance(started, Start)
        assert isinstance(prefill, Prefill)
        assert (prefill.reused, prefill.shapes) == (len(ids) + 39, [1])
        assert started.exact is (context == 1024)
        session.cache.rewind_to(0)
        alone = tokens(records(session, request(ids, longer, script=script)))[40:]
        assert (numbers(tokens(onward)) == numbers(alone)) is (context == 1024)


def test_the_steps_lead_to_the_walks(small: ModelSession) -> None:
    ids = prompt(small, "Tell me about the sea.")
    how = BeamSettings(4, 0.5, 4)
    events = searched(small, searching(ids, how, Tuning(max_tokens=10)))
    places: list[list[list[int]]] = [[[]]]
    ended: dict[tuple[int, ...], float] = {}
    last: dict[tuple[int, ...], float] = {}
    for number, step in enumerate(steps_of(events)):
        assert step.step == number
        beams = [*step.beams, *step.dropped]
        assert [beam.walk for beam in beams] == list(range(len(beams)))
        running = [beam for beam in step.beams if not beam.finished]
        assert len(running) == 4
        assert [beam.score for beam in running] == sorted((beam.score for beam in running), reverse=True)
        assert all(beam.score <= running[-1].score for beam in step.dropped if beam.id not in small.model.end_ids)
        paths = [[*places[-1][beam.parent], beam.id] for beam in beams]
        places.append(paths[: len(running)])
        ended |= {tuple(paths[beam.walk]): beam.score for beam in step.beams if beam.finished}
        last = {tuple(paths[beam.walk]): beam.score for beam in running}
    found = walks(events)
    assert len(found) == 4
    for walk, end in zip(found, finished(events), strict=True):
        path = tuple(ids_of(walk))
        assert path in (ended if end.reason == "end" else last)
        assert {**last, **ended}[path] == pytest.approx(scored(walk, 0.5), abs=1e-5)
        text = b"".join(small.model.piece(token) for token in path).decode("utf-8", "replace")
        assert "".join(token.text for token in walk) + end.held == text
    assert [scored(walk, 0.5) for walk in found] == sorted((scored(walk, 0.5) for walk in found), reverse=True)


def test_order_of_the_stream(small: ModelSession) -> None:
    ids = prompt(small, "Tell me a story.")
    events = searched(small, searching(ids, BeamSettings(3, 1.0, 2), Tuning(max_tokens=4)))
    kinds = [type(event) for event in events]
    begin, steps = [Start, SettingsRecord, Prefill], [Beams] * 4
    reply = [*[Token] * 4, Finished]
    assert kinds == [*begin, FirstToken, *steps, *reply, *begin, *reply, WalksFinished]
    assert [getattr(event, "walk", None) for event in events] == [*[0] * 4, *[None] * 4, *[0] * 5, *[1] * 8, None]
    starts = [event for event in events if isinstance(event, Start)]
    assert [start.group for start in starts] == [Group(5, "beams", 2, beams=BeamSettings(3, 1.0, 2))] * 2
    assert all(token.forced for token in tokens(events))
    assert [token.position for token in walks(events)[1]] == list(range(len(ids), len(ids) + 4))
    assert [(end.reason, end.detail, end.tokens) for end in finished(events)] == [("length", "max_tokens 4", 4)] * 2
    last = events[-1]
    assert isinstance(last, WalksFinished)
    assert (last.tokens, last.steps) == (12, 4)
    assert last.tokens_per_second == pytest.approx(9 / last.decode_ms * 1e3)


def test_the_same_search_gives_the_same(small: ModelSession) -> None:
    ids = prompt(small, "Tell me about the moon.")
    command = searching(ids, BeamSettings(6, 1.0, 6), Tuning(max_tokens=12))
    first, second = searched(small, command), searched(small, command)
    assert steps_of(first) == steps_of(second)
    assert [numbers(walk) for walk in walks(first)] == [numbers(walk) for walk in walks(second)]


def test_without_room_for_all_cells_are_freed_and_it_says_so(small_model_path: Path) -> None:
    with closing(session_of(small_model_path, context=110)) as session:
        ids = prompt(session, "Tell me a story.")
        command = searching(ids, BeamSettings(4, 1.0, 4), Tuning(max_tokens=40))
        events = searched(session, command)
        assert session.cache.capacity - len(ids) < 4 * 39
        start = events[0]
        assert isinstance(start, Start)
        assert not start.exact
        assert len(steps_of(events)) == 40
        assert steps_of(searched(session, command)) == steps_of(events)


def test_a_context_that_fills_ends_it_with_the_beams_there_are(small_model_path: Path) -> None:
    with closing(session_of(small_model_path, context=60)) as session:
        ids = prompt(session, "Tell me a story.")
        events = searched(session, searching(ids, BeamSettings(4, 1.0, 2), Tuning(max_tokens=200)))
        assert {(end.reason, end.detail) for end in finished(events)} == {("context", "60 of 60")}
        assert len(walks(events)[0]) == len(steps_of(events)) >= (60 - len(ids)) // 4
        assert session.cache.ids == ids
        session.cache.rewind_to(len(ids))
        assert session.cache.free == 60 - len(ids)


# --- how it is steered -----------------------------------------------------------------------------------------------


def given(*commands: tuple[int, Steer]) -> Callable[[], Steer | None]:
    """A poll that gives each command when it has been asked so many times in vain: once before the prompt, and once a step."""
    waiting, asked = list(commands), 0

    def poll() -> Steer | None:
        nonlocal asked
        if waiting and asked >= waiting[0][0]:
            return waiting.pop(0)[1]
        asked += 1
        return None

    return poll


def test_cancelled_it_gives_the_best_so_far(small: ModelSession) -> None:
    ids = prompt(small, "Tell me a long story.")
    command = searching(ids, BeamSettings(4, 1.0, 3), Tuning(max_tokens=16))
    whole_search = searched(small, command)
    events = searched(small, command, given((8, Cancel())))
    assert steps_of(events) == steps_of(whole_search)[:7]
    assert {end.reason for end in finished(events)} == {"user"}
    kept = [beam for beam in steps_of(events)[-1].beams if not beam.finished]
    assert [scored(walk, 1.0) for walk in walks(events)] == pytest.approx([b.score for b in kept[:3]], abs=1e-5)
    assert isinstance(events[-1], WalksFinished)


def test_stopped_in_mid_decode_it_gives_the_best_so_far_and_leaves_the_prompt_as_it_was(small: ModelSession) -> None:
    command = searching(prompt(small, "Tell me a long story."), BeamSettings(4, 1.0, 3), Tuning(max_tokens=12))
    whole_search = searched(small, command)
    asked = 0

    def poll() -> None:
        nonlocal asked
        asked += 1
        if asked == 7:
            small.cache.abort.set()  # as the worker's inbox does it, before the command is read

    events = searched(small, command, poll)
    assert steps_of(events) == steps_of(whole_search)[:6]
    assert [(end.reason, end.tokens) for end in finished(events)] == [("user", 6)] * 3
    assert steps_of(searched(small, command)) == steps_of(whole_search)


def test_cancelled_before_the_first_step_it_gives_an_empty_reply(small: ModelSession) -> None:
    command = searching(prompt(small, "Tell me a story."), BeamSettings(4, 1.0, 3), Tuning(max_tokens=1))
    searched(small, command)
    for asked, detail in ((0, "during prefill"), (1, "")):
        events = searched(small, command, given((asked, Cancel())))
        assert [(end.reason, end.detail, end.tokens, end.walk) for end in finished(events)] == [("user", detail, 0, 0)]
        assert isinstance(events[-1], WalksFinished)


def test_paused_it_waits_and_goes_step_by_step(small: ModelSession) -> None:
    ids = prompt(small, "Tell me a story.")
    command = searching(ids, BeamSettings(3), Tuning(max_tokens=8))
    free = searched(small, command)
    events = searched(small, command, given((3, Pause()), (4, Step()), (6, Step("line")), (8, Resume())))
    kinds = [type(event) for event in events if isinstance(event, Beams | Paused)]
    assert kinds == [Beams, Beams, Paused, Beams, Paused, Beams, Paused, *[Beams] * 4]
    assert steps_of(events) == steps_of(free)
    paused = next(event for event in events if isinstance(event, Paused))
    best = steps_of(free)[2].beams[0]
    assert (paused.walk, paused.token.step, paused.token.id) == (0, 2, best.id)


def test_a_stop_sequence_ends_a_beam(whole: ModelSession) -> None:
    ids = prompt(whole, "What is the capital of France?")
    how = BeamSettings(3, 1.0, 3)
    events = searched(whole, searching(ids, how, Tuning(max_tokens=14, stop=("s Par", "never said"))))
    stopped = [(end, walk) for end, walk in zip(finished(events), walks(events), strict=True) if end.reason == "stop"]
    assert stopped
    for end, walk in stopped:
        text = b"".join(token.bytes for token in walk).decode()
        assert end.detail == "s Par"
        assert text.index("s Par") + len("s Par") > len(text) - len(walk[-1].bytes)
        assert "".join(token.text for token in walk) == text[: text.index("s Par")]
        assert end.held == text[text.index("s Par") :]


@pytest.mark.parametrize("after_chain", [False, True])
def test_every_beam_keeps_to_the_constraint(small: ModelSession, after_chain: bool) -> None:
    ids = prompt(small, "When was the wheel invented?")
    how = BeamSettings(4, 1.0, 4, after_chain=after_chain)
    date = Constraint("regex", "[0-9]{4}-[0-9]{2}")
    events = searched(small, searching(ids, how, Tuning(max_tokens=20), constraint=date))
    texts = [b"".join(token.bytes for token in walk).decode() for walk in walks(events)]
    assert len(set(texts)) == 4
    for text, end in zip(texts, finished(events), strict=True):
        assert len(text) == 7
        assert text[4] == "-"
        assert text.replace("-", "").isdigit()
        assert (end.reason, end.detail) == ("end", "nothing can follow (grammar)")
    cut = searched(small, searching(ids, how, Tuning(max_tokens=3), constraint=date))
    assert {end.detail for end in finished(cut)} == {"max_tokens 3; grammar: incomplete"}


def test_it_goes_on_from_a_reply(whole: ModelSession) -> None:
    ids = prompt(whole, "What is the capital of France?")
    begun = whole.model.tokenize("The capital of", special=False)
    how = BeamSettings(2, 1.0, 2)
    events = searched(whole, searching([*ids, *begun], how, Tuning(max_tokens=6), done=len(begun)))
    assert [step.step for step in steps_of(events)] == [3, 4, 5]
    assert [[token.step for token in walk] for walk in walks(events)] == [[3, 4, 5]] * 2
    first = steps_of(events)[0].beams[0]
    assert first == Beam(0, 0, first.id, " France", first.logprob, first.logprob)


@pytest.mark.parametrize(
    ("how", "said"),
    [(BeamSettings(17), "2 to 16 beams"), (BeamSettings(2, 1.0, 3), "1 to 2 replies")],
)
def test_what_can_not_be_searched_is_told(small: ModelSession, how: BeamSettings | None, said: str) -> None:
    command = ask_for([1, 2], Tuning().samplers(), (), 7, group=Group(5, "beams", 1, beams=how))
    with pytest.raises(EngineError, match=said):
        searched(small, command)
