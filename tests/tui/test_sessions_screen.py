"""The list of saved chats: what it shows and what a person does with it, on a fake engine, and on a real store to open one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len
from textual.color import Color
from textual.widgets import Input, Label

from termchat.chat.service import Chat
from termchat.conversation.store.store import Store
from termchat.decoding.samplers import Tuning
from termchat.engine.port import Load, Render
from termchat.tui.draw.background import TaskQueue
from termchat.tui.lists.sessions_dialog import (
    format_moment,
    highlight_matches,
    list_columns,
    preview_lines,
    session_line,
)
from termchat.tui.transcript import TranscriptView
from tests.chat.driven_chat import Faked
from tests.chats import chat_on
from tests.models.gguf_files import named
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import desktop
from tests.tui.sessions_dialog import DAY, NOON, FakeStore, Library, library, summary

# --- lines -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [26, 36, 58, 64, 74, 100, 140])
@pytest.mark.parametrize("searching", [False, True])
def test_every_line_takes_the_room_there_is_and_no_more(width: int, searching: bool) -> None:
    rows = [
        summary(1, "A very long title that goes on and on " * 4, snippet="and \x02goes\x03 on " * 20),
        summary(2, "模型" * 40, model="モ" * 60, snippet="模\x02型\x03" * 40),
        summary(3, "", turns=100_000, tokens=123_456_789, snippet=""),
    ]
    lines = [session_line(row, width, NOON, searching=searching, opened=True) for row in rows]
    assert {cell_len(line.text) for line in lines} == {width}
    assert 2 + sum(one.width + one.gap for one in list_columns(width, searching=searching)) == width
    for height in (1, 2, 3, 8, 30):
        for said in (None, [], [("user", "模型" * 500), ("assistant", "word " * 5000)]):
            shown = preview_lines(rows[1], said, width, height)  # type: ignore[arg-type]
            assert len(shown) <= height
            assert all(cell_len(line.text) <= width for line in shown)


def test_a_moment_is_told_as_people_say_it() -> None:
    assert format_moment(NOON - 60, NOON) == "11:59"
    assert format_moment(NOON - 2 * DAY, NOON) == "Wed 12:00"
    assert format_moment(NOON - 30 * DAY, NOON) == "21 Oct"
    assert format_moment(NOON - 400 * DAY, NOON) == "2025-10-16"


def test_the_word_that_was_found_is_always_in_sight_and_stands_out() -> None:
    runs = highlight_matches("many words that come before the \x02fox\x03 and many that come after it", 24)
    assert [text for text, ink in runs if ink.bold] == ["fox"]
    assert sum(cell_len(text) for text, _ in runs) <= 24


def test_titles_and_texts_from_elsewhere_steer_no_terminal() -> None:
    attack = "a\x1b]0;owned\x07\u202eb\n\x02c\x03\x9b31m"
    row = summary(1, attack, model=attack, snippet=attack)
    lines = [session_line(row, 90, NOON, searching=searching) for searching in (False, True)]
    lines += preview_lines(row, [("user", attack), ("assistant", attack)], 60, 30)
    for line in lines:
        assert line.text.isprintable() or line.text == ""
        assert "\u202e" not in line.text


# --- in turn ---------------------------------------------------------------------------------------------------------


def test_of_the_questions_that_wait_only_the_newest_is_asked_and_changes_go_first() -> None:
    begun, go_on, over = threading.Event(), threading.Event(), threading.Event()
    asked: list[str] = []
    heard: list[object] = []
    work = TaskQueue(lambda what: what())
    work.ask("list", lambda: begun.set() or go_on.wait(30), lambda _: heard.append("stale"))
    assert begun.wait(30)
    for word in ("f", "fo", "fox"):
        work.ask("list", lambda word=word: asked.append(word) or word, heard.append)  # type: ignore[misc]
    work.ask("preview", lambda: asked.append("preview"), lambda _: over.set())
    for change in ("first", "second"):
        work.change(lambda change=change: asked.append(change), lambda _: None)  # type: ignore[misc]
    go_on.set()
    assert over.wait(30)
    assert asked == ["first", "second", "fox", "preview"]
    assert heard == ["fox"]
    assert not work.waits("list")


# --- the list fills --------------------------------------------------------------------------------------------------


async def test_it_opens_at_once_and_fills_as_it_finds() -> None:
    store = FakeStore()
    store.closed.clear()
    async with library(store, opened=False) as desk:
        await desk.type("half a message", "f4")
        assert desk.open
        assert "searching …" in desk.text
        await desk.type("fox", "down")  # nobody waits for the disk
        store.closed.set()
        await desk.shows("A fox and a bear", "1 found")
        await desk.type("", "escape")
        assert desk.composer.text == "half a message"
        store.closed.clear()
        await desk.type("", "f4")
        assert "A fox and a bear" in desk.text  # known from before
        store.closed.set()
        await desk.shows("7 saved")


async def test_title_model_when_turns_tokens_and_the_end_of_the_highlighted_one() -> None:
    async with library(FakeStore()) as desk:
        await desk.type("", "down", "down")
        await desk.shows("This is the reply to s2.", "3 turns · 634 tokens · SmolLM2")
        line = next(line for line in desk.text.splitlines() if "  Regular expr" in line and "634" in line)
        assert "SmolLM2-13" in line


async def test_an_empty_store_says_so() -> None:
    async with library(FakeStore(0)) as desk:
        await desk.shows("no saved chats yet")
        await desk.type("", "enter", "ctrl+r", "f5", "delete", "ctrl+y")
        await desk.shows("nothing to restore")
        assert desk.open


async def test_what_cannot_be_read_is_told() -> None:
    store = FakeStore()
    async with library(store) as desk:
        store.broken = "saved chats cannot be read: the disk is full of \x1b[31m"
        await desk.type("fox")
        await desk.shows("saved chats cannot be read: the disk is full of ␛[31m")
        store.broken = ""
        await desk.type("", "backspace")
        await desk.shows("A fox and a bear")
        assert "cannot be read" not in desk.text


async def test_without_a_store_it_says_so() -> None:
    async with desktop() as desk:
        await desk.type("", "f4")
        assert "chats are not saved in this mode" in desk.text


async def test_ten_thousand_chats_are_read_as_far_as_they_are_looked_at() -> None:
    store = FakeStore(10_000)
    async with library(store) as desk:
        assert "100 and more saved" in desk.text
        assert [asked for asked in store.asked if asked[0] == "sessions"] == [("sessions", 100, "", 0)]
        for _ in range(8):
            await desk.type("", "pagedown")
            await desk.at_rest()
        await desk.until(lambda: len(desk.list.rows) > desk.list.picker.chosen + 50)
        assert all(limit <= 400 for what, limit, *_ in store.asked if what == "sessions")  # type: ignore[operator]
        assert len({row.id for row in desk.list.rows}) == len(desk.list.rows) < 1000
        await desk.type("number 9876")
        await desk.shows("Chat number 9876", "1 found")


async def test_a_chat_that_moves_up_meanwhile_is_listed_once() -> None:
    store = FakeStore(150)
    async with library(store) as desk:
        store.kept.insert(0, store.kept.pop(120))
        for _ in range(4):
            await desk.type("", "pagedown")
        await desk.until(lambda: len(desk.list.rows) == 150)
        assert len({row.id for row in desk.list.rows}) == 150


async def test_the_highlight_stays_on_its_chat_when_another_moves_up_while_more_are_read() -> None:
    store = FakeStore(150)
    async with library(store) as desk:
        store.closed.clear()
        store.kept.insert(0, store.kept.pop(120))
        await desk.type("", "pagedown", "pagedown", "pagedown")
        highlighted = desk.list.row
        store.closed.set()
        await desk.until(lambda: len(desk.list.rows) == 150)
        assert highlighted is not None
        assert desk.list.row == highlighted


# --- search ----------------------------------------------------------------------------------------------------------


async def test_search_shows_where_it_stands() -> None:
    async with library(FakeStore(), size=(80, 24)) as desk:
        await desk.type("kv")
        await desk.shows("1 found", "MATCH", "what is a kv cache?")
        await desk.type("zzz")
        await desk.shows("no chat contains all these words")
        desk.app.screen.query_one("#search", Input).value = ""
        await desk.shows("7 saved", "TURNS")


async def test_enter_waits_for_what_was_typed_and_opens_that() -> None:
    store = FakeStore()
    opened: list[str] = []
    async with library(store) as desk:
        desk.list.take = lambda row: opened.append(row.id)  # type: ignore[method-assign]
        store.closed.clear()
        await desk.type("bread", "enter")
        assert not opened
        store.closed.set()
        await desk.until(lambda: opened)
        assert opened == ["s1"]


# --- changes ---------------------------------------------------------------------------------------------------------


async def test_rename_in_place() -> None:
    store = FakeStore()
    async with library(store) as desk:
        await desk.type("", "down", "ctrl+r")
        assert "Esc cancels" in desk.text
        field = desk.app.screen.query_one("#name", Input)
        assert field.value == "How do I bake bread?"
        row = next(y for y, line in enumerate(desk.text.splitlines()) if "A fox and a bear" in line)
        assert field.region.y == row + 1
        field.value = "  Sour\x1bdough \n bread "
        await desk.type("", "delete", "enter")
        await desk.until(lambda: store.kept[1].title != "How do I bake bread?")
        assert store.kept[1].title == "Sour␛dough bread"
        assert "Sour␛dough bread" in desk.text
        await desk.type("", "ctrl+r", "x", "escape")
        assert desk.open
        await desk.at_rest()
        assert [what for what, *_ in store.asked].count("rename") == 1
        await desk.type("fox")
        await desk.shows("1 found")


async def test_duplicate_highlights_the_copy() -> None:
    store = FakeStore()
    async with library(store) as desk:
        await desk.type("", "down", "down", "f5")
        await desk.until(lambda: desk.list.row is not None and desk.list.row.id == "copy")
        assert desk.text.count("Regular expre") >= 2


async def test_delete_and_bring_back() -> None:
    store = FakeStore()
    async with library(store) as desk:
        await desk.type("", "down", "delete")
        assert '"How do I bake bread?" deleted; Ctrl+Y restores it' in desk.text
        await desk.type("", "delete")
        await desk.until(lambda: [row.id for row in desk.list.rows] == ["s0", "s3", "s4", "s5", "s6"])
        await desk.type("", "escape", "f4", "ctrl+y")
        await desk.until(lambda: desk.list.row is not None and desk.list.row.id == "s2")
        await desk.type("", "ctrl+y")
        await desk.until(lambda: [row.id for row in desk.list.rows] == [f"s{at}" for at in range(7)])
        assert desk.list.row is not None
        assert desk.list.row.id == "s1"
        await desk.type("", "ctrl+y")
        assert "nothing to restore" in desk.text


async def test_a_title_longer_than_the_screen_leaves_room_for_what_can_be_done() -> None:
    store = FakeStore()
    store.kept[0] = summary(0, "a long title\n" * 400)
    async with library(store, size=(80, 24)) as desk:
        for key, told in (("delete", "deleted; Ctrl+Y restores it"), ("ctrl+y", "restored")):
            await desk.type("", key)
            await desk.until(lambda told=told: told in desk.text)
            assert "Plan a week in Lisbon" in desk.text
            assert "Ctrl+R renames" in desk.text


async def test_only_faults_are_told_in_their_colour() -> None:
    async with library(FakeStore()) as desk:
        told = desk.app.screen.query_one(".problem", Label)
        fault = Color.parse(desk.app.palette.error)
        steps = (("delete", "deleted;", False), ("ctrl+y", "restored", False), ("ctrl+y", "nothing", True))
        for key, text, wrong in steps:
            await desk.type("", key)
            await desk.until(lambda text=text: text in desk.text)
            assert (told.styles.color == fault) is wrong


async def test_a_title_from_elsewhere_is_typed_over_without_its_controls() -> None:
    store = FakeStore()
    store.kept[0] = summary(0, "a\x1b]0;owned\x07b")
    async with library(store) as desk:
        await desk.type("", "ctrl+r")
        assert desk.app.screen.query_one("#name", Input).value == "a␛]0;owned␇b"
        await desk.type("", "enter")
        await desk.at_rest()
        assert "rename" not in [what for what, *_ in store.asked]


async def test_it_can_be_closed_and_opened_in_one_burst() -> None:
    store = FakeStore()
    async with library(store) as desk:
        for key in ("escape", "f4", "f", "o", "x"):
            desk.app.simulate_key(key)
        await desk.shows("1 found")
        await desk.type("", "backspace")
        await desk.type("", "backspace", "backspace")
        await desk.shows("7 saved")


async def test_enter_opens_nothing_where_the_search_failed() -> None:
    store = FakeStore()
    opened: list[str] = []
    async with library(store) as desk:
        desk.list.take = lambda row: opened.append(row.id)  # type: ignore[method-assign]
        store.closed.clear()
        await desk.type("bread", "enter")
        store.broken = "no disk"
        store.closed.set()
        await desk.shows("no disk")
        assert not opened


async def test_del_is_for_the_search_where_there_is_something_to_erase() -> None:
    store = FakeStore()
    async with library(store) as desk:
        await desk.type("fox", "home", "delete")
        assert desk.app.screen.query_one("#search", Input).value == "ox"
        assert len(store.kept) == 7


@pytest.mark.parametrize("size", [(40, 12), (60, 16), (80, 24), (120, 40), (200, 60)])
async def test_it_can_be_used_in_any_terminal(size: tuple[int, int]) -> None:
    store = FakeStore()
    async with library(store, size=size) as desk:
        await desk.shows("A fox and")
        assert "Esc closes" in desk.text
        await desk.type("", "down", "ctrl+r", "!", "enter")
        await desk.until(lambda: store.kept[1].title == "How do I bake bread?!")
        await desk.type("", "escape")
        assert not desk.open


# --- from chat to chat, on a real store ------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for kind in ("CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "sessions.db")
    yield store
    store.close()


def kept(store: Store) -> Callable[[FakeEngine], Chat]:
    """A chat that is kept there."""
    return lambda engine: chat_on(engine, Tuning(seed=1), store=store)


async def replied(desk: Library, text: str, *pieces: str) -> None:
    await desk.sent(text, *pieces)
    desk.engine.end()
    await desk.settle()


async def go(desk: Library, words: str) -> None:
    """Opens the chat with these words in it."""
    await desk.type("", "f4")
    desk.app.screen.query_one("#search", Input).value = words
    await desk.settle()
    await desk.at_rest()
    await desk.type("", "enter")
    await desk.until(lambda: not desk.open)


async def test_enter_goes_on_with_a_chat_as_it_was_looked_at(store: Store) -> None:
    async with library(store, opened=False, chat=kept(store)) as desk:
        await replied(desk, "about a fox", "Once", " upon", " a", " time")
        await desk.type("", "ctrl+l", "ctrl+g", "h")
        await desk.type("", "ctrl+n")
        assert desk.app.query_one(TranscriptView).cursor is None
        await replied(desk, "about bread", "Flour")
        await desk.type("half a message", "f4")
        await desk.at_rest()
        assert "● about bread" in desk.text
        assert "  about a fox" in desk.text
        await desk.type("", "escape")
        asked = len(desk.engine.commands)
        await go(desk, "fox")
        assert "Once upon a time" in desk.text
        assert "about a fox" in desk.header
        assert desk.composer.text == ""
        assert desk.app.query_one(TranscriptView).look == "probability"
        assert all(
            isinstance(command, Render) for command in desk.engine.commands[asked:]
        )  # what is written is counted
        await desk.type("", "ctrl+g")
        assert desk.app.query_one(TranscriptView).cursor is not None
        assert desk.app.query_one(TranscriptView).cursor.index == 2  # type: ignore[union-attr]
        await go(desk, "bread")
        assert desk.composer.text == "half a message"
        await desk.type("", "enter")
        desk.engine.say("There", " was")
        await desk.settle()
        assert "There was" in desk.text


async def test_while_a_reply_streams_nothing_is_lost(store: Store) -> None:
    async with library(store, opened=False, chat=kept(store)) as desk:
        await replied(desk, "about a fox", "Once")
        await desk.type("", "ctrl+n")
        await desk.sent("about bread", "Flour", " and")
        await desk.type("queued", "enter")
        await go(desk, "fox")
        assert "Once" in desk.text
        assert "queued" not in desk.text + desk.composer.text
        await go(desk, "bread")
        assert "Flour and" in desk.text
        assert "queued  queued  waits for your next message" in desk.text
        assert "stopped" in desk.text or desk.chat.conversation.find_reply()[-1].node.finished.reason == "user"  # type: ignore[union-attr]


async def test_a_new_title_is_in_the_header_at_once_and_stays(store: Store) -> None:
    async with library(store, opened=False, chat=kept(store)) as desk:
        await replied(desk, "about a fox", "Once")
        await desk.type("", "f4")
        await desk.at_rest()
        await desk.type("", "ctrl+r", "!", "enter")
        assert "about a fox!" in desk.header
        await desk.until(lambda: "about a fox!" in desk.text)
        await desk.type("", "escape")
        await replied(desk, "and on", "more")
        assert "about a fox!" in desk.header
        await desk.type("", "ctrl+n")
        await go(desk, "fox")
        assert "about a fox!" in desk.header


async def test_the_open_chat_can_be_deleted_and_is_found_again(store: Store) -> None:
    async with library(store, opened=False, chat=kept(store)) as desk:
        await desk.sent("about a fox", "Once", " upon")
        await desk.type("", "f4")
        await desk.at_rest()
        await desk.type("", "delete")
        assert "a new chat is open instead" in " ".join(desk.text.split())
        assert desk.chat.conversation.leaf is None
        await desk.type("", "ctrl+y")
        await desk.until(lambda: desk.list.rows)
        await desk.at_rest()
        await desk.type("", "enter")
        await desk.until(lambda: not desk.open)
        assert "Once upon" in desk.text


async def test_a_new_chat_from_the_list(store: Store) -> None:
    async with library(store, opened=False, chat=kept(store)) as desk:
        await replied(desk, "about a fox", "Once")
        await desk.type("", "f4", "ctrl+n")
        assert not desk.open
        assert "A new chat" in desk.text


async def test_the_model_it_was_with_is_loaded(store: Store, tmp_path: Path) -> None:
    path = named("Other-Q8_0", tmp_path / "m")
    async with library(store, opened=False, chat=kept(store)) as desk:
        info = msgspec.structs.replace(desk.chat.model, name="Other", path=str(path), sha256="0" * 64)  # type: ignore[type-var]
        model, desk.chat.host.model = desk.chat.model, info
        await replied(desk, "about a fox", "Once")
        desk.chat.host.model = model
        await desk.type("", "ctrl+n")
        await go(desk, "fox")
        await desk.until(lambda: len(desk.engine.asked(Load)) == 2)
        assert desk.engine.asked(Load)[-1].spec.path == str(path)
        path.unlink()
        await desk.type("", "ctrl+n")
        await go(desk, "fox")
        await desk.shows("Once")


async def test_a_chat_that_another_termchat_writes_is_read_only_until_something_is_sent(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Store.open(store.path)
    writer = Faked(store=elsewhere)
    monkeypatch.setattr(store._claims, "is_elsewhere", lambda _: writer.chat.busy)
    writer.writing("about a fox", "Once", " upon")
    assert elsewhere.flush()
    try:
        async with library(store, opened=False, chat=kept(store)) as desk:
            await go(desk, "fox")
            await desk.shows("Once upon", "another termchat is writing this chat")
            assert "read-only" in desk.header
            await replied(desk, "and a bear", "There")
            assert "this is a copy of the chat now" in desk.text
            assert "read-only" not in desk.header
            assert [row.turns for row in store.sessions()] == [2, 1]
    finally:
        elsewhere.close()


async def test_a_reply_is_compared_with_one_of_another_chat_which_stays_as_it_is(store: Store) -> None:
    async with library(store, opened=False, chat=kept(store)) as desk:
        await replied(desk, "about a fox", "Once", " upon", " a", " time")
        first = desk.chat.session.current_id
        await desk.type("", "ctrl+n")
        await desk.type("/temperature 1.5", "enter")
        await desk.sent("about bread", "Once", " upon")
        desk.engine.say(" flour", id=7)
        desk.engine.end()
        await desk.settle()
        shown = desk.chat.conversation
        await desk.type("", "ctrl+g", "y", "o")
        await desk.shows("about a fox", "Compare with a reply of another chat")
        await desk.type("fox")
        await desk.until(lambda: not desk.app.screen.looking)  # type: ignore[attr-defined]
        await desk.type("", "enter")
        await desk.shows("Compare with a reply of: about a fox")
        await desk.type("", "enter")
        await desk.shows("the first 2 tokens are identical; then 1 left, 2 right")
        text = " ".join(desk.text.split())
        assert "message about bread │ message about a fox" in text
        assert "temperature 1.5 │ temperature 0.8" in text
        await desk.type("", "escape", "escape", "escape")
        assert desk.chat.conversation is shown
        assert desk.chat.session.current_id != first
