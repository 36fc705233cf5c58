"""The table of pages: how its columns share the width, and which rows are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from termchat.tui.draw.ink import Ink
from termchat.tui.pages.grid_table import Cell, GridColumn, GridTable

WORDS = ("one", "two", "three", "four", "five", "six")


def table(columns: Sequence[GridColumn[str]], cursor: int = 0, rows: Sequence[str] = WORDS) -> GridTable[str]:
    return GridTable(columns, rows, cursor, lambda word: f"choose('{word}')")


def texts(grid: GridTable[str], width: int = 40, rows: int = 0) -> list[str]:
    return [line.text.rstrip() for line in grid.lines(width, rows)]


NAME = GridColumn[str]("name", str, 5)
LETTERS = GridColumn[str]("letters", lambda word: str(len(word)), right=True, short="n")
FIRST = GridColumn[str]("first", lambda word: word[0], rank=1)
WORD = GridColumn[str]("word", lambda word: word * 9, 4, fills=True)


def test_rows_stand_below_their_heads_with_the_cursor_marked_and_do_what_a_click_says() -> None:
    lines = table([NAME, LETTERS], 2).lines(40)
    assert [line.text for line in lines[:4]] == [
        "  name   letters", "  one          3", "  two          3", "▌ three        5",
    ]  # fmt: skip
    assert [line.ground for line in lines[2:5]] == ["", "panel", ""]
    assert {ink.does for _, ink in lines[3].runs} == {"choose('three')"}


def test_where_there_is_no_room_heads_get_short_and_columns_go_by_rank() -> None:
    assert texts(table([NAME, LETTERS, FIRST]), 23)[0] == "  name   letters  first"
    assert texts(table([NAME, LETTERS, FIRST]), 22)[0] == "  name   n  first"
    assert texts(table([NAME, LETTERS, FIRST]), 15)[0] == "  name   n"


def test_a_column_that_fills_has_what_the_others_leave_up_to_its_widest_cell() -> None:
    narrow, wide = texts(table([WORD, LETTERS]), 24), texts(table([WORD, LETTERS]), 90)
    assert all(len(line) == 24 for line in narrow)
    assert "…" in narrow[1]
    assert len(wide[3]) == 2 + 9 * len("three") + 2 + len("letters")


@pytest.mark.parametrize(("cursor", "shown"), [(0, WORDS[:3]), (3, WORDS[2:5]), (5, WORDS[3:])])
def test_only_the_rows_around_the_cursor_are_drawn(cursor: int, shown: tuple[str, ...]) -> None:
    drawn: list[str] = []

    def cell(word: str) -> Cell:
        drawn.append(word)
        return word

    lines = table([GridColumn("name", cell, 5)], cursor).lines(40, 4)
    assert tuple(drawn) == shown
    assert [line.text.strip(" ▌") for line in lines[1:]] == list(shown)


def test_a_cell_goes_on_over_the_columns_that_leave_theirs_out() -> None:
    def left(word: str) -> Cell:
        return [("left out: too long", Ink("stamp"))] if len(word) > 3 else "ok"

    columns = [
        NAME,
        GridColumn[str]("", left, 4),
        GridColumn[str]("", lambda word: None if len(word) > 3 else "yes", 16),
        LETTERS,
    ]
    assert texts(table(columns), 60)[1:4] == [
        "▌ one    ok    yes                     3",
        "  two    ok    yes                     3",
        "  three  left out: too long            5",
    ]


def test_foreign_text_takes_the_cells_of_its_column() -> None:
    lines = table([NAME, LETTERS], rows=("日本語", "a\nb", "é" * 20)).lines(40)
    assert [line.text for line in lines[1:]] == ["▌ 日本…        3", "  a⏎b          3", "  éééé…       20"]
