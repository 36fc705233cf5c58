"""Keys that come at once are taken in one after the other, each by who has the keyboard once the one before it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from textual import events
from textual.keys import _character_to_key
from textual.widgets import Input

from termchat.tui.screen.dialog_table import DIALOGS
from termchat.tui.terminal.typeahead import TypeAhead
from tests.tui.running_app import FRAME, PATIENCE, Desktop, desktop

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
    """A widget that takes what it is given and does nothing with it, or an app whose time goes by when `later` is called."""

    _parent = None  # it was taken away

    def __init__(self) -> None:
        self.later: list[Callable[[], Awaitable[None]]] = []

    def call_later(self, *_: object) -> bool:
        return True

    def set_timer(self, _delay: float, callback: Callable[[], Awaitable[None]]) -> SimpleNamespace:
        self.later.append(callback)
        return SimpleNamespace(stop=lambda: None)


async def test_who_never_is_done_with_a_key_holds_up_nobody() -> None:
    stuck, app, taken = Stuck(), Stuck(), []

    async def take(event: events.Event) -> Any:
        taken.append(event)
        return stuck

    typed = TypeAhead(app, take)  # type: ignore[arg-type]
    await typed.begin()
    keys = [events.Key(key, key) for key in "abc"]
    for key in keys:
        await typed.add(key)
    assert taken == keys[:1]
    await app.later[0]()
    await app.later[0]()  # too late: another key is on its way now
    assert taken == keys[:2]
    await app.later[1]()
    assert taken == keys


async def test_what_leads_nowhere_else_lets_the_next_follow_at_once() -> None:
    stuck, app, taken = Stuck(), Stuck(), []

    async def take(event: events.Event) -> Any:
        taken.append(event)
        return stuck if event.key == "enter" else None

    typed = TypeAhead(app, take)  # type: ignore[arg-type]
    await typed.begin()
    keys = [events.Key(key, key) for key in ("a", "b", "enter", "c", "d")]
    for key in keys:
        await typed.add(key)
    assert taken == keys[:3]
    await app.later[0]()
    assert taken == keys
