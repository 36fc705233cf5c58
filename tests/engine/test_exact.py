"""What `start.exact` promises, on both sides of the cell from which the number of threads counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import cycle, pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

from termchat.decoding.records import Prefill, Record, SettingsRecord, Shape, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama import observe, source
from termchat.engine.llama.cache import SPLIT, OutOfTime
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.softmax import Row
from termchat.engine.llama.thread_tuner import ThreadTuner
from termchat.engine.port import Cancel, Explain, Generate, Inspect, ModelSpec, Prefilling, Score, Scripted
from tests.asking import change, events_of
from tests.engine.conftest import records, reply_from, request, tokens
from tests.engine.steered import numbers, script_of, shapes_of, start_of

NEAR = 240
"""A cell before the border."""
BEFORE, TOKENS = 4, 14
"""Tokens of the reply before the border, and all."""
TUNING = Tuning(max_tokens=TOKENS, temperature=1.2, repeat_penalty=1.1)
CHANGES = (Scripted(5, threads=1), Scripted(7, threads=2), Scripted(11, threads=1))
LATE = 12
"""A token behind all changes."""


def session_with(path: Path, threads: int, **more: object) -> ModelSession:
    """Keys and values are f16, with which threads count. Batches are read with one thread: they depend on no number, and on a
    busy machine that is much faster."""
    spec = ModelSpec(str(path), "small", context=1024, threads=threads, threads_batch=1, kv_type="f16")
    return ModelSession(msgspec.structs.replace(spec, **more), lambda _: None)


@pytest.fixture(scope="module")
def two(small_model_path: Path) -> Iterator[ModelSession]:
    """Two threads, which a person set."""
    with closing(session_with(small_model_path, 2)) as made:
        yield made


@pytest.fixture(scope="module")
def one(small_model_path: Path) -> Iterator[ModelSession]:
    with closing(session_with(small_model_path, 1)) as made:
        yield made


@pytest.fixture(scope="module")
def free(small_model_path: Path) -> Iterator[ModelSession]:
    """Two threads, of which the engine may use fewer."""
    with closing(session_with(small_model_path, 2, threads_batch=2, proposed_threads=True)) as made:
        yield made


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "all_threads", lambda: 2)


def prompt_of(session: ModelSession, count: int = SPLIT - BEFORE) -> list[int]:
    ids = session.model.tokenize(
        "The ship sailed on over the wide, quiet water; nobody said a word. " * 40, special=False
    )
    return ids[:count]


def again(session: ModelSession, stream: list[Record], count: int, **more: object) -> list[Record]:
    """The same reply from its token `count` on, with the same changes as by its records."""
    ids = [*prompt_of(session), *(token.id for token in tokens(stream)[:count])]
    script = script_of([*stream])
    now = next((entry.threads for entry in reversed(script) if entry.step < count), start_of(stream).threads)
    later = (Scripted(count, threads=now), *(entry for entry in script if entry.step >= count))
    command = request(ids, TUNING, done=count, shapes=shapes_of(stream, count), rebuild_exactly=True, script=later)
    return records(session, change(command, **more))


def whole_reply(session: ModelSession, script: tuple[Scripted, ...] = ()) -> list[Record]:
    session.cache.rewind_to(0)
    stream = records(session, request(prompt_of(session), TUNING, script=script))
    assert start_of(stream).exact
    assert len(tokens(stream)) == TOKENS
    return stream


@pytest.fixture(scope="module")
def stayed(two: ModelSession) -> list[Record]:
    """A reply with two threads."""
    return whole_reply(two)


@pytest.fixture(scope="module")
def changed(two: ModelSession) -> list[Record]:
    """A reply whose threads change."""
    return whole_reply(two, CHANGES)


# --- where the border is ---------------------------------------------------------------------------------------------


def read_plan(session: ModelSession, ids: list[int], plan: list[Shape]) -> list[Row]:
    """Decode ids in these shapes; return the row after each."""
    rows = []
    for shape in plan:
        session.cache.read(ids, shape)
        rows.append(session.cache.read_logits().copy())
    return rows


def rows_one_by_one(session: ModelSession, ids: list[int]) -> list[Row]:
    """The rows around the border: those after each id from `NEAR` on, which is decoded alone."""
    session.cache.rewind_to(0)
    plan = [Shape(NEAR // 4)] * 4 + [Shape(1)] * (len(ids) - NEAR)
    return read_plan(session, ids, plan)[4:]


def first_difference(one: list[Row], other: list[Row]) -> int | None:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=True)) if not np.array_equal(a, b)), None)


def test_from_the_border_on_a_single_row_depends_on_the_threads_and_a_batch_does_not(
    one: ModelSession, two: ModelSession
) -> None:
    ids = prompt_of(one, SPLIT + 10)
    alone = rows_one_by_one(one, ids)
    assert first_difference(alone, rows_one_by_one(two, ids)) == SPLIT - NEAR
    for size in (2, 7, 13):
        for count in (SPLIT - 3, SPLIT + 3):
            two.cache.rewind_to(0)
            plan = [Shape(50)] * ((count - size) // 50) + [Shape((count - size) % 50), Shape(size)]
            read_plan(two, ids, plan)
            assert np.array_equal(two.cache.read_logits(), alone[count - NEAR - 1])


@pytest.mark.parametrize("kv_type", ["auto", "bf16", "q8_0"])
def test_other_kv_types_depend_on_neither(small_model_path: Path, kv_type: str) -> None:
    found = []
    for threads in (1, 2):
        with closing(session_with(small_model_path, threads, kv_type=kv_type)) as session:
            ids = prompt_of(session, SPLIT + 10)
            found.append(rows_one_by_one(session, ids))
            session.cache.rewind_to(0)
            read_plan(session, ids, [Shape(63)] * 4 + [Shape(8)])
            assert np.array_equal(session.cache.read_logits(), found[-1][SPLIT + 3 - NEAR])
    assert first_difference(*found) is None


# --- forks, rewinds and what is made again ---------------------------------------------------------------------------


@pytest.mark.parametrize("script", [(), CHANGES], ids=["threads stay", "threads change"])
def test_a_fork_goes_on_bit_for_bit(two: ModelSession, script: tuple[Scripted, ...]) -> None:
    stream = whole_reply(two, script)
    for count in (LATE, 9, 6, BEFORE + 1, BEFORE, BEFORE - 2):
        forked = again(two, stream, count)
        assert numbers(forked) == numbers(stream)[count:]
        assert start_of(forked).exact


@pytest.mark.parametrize("count", [LATE, 6, BEFORE])
def test_a_fork_whose_cells_are_lost_goes_on_bit_for_bit(two: ModelSession, changed: list[Record], count: int) -> None:
    two.cache.rewind_to(0)
    forked = again(two, changed, count)
    assert numbers(forked) == numbers(changed)[count:]
    assert start_of(forked).exact


def test_lost_cells_are_made_again_with_their_threads_if_these_may_change(
    free: ModelSession, changed: list[Record]
) -> None:
    free.cache.rewind_to(0)
    forked = again(free, changed, LATE, script=())
    assert start_of(forked).exact
    assert numbers(forked)[0] == numbers(changed)[LATE]


@pytest.mark.parametrize(("count", "exact"), [(BEFORE, True), (BEFORE + 1, False), (LATE, False)])
def test_threads_that_a_person_set_are_kept_and_cells_of_others_are_told(
    one: ModelSession, stayed: list[Record], count: int, exact: bool
) -> None:
    one.cache.rewind_to(0)
    forked = again(one, stayed, count, script=())
    assert one.cache.threads == 1
    assert start_of(forked).exact is exact
    assert (numbers(forked)[0] == numbers(stayed)[count]) is exact


@pytest.mark.parametrize(("count", "exact"), [(BEFORE, True), (BEFORE + 1, False)])
def test_threads_that_nobody_knows_count_from_the_border_on(
    two: ModelSession, stayed: list[Record], count: int, exact: bool
) -> None:
    unknown = [Shape(shape.rows) for shape in shapes_of(stayed, count)]
    assert start_of(again(two, stayed, count, shapes=unknown)).exact is exact


@pytest.mark.parametrize(("count", "exact"), [(BEFORE, True), (LATE, False)])
def test_a_new_reply_on_cells_that_are_not_as_recorded_says_so(two: ModelSession, count: int, exact: bool) -> None:
    stream = whole_reply(two)
    ids = [*prompt_of(two), *(token.id for token in tokens(stream)[:count]), 5, 6, 7]
    shapes = shapes_of(stream, count)
    for recorded, told in ((shapes, True), ([Shape(shape.rows, 1) for shape in shapes], exact)):
        assert start_of(records(two, request(ids, Tuning(max_tokens=1), shapes=recorded))).exact is told


@pytest.mark.parametrize("kv_type", ["auto", "bf16"])
def test_with_keys_as_bf16_any_threads_are_exact(small_model_path: Path, kv_type: str) -> None:
    with closing(session_with(small_model_path, 2, kv_type=kv_type)) as two:
        stream = whole_reply(two, CHANGES)
    with closing(session_with(small_model_path, 1, kv_type=kv_type)) as one:
        forked = again(one, stream, LATE, script=())
        assert start_of(forked).exact
        assert numbers(forked) == numbers(stream)[LATE:]


# --- threads that change by themselves -------------------------------------------------------------------------------


class Restless(ThreadTuner):
    """Another number of threads after each step."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self._next = cycle((1, 2, 2, 1, 2))

    @property
    def limit(self) -> int:
        return self._limit

    def observe_step(self, threads: int, us: float, rows: int = 1, following: int = 1) -> int:
        self._limit = next(self._next)
        return self._limit


def restless(session: ModelSession, command: Generate) -> list[Record]:
    made = reply_from(session.cache, Restless(), command)
    return [record for record in made if isinstance(record, Record)]


@pytest.mark.parametrize("length", [140, SPLIT - BEFORE, SPLIT + 5])
def test_every_change_is_on_record_and_the_records_make_the_same_reply(
    free: ModelSession, two: ModelSession, length: int
) -> None:
    free.cache.rewind_to(0)
    stream = restless(free, request(prompt_of(free, length), TUNING))
    start, prefill = start_of(stream), next(record for record in stream if isinstance(record, Prefill))
    assert start.exact
    assert len(prefill.threads) == len(prefill.shapes) >= 3
    assert set(prefill.threads) == {1, 2}
    changes = [record.threads for record in stream if isinstance(record, SettingsRecord)]
    assert all(one != other for one, other in pairwise(changes))
    two.cache.rewind_to(0)
    command = request(
        prompt_of(two, length), TUNING, shapes=shapes_of(stream, 0), rebuild_exactly=True,
        script=(Scripted(0, threads=start.threads), *script_of([*stream])),
    )  # fmt: skip
    replayed = records(two, command)
    assert numbers(replayed) == numbers(stream)
    assert start_of(replayed).exact


def test_the_next_reply_begins_with_the_threads_that_are_best(small_model_path: Path) -> None:
    script = Scripted(0, threads=2), Scripted(1, threads=1)
    with closing(session_with(small_model_path, 2, proposed_threads=True, kv_type="auto")) as free:
        restless(free, request(prompt_of(free, 20), Tuning(max_tokens=3)))
        assert free.cache.threads in (1, 2)
        free.tuner.drop_trial()
        records(free, request(prompt_of(free, 20), Tuning(max_tokens=3), script=script))
        assert free.cache.threads == free.tuner.limit


def test_a_model_says_how_many_threads_it_was_loaded_with_however_busy_it_is(free: ModelSession) -> None:
    assert (free.build_info().threads, free.build_info().threads_batch) == (2, 2)


# --- what is asked or broken off on the way --------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_questions_in_mid_reply_leave_every_later_bit_as_it_was(
    one: ModelSession, two: ModelSession, threads: int
) -> None:
    session = one if threads == 1 else two
    stream = whole_reply(session)
    alone = tokens(stream)
    session.cache.rewind_to(0)
    ids = prompt_of(session)
    made: list[Token] = []
    asked = 0
    for event in events_of(session, request(ids, TUNING)):
        if not isinstance(event, Token | Prefilling):
            continue
        made += [event] if isinstance(event, Token) else []
        path = [*ids, *(token.id for token in made)]
        samplers, done = TUNING.samplers(), len(made)
        if isinstance(event, Token) and done % 4:
            continue
        for past in (path[:70], path[: SPLIT - 3], path[:-2], [*path[:-1], 17, 18, 19]):
            session.inspect_step(Inspect(past, samplers, 7, 0), alone=False, wanted=lambda: False)
        session.explain_step(Explain(path[: SPLIT - 5], 40, samplers, 7, 0), alone=False, wanted=lambda: False)
        if done > 1:
            what_if = Score(path, done, TUNING.turn_knobs({"temperature": 0.5}).samplers(), 7)
            session.score_reply(what_if, alone=False, progress=lambda *_: None, wanted=lambda: False)
        other = Score([*path[:70], *range(300, 330)], 30, samplers, 7)
        session.score_reply(other, alone=False, progress=lambda *_: None, wanted=lambda: False)
        asked += 1
    assert asked >= 7
    assert numbers(made) == numbers(alone)
    forked = again(session, stream, BEFORE + 3)
    assert start_of(forked).exact
    assert numbers(forked) == numbers(stream)[BEFORE + 3 :]


def test_a_cancelled_prompt_leaves_cells_of_which_it_is_known_how_they_were_made(two: ModelSession) -> None:
    def cancelled() -> Callable[[], Cancel | None]:
        answers = iter([None, None, Cancel()])
        return lambda: next(answers, None)

    whole = whole_reply(two)
    two.cache.rewind_to(0)
    cut = records(two, request(prompt_of(two), TUNING), cancelled())
    assert 0 < len(two.cache.ids) < SPLIT - BEFORE
    shapes = [Shape(63, 2)] * (len(two.cache.ids) // 63)
    rest = records(two, request(prompt_of(two), TUNING, shapes=shapes))
    assert not tokens(cut)
    assert start_of(rest).exact
    assert numbers(rest) == numbers(whole)


@pytest.mark.skipif(observe.load() is None, reason="the native code was not compiled")
@pytest.mark.parametrize("at", [100, SPLIT + 20])
def test_a_decode_that_is_broken_off_leaves_no_trace(two: ModelSession, at: int) -> None:
    ids = prompt_of(two, at + 70)
    plan = [Shape(50)] * (at // 50) + [Shape(at % 50)] * bool(at % 50)

    def rows(*, hurried: bool) -> list[Row]:
        two.cache.rewind_to(0)
        read_plan(two, ids[:at], plan)
        found = []
        for shape in (Shape(1), Shape(63), Shape(1)):
            if hurried:
                with pytest.raises(OutOfTime):
                    two.cache.read(ids, shape, 1e-7)
            two.cache.read(ids, shape)
            found.append(two.cache.read_logits().copy())
        return found

    assert first_difference(rows(hurried=False), rows(hurried=True)) is None
    assert two.cache.ids == ids[: at + 65]
