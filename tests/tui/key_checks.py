"""Pressing keys where they work, and looking at what each of them does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic

from termchat.tui.draw.list_dialog import ListDialog
from termchat.tui.keys.key import keys_of
from termchat.tui.keys.tables import APP, ARROWS, BIG, CHAT, DIALOG, KEYS, TOKENS, WALKS, KeyGroup
from tests.tui.running_app import FRAME, PATIENCE, Desktop

Sees = Callable[[], object]
ELSEWHERE = {key.id for table in (CHAT, APP, TOKENS, BIG, WALKS) for key in table}
"""Pressed in `test_every_key`."""


class Place:
    """Where the keys of a group work. `way`, keys, then `open` lead there from the chat, and do so anew after a
    key has closed the dialog; with neither one is there."""

    def __init__(
        self, desk: Desktop, group: KeyGroup, *way: str, open: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        self.desk, self.group, self._way, self._open = desk, group, way, open
        self._pressed: set[tuple[str, str]] = set()

    @property
    def here(self) -> bool:
        return not (self._way or self._open) or getattr(self.desk.app.screen, "KEYS", "") == self.group.title

    @property
    def row(self) -> int:
        screen = self.desk.app.screen
        assert isinstance(screen, ListDialog)
        return screen.picker.chosen

    def shows(self, text: str) -> Sees:
        return lambda: text in self.desk.text

    def lacks(self, text: str) -> Sees:
        return lambda: text not in self.desk.text

    def at(self, row: int) -> Sees:
        return lambda: self.here and self.row == row

    def gone(self) -> Sees:
        return lambda: not self.here

    async def enter(self) -> None:
        """Goes there."""
        if not self.here:
            await self.desk.type("", *self._way)
            if self._open is not None:
                await self._open()
            await self.desk.settle()
            await self.until(lambda: self.here, "the way there")

    async def press(self, id: str, sees: Sees, *before: str, key: str = "") -> None:
        """Each key of that id has something be seen that was not; `before` is pressed before it. With `key` only that one,
        which may be one that the table just describes."""
        for name in (key,) if key else keys_of(KEYS[id]):
            await self.enter()
            await self.desk.type("", *before)
            assert not sees(), (id, name, "is seen before the key", self.desk.text)
            await self.desk.type("", name)
            await self.until(sees, f"{id}: {name} does nothing")
            self._pressed |= {(id, one) for one in keys_of(KEYS[id]) if one == name or name not in keys_of(KEYS[id])}

    async def until(self, sees: Sees, otherwise: str) -> None:
        """Waits for something to be seen."""
        end = monotonic() + PATIENCE
        while not sees():
            assert monotonic() < end, (otherwise, self.desk.text)
            await asyncio.sleep(FRAME)
            await self.desk.settle()

    async def walk(self) -> None:
        """The keys that move in every list."""
        await self.enter()
        screen = self.desk.app.screen
        assert isinstance(screen, ListDialog)
        screen.action_move("first")
        await self.press("list-down", self.at(1))
        await self.press("list-up", self.at(0))
        await self.press("list-page-down", lambda: self.row >= 2)
        await self.press("list-page-up", self.at(0))

    async def close(self) -> None:
        await self.press("close", self.gone())

    def done(self) -> None:
        """Nothing was left out."""
        tables = (self.group.table, *(table for table in (ARROWS, DIALOG) if table in self.group.at))
        wanted = {
            (key.id, name) for table in tables for key in table if key.id not in ELSEWHERE for name in keys_of(key)
        }
        left = sorted(wanted - self._pressed)
        assert not left, f"{self.group.title}: nobody presses {left}"


Presses = Callable[[KeyGroup, Path], Awaitable[Place]]
"""Presses all keys of a group, with a folder for what it needs; returns where."""
