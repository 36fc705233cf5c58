"""The list dialog: what every list has, on a list of three words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.widgets import Input

from termchat.tui.draw.ink import Line
from termchat.tui.draw.list_dialog import ListDialog
from termchat.tui.draw.marks import TEXT
from termchat.tui.keys.tables import KEYS
from tests.tui.running_app import Desktop, desktop


class Words(ListDialog[str, str]):
    """Words that are searched, renamed with Ctrl+R, and deleted with Ctrl+N pressed twice."""

    TITLE = "Words"
    EMPTY = "no such word"
    FIELD = "search"
    NAME = "another word"
    BINDINGS = [KEYS[id].binding for id in ("session-rename", "session-new")]  # noqa: RUF012

    def __init__(self, desk: Desktop) -> None:
        super().__init__(desk.app.palette)
        self.words = ["ant", "bee", "cat"]
        self.set_rows(self.words, 1)

    def line(self, row: str, width: int, *, chosen: bool) -> Line:
        return Line(((f"<{row}>" if chosen else row, TEXT),))

    def render_details(self, row: str, width: int, height: int) -> list[Line]:
        return [Line(((f"all about {row}", TEXT),))]

    def search(self, text: str) -> None:
        self.set_rows([word for word in self.words if text in word], 0)

    def enter(self, text: str) -> None:
        self.dismiss(self.row)

    def action_rename(self) -> None:
        row = self.row
        if row is not None:
            self.type_name(row, lambda name: self._rename(row, name))

    def _rename(self, before: str, name: str) -> None:
        self.end_naming()
        self.words = [name if word == before else word for word in self.words]
        self.set_rows(self.words)

    def action_new(self) -> None:
        if not self.confirm("delete"):
            self.tell(f"delete {self.row}?")
            return
        self.words = [word for word in self.words if word != self.row]
        self.set_rows(self.words)
        self.tell("deleted")


@asynccontextmanager
async def words() -> AsyncIterator[tuple[Desktop, Words, list[str | None]]]:
    results: list[str | None] = []
    async with desktop() as desk:
        dialog = Words(desk)
        desk.app.push_screen(dialog, results.append)
        await desk.settle()
        yield desk, dialog, results


async def test_the_highlighted_row_has_its_details_and_what_is_searched_is_taken_with_enter() -> None:
    async with words() as (desk, dialog, results):
        assert all(text in desk.text for text in ("Words", "<bee>", "all about bee"))
        await desk.type("", "down")
        assert "all about cat" in desk.text
        await desk.type("x")
        assert "no such word" in desk.text
        assert dialog.row is None
        await desk.type("", "backspace", "a", "n", "enter")
        assert results == ["ant"]


async def test_a_name_is_typed_in_place_while_no_other_key_works_and_escape_drops_it() -> None:
    async with words() as (desk, dialog, results):
        await desk.type("", "ctrl+r")
        assert desk.app.focused is not dialog.field
        await desk.type("s", "down", "ctrl+n", "enter")
        assert dialog.words == ["ant", "bees", "cat"]
        assert desk.app.focused is dialog.field
        await desk.type("", "ctrl+r", "x", "escape")
        assert (dialog.words[1], dialog.is_naming, results) == ("bees", False, [])
        await desk.type("", "escape")
        assert results == [None]


async def test_a_row_keeps_its_new_name_though_the_mouse_highlights_another_meanwhile() -> None:
    async with words() as (desk, dialog, _):
        await desk.type("", "ctrl+r")
        dialog.action_move("first")
        await desk.type("s", "enter")
        assert dialog.words == ["ant", "bees", "cat"]


async def test_an_action_is_asked_for_twice_and_a_move_or_escape_takes_the_question_back() -> None:
    async with words() as (desk, dialog, results):
        for withdraw in ("down", "escape"):
            await desk.type("", "ctrl+n")
            assert "delete" in desk.text
            await desk.type("", withdraw)
            assert not dialog.asked
            assert "delete" not in desk.text
        await desk.type("", "ctrl+n", "ctrl+n")
        assert (dialog.words, results) == (["ant", "bee"], [])
        assert "deleted" in desk.text
        assert isinstance(desk.app.focused, Input)
