"""Fewer threads while others hold the cores."""

from __future__ import annotations

import pytest

from termchat.engine.llama import threads as pace_module
from termchat.engine.llama.threads import Pace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(pace_module, "perf_counter", lambda: now[0])
    return now


def feed(pace: Pace, clock: list[float], decode_us: int, steps: int = Pace.WINDOW) -> int:
    """Steps of so long, until the threads change or a window is full."""
    before = pace.threads
    for _ in range(steps):
        clock[0] += decode_us / 1e6
        if pace.observe(decode_us) != before:
            break
    return pace.threads


def test_a_quiet_machine_keeps_its_threads(clock: list[float]) -> None:
    pace = Pace(4)
    for decode_us in (6000, 6500, 9000, 12000, 7000) * 20:
        assert feed(pace, clock, decode_us) == 4


def test_a_context_that_grows_is_no_busy_machine(clock: list[float]) -> None:
    pace = Pace(2)
    for decode_us in range(6000, 60000, 200):
        assert feed(pace, clock, decode_us) == 2


def test_busy_then_quiet_again(clock: list[float]) -> None:
    pace = Pace(2)
    feed(pace, clock, 6000)
    assert feed(pace, clock, 80_000) == 1
    assert feed(pace, clock, 14_000) == 1
    # After some time both are tried; still busy, it goes back and waits longer.
    tried = 0
    for _ in range(600):
        tried += feed(pace, clock, 14_000 if pace.threads == 1 else 80_000) == 2
    assert 1 <= tried <= 4
    clock[0] += Pace.LONGEST
    feed(pace, clock, 7_000)
    for _ in range(10):
        feed(pace, clock, 6_000)
    assert pace.threads == 2


def test_many_threads_are_halved_until_the_barrier_no_longer_waits(clock: list[float]) -> None:
    """Four cores are free: more threads stall, fewer only take their share of the work."""
    pace = Pace(16)
    feed(pace, clock, 6_000)
    assert [feed(pace, clock, us) for us in (90_000, 80_000, 24_000, 24_000)] == [8, 4, 4, 4]
    assert feed(pace, clock, 200_000) == 2
    assert feed(pace, clock, 300_000) == 1
    assert feed(pace, clock, 900_000) == 1


def test_after_a_failed_try_it_is_as_many_as_before(clock: list[float]) -> None:
    pace = Pace(16)
    for decode_us in (6_000, 90_000, 80_000):
        feed(pace, clock, decode_us)
    clock[0] += Pace.PATIENCE
    assert feed(pace, clock, 24_000) == 16
    assert feed(pace, clock, 90_000) == 4
    clock[0] += Pace.PATIENCE
    assert feed(pace, clock, 24_000) == 4  # it waits twice as long now
    clock[0] += Pace.PATIENCE
    assert feed(pace, clock, 24_000) == 16
    assert feed(pace, clock, 6_000) == 16


def test_one_thread_is_left_alone(clock: list[float]) -> None:
    pace = Pace(1)
    feed(pace, clock, 6000)
    assert feed(pace, clock, 600_000) == 1


def test_steps_that_wait_now_and_then_are_too_many_in_the_mean(clock: list[float]) -> None:
    """Half a core is taken: most steps are hardly slower, but all in all half the threads would do more."""
    pace = Pace(2)
    feed(pace, clock, 7_000, 16)
    waiting = (8_000, 30_000, 10_000, 18_000, 13_000, 28_000, 9_000, 20_000)
    taken = 0
    while pace.threads == 2 and taken < 100:
        clock[0] += 0.015
        pace.observe(waiting[taken % len(waiting)])
        taken += 1
    assert pace.threads == 1
    assert taken <= 2 * Pace.LONG


def test_a_single_long_step_is_forgiven(clock: list[float]) -> None:
    pace = Pace(2)
    for _ in range(20):
        assert feed(pace, clock, 7_000, 31) == 2
        assert feed(pace, clock, 10_000_000, 1) == 2


def test_two_stalled_steps_are_enough(clock: list[float]) -> None:
    pace = Pace(2)
    feed(pace, clock, 6_000)
    assert pace.observe(600_000) == 2
    assert pace.observe(600_000) == 1
