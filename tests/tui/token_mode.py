"""The app in token mode, on a reply whose tokens are kept in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from termchat.chat.recording import Recorder
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import Record, Token
from termchat.tui.transcript import TranscriptView
from tests.tui.running_app import Desktop, desktop

WORDS = ("Once", " upon", " a", " time", ".\n", "A", " fox", " met", " a", " bear", ".")


class Memory(Recorder):
    """Keeps the tokens of all replies."""

    def __init__(self) -> None:
        self._kept: dict[Node, list[Token]] = {}

    def record(self, conversation: Conversation, node: Node, record: Record) -> None:
        if isinstance(record, Token):
            self._kept.setdefault(node, []).append(record)

    def token(self, conversation: Conversation, node: Node, index: int) -> Token | None:
        return self._kept[node][index]


@asynccontextmanager
async def looking(size: tuple[int, int] = (120, 40), *, ended: bool = True) -> AsyncIterator[Desktop]:
    """A desktop whose reply is over, in token mode, the cursor on the last token."""
    async with desktop(size) as desk:
        desk.chat.recorder = Memory()
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
