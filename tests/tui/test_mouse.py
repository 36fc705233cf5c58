"""What the mouse does, by real coordinates."""

from __future__ import annotations

import asyncio

from textual.app import App, ComposeResult

from termchat.tui.themes import load_themes
from termchat.tui.transcript.ink import Ink, Line, doing
from termchat.tui.widgets.lines import LinesView


class Clicked(App[None]):
    """A line of which two words do something."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []
        self.view = LinesView()

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.paint_with(load_themes()[0]["dark"].palette)
        runs = [
            ("語 ", Ink()),
            *doing("app.hear('one')", [("one ", Ink())]),
            *doing("app.hear('two')", [("two", Ink())]),
        ]
        self.view.show_lines([Line(tuple(runs))])

    def action_hear(self, what: str) -> None:
        self.heard.append(what)


def _underlined(view: LinesView) -> str:
    return "".join(text for text, style, _ in view.render_line(0) if style is not None and style.underline)


def test_a_click_does_what_the_run_under_it_says() -> None:
    async def run() -> None:
        app = Clicked()
        async with app.run_test() as pilot:
            for x in (0, 1, 2, 3, 4, 7, 8, 10, 11):  # a margin of one cell, and a character of two
                await pilot.click(app.view, offset=(x, 0))
            await pilot.click(app.view, offset=(5, 0), button=3)
            assert app.heard == ["one", "one", "two", "two"]

    asyncio.run(run())


def test_what_the_mouse_is_over_is_underlined_where_it_does_something() -> None:
    async def run() -> None:
        app = Clicked()
        async with app.run_test() as pilot:
            for x, words in ((5, "one"), (9, "two"), (1, ""), (4, "one")):
                await pilot.hover(app.view, offset=(x, 0))
                await pilot.pause()
                assert _underlined(app.view) == words
            await pilot.hover(None, offset=(5, 5))
            await pilot.pause()
            assert _underlined(app.view) == ""

    asyncio.run(run())
