"""Loops are found as a search by hand finds them, and real texts have none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.decoding.loops import LONGEST, TIMES, TOKENS, LoopFinder, Repetition

ROOT = Path(__file__).parents[2]


def loops(ids: list[int]) -> bool:
    """Whether the last tokens are a loop, by the definition."""
    for period in range(1, min(LONGEST, len(ids)) + 1):
        same = 0
        while same + period < len(ids) and ids[-1 - same] == ids[-1 - same - period]:
            same += 1
        if same >= (TIMES - 1) * period and same + period >= TOKENS:
            return True
    return False


@given(st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=30), st.integers(1, 9)), max_size=8))
def test_found_where_a_search_by_hand_finds_them(parts: list[tuple[list[int], int]]) -> None:
    ids = [token for part, times in parts for token in part * times]
    finder = LoopFinder()
    for at, token in enumerate(ids, 1):
        finder.extend_ids([token])
        assert (finder.current is not None) == loops(ids[:at])
        if finder.current is not None:
            begin, end, period = finder.current
            assert end == at
            assert ids[begin + period : end] == ids[begin : end - period]


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=30), st.integers(1, 9)), max_size=8),
    st.lists(st.integers(1, 200), max_size=20),
)
def test_taken_together_or_one_by_one_they_are_the_same_loops(
    parts: list[tuple[list[int], int]], sizes: list[int]
) -> None:
    ids = [token for part, times in parts for token in part * times]
    one_by_one, together = LoopFinder(), LoopFinder()
    for token in ids:
        one_by_one.extend_ids([token])
    for size in [*sizes, len(ids)]:
        together.extend_ids(ids[together.count : together.count + size])
    assert (together.count, together.current, together.ended) == (len(ids), one_by_one.current, one_by_one.ended)


@pytest.mark.parametrize("period", [1, 3, 17, LONGEST])
def test_a_loop_has_its_border_and_its_extent(period: int) -> None:
    ids = [*range(1000, 1050), *(list(range(period)) * 300)[: max(TIMES * period, TOKENS)]]
    finder = LoopFinder()
    finder.extend_ids(ids[:-1])
    assert finder.current is None
    finder.extend_ids([ids[-1]])
    assert finder.current == Repetition(50, len(ids), period)
    finder.extend_ids([7_000])
    assert finder.current is None
    assert finder.ended == [Repetition(50, len(ids), period)]
    assert finder.ended[0].times == {1: 32, 3: 10, 17: 4, LONGEST: 4}[period]


NAMES = ("fox", "bear", "crow", "wolf", "hare", "frog")
TEXTS = {
    "numbered list": "\n".join(f"{n}. Animal number {n} is the {name}." for n, name in enumerate(NAMES * 9)),
    "table": "| name | legs | tail |\n|:--|--:|--:|\n"
    + "\n".join(f"| fox {n} | {n * 3 % 7} | yes |" for n in range(60)),
    "assignments": "\n".join(f"    self.value_{n} = values[{n}]" for n in range(80)),
    "items": "\n".join(
        f"- [ ] buy {thing}" for thing in ("milk", "eggs", "bread", "butter", "salt", "rice", "oil") * 2
    ),
    **{name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CHANGELOG.md", "models.toml")},
    "code": "\0".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "termchat").rglob("*.py"))),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_nothing_is_found_where_nothing_repeats(kind: str) -> None:
    """Tokens as a model has them: words with their space, digits, and signs."""
    numbers: dict[str, int] = {}
    finder = LoopFinder()
    found = re.findall(r" ?[A-Za-z]+|\d|\s+|[^\w\s]+|\w", TEXTS[kind])
    finder.extend_ids(numbers.setdefault(piece, len(numbers)) for piece in found)
    assert finder.count > 60
    assert not finder.ended
    assert finder.current is None


def test_ids_of_any_file_do_no_harm() -> None:
    finder = LoopFinder()
    finder.extend_ids([-1, 2**31 - 1, 0x10FFFF, 0xD800] * 40)
    assert finder.current == Repetition(0, 160, 4)
