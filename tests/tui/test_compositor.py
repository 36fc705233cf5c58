"""What stands in the terminal after many small updates is what one update of the whole screen would put there."""

from __future__ import annotations

import html
import random
import re
from typing import Any
from unittest.mock import patch

import pyte
import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from textual._compositor import Compositor, CompositorUpdate
from textual.app import App
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import Label

from termchat.chat.changes import Notice
from termchat.tui.terminal.screens import FrameCompositor, LinesUpdate
from termchat.tui.transcript import TranscriptView
from tests.tui.running_app import desktop
from tests.tui.sessions_dialog import FakeStore, library, summary

WORDS = ("One ", "two ", "**three** ", "four.\n\n", "- five\n", "`six` ", "七八 ", "nine, ", "ten\n")


class Paper:
    """A terminal that takes updates."""

    def __init__(self, width: int, height: int) -> None:
        self.screen = pyte.Screen(width, height)
        self._stream = pyte.Stream(self.screen)
        self._console = Console(color_system="truecolor", force_terminal=True, width=width)

    def take(self, update: CompositorUpdate) -> None:
        """Draws an update, line ends as a terminal in raw mode takes them."""
        drawn = update.render_segments(self._console)
        self._stream.feed(re.sub("\n", "\r\n", drawn))

    @property
    def cells(self) -> list[list[Any]]:
        """Every cell with its colours and attributes."""
        return [[self.screen.buffer[y][x] for x in range(self.screen.columns)] for y in range(self.screen.lines)]


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (44, 14)])
async def test_updates_of_lines_leave_the_screen_that_a_whole_update_draws(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(7)
    paper = Paper(*size)
    frames, the_long_way, render = 0, 0, Compositor._render_chops

    def render_chops(*args: Any) -> Any:
        nonlocal the_long_way
        the_long_way += 1
        return render(*args)

    def display(_app: App[None], _screen: object, update: CompositorUpdate | None) -> None:
        nonlocal frames
        if update is not None:
            frames += 1
            paper.take(update)

    async with desktop(size) as desk:
        await desk.sent("Hello", "So ")
        monkeypatch.setattr(App, "_display", display)
        compositor = desk.app.screen._compositor
        paper.take(Compositor.render_full_update(compositor))
        monkeypatch.setattr(Compositor, "_render_chops", render_chops)
        for turn in range(12):
            desk.engine.say(*dice.choices(WORDS, k=dice.randrange(1, 9)))
            await desk.settle()
            if turn == 4:
                await desk.type("a message", "ctrl+l")
            if turn == 7:
                await desk.type("", "ctrl+t", "t", "right", "escape", "pageup")
            if turn == 9:
                await desk.type("", "ctrl+end", "ctrl+l")
        found = paper.cells
        at_once = Paper(*size)
        at_once.take(compositor.render_full_update())
        assert the_long_way < frames // 2
        whole = Paper(*size)
        whole.take(Compositor.render_full_update(compositor))
        assert found == whole.cells
        assert found == at_once.cells


async def test_the_first_frame_has_its_text_on_lines_as_long_as_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    paper = Paper(120, 40)
    frames: list[str] = []

    def display(_app: App[None], _screen: object, update: CompositorUpdate | None) -> None:
        if update is not None:
            paper.take(update)
            frames.append("\n".join(paper.screen.display))

    monkeypatch.setattr(App, "_display", display)
    async with desktop((120, 40)):
        greeting = [frame for frame in frames if "A new chat" in frame]
        assert greeting
        assert all("Write a message and press Enter." in frame for frame in greeting)


async def test_how_many_lines_are_new_below_stays_true_while_the_rest_is_laid_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paper = Paper(80, 24)
    async with desktop((120, 24)) as desk:
        await desk.sent("Hello", *("| a | b |\n|---|---|\n| c | d |\n\n", "word " * 40, "\n\n") * 100)
        transcript = desk.app.query_one(TranscriptView)
        monkeypatch.setattr(transcript, "work", lambda: None)
        await desk.type("", "ctrl+home")
        await desk.pilot.resize_terminal(80, 24)
        desk.engine.say("and on")
        await desk.settle()
        compositor = desk.app.screen._compositor
        paper.take(Compositor.render_full_update(compositor))
        guessed = paper.screen.display
        monkeypatch.setattr(App, "_display", lambda _app, _screen, update: update and paper.take(update))
        while not transcript.is_complete:
            TranscriptView.work(transcript)
            await desk.settle()
        whole = Paper(80, 24)
        whole.take(Compositor.render_full_update(compositor))
        below = [line for line in whole.screen.display if "↓" in line]
        assert len(below) == 1
        assert below[0] not in guessed
        assert below[0].split("↓")[1].split()[0] in next(line for line in paper.screen.display if "↓" in line).split()


async def test_what_is_shown_is_drawn_also_where_somebody_asks_for_its_place_before_the_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paper = Paper(80, 24)
    async with desktop((80, 24)) as desk:
        compositor = desk.app.screen._compositor
        paper.take(Compositor.render_full_update(compositor))
        monkeypatch.setattr(App, "_display", lambda _app, _screen, update: update and paper.take(update))
        desk.app._chat_screen.tell(Notice("this is told", "and drawn"))
        compositor.update_widgets({desk.app.query_one("#notice")})
        assert compositor.find_widget(desk.app.query_one("#notice")).region.height == 2
        await desk.settle()
        assert "this is told" in "\n".join(paper.screen.display)


async def test_what_moved_away_and_back_is_drawn_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    paper = Paper(80, 24)
    async with desktop((80, 24)) as desk:
        for text in ("word " * 150, "short"):
            desk.composer.put(text)
            await desk.sent("", "yes")
            desk.engine.end()
            await desk.settle()
        compositor = desk.app.screen._compositor
        paper.take(Compositor.render_full_update(compositor))
        monkeypatch.setattr(App, "_display", lambda _app, _screen, update: update and paper.take(update))
        for _ in range(5):  # the composer grows for the long message, and shrinks again
            await desk.type("", "f7")
            whole = Paper(80, 24)
            whole.take(Compositor.render_full_update(compositor))
            assert paper.screen.display == whole.screen.display


@pytest.mark.parametrize("key", ["f5", "f6", "ctrl+b"])
async def test_a_screenshot_shows_every_line_of_the_screen(key: str) -> None:
    async with desktop((120, 40)) as desk:
        await desk.sent("Hello", "So ")
        await desk.type("", key)
        shown = Paper(120, 40)
        shown.take(Compositor.render_full_update(desk.app.screen._compositor))
        picture = html.unescape(re.sub("<[^>]*>", "", desk.app.export_screenshot()))
        lines = [line.strip(" │") for line in shown.screen.display]
        words = {word for line in lines for word in re.findall(r"[A-Za-z]{4,}", line)}
        assert len(words) > 10
        assert not [word for word in words if word not in picture]


async def test_a_region_of_many_widgets_is_drawn_by_each_of_them() -> None:
    async with desktop((120, 40)) as desk:
        await desk.sent("Hello", *WORDS)
        compositor = desk.app.screen._compositor
        assert isinstance(compositor, FrameCompositor)
        paper, whole = Paper(120, 40), Paper(120, 40)
        compositor._dirty_regions = {Region(0, 0, 130, 50), Region(0, 0, 120, 40)}  # one as of a screen that was larger
        with patch.object(Compositor, "_render_chops", side_effect=AssertionError):
            paper.take(compositor.render_partial_update())
        whole.take(Compositor.render_full_update(compositor))
        assert paper.cells == whole.cells


async def test_what_covers_others_is_drawn_over_them() -> None:
    async with desktop((120, 40)) as desk:
        over = Label("over the chat")
        over.styles.position = "absolute"
        over.styles.offset = (10, 10)
        await desk.app.screen.mount(over)
        await desk.settle()
        compositor = desk.app.screen._compositor
        for dirty in (Region(0, 0, 120, 40), Region(12, 9, 6, 3)):
            paper, whole = Paper(120, 40), Paper(120, 40)
            whole.take(Compositor.render_full_update(compositor))
            paper.take(compositor.render_full_update())
            compositor._dirty_regions = {dirty}
            paper.take(compositor.render_partial_update())
            assert paper.cells == whole.cells
            assert "over the chat" in paper.screen.display[10]


@pytest.mark.parametrize(
    "text", ["👨\u200d👩\u200d👧\u200d👦", "🇩🇪", "❤\ufe0f", "1\ufe0f\u20e3", "👍🏽", "שלום", "مرحبا", "नमस्ते", "e\u0301"]
)
def test_whatever_a_terminal_makes_of_a_text_the_rest_of_the_line_stays_in_its_place(text: str) -> None:
    paper = Paper(40, 1)
    paper.take(LinesUpdate([(0, 0, Strip([Segment("#" * 40)]))]))
    size = cell_len(text)
    paper.take(LinesUpdate([(0, 0, Strip([Segment(f"ab {text} c"), Segment("|end")]))]))
    line = "".join(char.data for _, char in sorted(paper.screen.buffer[0].items()))
    assert line.startswith("ab ")
    assert [paper.screen.buffer[0][3 + size + at].data for at in range(6)] == list(" c|end")
    assert "#" not in "".join(paper.screen.buffer[0][at].data for at in range(3, 3 + size))


async def test_a_list_keeps_its_edge_where_a_terminal_takes_an_emoji_for_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    title = "Thumbs 👍🏽 up"  # two cells; pyte, as tmux, gives the shade two of its own
    paper = Paper(80, 24)
    monkeypatch.setattr(App, "_display", lambda _app, _screen, update: update and paper.take(update))
    store = FakeStore()
    store.kept[0] = summary(0, title)
    async with library(store, size=(80, 24)) as desk:
        await desk.type("", "down", "up")
        edge = [paper.screen.buffer[row][79].data for row in range(1, 23)]
        assert any("Thumbs" in line for line in paper.screen.display)
        assert edge == ["│"] * 22
