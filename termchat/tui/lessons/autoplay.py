"""Does a step for the reader on the real screen, by the keys and commands that a reader would use."""

from __future__ import annotations

import asyncio
import re
from time import monotonic

from textual import events

from termchat.lessons.lesson import Deed
from termchat.tui.context import ScreenContext
from termchat.tui.draw.list_dialog import ListDialog
from termchat.tui.keys.key import key_of
from termchat.tui.lessons.lesson_words import find_keys

_LOOK = 0.02
_IDLE_LOOKS = 3
_PATIENCE = 600.0
"""Seconds in which what runs must have ended."""
_TAKEN = 10.0
"""Seconds in which a key must have been taken in."""
_STEP, _SLOW = 1.0, 4.0
"""Seconds in which a paused reply should wait again, if it was to go on by one token only; while that is computed, more."""
_ROW = 200
"""Cells of a row of a list, so that nothing of it is cut."""
_WAYS_OUT = 6
"""Presses of Esc that lead back to the composer from anywhere."""


class DeedFailed(Exception):
    """A deed cannot be done now; the message says why."""


class Autoplay:
    """Does deeds on the screen of a chat. `key` is the one that was pressed last, as the app gets it."""

    def __init__(self, context: ScreenContext) -> None:
        self._context, self._app, self._chat = context, context.app, context.chat
        self.key: events.Key | None = None

    async def do(self, deeds: tuple[Deed, ...], pace: float = 0.0) -> None:
        """Do all of them, in order, with `pace` seconds after each key, and a fifth of that after each letter of a text.

        Raises:
            DeedFailed: one of them cannot be done; those before it are.
        """
        for deed in deeds:
            if not deed.steers:
                await self.rest()
            paused, before = self._chat.phase == "paused", self._written
            match deed.kind:
                case "press":
                    await self._press_bound(deed.what)
                case "keys":
                    await self._press(*deed.what.split(), pace=pace)
                case "type":
                    await self._press(*deed.what, pace=pace / 5)
                case "say":
                    await self._focus_composer()
                    self._context.composer.put(deed.what)
                    await self._settle()
                    await self._press_bound("send")
                case "row":
                    await self._find_row(deed.what)
                case "command":
                    await self._run_command(deed.what)
            await asyncio.sleep(_LOOK)
            if paused and deed.kind != "wait":
                await self._wait_for_step(before)

    async def rest(self) -> None:
        """Wait until nothing runs but what waits for the reader, in several looks: between a dialog's end and what comes of it,
        such as a model that loads, nothing does.

        Raises:
            DeedFailed: it does not end.
        """
        end = monotonic() + _PATIENCE
        idle = 0
        while (idle := 0 if self.runs else idle + 1) < _IDLE_LOOKS:
            if monotonic() > end:
                raise DeedFailed("the reply does not end")
            await asyncio.sleep(_LOOK)

    @property
    def _written(self) -> tuple[int | None, int]:
        chat = self._chat.conversation
        return chat.leaf, len(chat.nodes[chat.leaf].ids) if chat.leaf is not None else 0

    async def _wait_for_step(self, before: tuple[int | None, int]) -> None:
        """Wait for a paused reply: one that goes on by a token waits again soon, and the cursor is on what it waits with; one
        that was resumed does not, nor does the cursor of who looks back."""
        chat, mode = self._chat, self._context.tokens
        begin = monotonic()
        while chat.busy:
            computes = chat.phase != "paused" and self._written[1] <= before[1] + 1  # slowly, on another machine
            if monotonic() - begin > (_SLOW if computes else _STEP):
                return
            if self._written != before and chat.phase == "paused" and (mode.pending or not mode.is_open):
                return
            await asyncio.sleep(0.01)

    @property
    def runs(self) -> bool:
        """Whether something runs that does not wait for the reader."""
        chat = self._chat
        if getattr(self._app.screen, "gathers", False):  # the list of models, until it is there
            return True
        if chat.phase in ("paused", "failed", "no model"):
            return False
        waits = bool(chat.turns.queue) and not chat.replies.held
        return chat.phase != "idle" or waits or chat.walks.running or chat.host.waits

    # --- keys ----------------------------------------------------------------------------------------------------------

    async def _press(self, *keys: str, pace: float = 0.0) -> None:
        """Press keys by name, as they come from the terminal, each once the app has handled the one before."""
        for key in keys:
            character = key if len(key) == 1 else {"space": " "}.get(key)
            self.key = events.Key("space" if key == " " else key_of(key) if len(key) == 1 else key, character)
            self._app.post_message(self.key)
            await self._settle()
            if pace:
                await asyncio.sleep(pace)

    async def _settle(self) -> None:
        """Wait until the app has handled every key."""
        came, end = asyncio.Event(), monotonic() + _TAKEN
        self._app.call_later(came.set)
        await came.wait()
        while getattr(self._app, "typing", False) and monotonic() < end:
            await asyncio.sleep(0.005)
        self._context.tick()

    async def _focus_composer(self) -> None:
        """Give the keyboard to the composer, closing what is open.

        Raises:
            DeedFailed: it does not get it.
        """
        screen, chat = self._context, self._chat
        for _ in range(_WAYS_OUT):
            if self._app.screen is not screen:
                self._app.screen.dismiss(None)
                await self._settle()
            elif screen.focused is screen.composer:
                return
            elif chat.walks.running or (chat.busy and screen.tune is None and not screen.tokens.is_open):
                screen.set_focus(screen.composer)
            else:
                await self._press(*find_keys("back"))
        raise DeedFailed("the composer does not get the keyboard")

    async def _press_bound(self, id: str) -> None:
        """Press the key that is bound to an id; run the command of that name where none is.

        Raises:
            DeedFailed: there is nothing to send.
        """
        if id == "send":
            await self._focus_composer()
            if self._context.composer.is_blank:
                raise DeedFailed("nothing is written that could be sent")
            if self._context.composer.popup.completion is not None:
                self._context.composer.popup.put(None)
        elif id == "tokens" and self._context.tokens.is_open:
            self._context.tokens.leave()  # the cursor is to be where it is for a reader who comes from the chat
        if keys := find_keys(id):
            await self._press(*keys)
        else:
            await self._run_command(f"/{id}")

    async def _find_row(self, name: str) -> None:
        """Move down in the open list to the row with these words.

        Raises:
            DeedFailed: no list is open, or it has no such row.
        """
        named = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        shown = self._app.screen
        if not isinstance(shown, ListDialog):
            raise DeedFailed("no list is open")
        for _ in range(shown.picker.count):
            at = shown.picker.chosen
            if any(named.search(line.text) for line in shown.draw(range(at, at + 1), at, _ROW)):
                return
            await self._press("down")
        raise DeedFailed(f"no row below has {name!r}")

    async def _run_command(self, command: str) -> None:
        """Run a slash command.

        Raises:
            DeedFailed: it is none.
        """
        await self._focus_composer()
        if self._context.composer.text == command:  # the step has put it there, to be sent
            self._context.composer.clear()
        if not self._context.composer.commands(command):
            raise DeedFailed(f"{command} is not a command")
        await self._settle()
