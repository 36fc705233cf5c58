"""The pages of the panels and the big view on a fake engine, by keys and by mouse."""

from __future__ import annotations

import pytest

from termchat.chat.service import Chat
from termchat.decoding.records import Candidate
from termchat.decoding.samplers import Tuning
from termchat.tui.panels.pages import PAGES
from termchat.tui.panels.plots.drawing import LABEL
from termchat.tui.panels.plots.trace import Trace
from termchat.tui.screen.panels import Panels
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.cursor.token_order import TokenRef
from tests.tui.running_app import Desktop, desktop
from tests.tui.token_mode import Memory

NEXT_PAGE = "ctrl+right_square_bracket"
CANDIDATES = [Candidate(at, f" c{at}", 18.0 - at, -0.7 - at, 0.5 / (at + 1), 0.0, None) for at in range(8)]


async def talk(desk: Desktop, tokens: int = 12) -> None:
    """A reply of so many tokens, the eighth of them uncertain and slow."""
    await desk.type("hello", "enter")
    for at in range(tokens):
        strange = {"entropy": 5.5, "decode_us": 40_000} if at == 7 else {"entropy": 1.0}
        desk.engine.say(f" w{at}", id=at, candidates=CANDIDATES, **strange)
    await desk.settle()


def row_of(desk: Desktop, text: str) -> int:
    return next(y for y, line in enumerate(desk.text.split("\n")) if text in line)


async def click(desk: Desktop, text: str) -> None:
    """A click on the first letter of a text."""
    y = row_of(desk, text)
    await desk.pilot.click(offset=(desk.text.split("\n")[y].index(text), y))
    await desk.settle()


def temperature_rows(desk: Desktop) -> list[str]:
    lines = desk.text.split("\n")
    begin = row_of(desk, "TEMPERATURE")
    return [line.split("│")[-1] for line in lines[begin : begin + 8]]


async def test_the_pages_turn_by_key_and_by_mouse_and_the_page_stays() -> None:
    async with desktop() as desk:
        await talk(desk)
        assert "top_k" in desk.text
        await desk.type("", NEXT_PAGE)
        assert all(title in desk.text for title in ("ENTROPY", "PROBABILITY", "DECODE"))
        assert "top_k" not in desk.text
        await desk.type("", NEXT_PAGE)
        assert all(title in desk.text for title in ("NEXT TOKEN", "TEMPERATURE", "SURVIVORS"))
        await desk.type("", "ctrl+b", "ctrl+b")
        assert "SURVIVORS" in desk.text
        await click(desk, "REPLY")
        assert "ENTROPY" in desk.text
        await click(desk, "CHAIN")
        assert "top_k" in desk.text
        await desk.type("", NEXT_PAGE, NEXT_PAGE, NEXT_PAGE)
        assert "top_k" in desk.text
        assert desk.composer.has_focus


async def test_what_is_not_in_view_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[int] = []
    follow = Trace.follow
    monkeypatch.setattr(Trace, "follow", lambda *args: followed.append(1) or follow(*args))  # type: ignore[func-returns-value]
    async with desktop() as desk:
        await talk(desk)
        assert not followed
        await desk.type("", NEXT_PAGE)
        assert followed
        await desk.type("", "ctrl+b")
        followed.clear()
        desk.engine.say(" more")
        await desk.settle()
        assert not followed


async def test_the_big_view_takes_the_place_of_the_chat_while_the_reply_goes_on() -> None:
    async with desktop() as desk:
        await talk(desk)
        await desk.type("", NEXT_PAGE, "f6")
        panels = desk.app.query_one(Panels)
        assert panels.size.width == 120
        assert "hello" not in desk.text
        assert "11 1.00" in desk.text  # the newest token and its entropy
        assert "Tab ←→ page" in desk.text
        assert "Esc back" in desk.text
        desk.engine.say(" new", entropy=4.25)
        await desk.settle()
        assert "12 4.25" in desk.text
        await desk.type("", "escape")
        assert "hello" in desk.text
        assert "ENTROPY" in desk.text
        assert desk.chat.phase == "decoding"  # Esc closed the view and not the reply
        assert desk.composer.has_focus


@pytest.mark.parametrize(("onward", "back"), [("tab", "shift+tab"), ("right", "left"), ("down", "up")])
async def test_every_picture_has_a_page_of_its_own_in_the_big_view(onward: str, back: str) -> None:
    async with desktop() as desk:
        await talk(desk)
        await desk.type("", "f6")
        panels = desk.app.query_one(Panels)
        seen = []
        for _ in PAGES:
            seen.append(panels.page)
            await desk.type("", onward)
        assert seen == list(PAGES)
        await desk.type("", back)
        assert (panels.page, "SURVIVORS" in desk.text, "ENTROPY" in desk.text) == ("survivors", True, False)
        await desk.type("", "f6")
        assert panels.page == "next"  # where that picture stands
        assert "TEMPERATURE" in desk.text


@pytest.mark.parametrize("width", [80, 90, 120])
async def test_every_page_of_the_big_view_has_the_way_back_on_its_first_line(width: int) -> None:
    async with desktop((width, 24)) as desk:
        await talk(desk)
        await desk.type("", "f6")
        for page in PAGES:
            tabs = desk.text.splitlines()[1]
            assert "F6 back" in tabs
            assert "survivors" in tabs.lower()
            assert page[:4] in tabs.lower()
            assert ("probability" in tabs) == (width > 90)
            await desk.type("", "tab")
        await click(desk, "F6 back")
        assert "hello" in desk.text


async def test_the_big_view_opens_at_a_title_and_closes_by_the_mouse() -> None:
    async with desktop() as desk:
        await talk(desk)
        await desk.type("", NEXT_PAGE)
        await click(desk, "DECODE")
        assert desk.app.query_one(Panels).page == "time"
        assert "PROBABILITY" not in desk.text
        await click(desk, "F6 back")
        assert "hello" in desk.text
        assert "PROBABILITY" in desk.text
        await click(desk, "F6 big")
        assert "hello" not in desk.text


async def test_a_click_in_a_plot_puts_the_cursor_on_the_token_and_the_plots_mark_it() -> None:
    async with desktop(chat=lambda engine: Chat(engine, Tuning(seed=1), recorder=Memory())) as desk:
        await talk(desk)
        await desk.type("", NEXT_PAGE)
        edge = desk.text.split("\n")[row_of(desk, "ENTROPY") + 2].rindex("│")
        await desk.pilot.click(offset=(edge + 1 + 7, row_of(desk, "ENTROPY") + 2))
        await desk.settle()
        cursor = desk.app.query_one(TranscriptView).cursor
        assert cursor is not None
        assert (desk.app.screen_stack[0].tokens.mode.open, cursor.index) == (True, 7)  # type: ignore[attr-defined]
        assert "7 5.50" in desk.text
        assert "worst 40 at 7" in desk.text
        await desk.type("", "left")
        assert "6 1.00" in desk.text
        await desk.type("", "tab")
        assert "TOKEN 6" in desk.text  # the page of the next token is that token's now
        await desk.type("", "tab")
        assert "CANDIDATES" in desk.text


async def test_the_big_view_keeps_the_keys_of_token_mode() -> None:
    async with desktop() as desk:
        await talk(desk)
        await desk.type("", "f6", "tab", "ctrl+g", "left")
        assert "10 1.00" in desk.text
        assert "hello" not in desk.text
        edge = desk.text.split("\n")[row_of(desk, "ENTROPY") + 2].index("│")
        assert edge == LABEL
        await desk.pilot.click(offset=(edge + 1 + 7, row_of(desk, "ENTROPY") + 2))
        await desk.settle()
        assert desk.app.query_one(TranscriptView).cursor == TokenRef(2, 7)
        await desk.type("", "w")
        await desk.type("no", "enter")
        await desk.type("", "escape")
        assert "hello" in desk.text
        assert "TOKEN" in desk.text


async def test_a_temperature_that_is_turned_reshapes_its_curve_at_once_also_while_nothing_runs() -> None:
    async with desktop() as desk:
        await talk(desk)
        desk.engine.end()
        await desk.settle()
        await desk.type("", NEXT_PAGE, NEXT_PAGE, "ctrl+t", "t")
        before = temperature_rows(desk)
        assert "█ 0.8" in before[0]
        await desk.type("2", "enter")
        after = temperature_rows(desk)
        assert "█ 2" in after[0]
        assert after[1:] != before[1:]
        assert "temp" in desk.text  # the knob that is turned stands above


async def test_the_drawer_of_a_small_screen_has_all_plots_of_a_reply() -> None:
    async with desktop((80, 24)) as desk:
        await talk(desk)
        await desk.type("", NEXT_PAGE)
        assert "top_k" in desk.text  # what was hidden is shown first
        await desk.type("", NEXT_PAGE)
        assert all(title in desk.text for title in ("ENTROPY", "PROBABILITY", "DECODE", "worst 40 at 7"))
        await desk.type("", "f6", "escape", "escape")
        assert "hello" in desk.text


async def test_the_smallest_screen_shows_a_picture() -> None:
    async with desktop((40, 12)) as desk:
        await talk(desk)
        await desk.type("", "f6", "tab")
        assert "ENTROPY" in desk.text


async def test_another_chat_begins_with_empty_plots() -> None:
    async with desktop() as desk:
        await talk(desk)
        desk.engine.end()
        await desk.settle()
        await desk.type("", NEXT_PAGE, "ctrl+n")
        assert "waiting for the first token" in desk.text
