"""Fewer threads while other programs hold the cores: on simulated machines, against every fixed number of threads."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf
from statistics import fmean, median

import pytest

from termchat.engine.llama.thread_tuner import ThreadTuner

BATCH = 63
SEEDS = range(20)
ALONE_US = 17_000
"""A row with one thread."""


class Machine:
    """Cores that `others(seconds)` other programs use, with times like those that were measured.

    A thread that shares its core now and then holds up all others for a tenth of a second.
    """

    def __init__(self, others: Callable[[float], int], *, cores: int = 2, seed: int = 0, growth: float = 0.0) -> None:
        self.now = 0.0
        self._others, self._cores, self._growth = others, cores, growth
        self._steps = 0
        self._random = random.Random(seed)

    def step(self, threads: int, rows: int = 1, allowed: float = inf) -> float:
        """Computes a step, which takes `allowed` seconds at most and a little more; returns its microseconds."""
        parts = 1 if rows == 1 else 25
        us = min(sum(self._row_us(threads) for _ in range(parts)), allowed * 1e6 + 10_000)
        self.now += us / 1e6
        self._steps += 1
        return us

    def _row_us(self, threads: int) -> float:
        others, chance = self._others(self.now), self._random
        us = ALONE_US / threads**0.55 * chance.uniform(0.95, 1.1) * (1 + self._growth * self._steps)
        crowd = threads + others - self._cores
        if crowd > 0:
            us *= (threads**0.55) * (1 + 0.3 * (crowd - (threads > 1)))
        if threads > 1 and chance.random() < min(0.12 * crowd, 0.9):
            us += chance.uniform(60_000, 300_000) * (1 + crowd / 4)
        return us


def tuner_on(machine: Machine, threads: int = 2) -> ThreadTuner:
    return ThreadTuner(threads, threads, clock=lambda: machine.now)


def warm_up(machine: Machine, tuner: ThreadTuner, most: int = 2) -> None:
    """As when a model is opened."""
    for _ in range(8):
        threads = min(tuner.limit, most)
        tuner.observe_step(threads, machine.step(threads, 1, tuner.limit_seconds()))
        if not tuner.tries:
            break


def reply(machine: Machine, tuner: ThreadTuner, tokens: int, batches: int = 1, threads: int = 2) -> list[int]:
    """A prompt of so many batches and its last token, and a reply; returns the threads of each token, tries too."""
    used = []
    plan = [BATCH] * batches + [1] * tokens
    while plan:
        rows, *rest = plan
        count, allowed = min(tuner.limit, threads), tuner.limit_seconds(rows)
        us = machine.step(count, rows, allowed)
        done = us <= allowed * 1e6
        tuner.observe_step(count, us, rows, rows if not done else rest[0] if rest else 1)
        used += [count] * (rows == 1)
        plan = rest if done else plan
    tuner.drop_trial()
    return used


def seconds(others: Callable[[float], int], threads: int, tokens: int, batches: int, seed: int) -> float:
    """How long the same takes with a fixed number of threads."""
    machine = Machine(others, seed=seed)
    for rows in [BATCH] * batches + [1] * tokens:
        machine.step(threads, rows)
    return machine.now


def quiet(_now: float) -> int:
    return 0


def one_busy(_now: float) -> int:
    return 1


def two_busy(_now: float) -> int:
    return 2


def crowded(_now: float) -> int:
    return 8


def gets_busy(now: float) -> int:
    return int(now > 2)


def gets_quiet(now: float) -> int:
    return 2 * (now < 2)


def on_and_off(now: float) -> int:
    return int(2 * now) % 2


def noisy(now: float) -> int:
    return int(7 * now) * 2654435761 % 97 % 3


MACHINES = [quiet, one_busy, two_busy, crowded, gets_busy, gets_quiet, on_and_off, noisy]


@pytest.mark.parametrize(("tokens", "batches"), [(24, 1), (200, 1), (24, 13)])
@pytest.mark.parametrize("others", MACHINES)
def test_it_is_nearly_as_fast_as_the_better_of_one_and_all_threads(
    others: Callable[[float], int], tokens: int, batches: int
) -> None:
    fixed = [fmean(seconds(others, threads, tokens, batches, seed) for seed in SEEDS) for threads in (1, 2)]
    ratios = []
    for seed in SEEDS:
        machine = Machine(others, seed=seed)
        tuner = tuner_on(machine)
        warm_up(machine, tuner)
        machine.now = 0.0
        reply(machine, tuner, tokens, batches)
        ratios.append(min(fixed) / machine.now)
    ratios.sort()
    assert ratios[len(ratios) // 10] > (0.95 if others is quiet else 0.7)
    assert median(ratios) > 0.72


@pytest.mark.parametrize("others", MACHINES)
def test_a_long_reply_loses_hardly_anything(others: Callable[[float], int]) -> None:
    fixed = [seconds(others, threads, 1500, 0, 1) for threads in (1, 2)]
    machine = Machine(others)
    reply(machine, tuner_on(machine), 1500, 0)
    assert min(fixed) / machine.now > 0.94


@pytest.mark.parametrize("others", [one_busy, two_busy, crowded])
def test_on_a_machine_that_is_busy_from_the_first_token_four_are_enough(others: Callable[[float], int]) -> None:
    machines = [Machine(others, seed=seed) for seed in SEEDS]
    used = [reply(machine, tuner_on(machine), 12, 0) for machine in machines]
    assert sum(2 not in threads[4:] for threads in used) >= 0.9 * len(used)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_quiet_machine_four_are_enough(seed: int) -> None:
    machine = Machine(quiet, seed=seed)
    assert reply(machine, tuner_on(machine), 20, 0) == [1] + [2] * 19


@pytest.mark.parametrize("seed", SEEDS)
def test_a_machine_that_gets_busy_is_noticed_within_four_tokens(seed: int) -> None:
    machine = Machine(lambda now: 8 * (now > 2), seed=seed)
    tuner = tuner_on(machine)
    while machine.now < 2:
        tuner.observe_step(tuner.limit, machine.step(tuner.limit))
    assert reply(machine, tuner, 10, 0).count(2) <= 4


@pytest.mark.parametrize("seed", SEEDS)
def test_a_machine_that_gets_quiet_has_all_its_threads_back(seed: int) -> None:
    machine = Machine(lambda now: 8 * (now < 20), seed=seed)
    tuner = tuner_on(machine)
    used: list[int] = []
    while machine.now < 20:
        used += reply(machine, tuner, 10, 1)
    assert used.count(1) > 0.8 * len(used)
    while machine.now < 20 + ThreadTuner.LONGEST:
        used = reply(machine, tuner, 50, 0)
    assert used[-1] == 2


def test_who_waited_between_two_replies_tries_with_tokens_and_not_with_the_prompt() -> None:
    times = {1: 17_000, 2: 100_000}
    now = 0.0
    tuner = ThreadTuner(2, 2, clock=lambda: now)
    for _ in range(5):
        tuner.observe_step(tuner.limit, times[tuner.limit])
    now += 100
    times[2] = 12_000
    assert tuner.limit == 1
    assert tuner.observe_step(1, 17_000 * 20, 40, 1) == 1
    assert tuner.observe_step(1, 17_000) == 2
    assert [tuner.observe_step(2, 12_000) for _ in range(3)] == [2, 2, 2]
    assert not tuner.tries


def test_the_threads_change_between_the_batches_of_a_prompt() -> None:
    for others, expected in ((two_busy, [1, 2, 1, 1, 1, 1]), (quiet, [1, 2, 2, 2, 2, 2])):
        machine = Machine(others)
        tuner = tuner_on(machine)
        used = []
        for _ in range(6):
            used.append(tuner.limit)
            tuner.observe_step(tuner.limit, machine.step(tuner.limit, BATCH), BATCH, BATCH)
        assert used == expected


def test_a_slow_batch_in_the_middle_of_a_prompt_is_enough() -> None:
    tuner = ThreadTuner(2, 2, clock=lambda: 0.0)
    for us in (430_000, 300_000, 300_000, 310_000):
        tuner.observe_step(tuner.limit, us, BATCH, BATCH)
    assert tuner.limit == 2
    assert tuner.observe_step(2, 4_000_000, BATCH, BATCH) == 1
    assert tuner.observe_step(1, 450_000, BATCH, BATCH) == 1


def test_a_small_batch_says_nothing() -> None:
    tuner = ThreadTuner(2, 2, clock=lambda: 0.0)
    for rows in (20, 5, 31):
        assert tuner.observe_step(1, 9_000_000, rows, 40) == 1
    assert not tuner.tries


@pytest.mark.parametrize("seed", SEEDS)
def test_a_context_that_grows_is_no_busy_machine(seed: int) -> None:
    machine = Machine(quiet, growth=1 / 200, seed=seed)
    used = reply(machine, tuner_on(machine), 2000, 0)
    assert used.count(1) < 60


def test_a_single_long_step_costs_a_second_with_fewer_threads() -> None:
    machine = Machine(quiet)
    tuner = tuner_on(machine)
    reply(machine, tuner, 30, 0)
    assert tuner.limit == 2
    assert tuner.observe_step(2, 600_000) == 1
    back = machine.now + 1
    while machine.now < back:
        used = reply(machine, tuner, 20, 0)
    assert used[-1] == 2


def test_a_trial_ends_with_its_reply() -> None:
    tuner = ThreadTuner(2, clock=lambda: 0.0)
    assert tuner.limit == 1
    assert tuner.observe_step(1, 17_000) == 2
    tuner.drop_trial()
    assert tuner.limit == 1


def test_of_many_threads_as_many_are_used_as_there_are_free_cores() -> None:
    taken = 12
    machine = Machine(lambda _now: taken, cores=16)
    tuner = ThreadTuner(16, 16, clock=lambda: machine.now)
    used = reply(machine, tuner, 60, 1, threads=16)
    assert set(used[12:]) == {4}
    taken = 0
    while machine.now < 2 * ThreadTuner.LONGEST:
        used = reply(machine, tuner, 60, 1, threads=16)
    assert set(used) == {16}


def test_more_threads_for_batches_than_for_single_rows() -> None:
    machine = Machine(two_busy, cores=4)
    tuner = ThreadTuner(2, 4, clock=lambda: machine.now)
    tuner.observe_step(4, machine.step(4, BATCH), BATCH, BATCH)
    assert tuner.limit == 2
    tuner.observe_step(2, machine.step(2, BATCH), BATCH, BATCH)
    for _ in range(30):
        used = min(tuner.limit, 2)
        tuner.observe_step(used, machine.step(used))
    assert used == 2


def test_one_thread_and_those_that_a_person_set_stay() -> None:
    tuner = ThreadTuner(1, 1)
    for rows in (1, BATCH):
        for us in (6_000, 600_000, 6_000_000):
            assert tuner.observe_step(1, us, rows, rows) == 1
    assert not tuner.tries
