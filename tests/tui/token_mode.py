"""The app in token mode, on a reply whose tokens are kept in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from termchat.tui.transcript import TranscriptView
from tests.tui.running_app import Desktop, desktop

WORDS = ("Once", " upon", " a", " time", ".\n", "A", " fox", " met", " a", " bear", ".")


@asynccontextmanager
async def looking(size: tuple[int, int] = (120, 40), *, ended: bool = True) -> AsyncIterator[Desktop]:
    """A desktop whose reply is over, in token mode, the cursor on the last token."""
    async with desktop(size) as desk:
        desk.chat.session.kept = {}
        await desk.sent("tell me", *WORDS)
        if ended:
            desk.engine.end()
            await desk.settle()
        await desk.type("draft", "ctrl+g")
        yield desk


def index(desk: Desktop) -> int:
    cursor = desk.app.query_one(TranscriptView).cursor
    assert cursor is not None
    return cursor.index
