"""A chat much longer than the screen: it is laid out once, and nothing that is seen moves meanwhile."""

from __future__ import annotations

import msgspec
import pytest
from textual.geometry import Region

from termchat.chat.service import Chat
from termchat.conversation.node import Omission
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelSpec
from termchat.tui.app import TermchatApp
from termchat.tui.lists.small_dialogs import FullDialog
from termchat.tui.transcript import Look
from termchat.tui.transcript.blocks import Block
from tests.chats import chat_on, chosen
from tests.tui import fake_engine
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import Desktop, desktop, path, talked
from tests.tui.transcripts import LOOKS, Host, chat_of, numbered_chat, screen, settled, texts


@pytest.mark.parametrize("look", LOOKS)
async def test_all_of_it_is_laid_out_once_and_drawn_the_same_wherever_one_looks(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Host(numbered_chat(80), look)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        height = app.transcript.line_count
        assert height > 1500
        whole = texts(app)
        laid: list[Block] = []
        monkeypatch.setattr(Block, "lay", lambda block, width: laid.append(block) if block.width != width else None)
        for y in (0, height // 3, height - 24, height // 2, 7):
            app.transcript.scroll_to(y=y, animate=False, force=True)
            await pilot.pause()
            assert app.transcript.line_count == height, "nothing moves"
            assert screen(app) == [line.rstrip() for line in whole[y : y + 24]]
        assert not laid


async def test_a_look_into_what_waits_to_be_laid_out_ends_the_waiting() -> None:
    app = Host(numbered_chat(80))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        document = app.transcript._document
        for y in range(0, app.transcript.line_count, 20):
            app.transcript.scroll_to(y=y, animate=False, force=True)
        for _ in range(5000):  # a block each time: the slowest machine there is
            if document.lay_more(lambda: True):
                break
        assert document.lay_more(lambda: True)


@pytest.mark.parametrize("following", [True, False])
async def test_what_is_laid_out_far_from_the_view_is_not_drawn(following: bool) -> None:
    app = Host(numbered_chat(80))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        transcript = app.transcript
        assert transcript._worker is not None
        transcript._worker.pause()
        if not following:
            transcript.scroll_to(y=transcript.line_count // 2, animate=False, force=True)
            transcript._worker.pause()
        await pilot.pause()
        seen = screen(app)
        numbers: set[int] = set()
        dirty: list[Region] = []
        for _ in range(5000):
            app.screen._dirty_widgets.discard(transcript.vertical_scrollbar)
            transcript._dirty_regions.clear()
            transcript.work()
            dirty += transcript._dirty_regions
            numbers.add(transcript.scroll_offset.y)
            if transcript.is_complete:
                break
        assert transcript.is_complete
        assert len(numbers) > 1, "the lines in view have other numbers now"
        assert not dirty
        assert screen(app) == seen


async def test_line_by_line_up_through_all_of_it() -> None:
    app = Host(numbered_chat(60))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        whole = texts(app)
        app.transcript.scroll_end(animate=False)
        await pilot.pause()
        top = app.transcript.scroll_offset.y
        for step in range(1, 600):
            app.transcript.scroll_to(y=top - step, animate=False, force=True)
            assert app.transcript.scroll_offset.y == top - step
            assert screen(app)[0] == whole[top - step].rstrip()


async def test_the_cursor_stays_on_its_lines_however_far_one_scrolls() -> None:
    app = Host(numbered_chat(60), "probability")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        app.transcript.open_cursor()
        app.transcript.move_cursor("first")
        await pilot.pause()
        spots = app.transcript._cursor.rows()
        app.transcript.scroll_to(y=app.transcript.line_count, animate=False, force=True)
        await pilot.pause()
        app.transcript.scroll_to(y=0, animate=False, force=True)
        await pilot.pause()
        assert app.transcript._cursor.rows() == spots
        block, _ = app.transcript._document.find(spots[0]) or (None, 0)
        assert block is app.transcript._cursor.spots[0].block


async def test_a_turn_without_the_oldest_says_so() -> None:
    chat = chat_of("one", "two", "three", "four")
    turn = chat.nodes[3]
    turn.omitted = Omission(12, 1)
    app = Host(chat)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert any("from here on the model sees a summary of the oldest 12 turns" in line for line in texts(app))


# --- the question ----------------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with little context."""

    monkeypatch.setattr(fake_engine, "INFO", msgspec.structs.replace(fake_engine.INFO, context=30))


async def filled(desk: Desktop, engine: FakeEngine, chat: Chat) -> None:
    """A chat whose next message does not fit."""
    await desk.settle()
    for number in range(3):
        chat.send(f"question {number}")
        chat.pump_events()
        engine.say(*[" word"] * 5)
        engine.end()
        chat.pump_events()
    engine.prompt = [1] * 12
    await desk.type("more", "enter")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("keys", [("ctrl+o", "d"), ("ctrl+o", "s"), ("ctrl+o", "escape"), ("escape",)])
async def test_a_full_context_asks_what_to_do_and_leaves_the_keys_to_what_is_being_written(
    keys: tuple[str, ...],
) -> None:
    engine = FakeEngine()
    chat = chat_on(engine, Tuning(seed=7), on_full="ask")
    app = TermchatApp(chat, chosen(ModelSpec("/tiny.gguf", "tiny")), theme="dark")
    async with app.run_test(size=(100, 30)) as pilot:
        desk = Desktop(app, engine, pilot)
        await filled(desk, engine, chat)
        assert "Not sent: more" in desk.text
        assert "Ctrl+O drops or summarises the oldest" in desk.text
        await desk.type("said")
        assert not app.screen_stack[1:]
        assert desk.composer.text == "said"
        engine.prompt = [1] * 4
        await desk.type("", keys[0])
        assert [type(shown) for shown in app.screen_stack[1:]] == [FullDialog] * (keys[0] == "ctrl+o")
        await desk.type("", *keys[1:])
        assert not app.screen_stack[1:]
        assert "The context is full" not in desk.text
        written = [span.node.written for span in chat.conversation.find_path() if span.node.role == "user"]
        if keys[-1] == "escape":
            assert written == ["question 0", "question 1", "question 2"]
            assert desk.composer.text == "more\nsaid"
        elif keys[-1] == "d":
            assert written[-1] == "more"
            assert chat.conversation.find_path()[-2].node.omitted is not None
            assert desk.composer.text == "said"
        else:
            assert written[-1].startswith("Summarise")


@pytest.mark.usefixtures("small")
async def test_what_is_sent_meanwhile_waits_behind_the_message_that_did_not_fit() -> None:
    async with desktop(chat=lambda engine: chat_on(engine, Tuning(seed=7), on_full="ask")) as desk:
        await filled(desk, desk.engine, desk.chat)
        await desk.type("second", "enter")
        assert "Not sent: more" in desk.text
        assert "queued  second" in desk.text
        desk.engine.prompt = [1] * 4
        await desk.type("", "ctrl+o", "d")
        desk.engine.say(" fine")
        desk.engine.end()
        await desk.settle()
        assert path(desk)[-4:-1] == ["more", " fine", "second"]


@pytest.mark.usefixtures("small")
async def test_whoever_goes_on_after_a_reply_that_was_cut_off_is_asked_no_more() -> None:
    async with desktop(chat=lambda engine: chat_on(engine, Tuning(seed=7), on_full="ask")) as desk:
        desk.engine.prompt = [1] * 4
        await talked(desk, ("one", " a"))
        await desk.sent("two", " cut")
        desk.engine.end("context")
        await desk.settle()
        assert "the reply was cut off" in desk.text
        await desk.type("go on", "enter")
        assert "the reply was cut off" not in desk.text
        assert "go on" in path(desk)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("elsewhere", ["ctrl+r", "ctrl+n"])
async def test_the_message_that_did_not_fit_comes_back_when_something_else_is_done(elsewhere: str) -> None:
    async with desktop(chat=lambda engine: chat_on(engine, Tuning(seed=7), on_full="ask")) as desk:
        await filled(desk, desk.engine, desk.chat)
        old = desk.chat.conversation
        await desk.type("", elsewhere)
        assert "The context is full" not in desk.text
        assert desk.composer.text == ("more" if elsewhere == "ctrl+r" else "")
        assert old.unsent.written == "more"
