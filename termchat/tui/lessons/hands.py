"""Carries out the deeds of a step on the real screen, by the keys and commands that a reader would use."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from time import monotonic

from textual import events

from termchat.decoding.samplers import KNOBS, KnobError
from termchat.lessons.deeds import STEERING, Deed, DeedKind
from termchat.tui.composer.composer import Composer
from termchat.tui.dialogs.base import ListDialog
from termchat.tui.keys.key import key_of, keys_of
from termchat.tui.keys.tables import CHAT, COMPOSER
from termchat.tui.lessons.lesson_words import keys_for
from termchat.tui.screen.parts import Parts
from termchat.tui.transcript.cursor.token_order import TokenRef

_LOOK = 0.05
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


class Hands:
    """Does what deeds say; `answers` gets the answer to a question."""

    def __init__(self, parts: Parts, answers: Callable[[float], object]) -> None:
        self._parts, self._answers = parts, answers
        self._app = parts.screen.app

    async def do(self, deeds: tuple[Deed, ...]) -> None:
        """All of them, in order.

        Raises:
            DeedFailed: one of them cannot be done; those before it are.
        """
        for deed in deeds:
            if deed.kind not in STEERING:
                await self.rest()
            paused, before = self._parts.chat.phase == "paused", self._written
            await self._DOES[deed.kind](self, deed)
            await asyncio.sleep(_LOOK)
            if paused:
                await self._steps_on(before)

    async def rest(self) -> None:
        """Until nothing runs but what waits for the reader, in several looks: between a dialog's end and what comes of it, such
        as a model that loads, nothing does.

        Raises:
            DeedFailed: it does not end.
        """
        end = monotonic() + _PATIENCE
        idle = 0
        while (idle := 0 if self._runs else idle + 1) < _IDLE_LOOKS:
            if monotonic() > end:
                raise DeedFailed("the reply does not end")
            await asyncio.sleep(_LOOK)

    @property
    def _written(self) -> tuple[int | None, int]:
        chat = self._parts.chat.conversation
        return chat.leaf, len(chat.nodes[chat.leaf].ids) if chat.leaf is not None else 0

    async def _steps_on(self, before: tuple[int | None, int]) -> None:
        """A paused reply that goes on by a token waits again soon, and the cursor is on what it waits with; one that was
        resumed does not, nor does the cursor of who looks back."""
        chat, mode = self._parts.chat, self._parts.tokens.mode
        begin = monotonic()
        while chat.busy:
            computes = chat.phase != "paused" and self._written[1] <= before[1] + 1  # slowly, on another machine
            if monotonic() - begin > (_SLOW if computes else _STEP):
                return
            if self._written != before and chat.phase == "paused" and (mode.pending or not mode.open):
                return
            await asyncio.sleep(0.01)

    @property
    def _runs(self) -> bool:
        chat = self._parts.chat
        if getattr(self._app.screen, "gathers", False):  # the list of models, until it is there
            return True
        if chat.phase in ("paused", "failed", "no model"):
            return False
        waits = bool(chat.turns.queue) and not chat.replies.held
        return chat.phase != "idle" or waits or chat.walks.running or chat.host.waits

    # --- keys ----------------------------------------------------------------------------------------------------------

    async def press(self, *keys: str) -> None:
        """Keys by name, as they come from the terminal, each once the one before has been taken in."""
        for key in keys:
            character = key if len(key) == 1 else {"space": " "}.get(key)
            name = key_of(key) if len(key) == 1 else key
            event = events.Key(name, character)
            self._app.post_message(event)
            await asyncio.sleep(0)
            await self._taken()

    async def _taken(self) -> None:
        """Until every key has been taken in."""
        end = monotonic() + _TAKEN
        await asyncio.sleep(0.02)
        while getattr(self._app, "typing", False) and monotonic() < end:
            await asyncio.sleep(0.01)
        self._parts.do(lambda: None)

    async def _compose(self) -> None:
        """Gives the keyboard to the composer, closing what is open.

        Raises:
            DeedFailed: it does not get it.
        """
        screen = self._parts.screen
        for _ in range(_WAYS_OUT):
            if self._app.screen is not screen:
                self._app.screen.dismiss(None)
                await self._taken()
            elif isinstance(screen.focused, Composer) and screen.focused is self._parts.composer:
                return
            elif self._parts.chat.walks.running:
                screen.set_focus(self._parts.composer)
            else:
                back = next(key for key in CHAT if key.id == "back")
                if self._parts.chat.busy and self._parts.desk.tune is None and not self._parts.tokens.mode.open:
                    screen.set_focus(self._parts.composer)
                else:
                    await self.press(keys_of(back)[0])
        raise DeedFailed("the composer does not get the keyboard")

    async def _send(self, _deed: Deed) -> None:
        await self._compose()
        if self._parts.composer.is_blank:
            raise DeedFailed("nothing is written that could be sent")
        if self._parts.composer.popup.completion is not None:
            self._parts.composer.popup.put(None)
        send = next(key for key in COMPOSER if key.id == "send")
        await self.press(keys_of(send)[0])

    async def _say(self, deed: Deed) -> None:
        await self._compose()
        self._parts.composer.put(deed.what)
        await self._taken()
        await self._send(deed)

    async def _type(self, deed: Deed) -> None:
        await self.press(*("space" if letter == " " else letter for letter in deed.what))

    async def _press(self, deed: Deed) -> None:
        if deed.what == "tokens" and self._parts.tokens.mode.open:
            self._parts.tokens.leave()  # the cursor is to be where it is for whoever comes from the chat
        mode, _, knob = deed.what.partition(".")
        wanted = keys_for(deed.what)
        if not wanted:
            command = f"/{deed.what}"  # what has no key is a command
            await self._command(deed._replace(what=command))
            return
        if knob and self._parts.desk.tune is not None:
            wanted = wanted[1:]
        if knob and mode != "tune":
            raise DeedFailed(f"{deed.what} is no key")
        await self.press(*wanted)

    async def _keys(self, deed: Deed) -> None:
        await self.press(*deed.keys)

    async def _row(self, deed: Deed) -> None:
        """Down in the list that is open, to the row with these words."""
        named = re.compile(rf"(?<!\w){re.escape(deed.what)}(?!\w)")
        shown = self._app.screen
        if not isinstance(shown, ListDialog):
            raise DeedFailed("no list is open")
        for _ in range(shown.picker.count):
            at = shown.picker.chosen
            if any(named.search(line.text) for line in shown.draw(range(at, at + 1), at, _ROW)):
                return
            await self.press("down")
        raise DeedFailed(f"no row below has {deed.what!r}")

    async def _set(self, deed: Deed) -> None:
        try:
            value = KNOBS[deed.what].parse(deed.value)
        except KnobError as error:
            raise DeedFailed(str(error)) from error
        self._parts.do(lambda: self._parts.desk.knobs.put(deed.what, value))
        if self._parts.desk.knobs.error:
            raise DeedFailed(self._parts.desk.knobs.error)

    async def _command(self, deed: Deed) -> None:
        await self._compose()
        if self._parts.composer.text == deed.what:  # the step has put it there, to be sent
            self._parts.composer.clear()
        if not self._parts.composer.commands(deed.what):
            raise DeedFailed(f"{deed.what} is not a command")
        await self._taken()

    async def _force(self, deed: Deed) -> None:
        """A candidate of the token at hand, by its text."""
        parts = self._parts
        mode, paused = parts.tokens.mode, parts.chat.paused
        shown = mode.shown() if mode.open else None
        token = shown.token if shown is not None else paused.token if paused is not None else None
        if token is None:
            raise DeedFailed("no reply is paused, and token mode is not open")
        number = next((at for at, one in enumerate(token.candidates, 1) if one.text == deed.what), 0)
        if number:
            await self._app.run_action(f"choose({number})", parts.screen)
        elif paused is not None:
            parts.do(lambda: parts.chat.replies.force_text(deed.what))
        else:
            raise DeedFailed(f"{deed.what!r} is not among the candidates")
        await self._taken()

    async def _cursor(self, deed: Deed) -> None:
        """Puts the cursor of token mode on a token of the last reply."""
        parts = self._parts
        spans = parts.chat.conversation.find_reply()
        refs = [TokenRef(span.node.number, at) for span in spans for at in range(span.count)]
        number = int(deed.number)
        if not -len(refs) <= number < len(refs):
            raise DeedFailed(f"the reply has {len(refs)} tokens, and none with the number {number}")
        if not parts.tokens.mode.open and not parts.tokens.enter():
            raise DeedFailed("there are no tokens")
        await self._taken()
        parts.tokens.transcript.set_cursor(refs[number])
        await self._taken()

    async def _wait(self, _deed: Deed) -> None:
        await self.rest()

    async def _choose(self, deed: Deed) -> None:
        self._answers(deed.number)

    _DOES: dict[DeedKind, Callable[[Hands, Deed], Awaitable[None]]] = {  # noqa: RUF012 - a table, never changed
        "send": _send,
        "say": _say,
        "type": _type,
        "press": _press,
        "keys": _keys,
        "row": _row,
        "set": _set,
        "command": _command,
        "force": _force,
        "cursor": _cursor,
        "wait": _wait,
        "choose": _choose,
    }
