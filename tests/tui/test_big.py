"""The pages of the panels and the big view on a fake engine, by keys and by mouse."""

from __future__ import annotations

import re

import pytest

from termchat.decoding.records import Candidate
from termchat.decoding.samplers import Tuning
from termchat.tui.pages.panel_pages import PAGES
from termchat.tui.pages.panels import Panels
from termchat.tui.pages.plots import LABEL, Trace
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.tokens import TokenRef
from tests.chats import chat_on
from tests.tui.running_app import Desktop, desktop

NEXT_PAGE = "ctrl+right_square_bracket"
OFFERED = [name for name in PAGES if name != "drafts"]
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


async def test_the_pages_turn_by_key_and_by_mouse_and_the_page_stays() -> None:
    async with desktop() as desk:
        await talk(desk)
        assert "top_k" in desk.text
        await desk.type("", NEXT_PAGE)
        assert all(title in desk.text for title in ("ENTROPY", "PROBABILITY", "DECODE"))
        assert "top_k" not in desk.text
        await desk.type("", NEXT_PAGE)
        assert all(title in desk.text for title in ("TOKEN 11 ·w11", "after", "49,144 others", "LEFT AFTER"))
        await desk.type("", "ctrl+b", "ctrl+b")
        assert "49,144 others" in desk.text
        await click(desk, "REPLY")
        assert "ENTROPY" in desk.text
        await click(desk, "CHAIN")
        assert "top_k" in desk.text
        await desk.type("", NEXT_PAGE, NEXT_PAGE, NEXT_PAGE)
        assert "top_k" in desk.text
        assert desk.composer.has_focus


async def test_what_is_not_in_view_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[int] = []
    read = Trace.read_values
    monkeypatch.setattr(Trace, "read_values", lambda *args: followed.append(1) or read(*args))  # type: ignore[func-returns-value]
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
        assert "w10 ▐w11▌" in desk.text  # the sentence stays in sight
        assert "11 ·w11 1.00" in desk.text  # the newest token and its entropy
        assert "Tab ←→ page" in desk.text
        assert "Esc back" in desk.text
        desk.engine.say(" new", entropy=4.25)
        await desk.settle()
        assert "12 ·new 4.25" in desk.text
        await desk.type("", "escape")
        assert "you" in desk.text
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
        for _ in OFFERED:
            seen.append(panels.page)
            await desk.type("", onward)
        assert seen == OFFERED
        await desk.type("", back, back)
        assert (panels.page, "DECODE TIME" in desk.text, "ENTROPY" in desk.text) == ("time", True, False)
        await desk.type("", "f6")
        assert panels.page == "reply"  # where that picture stands
        assert "ENTROPY" in desk.text


@pytest.mark.parametrize("width", [80, 90, 120])
async def test_every_page_of_the_big_view_has_the_way_back_on_its_first_line(width: int) -> None:
    async with desktop((width, 24)) as desk:
        await talk(desk)
        await desk.type("", "f6")
        for page in OFFERED:
            tabs = desk.text.splitlines()[1]
            assert "F6 back" in tabs
            assert page in tabs.lower()
            await desk.type("", "tab")
        await click(desk, "F6 back")
        assert "you" in desk.text


async def test_the_big_view_opens_at_a_title_and_closes_by_the_mouse() -> None:
    async with desktop() as desk:
        await talk(desk)
        await desk.type("", NEXT_PAGE)
        await click(desk, "DECODE")
        assert desk.app.query_one(Panels).page == "time"
        assert "PROBABILITY" not in desk.text
        await click(desk, "F6 back")
        assert "you" in desk.text
        assert "PROBABILITY" in desk.text
        await click(desk, "F6 big")
        assert "F6 back" in desk.text


async def test_a_click_in_a_plot_puts_the_cursor_on_the_token_and_the_plots_mark_it() -> None:
    async with desktop(chat=lambda engine: chat_on(engine, Tuning(seed=1), kept=True)) as desk:
        await talk(desk)
        await desk.type("", NEXT_PAGE)
        edge = desk.text.split("\n")[row_of(desk, "ENTROPY") + 2].rindex("│")
        await desk.pilot.click(offset=(edge + 1 + 7, row_of(desk, "ENTROPY") + 2))
        await desk.settle()
        cursor = desk.app.query_one(TranscriptView).cursor
        assert cursor is not None
        assert (desk.app.screen_stack[0].tokens.is_open, cursor.index) == (True, 7)  # type: ignore[attr-defined]
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
        assert "10 ·w10 1.00" in desk.text
        assert "▐w10▌ w11" in desk.text
        edge = desk.text.split("\n")[row_of(desk, "ENTROPY") + 2].index("│")
        assert edge == LABEL
        await desk.pilot.click(offset=(edge + 1 + 7, row_of(desk, "ENTROPY") + 2))
        await desk.settle()
        assert desk.app.query_one(TranscriptView).cursor == TokenRef(2, 7)
        await desk.type("", "w")
        await desk.type("no", "enter")
        await desk.type("", "escape")
        assert "you" in desk.text
        assert "TOKEN" in desk.text


def distribution(desk: Desktop) -> list[str]:
    """Head, candidates and others."""
    lines = [line.split("│")[-1][1:] for line in desk.text.split("\n")]
    begin = next(at for at, line in enumerate(lines) if line.strip().startswith("model"))
    return lines[begin : begin + 2 + len(CANDIDATES)]


async def test_a_knob_that_is_turned_while_nothing_runs_reshapes_the_distribution_under_a_title_that_says_so() -> None:
    async with desktop() as desk:
        await talk(desk)
        desk.engine.end()
        await desk.settle()
        await desk.type("", NEXT_PAGE, NEXT_PAGE)
        assert "TOKEN 11 ·w11  as recorded" in desk.text
        await desk.type("", "ctrl+t", "t", "2", "enter")
        assert "as recorded" not in desk.text
        assert "PREVIEW 11 x  with the current knobs" in desk.text
        assert "t temp     2" in desk.text  # the knob that is turned stands above


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 40), (200, 60)])
async def test_the_large_view_of_a_token_has_its_sentence_words_percents_and_all_the_rest(
    size: tuple[int, int],
) -> None:
    async with desktop(size, chat=lambda engine: chat_on(engine, Tuning(seed=1), kept=True)) as desk:
        await talk(desk)
        desk.engine.end()
        await desk.settle()
        await desk.type("", "ctrl+g", "left", "left", "f6")
        assert "w8 ▐w9▌ w10 w11" in desk.text
        assert "TOKEN 9 ·w9  as recorded" in desk.text
        assert "seed 1" in desk.text
        head, *lines, others = distribution(desk)
        assert head.split()[:4] == ["model", "0%", "100%", "after"]
        for at, line in enumerate(lines):
            assert re.match(rf"(\d )?·c{at} +[<\d.]+% [█▉-▏ ]+ +[\d.]+% █", line), line
        assert others.strip().startswith("49,144 others")
        assert "LEFT AFTER" in desk.text
        await desk.type("", "left")
        assert "▐w8▌ w9" in desk.text


async def test_the_dice_are_rolled_by_key_again_for_more_and_by_command_with_any_number() -> None:
    async with desktop(chat=lambda engine: chat_on(engine, Tuning(seed=1), kept=True)) as desk:
        await talk(desk)
        desk.engine.end()
        await desk.settle()
        await desk.type("", "ctrl+g", "r")
        assert "100 ROLLS" in desk.text
        first = re.search(r"seeds (\d+) to (\d+)", desk.text)
        assert first is not None
        assert int(first[2]) - int(first[1]) == 99
        await desk.type("", "f6", "r")
        assert "1,000 ROLLS" in desk.text
        assert f"seeds {first[1]} to {int(first[1]) + 999}" in desk.text
        head, *lines = distribution(desk)
        begin = head.index("rolls") + len("rolls")
        assert sum(int(line[:begin].split()[-1]) for line in lines) == 1000
        await desk.type("", "left")
        assert "ROLLS" not in desk.text  # of another token
        await desk.type("", "right")
        assert "1,000 ROLLS" in desk.text
        await desk.type("", "f6", "ctrl+g")
        await desk.type("/roll 250 42", "enter")
        assert "250 ROLLS  seeds 42 to 291" in desk.text
        await desk.type("/roll many", "enter")
        assert "/roll takes a number from 1 to 100000" in desk.text


async def test_rolling_while_a_reply_runs_holds_its_token_in_sight() -> None:
    async with desktop() as desk:
        await talk(desk)
        await desk.type("", "f6", "r")
        assert "TOKEN 11 ·w11" in desk.text
        desk.engine.say(" more")
        await desk.settle()
        assert "TOKEN 11 ·w11" in desk.text
        assert desk.app.screen_stack[0].tokens.is_open  # type: ignore[attr-defined]


async def test_a_new_message_waits_for_its_own_token() -> None:
    async with desktop() as desk:
        await talk(desk)
        desk.engine.end()
        await desk.settle()
        await desk.type("", NEXT_PAGE, NEXT_PAGE)
        assert "others" in desk.text
        desk.chat.send("and then?")
        await desk.settle()
        assert "waiting for the first token" in desk.text
        assert "others" not in desk.text  # those of the reply before
        desk.engine.say(" well", candidates=CANDIDATES)
        await desk.settle()
        assert "TOKEN 0 ·well" in desk.text


async def test_rolling_with_nothing_to_draw_from_says_why() -> None:
    async with desktop() as desk:
        await desk.type("/roll", "enter")
        assert "no candidates to draw from" in desk.text


async def test_the_drawer_of_a_small_screen_has_all_plots_of_a_reply() -> None:
    async with desktop((80, 24)) as desk:
        await talk(desk)
        await desk.type("", NEXT_PAGE)
        assert "top_k" in desk.text  # what was hidden is shown first
        await desk.type("", NEXT_PAGE)
        assert all(title in desk.text for title in ("ENTROPY", "PROBABILITY", "DECODE", "worst 40 at 7"))
        await desk.type("", "f6", "escape", "escape")
        assert "you" in desk.text


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


async def test_a_letter_that_is_no_key_is_not_written() -> None:
    async with desktop() as desk:
        await desk.sent("go", "One")
        desk.engine.end()
        await desk.type("", "f6", "q")
        assert desk.composer.text == ""
        await desk.type("", "f6", "q")
        assert desk.composer.text == "q"
