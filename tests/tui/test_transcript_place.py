"""What moves in the transcript and what stays, and how much work that is."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from textual.geometry import Offset, Region
from textual.screen import Screen
from textual.selection import Selection

from termchat.tui.transcript import Look, widget
from termchat.tui.transcript.blocks import Block
from tests.tui.transcripts import (
    LONG,
    LOOKS,
    PROSE,
    REPLY,
    THEMES,
    Host,
    ask,
    chat_of,
    finished,
    numbered_chat,
    reply,
    screen,
    settled,
    start,
    texts,
    token,
)


async def test_it_follows_the_end_only_while_the_reader_is_there() -> None:
    chat = chat_of("Go")
    node = reply(chat)
    app = Host(chat)

    def say(count: int) -> None:
        for _ in range(count):
            node.add(token(len(node.tokens), f"line {len(node.tokens)}\n\n"))
            transcript.grew(node.number)

    async with app.run_test(size=(40, 10)) as pilot:
        transcript = app.transcript
        say(20)
        assert screen(app)[-1] == "line 19▌"
        transcript.focus()
        await pilot.press("up")
        await pilot.wait_for_scheduled_animations()
        assert not transcript.following
        before = screen(app)
        say(5)
        after = screen(app)
        assert after[:-1] == before[:-1]
        assert after[-1].endswith("↓ 11 lines")  # the one that the reader left, and five with a blank one before each
        await pilot.click(transcript, offset=(transcript.size.width - 5, 9))
        assert transcript.following
        assert screen(app)[-1] == "line 24▌"
        say(1)
        assert screen(app)[-1] == "line 25▌"
        assert not any("↓ " in line for line in screen(app))


async def test_a_scroll_that_has_just_begun_is_not_undone_by_the_next_token() -> None:
    chat = chat_of("Go")
    node = reply(chat, "word\n\n" * 40)
    app = Host(chat)
    async with app.run_test(size=(40, 10)) as pilot:
        await settled(pilot)
        app.transcript.scroll_to(y=5, animate=True, duration=0.05)
        node.add(token(len(node.tokens), "more\n\nlines"))
        app.transcript.grew(node.number)
        await pilot.wait_for_scheduled_animations()
        assert not app.transcript.following
        assert app.transcript.scroll_offset.y == 5


async def test_scrolling_back_to_the_end_follows_again() -> None:
    app = Host(chat_of("Go", "word\n\n" * 40))
    async with app.run_test(size=(40, 10)) as pilot:
        transcript = app.transcript
        await settled(pilot)
        transcript.scroll_to(y=3, animate=False)
        assert not transcript.following
        assert screen(app)[0] == texts(app)[3]
        transcript.scroll_to(y=10_000, animate=False)
        assert transcript.following


@pytest.mark.parametrize("place", ["Paragraph 3.2.", "Question 2?"])
async def test_the_line_at_the_top_stays_through_looks_and_widths(place: str) -> None:
    app = Host(numbered_chat(6))
    async with app.run_test(size=(70, 20)) as pilot:
        transcript = app.transcript
        await settled(pilot)
        y = next(y for y, line in enumerate(texts(app)) if line.startswith(place))
        transcript.scroll_to(y=y, animate=False)
        for look in ("probability", "reading"):
            transcript.look = look
            assert screen(app)[0].startswith(place), look
            await settled(pilot)
            assert screen(app)[0].startswith(place), look
        for width in (40, 110, 70):
            await pilot.resize_terminal(width, 20)
            assert screen(app)[0].startswith(place[:9]), width
            await settled(pilot)
            assert screen(app)[0].startswith(place), width
        assert transcript.scroll_offset.y == y


@pytest.mark.parametrize("look", LOOKS)
async def test_resizing_at_the_end_stays_at_the_end(look: Look) -> None:
    chat = numbered_chat(3)
    ask(chat, "Go")
    reply(chat, "the very end")
    app = Host(chat, look)
    async with app.run_test(size=(70, 20)) as pilot:
        for size in ((30, 8), (120, 40), (12, 5)):
            await pilot.resize_terminal(*size)
            assert screen(app)[-1].endswith("end▌")
            await settled(pilot)
            assert screen(app)[-1].endswith("end▌")


async def test_a_reader_above_what_was_never_laid_out_does_not_jump() -> None:
    app = Host(numbered_chat(40))
    async with app.run_test(size=(60, 20)) as pilot:
        transcript = app.transcript
        transcript.scroll_to(y=transcript.line_count // 2, animate=False)
        first = screen(app)
        assert all(line or other for line, other in pairwise(first)), "what is visible is laid out at once"
        await settled(pilot)
        assert screen(app) == first
        for _ in range(10):
            below = screen(app)
            transcript.scroll_relative(y=-7, animate=False)
            assert screen(app)[7:] == below[:-7]


async def test_a_regenerated_reply_replaces_the_old_one() -> None:
    chat = chat_of("Go", "the first try")
    app = Host(chat)
    async with app.run_test(size=(60, 20)):
        chat.grow_node("assistant", parent=1, at=0)
        node = chat.nodes[chat.leaf or 0]
        app.transcript.show(chat)
        assert texts(app)[2:] == ["", "model · ‹ 2/2 ›", "▌"]
        node.add(start(7))
        node.add(token(0, "the second"))
        app.transcript.grew(node.number)
        assert texts(app)[2:] == ["", "smollm2 · ‹ 2/2 › · seed 7", "the second▌"]


async def test_another_palette_repaints_and_moves_nothing() -> None:
    app = Host(chat_of("Go", REPLY))
    async with app.run_test(size=(60, 20)):
        before = screen(app)
        app.transcript.palette = light = THEMES["light"].palette
        assert screen(app) == before
        colors = {segment.style.bgcolor.get_truecolor().hex for segment in app.transcript.render_line(19)}  # type: ignore[union-attr]
        assert colors == {light.background}


async def test_what_is_selected_is_painted_so() -> None:
    app = Host(chat_of("Hello 狐狸 fox", "Hello bear"))
    async with app.run_test(size=(60, 20)) as pilot:
        app.screen.selections = {app.transcript: Selection(Offset(7, 1), Offset(9, 1))}
        await pilot.pause()
        plain = app.transcript.palette.surface
        chosen = [segment.text for segment in app.transcript.render_line(1) if segment.style.bgcolor.name != plain]  # type: ignore[union-attr]
        assert "".join(chosen) == "狐狸"
        assert app.screen.get_selected_text() == "狐狸"


async def test_selected_text_is_copied_without_the_margin() -> None:
    app = Host(chat_of("Hello fox", "Hello bear"))
    async with app.run_test(size=(60, 20)):
        transcript = app.transcript
        assert transcript.get_selection(Selection(Offset(7, 1), Offset(6, 4))) == (
            "fox\n\nsmollm2 · seed 42\nHello",
            "\n",
        )
        assert transcript.get_selection(Selection(None, None)) == ("\n".join(texts(app)), "\n")


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (10, 3), (3, 1), (200, 60)])
@pytest.mark.parametrize("look", LOOKS)
async def test_every_line_fits(size: tuple[int, int], look: Look) -> None:
    app = Host(chat_of("Go 狐狸", REPLY, end=finished("length", "max_tokens 64")), look)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        for y in range(app.transcript.line_count):
            app.transcript.scroll_to(y=y, animate=False)
            assert app.transcript.render_line(0).cell_length == app.transcript.size.width


@pytest.fixture
def laid_out(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many lines each layout of a block made, in order."""
    counts: list[int] = []
    lay = Block.lay

    def counted(block: Block, width: int) -> None:
        if block.width != width:
            lay(block, width)
            counts.append(len(block.lines))

    monkeypatch.setattr(Block, "lay", counted)
    return counts


@pytest.mark.parametrize("look", LOOKS)
async def test_a_token_costs_the_same_however_long_chat_and_reply_are(look: Look, laid_out: list[int]) -> None:
    chance = random.Random(1)
    spent = []
    for turns, length in ((0, 5), (0, 50), (12, 5)):
        chat = numbered_chat(turns)
        ask(chat, "Go")
        node = reply(chat, (PROSE * 4 + "\n\n") * length)
        app = Host(chat, look)
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            before = sum(laid_out)
            for _ in range(100):
                node.add(token(len(node.tokens), " fox", chance.random()))
                app.transcript.grew(node.number)
            spent.append(sum(laid_out) - before)
    assert max(spent) <= 100 * 25, spent


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
async def test_an_endless_block_does_not_make_a_token_dearer(look: Look, text: str, laid_out: list[int]) -> None:
    chat = chat_of("Go")
    node = reply(chat)
    app = Host(chat, look)
    async with app.run_test(size=(80, 24)):
        for begin in range(0, len(text), 1000):
            node.add(token(len(node.tokens), text[begin : begin + 1000]))
            app.transcript.grew(node.number)
        laid_out.clear()
        node.add(token(len(node.tokens), " fox"))
        app.transcript.grew(node.number)
        assert sum(laid_out) <= 1000


async def test_showing_a_long_chat_lays_out_only_what_is_seen(laid_out: list[int]) -> None:
    app = Host(numbered_chat(60))
    async with app.run_test(size=(80, 24)) as pilot:
        first = sum(laid_out)
        assert first < 200 < app.transcript.line_count
        await settled(pilot)
        laid_out.clear()
        app.transcript.show(app.chat)
        await settled(pilot)
        assert sum(laid_out) < 50, "showing the same path again costs next to nothing"


async def test_growing_asks_for_no_layout_and_paints_only_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = chat_of("Go")
    node = reply(chat, PROSE * 3)
    app = Host(chat)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        for _ in range(4):  # whatever is late of what was before
            await pilot.pause(0.05)
        layouts: list[Screen] = []
        regions: list[tuple[Region, ...]] = []
        refresh_layout, touch = Screen._refresh_layout, widget.touch
        monkeypatch.setattr(Screen, "_refresh_layout", lambda s, *a: layouts.append(s) or refresh_layout(s, *a))
        monkeypatch.setattr(widget, "touch", lambda t, *a: regions.append(a) or touch(t, *a))
        last = app.transcript.line_count - 1
        for piece, first, count in (("now", last, 1), ("\n\nthen", last, 3)):
            regions.clear()
            node.add(token(len(node.tokens), piece))
            app.transcript.grew(node.number)
            assert regions == [(Region(0, first, 80, count),)]
        await pilot.pause(0.1)
        assert not layouts
