"""What all formats share: a chat from a file, its records, and the error for files that cannot be read or written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from termchat.conversation.session import Session
from termchat.conversation.store import codec
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import Record, Token

VERSION = 1
"""Of the JSON Lines transcript; its records have `format`, the version of the record stream."""

Records = Callable[[int], Iterable[Record]]
"""The records of the reply in a node, in order."""


class TranscriptError(Exception):
    """A transcript cannot be written or read. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class Transcript(NamedTuple):
    """A chat from a file: its metadata, its tree, and the records of its replies, packed. `halves` is the number of half
    characters that became U+FFFD. The first chat of a file has in `left_out` the unreadable parts of the whole file, a line
    for each chat or message.
    """

    info: Session
    conversation: Conversation
    packed: dict[int, list[bytes]]
    halves: int = 0
    left_out: tuple[str, ...] = ()

    def records(self, number: int) -> Iterator[Record]:
        """Yield the records of the reply in a node, in order; none for an unknown node."""
        return (codec.to_record(blob) for blob in self.packed.get(number, ()))


def limit_records(node: Node, records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records of a reply as far as its node holds them: a running one may have more by now, and one that lost a piece
    with a damaged file ends there.
    """
    left = len(node.tokens)
    for record in records:
        if isinstance(record, Token):
            if not left:
                return
            left -= 1
        yield record
