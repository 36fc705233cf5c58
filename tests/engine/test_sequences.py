"""Several sequences in one batch: their rows, their cells, and which one is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from termchat.decoding.records import Shape
from termchat.engine.llama.cache import _UNUSED, MAIN, SPLIT, Cache, ContextFull
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.softmax import Row
from termchat.engine.llama.source import CacheSource
from termchat.engine.llama.speculation import Learned
from termchat.engine.llama.thread_tuner import ThreadTuner
from termchat.engine.port import EngineError, Generate, ModelSpec


@pytest.fixture(scope="module")
def cache(small_model_path: Path) -> Iterator[Cache]:
    spec = ModelSpec(str(small_model_path), "small", context=640, threads=1, threads_batch=2)
    with closing(ModelSession(spec, lambda _: None)) as session:
        yield session.cache


def story(cache: Cache, count: int) -> list[int]:
    return cache.model.tokenize("The ship sailed on over the wide, quiet water. " * 60, special=False)[:count]


def read(cache: Cache, ids: list[int]) -> None:
    cache.rewind_to(0)
    for shape in cache.prepare_prompt(ids):
        cache.read(ids, shape)


def alone(cache: Cache, ids: list[int], more: list[int]) -> list[Row]:
    """The logits after each of `more`, decoded one by one."""
    return each_alone(cache, ids, [more])[0]


def each_alone(cache: Cache, ids: list[int], tails: list[list[int]]) -> list[list[Row]]:
    """The logits after each token of these tails, each decoded alone behind `ids`."""
    read(cache, ids)
    rows: list[list[Row]] = []
    for tail in tails:
        cache.rewind_to(len(ids))
        rows.append([])
        for token in tail:
            cache.read([*cache.ids, token], Shape(1))
            rows[-1].append(cache.read_logits().copy())
    return rows


def tails(cache: Cache, count: int, length: int) -> list[list[int]]:
    rng = np.random.default_rng(3)
    return rng.integers(1000, cache.model.n_vocab, (count, length)).tolist()


@pytest.mark.parametrize(("prompt", "walks"), [(40, 3), (SPLIT - 3, 8), (SPLIT + 40, 2)])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_of_a_batch_are_those_of_each_alone(cache: Cache, prompt: int, walks: int, threads: int) -> None:
    ids, more = story(cache, prompt), tails(cache, walks, 6)
    expected = each_alone(cache, ids, more)
    read(cache, ids)
    numbers = [cache.begin_sequence() for _ in more]
    for step in range(6):
        # The first ends early, the last begins later.
        going = [i for i in range(walks) if not (i == 0 and step > 3) and not (i == walks - 1 and step < 2)]
        rows = cache.decode_rows([(numbers[i], more[i][step - 2 * (i == walks - 1)]) for i in going], threads)
        for row, i in zip(rows, going, strict=True):
            assert np.array_equal(row, expected[i][step - 2 * (i == walks - 1)])
    assert cache.free == cache.capacity - prompt - 4 - 6 * (walks - 2) - 4


def test_a_sequence_that_begins_within_another_goes_on_as_it_alone(cache: Cache) -> None:
    ids, (one, other) = story(cache, SPLIT - 2), tails(cache, 2, 6)
    forked = one[:3] + other[3:]
    expected = alone(cache, ids, forked)
    read(cache, ids)
    first = cache.begin_sequence()
    for token in one:
        cache.decode_rows([(first, token)])
    fork = cache.begin_sequence(first, len(ids) + 3)
    assert cache.sequences[fork] == ids + one[:3]
    for step in range(3, 6):
        assert np.array_equal(cache.decode_rows([(fork, forked[step])])[0], expected[step])
    used = cache.capacity - cache.free
    cache.drop_sequence(first)
    assert cache.capacity - cache.free == used - 3  # the first three are shared
    cache.drop_sequence(fork)
    assert cache.free == cache.capacity - len(ids)


@pytest.mark.parametrize("free", [True, False])
def test_cells_that_stay_leave_the_bits_of_others_as_they_are(cache: Cache, free: bool) -> None:
    ids, (one, other, third) = story(cache, 60), tails(cache, 3, 8)
    expected = alone(cache, ids, one[:2] + other[2:])
    read(cache, ids)
    first, last = cache.begin_sequence(), cache.begin_sequence()
    for step in range(2):
        cache.decode_rows([(first, one[step]), (last, third[step])])
    second = cache.begin_sequence(first)
    cache.decode_rows([(first, one[2]), (second, other[2]), (last, third[2])])
    assert cache.free == cache.capacity - 60 - 7
    cache.drop_sequence(first, free=free)
    cache.drop_sequence(last, free=free)
    assert cache.free == cache.capacity - 60 - (3 if free else 7)
    found = [cache.decode_rows([(second, token)])[0].copy() for token in other[3:]]
    assert all(np.array_equal(*pair) for pair in zip(found, expected[3:], strict=True)) is not free
    cache.rewind_to(60)
    assert cache.free == cache.capacity - 60
    # No cell is lost to later sequences.
    numbers = [cache.begin_sequence() for _ in range(58)]
    for _ in range(10):
        cache.decode_rows([(number, 500) for number in numbers])
    assert cache.free == 0


def test_the_logits_of_the_prompt_stay_at_hand(cache: Cache) -> None:
    ids = story(cache, 30)
    read(cache, ids)
    row = cache.read_logits().copy()
    cache.decode_rows([(cache.begin_sequence(), 500), (cache.begin_sequence(), 600)])
    assert cache.current
    assert np.array_equal(cache.read_logits(), row)


def test_positions_of_any_sequence_can_be_asked_about(cache: Cache) -> None:
    ids, (tail,) = story(cache, 50), tails(cache, 1, 5)
    expected = alone(cache, ids, tail)
    read(cache, ids)
    cache.begin_sequence()
    number = cache.begin_sequence()
    for token in tail:
        cache.decode_rows([(number, token)])
    assert cache.find_nearest([*ids, *tail, 9]) == (number, len(ids) + 5)
    assert cache.find_nearest([*ids, 9]) == (MAIN, len(ids))
    assert np.array_equal(cache.peek_logits([*ids, *tail[:3]]), expected[2])
    assert np.array_equal(cache.peek_logits([*ids, *tail]), expected[4])


@pytest.mark.parametrize("prompt", [40, SPLIT - 3])
def test_the_one_that_is_kept_goes_on_as_if_it_had_been_alone(cache: Cache, prompt: int) -> None:
    ids, more = story(cache, prompt), tails(cache, 4, 8)
    expected = alone(cache, ids, more[2])
    made = list(cache._made)
    read(cache, ids)
    numbers = [cache.begin_sequence() for _ in more]
    for step in range(5):
        cache.decode_rows([(number, tail[step]) for number, tail in zip(numbers, more, strict=True)], 2)
    cache.keep_sequence(numbers[2])
    assert cache.ids == ids + more[2][:5]
    assert cache._made == made[: prompt + 5]
    assert not cache.sequences
    assert not cache.current
    for step in range(5, 8):
        cache.read([*cache.ids, more[2][step]], Shape(1))
        assert np.array_equal(cache.read_logits(), expected[step])


def test_no_cell_left(cache: Cache) -> None:
    read(cache, story(cache, cache.capacity - 3))
    numbers = [cache.begin_sequence() for _ in range(4)]
    with pytest.raises(ContextFull):
        cache.decode_rows([(number, 5) for number in numbers])
    cache.decode_rows([(number, 5) for number in numbers[:3]])
    assert cache.free == 0
    assert [len(cache.sequences[number]) for number in numbers] == [cache.capacity - 2] * 3 + [cache.capacity - 3]
    cache.rewind_to(20)
    assert not cache.sequences
    assert cache.free == cache.capacity - 20


def test_no_sequence_left(cache: Cache) -> None:
    read(cache, story(cache, 20))
    numbers = [cache.begin_sequence() for _ in range(_UNUSED - 2)]
    with pytest.raises(EngineError, match="the most"):
        cache.begin_sequence()
    cache.drop_sequence(numbers[5])
    assert cache.begin_sequence() == numbers[5]


@pytest.mark.parametrize("most", [1, 3])
def test_a_step_in_several_batches_has_the_rows_of_each(cache: Cache, most: int) -> None:
    ids, more = story(cache, 40), tails(cache, 5, 3)
    expected = each_alone(cache, ids, more)
    read(cache, ids)
    numbers = [cache.begin_sequence() for _ in more]
    batches = CacheSource(cache, ThreadTuner(1), Generate([]), Learned())
    for step in range(3):
        rows, us = batches.decode_rows([(number, tail[step]) for number, tail in zip(numbers, more, strict=True)], most)
        assert us > 0
        assert all(np.array_equal(row, tail[step]) for row, tail in zip(rows, expected, strict=True))
