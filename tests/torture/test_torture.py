"""A few rounds with every run of the tests; `python -m tests.torture` has as many as one likes."""

from __future__ import annotations

from pathlib import Path

from tests.torture.life import Tally, live


def test_ten_kills_lose_nothing(tmp_path: Path) -> None:
    tally = Tally()
    for number in (0, 1):
        live(1, number, tmp_path / str(number), tally)
    assert tally.faults == []
    assert tally.rounds.total() == 10
