"""Transcripts in: the JSON Lines that `formats.jsonl` writes, and the bare record stream of `termchat run --json`.

A file is read line by line and its records are kept packed, so memory is for what a chat needs, whatever the file is.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from termchat.conversation import columns
from termchat.conversation.halves import replaced
from termchat.conversation.lines import LineError, NodeLine, SessionLine, decode
from termchat.conversation.session import ModelRef, SessionInfo
from termchat.conversation.transcript import Transcript, TranscriptError
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import Failed, Finished, Prefill, Record, Settings, Start, Token
from termchat.text import size

__all__ = ["Transcript", "read"]

LONGEST_LINE = 1 << 24
"""In bytes. The longest real ones are the prompts of very long chats: a million ids take half of that."""

MOST_BYTES = 1 << 33
"""Of a file: twenty times a chat of 100,000 tokens with twenty candidates each."""

MOST_NODES = 100_000
MOST_RECORDS = 2_000_000
MOST_LINES = 2 * (MOST_NODES + MOST_RECORDS)
"""The empty ones are counted too."""

MOST_KEPT = 1 << 31
"""Bytes of all records as they are kept in memory, which a file of records that are made to be long could fill."""

_LIKELIEST = 0.01
"""What the logarithm of a probability can be at most, rounding and all."""

_HINT = "Give a chat that was saved as .jsonl, or what termchat run --json wrote, whole and unchanged."


def read(path: Path) -> Transcript:
    """The chat in a file. A bare record stream becomes a chat of its prompts, whose words are not known, and replies.

    Of a reply the tokens' own records count; the ids in its node's line only say how many there must be.

    Raises:
        TranscriptError: the file cannot be read or is no transcript; the message names file and line, and what is wrong.
    """
    reader = _Reader()
    try:
        with path.open("rb") as file:
            while data := file.readline(LONGEST_LINE + 1):
                reader.take(data)
        return reader.finish()
    except LineError as error:
        raise TranscriptError(f"{path.name}, line {reader.line}: {error}", _HINT) from None
    except OSError as error:
        raise TranscriptError(f"{path} cannot be read: {error.strerror or error}", "Check the path.") from error


class _Reader:
    """Takes line after line. `line` is the number of the last one."""

    def __init__(self) -> None:
        self.line = 0
        self._chat = Conversation()
        self._info = SessionInfo()
        self._session: SessionLine | None = None
        self._node: Node | None = None
        self._wanted: int | None = None
        self._step: int | None = None
        self._packed: dict[int, list[bytes]] = {}
        self._size = self._kept = self._records = self._halves = 0

    def take(self, data: bytes) -> None:
        """The next line, with its line break.

        Raises:
            LineError: it is not what it should be, or does not fit to the lines before it.
        """
        self.line += 1
        if len(data) > LONGEST_LINE:
            raise LineError("it is longer than any line of a transcript")
        self._size += len(data)
        if self._size > MOST_BYTES:
            raise LineError(f"the file is larger than {size(MOST_BYTES)}")
        if self.line > MOST_LINES:
            raise LineError(f"there are more than {MOST_LINES:,} lines")
        if data.isspace():
            return
        data, halves = replaced(data)
        self._halves += halves
        try:
            line = decode(data)
        except LineError:
            if data.endswith(b"\n"):
                raise
            raise LineError("it is torn, its end is missing") from None
        self._TAKES[type(line)](self, line)

    def finish(self) -> Transcript:
        """All that was in the file.

        Raises:
            LineError: that is not a whole chat.
        """
        if not self.line:
            raise LineError("the file is empty")
        self._close()
        for node in self._chat.nodes.values():
            summary = self._chat.nodes.get(node.omitted.summary or 0) if node.omitted is not None else None
            if summary is not None and summary.role != "assistant":
                raise LineError(f"node {node.number} is summed up by node {summary.number}, which is no reply")
        if self._session is not None:
            leaf = self._session.leaf
            if leaf is not None and leaf not in self._chat.nodes:
                raise LineError(f"the chat should end in node {leaf}, which is missing")
            self._chat.leaf = leaf
        return Transcript(self._info, self._chat, self._packed, self._halves)

    def _take_session(self, line: SessionLine) -> None:
        if self._session is not None or self._chat.nodes:
            raise LineError("a second chat begins; a file holds one")
        self._session = line
        self._chat = Conversation(line.system, raw=line.raw)
        self._chat.title = line.title
        try:
            created, updated = (_seconds(time) for time in (line.created, line.updated))
        except ValueError as error:
            raise LineError(f"its time is none: {error}") from None
        self._info = SessionInfo(line.id, created, updated, line.model, line.tuning, line.breakpoints, line.view)

    def _take_node(self, line: NodeLine) -> None:
        if self._session is None:
            raise LineError("a node, and no chat has begun")
        self._close()
        nodes = self._chat.nodes
        if line.number in nodes:
            raise LineError(f"node {line.number} is there twice")
        if line.parent is not None and line.parent not in nodes:
            raise LineError(f"node {line.number} grows from node {line.parent}, which is missing")
        if line.parent is not None and line.at > len(nodes[line.parent].ids):
            raise LineError(f"node {line.number} grows from token {line.at} of node {line.parent}, which has fewer")
        if line.omitted is not None and line.omitted.turns < 0:
            raise LineError(f"node {line.number} leaves out {line.omitted.turns} turns")
        node = Node(line.number, line.parent, line.at, line.role, text=line.text if line.role == "user" else "")
        node.whole, node.name, node.deleted = line.whole, line.name, line.deleted
        node.omitted = line.omitted
        if node.role == "user":
            node.prompt_ids = array("i", line.ids)
        self._begin(node, None if node.role == "user" else len(line.ids))

    def _take_start(self, line: Start) -> None:
        if self._session is None:
            self._close()
            first = not self._chat.nodes
            prompt = self._chat.grow("user", parent=None, at=0)
            try:
                prompt.prompt_ids = array("i", line.prompt_ids)
            except OverflowError:
                raise LineError("a prompt id is no token's") from None
            self._begin(Node(prompt.number + 1, prompt.number, len(prompt.ids), "assistant"), None)
            if first:
                self._chat.raw = line.raw
                self._info = SessionInfo(model=ModelRef(line.model.name, line.model.path, line.model))
        elif self._node is not None and self._node.start is not None:
            raise LineError(f"the reply in node {self._node.number} begins twice")
        self._take_record(line)

    def _take_token(self, line: Token) -> None:
        # The reply of a chat may have lost its beginning with a damaged file; a bare stream has nothing else to begin with.
        if self._node is None or (self._session is None and self._node.start is None):
            raise LineError("a token, and no reply has begun")
        if self._step is not None and line.step != self._step:
            raise LineError(f"step {line.step} of node {self._node.number}, where step {self._step} should be")
        if line.logprob > _LIKELIEST or any(other.logprob > _LIKELIEST for other in line.candidates):
            raise LineError("a logprob in it is above 0, and no probability")
        self._step = line.step + 1
        self._take_record(line)

    def _take_record(self, line: Record) -> None:
        node = self._node
        if node is None or node.role == "user":
            if isinstance(line, Failed) and self._session is None:
                raise LineError(f"there is no reply, it failed: {line.message}")
            raise LineError("a reply's record, and no reply has begun")
        try:
            node.add(line)
        except OverflowError:
            raise LineError("a number in it is too large") from None
        self._records += 1
        if self._records > MOST_RECORDS:
            raise LineError(f"there are more than {MOST_RECORDS:,} records")
        packed = columns.from_record(line)
        self._kept += len(packed)
        if self._kept > MOST_KEPT:
            raise LineError(f"its records are larger than {size(MOST_KEPT)}")
        self._packed[node.number].append(packed)

    def _begin(self, node: Node, tokens: int | None) -> None:
        if len(self._chat.nodes) >= MOST_NODES:
            raise LineError(f"there are more than {MOST_NODES:,} nodes")
        self._chat.attach(node)
        self._node, self._wanted, self._step = node, tokens, None
        if node.role == "assistant":
            self._packed[node.number] = []

    def _close(self) -> None:
        """No further record comes for the node that was begun last."""
        node = self._node
        if node is not None and self._wanted is not None and len(node.ids) != self._wanted:
            raise LineError(f"node {node.number} ended before it with {len(node.ids)} tokens of {self._wanted}")

    _TAKES: dict[type, Callable[[_Reader, Any], None]] = {  # noqa: RUF012 - a table, never changed
        SessionLine: _take_session,
        NodeLine: _take_node,
        Start: _take_start,
        Settings: _take_record,
        Prefill: _take_record,
        Token: _take_token,
        Finished: _take_record,
        Failed: _take_record,
    }


def _seconds(time: str | None) -> float:
    seconds = datetime.fromisoformat(time).timestamp() if time else 0.0
    if not 0 <= seconds < columns.LATEST:
        raise ValueError(f"{time:.40} is before 1970 or beyond the year 9998")
    return seconds
