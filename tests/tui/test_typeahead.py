"""Keys that come at once are taken in one after the other, each by who has the keyboard once the one before it is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import cycle
from time import monotonic
from typing import Any

import pytest
from textual import events
from textual.keys import _character_to_key
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.changes import Full
from termchat.conversation.session import Session
from termchat.decoding import walk_plan
from termchat.decoding.group import BeamSettings
from termchat.tui.keys.tables import GROUPS
from termchat.tui.lists.branch_tree import ReplyPicker
from termchat.tui.lists.small_dialogs import FullDialog
from termchat.tui.screen.actions import DIALOGS
from termchat.tui.terminal import input_stream
from termchat.tui.terminal.input_stream import InputStream, TypeAhead, burst_of
from tests.tui.made_lessons import answered, at_step, go_to, learner, strip
from tests.tui.running_app import FRAME, PATIENCE, Desktop, command, desktop, talked
from tests.tui.token_mode import looking
from tests.tui.walks import walking

NAMES = {"\x7f": "backspace", "\x01": "ctrl+a", "\x05": "ctrl+e", "\x0b": "ctrl+k", "\r": "enter", "\x1b": "escape"}
EDITED = "abcdef\x7f\x7f\x7fxyz\x7f!\x01Q\x05W"


async def at_once(desk: Desktop, text: str) -> None:
    """All these keys, as one read of the terminal brings them."""
    for character in text:
        pressed(desk, NAMES.get(character) or _character_to_key(character), character)
    await desk.settle()


def pressed(desk: Desktop, key: str, character: str | None = None) -> None:
    """A key as the terminal's thread posts it; nobody waits for what it does."""
    character = character or (key if len(key) == 1 else None)
    event = events.Key(key, character if character and character.isprintable() else None)
    event.set_sender(desk.app)
    desk.app.post_message(event)


async def ended(desk: Desktop) -> None:
    """Waits until the app has ended."""
    end = monotonic() + PATIENCE
    while desk.app.is_running:
        assert monotonic() < end
        await asyncio.sleep(FRAME)


async def test_what_is_edited_while_it_is_written() -> None:
    async with desktop() as desk:
        await at_once(desk, EDITED)
        assert desk.composer.text == "Qabcxy!W"


async def test_the_app_says_while_a_key_is_on_its_way() -> None:
    async with desktop() as desk:
        assert not desk.app.typing
        pressed(desk, "f1")
        waits = []
        for _ in range(20):
            await asyncio.sleep(0)
            waits.append(desk.app.typing)
        assert any(waits)
        await desk.settle()
        assert not desk.app.typing


async def test_in_a_dialog() -> None:
    async with desktop() as desk:
        await desk.sent("Hello", "So")
        await desk.type("", "ctrl+s")
        field = desk.app.screen.query_one(Input)
        await at_once(desk, "\x01\x0b" + EDITED)
        assert field.value == "Qabcxy!W"


async def test_keys_go_to_what_the_ones_before_them_opened() -> None:
    async with desktop() as desk:
        await desk.sent("Hello", "So")
        await at_once(desk, "/prefill\x1b\rA fox and a bear\r")
        assert desk.composer.text == ""
        assert desk.chat.prefill == "A fox and a bear"


@pytest.mark.parametrize("name", DIALOGS)
async def test_keys_wait_for_a_dialog_until_it_is_made(name: str) -> None:
    """A program may open one while keys come; what the keys ask for has to be there by then."""
    async with desktop() as desk:
        await desk.sent("Hello", "So", " it", " is")
        desk.engine.end()
        await desk.settle()
        desk.app.screen.action_dialog(name)  # type: ignore[attr-defined]
        for key in ("left", "right", "down", "tab", "x", "f2", "backspace"):
            pressed(desk, key)
        await desk.settle()


async def test_on_the_way_out_no_key_does_anything() -> None:
    async with desktop() as desk:
        await desk.sent("Hello", "So", " it", " is")
        await desk.type("abc")
        desk.app.call_later(desk.app.leave)
        for key in ("ctrl+g", "ctrl+f", "ctrl+t", "f4", "left", "enter", "x", "ctrl+p"):
            pressed(desk, key)
        await ended(desk)
    assert desk.app.return_code == 0
    assert len(desk.engine.generated) == 1


async def test_what_the_widgets_are_still_told_while_they_go_is_no_failure() -> None:
    async with desktop() as desk:
        desk.app.leave()
        desk.app.screen.call_next(lambda: desk.app.query_one("#nowhere", Input))
        await ended(desk)
    assert desk.app.return_code == 0


async def test_a_paste_comes_where_it_was_pasted() -> None:
    async with desktop() as desk:
        for event in (
            events.Key("a", "a"),
            events.Key("backspace", None),
            events.Paste("pasted"),
            events.Key("!", "!"),
        ):
            event.set_sender(desk.app)
            desk.app.post_message(event)
        await desk.settle()
        assert desk.composer.text == "pasted!"


async def test_a_key_just_after_one_that_leaves_goes_where_it_would_go_later() -> None:
    """However far the news of who has the keyboard has come by then."""
    async with desktop() as desk:
        await desk.sent("Hello", "So")
        screen = desk.app.screen
        for turns in range(0, 30, 2):  # of the event loop
            await desk.type("", "ctrl+g")
            pressed(desk, "escape")
            for _ in range(turns):
                await asyncio.sleep(0)
            pressed(desk, "ctrl+t")
            pressed(desk, "k")
            await desk.settle()
            assert screen.place == "TUNE", turns  # type: ignore[attr-defined]
            assert desk.composer.text == ""
            await desk.type("", "ctrl+t")
        assert len(desk.engine.generated) == 1


class Stuck:
    """A widget that takes what it is given and does nothing with it; it was taken away."""

    def call_later(self, *_: object) -> bool:
        return True


class Late:
    """An app that only does what comes of itself, by the clock."""

    def call_later(self, callback: Callable[..., Awaitable[None]], *arguments: object) -> bool:
        self._doing = asyncio.ensure_future(callback(*arguments))
        return True


async def test_who_never_is_done_with_a_key_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_stream, "PATIENCE_S", 0.05)
    stuck, taken = Stuck(), list[events.Event]()
    third = asyncio.Event()

    async def take(event: events.Event) -> Any:
        taken.append(event)
        if len(taken) == 3:
            third.set()
        return stuck

    typed = TypeAhead(Late(), take)  # type: ignore[arg-type]
    keys = [events.Key(key, key) for key in "abc"]
    await typed.add(keys[0])
    assert taken == []
    await typed.begin()
    for key in keys[1:]:
        await typed.add(key)
    assert taken == keys[:1]
    await asyncio.wait_for(third.wait(), 60)
    assert taken == keys


async def test_a_key_waits_for_the_one_before_it_however_long_that_was_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does after a key that kept the whole app busy: what was typed meanwhile comes to it only then."""
    monkeypatch.setattr(input_stream, "PATIENCE_S", 0.05)
    stuck, taken = Widget(), list[events.Event]()
    monkeypatch.setattr(stuck, "call_later", lambda *_: True)  # it never is done with a key
    second = asyncio.Event()

    async def take(event: events.Event) -> Any:
        taken.append(event)
        if len(taken) == 2:
            second.set()
        return stuck

    typed = TypeAhead(Late(), take)  # type: ignore[arg-type]
    await typed.begin()
    keys = [events.Key(key, key) for key in "ab"]
    await typed.add(keys[0])
    await asyncio.sleep(0.2)
    await typed.add(keys[1])
    assert taken == keys[:1]
    await asyncio.wait_for(second.wait(), 60)
    assert taken == keys


async def test_what_leads_nowhere_else_lets_the_next_follow_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_stream, "PATIENCE_S", 0.05)
    stuck, taken = Stuck(), list[events.Event]()
    last = asyncio.Event()

    async def take(event: events.Event) -> Any:
        taken.append(event)
        if event.key == "d":
            last.set()
        return stuck if event.key == "enter" else None

    typed = TypeAhead(Late(), take)  # type: ignore[arg-type]
    await typed.begin()
    keys = [events.Key(key, key) for key in ("a", "b", "enter", "c", "d")]
    for key in keys:
        await typed.add(key)
    assert taken == keys[:3]
    await asyncio.wait_for(last.wait(), 60)
    assert taken == keys


# --- where letters are keys ----------------------------------------------------------------------------------------------


def read_at_once(text: str) -> list[Message]:
    """The events of a text that comes in one read of the terminal, and of the silence behind it."""
    stream = InputStream()
    return [*stream.read(text, 1.0), *stream.rest(1.0)]


async def write_at_once(desk: Desktop, text: str) -> None:
    """The text comes in one read of the terminal, and silence after it."""
    for event in read_at_once(text):
        event.set_sender(desk.app)
        desk.app.post_message(event)
    await desk.settle()


Opens = Callable[[], AbstractAsyncContextManager[Desktop]]


@asynccontextmanager
async def after(*keys: str) -> AsyncIterator[Desktop]:
    """A chat with a reply, after these keys."""
    async with desktop() as desk:
        await talked(desk, ("hi", " one two"))
        await desk.type("", *keys)
        yield desk


@asynccontextmanager
async def below(show: Callable[[Desktop], Screen[Any]]) -> AsyncIterator[Desktop]:
    async with after() as desk:
        desk.app.push_screen(show(desk))
        await desk.settle()
        yield desk


@asynccontextmanager
async def searching() -> AsyncIterator[Desktop]:
    async with desktop() as desk:
        desk.chat.walks.start(walk_plan.beams(BeamSettings(2)), text="The capital of France is")
        await desk.settle()
        desk.engine.look(" Paris", " located", dropped=(" a",))
        await desk.settle()
        yield desk


@asynccontextmanager
async def on_strip(number: int = 1) -> AsyncIterator[Desktop]:
    """On the strip of a lesson, at a step."""
    async with learner() as desk:
        if number > 1:
            await asked(desk, number)
        desk.composer.clear()
        await desk.type("", "ctrl+space")
        yield desk


async def asked(desk: Desktop, number: int) -> None:
    """Goes to a step of the first lesson."""
    played = desk.app.learning.strip
    assert played is not None
    go_to(played, number)
    await desk.settle()


@asynccontextmanager
async def commanded(text: str) -> AsyncIterator[Desktop]:
    async with after() as desk:
        await command(desk, text)
        yield desk


@asynccontextmanager
async def queued() -> AsyncIterator[Desktop]:
    async with desktop() as desk:
        await desk.type("go", "enter")
        await desk.type("more", "enter")
        await command(desk, "/queue")
        yield desk


VIEWS: dict[str, Opens] = {
    "TUNE": partial(after, "ctrl+t"),
    "TOKEN MODE": partial(after, "ctrl+g"),
    "TUNE, in token mode": partial(after, "ctrl+g", "ctrl+t"),
    "WALKS": partial(walking, 2),
    "WALKS, token mode in one": lambda: walked("f"),
    "WALKS, where they part": lambda: walked("tab"),
    "WALKS, TUNE of one": lambda: walked("t"),
    "WALKS, a table of a grid": partial(
        walking, plan=walk_plan.grid(walk_plan.parse_grid(["temperature 0 1", "top_p 0.5 1"]), 1)
    ),
    "WALKS, the beams": searching,
    "BIG VIEW": partial(after, "f6"),
    "BIG VIEW, token mode": partial(after, "f6", "ctrl+g"),
    "LESSON": on_strip,
    "LESSON, a question with answers": partial(on_strip, 2),
    "BRANCHES": partial(after, "ctrl+g", "y"),
    "REPLIES": lambda: below(lambda desk: ReplyPicker(desk.chat.conversation, desk.app.palette, lambda *_: None)),
    "THEMES": partial(after, "f9"),
    "PERSONAS": partial(after, "f5"),
    "PRESETS": partial(after, "f10"),
    "LESSONS": partial(after, "ctrl+space"),
    "CONTEXT FULL": lambda: below(lambda _: FullDialog(Full(Session(), "more", None, 0, None, 2))),
    "QUEUE": queued,
    "READING": partial(commanded, "/help"),
    "READING, the tokens of a reply": partial(after, "ctrl+g", "T"),
    "COMPARE": partial(after, "ctrl+r"),
    "START WALKS, on a row of choices": partial(after, "ctrl+y"),
}
"""By the place whose keys are letters, and by what is special in it."""
FORM = "MODEL SETTINGS"
"""What is typed there stays there: each of its rows has a value."""


@asynccontextmanager
async def walked(*keys: str) -> AsyncIterator[Desktop]:
    async with walking(2) as desk:
        await desk.type("", *keys)
        yield desk


def test_every_place_whose_letters_are_keys_is_written_in() -> None:
    assert {view.split(",")[0] for view in VIEWS} | {FORM} == {group.title for group in GROUPS if not group.written}


@pytest.mark.parametrize(("view", "text"), zip(VIEWS, cycle(["hello zap 12", "/max_tokens 12"]), strict=False))
async def test_what_comes_at_once_is_text_wherever_letters_are_keys(view: str, text: str) -> None:
    async with VIEWS[view]() as desk:
        before, nodes = desk.chat.tuning, len(desk.chat.conversation.nodes)
        walks = desk.chat.walks.shown
        await write_at_once(desk, text)
        assert desk.app.focused is desk.composer
        assert desk.composer.text == text
        assert (desk.chat.tuning, len(desk.chat.conversation.nodes)) == (before, nodes)
        assert desk.chat.walks.shown is walks


@pytest.mark.parametrize("view", VIEWS)
async def test_a_slash_that_is_typed_opens_the_composer_wherever_letters_are_keys(view: str) -> None:
    async with VIEWS[view]() as desk:
        await desk.type("/max_tokens 12", "enter")
        assert desk.chat.tuning.max_tokens == 12
        assert not desk.chat.turns.queue or view == "QUEUE"


@pytest.mark.parametrize("view", [view for view in VIEWS if "," not in view])
async def test_a_paste_is_text_wherever_letters_are_keys(view: str) -> None:
    async with VIEWS[view]() as desk:
        paste = events.Paste("hello\nx")
        paste.set_sender(desk.app)
        desk.app.post_message(paste)
        await desk.settle()
        assert desk.composer.text == "hello\nx"


@pytest.mark.parametrize(
    ("keys", "way"),
    [
        (["ctrl+t"], "tune · Esc to type"), (["ctrl+g"], "token mode · Esc to type"), (["f6"], "full view · Esc to type"),
        ([], "write a message"),
    ],
)  # fmt: skip
async def test_the_composer_says_how_to_type(keys: list[str], way: str) -> None:
    async with after(*keys) as desk:
        assert f"› {way}" in desk.text
        await desk.type("", *(["escape"] * len(keys)))
        assert "› write a message" in desk.text


async def test_the_walks_say_how_to_type() -> None:
    async with walking(2) as desk:
        assert "› walks · / to type" in desk.text


async def test_the_line_above_a_draft_says_how_to_type() -> None:
    async with looking() as desk:
        assert "── token mode · Esc to type ──" in desk.text
        assert "› draft" in desk.text
        await desk.type("", "escape")
        assert "Esc to type" not in desk.text


async def test_a_number_that_comes_at_once_is_typed_where_numbers_are() -> None:
    async with after("ctrl+t") as desk:
        await write_at_once(desk, "0.25\r")
        assert desk.chat.tuning.temperature == 0.25
        paste = events.Paste("0.75")
        paste.set_sender(desk.app)
        desk.app.post_message(paste)
        await desk.type("", "enter")
        assert desk.chat.tuning.temperature == 0.75
        assert desk.composer.text == ""
    async with after("ctrl+space") as desk:
        await write_at_once(desk, "12")
        assert "Before the first token" in desk.text
        assert desk.composer.text == ""


@pytest.mark.parametrize("pasted", [False, True])
async def test_what_comes_at_once_in_a_form_is_its_own(pasted: bool) -> None:
    async with after("ctrl+y", *["right"] * 4, "down") as desk:
        await desk.type("", "delete")
        text = r"answer: /\d+/"
        if pasted:
            paste = events.Paste(text)
            paste.set_sender(desk.app)
            desk.app.post_message(paste)
            await desk.settle()
        else:
            await write_at_once(desk, text)
        assert text in desk.text
        assert desk.composer.text == ""


async def test_a_key_that_is_held_down_is_no_text() -> None:
    async with looking() as desk:
        at = desk.app.query_one("TranscriptView").cursor  # type: ignore[attr-defined]
        await write_at_once(desk, "hhh")
        assert desk.app.query_one("TranscriptView").cursor.index == at.index - 3  # type: ignore[attr-defined]
        assert desk.composer.text == "draft"


async def test_letters_between_other_keys_are_keys() -> None:
    async with looking() as desk:
        await write_at_once(desk, "h\x1b[Dh")
        assert desk.composer.text == "draft"
    assert [burst_of(event) for event in read_at_once("ab\x1b[Dc")] == ["ab", "ab", "", ""]  # type: ignore[arg-type]


@pytest.mark.parametrize("starved", [False, True])
def test_keys_that_a_person_presses_are_keys_however_soon_they_follow_a_burst(starved: bool) -> None:
    """Also where nobody had time to look between them."""
    stream, came = InputStream(), list[Message]()
    for text, silence in (("h", 1.0), ("j", 0.02), ("k", 0.001), ("l", 0.02), ("ab", 0.02), ("c", 0.02), ("\r", 0.02)):
        came += [] if starved else stream.rest(silence)
        came += stream.read(text, silence)
    assert [(event.key, burst_of(event)) for event in came if isinstance(event, events.Key)] == [
        ("h", ""), ("j", ""), ("k", ""), ("l", ""), ("a", "ab"), ("b", "ab"), ("c", ""), ("enter", ""),
    ]  # fmt: skip


async def test_token_mode_is_not_left_by_the_key_that_enters_it() -> None:
    async with after("ctrl+g") as desk:
        await desk.type("", "ctrl+g", "ctrl+g", "v")
        assert desk.app.screen.place == "TOKEN MODE"  # type: ignore[attr-defined]
        assert desk.composer.text == ""
        await desk.type("", "ctrl+t", "ctrl+g")
        assert desk.app.screen.place == "TOKEN MODE"  # type: ignore[attr-defined]


async def test_digits_in_a_lesson_never_end_up_behind_its_text() -> None:
    """The second question has three answers; whoever takes it for a number types three digits."""
    async with learner() as desk:
        await asked(desk, 2)
        desk.composer.put("The sea is")
        await desk.type("", "enter")
        await answered(desk, " blue")
        assert "› 1-3 answers the lesson · or write a message" in desk.text
        await desk.type("2")
        await at_step(desk, 3)
        assert "› digits answer the lesson · or write a message" in desk.text
        await desk.type("00")
        assert "00▏" in strip(desk)
        assert desk.composer.text == ""


async def test_a_digit_that_answers_nothing_in_a_lesson_is_no_message_either() -> None:
    async with learner() as desk:
        await desk.type("5")
        assert desk.composer.text == "The sea is"
        assert "the lesson asks nothing now" in desk.text
        desk.composer.clear()
        await desk.type(" 7 seas")
        assert desk.composer.text == " 7 seas"


async def test_a_number_that_comes_in_token_mode_answers_the_question_of_a_lesson() -> None:
    async with learner() as desk:
        await asked(desk, 2)
        await desk.type("", "enter")
        await answered(desk, " blue")
        await desk.type("2", "ctrl+r")
        await at_step(desk, 3)
        await answered(desk, " blue")
        await desk.type("", "ctrl+g")
        await write_at_once(desk, "40")
        assert "40▏" in strip(desk)
        assert desk.composer.text == ""
