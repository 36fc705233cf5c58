"""Reads our own JSON Lines, line by line, into a conversation with its records.

A file is foreign: sizes, counts and the order of lines are checked, too (see `jsonl_lines`), and every refusal names the line.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from termchat import regular_files
from termchat.conversation.session import ModelRef, Session
from termchat.conversation.store import codec
from termchat.conversation.transcripts.jsonl_lines import LineError, NodeLine, SessionLine, decode, replace_surrogates
from termchat.conversation.transcripts.transcript import Transcript, TranscriptError
from termchat.conversation.tree import Conversation, Node
from termchat.conversation.walk_groups import RANKED
from termchat.decoding.records import (
    LIKELIEST,
    Beams,
    Failed,
    Finished,
    Prefill,
    Ranking,
    Record,
    SettingsRecord,
    Start,
    Token,
)
from termchat.text import size

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
_HINT = "Use a chat saved as .jsonl, or complete, unedited output of termchat run --json."

__all__ = ["Transcript", "read"]


def read(path: Path) -> Transcript:
    """Read the chat in a file. A bare record stream becomes a chat of its prompts, whose words are unknown, and replies. Its
    leaf is the last reply; of a group the first, or the best if they were ranked.

    Of a reply the tokens' own records count; the ids in its node's line only say how many there must be.

    Raises:
        TranscriptError: the file cannot be read or is no transcript; the message names file and line, and what is wrong.
    """
    reader = _Reader()
    try:
        with regular_files.opened(path) as file:
            while data := file.readline(LONGEST_LINE + 1):
                reader.take_line(data)
        return reader.finish_chat()
    except LineError as error:
        where = f"{path.name}, line {reader.line}" if reader.line else path.name
        raise TranscriptError(f"{where}: {error}", _HINT) from None
    except OSError as error:
        raise TranscriptError(f"{path} cannot be read: {error.strerror or error}", "Check the path.") from error


class _Reader:
    """Takes line after line. `line` is the number of the last one."""

    def __init__(self) -> None:
        self.line = 0
        self._chat = Conversation()
        self._info = Session()
        self._session: SessionLine | None = None
        self._node: Node | None = None
        self._wanted: int | None = None
        self._steps: dict[int, int] = {}
        """The step that should be next, by the node that has one."""
        self._walks: dict[int, Node] = {}
        """Those of the group that a bare stream tells of at the moment, interleaved."""
        self._packed: dict[int, list[bytes]] = {}
        self._size = self._kept = self._records = self._halves = 0

    def take_line(self, data: bytes) -> None:
        """Take the next line, with its line break.

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
        data, halves = replace_surrogates(data)
        self._halves += halves
        try:
            line = decode(data)
        except LineError:
            if data.endswith(b"\n"):
                raise
            raise LineError("it is cut off: the end is missing") from None
        self._TAKES[type(line)](self, line)

    def finish_chat(self) -> Transcript:
        """Return the chat.

        Raises:
            LineError: the lines so far are not a whole chat.
        """
        if not self.line:
            raise LineError("the file is empty")
        self._close_node()
        for node in self._chat.nodes.values():
            summary = self._chat.nodes.get(node.omitted.summary or 0) if node.omitted is not None else None
            if summary is not None and summary.role != "assistant":
                raise LineError(f"node {node.number} is summarised by node {summary.number}, which is not a reply")
        if self._session is not None:
            leaf = self._session.leaf
            if leaf is not None and leaf not in self._chat.nodes:
                raise LineError(f"the chat should end in node {leaf}, which is missing")
            self._chat.leaf = leaf
        return Transcript(self._info, self._chat, self._packed, self._halves)

    def _take_session(self, line: SessionLine) -> None:
        if self._session is not None or self._chat.nodes:
            raise LineError("a second chat starts here; a file holds only one")
        self._session = line
        self._chat = Conversation(line.system, raw=line.raw)
        self._chat.title = line.title
        try:
            created, updated = (_parse_time(time) for time in (line.created, line.updated))
        except ValueError as error:
            raise LineError(f"its time is invalid: {error}") from None
        self._info = Session(line.id, created, updated, line.model, line.tuning, line.breakpoints, line.view)

    def _take_node(self, line: NodeLine) -> None:
        if self._session is None:
            raise LineError("a node appears before the chat's first line")
        self._close_node()
        nodes = self._chat.nodes
        if line.number in nodes:
            raise LineError(f"node {line.number} appears twice")
        if line.parent is not None and line.parent not in nodes:
            raise LineError(f"node {line.number} has the parent {line.parent}, which is missing")
        if line.parent is not None and line.at > len(nodes[line.parent].ids):
            raise LineError(
                f"node {line.number} starts at token {line.at} of node {line.parent}, which has fewer tokens"
            )
        if line.system is not None and (line.parent is not None or line.role != "user"):
            raise LineError(f"node {line.number} has a system prompt of its own, but is not a first message")
        node = Node(line.number, line.parent, line.at, line.role, text=line.text if line.role == "user" else "")
        node.whole, node.name, node.deleted = line.whole, line.name, line.deleted
        node.omitted, node.system = line.omitted, line.system
        if node.role == "user":
            node.prompt_ids = array("i", line.ids)
        self._begin_node(node, None if node.role == "user" else len(line.ids))

    def _take_start(self, line: Start) -> None:
        if self._session is None:
            first = not self._chat.nodes
            self._close_node()
            one = next(iter(self._walks.values()), None)
            if one is None or line.group is None or one.group is None or line.group.number != one.group.number:
                self._walks, one = {}, None
            elif line.walk in self._walks:
                raise LineError(f"walk {line.walk} starts twice")
            prompt = self._chat.nodes[one.parent] if one is not None and one.parent is not None else None
            if prompt is None or list(prompt.ids) != line.prompt_ids:
                prompt = self._chat.grow_node("user", parent=None, at=0)
                try:
                    prompt.prompt_ids = array("i", line.prompt_ids)
                except OverflowError:
                    raise LineError("a prompt id is not a valid token id") from None
            self._begin_node(Node(max(self._chat.nodes) + 1, prompt.number, len(prompt.ids), "assistant"), None)
            assert self._node is not None
            if line.walk is not None:
                self._walks[line.walk] = self._node
                self._chat.leaf = self._walks[min(self._walks)].number
            if first:
                self._chat.raw = line.raw
                self._info = Session(model=ModelRef(line.model.name, line.model.path, line.model))
        elif self._node is not None and self._node.start is not None:
            raise LineError(f"the reply in node {self._node.number} starts twice")
        self._take_record(line)

    def _take_token(self, line: Token) -> None:
        node = self._node_of(line)
        # The reply of a chat may have lost its beginning with a damaged file; a bare stream has nothing else to begin with.
        if node is None or (self._session is None and node.start is None):
            raise LineError("a token appears before its reply starts")
        if (expected := self._steps.get(node.number, line.step)) != line.step:
            raise LineError(f"step {line.step} of node {node.number}, where step {expected} should be")
        if line.logprob > LIKELIEST or any(other.logprob > LIKELIEST for other in line.candidates):
            raise LineError("it contains a log-probability above 0")
        self._steps[node.number] = line.step + 1
        self._take_record(line)

    def _take_beams(self, line: Beams) -> None:
        node = self._node_of(line)
        before = node.beams[-1:] if node is not None else []
        if before and line.step != before[0].step + 1:
            raise LineError(f"step {line.step} of a beam search, where step {before[0].step + 1} should be")
        parents = len(before[0].beams) if before else 1
        for place, beam in enumerate((*line.beams, *line.dropped)):
            if beam.walk != place or not 0 <= beam.parent < parents:
                raise LineError(
                    f"beam {place} has the number {beam.walk} and the parent {beam.parent}, one of {parents}"
                )
        self._take_record(line)

    def _take_ranking(self, line: Ranking) -> None:
        if not line.walks or len({one.walk for one in line.walks}) < len(line.walks):
            raise LineError("a ranking has each walk once")
        self._take_record(line)
        best = self._walks.get(line.walks[0].walk)
        if best is not None and best.group is not None and best.group.kind in RANKED:
            self._chat.leaf = best.number

    def _node_of(self, line: Record) -> Node | None:
        """Whose record it is. In a chat they stand behind their node; a bare stream has those of all walks as they came."""
        if self._session is not None or not self._walks:
            return self._node
        return self._walks.get(0 if isinstance(line, (Beams, Ranking)) else -1 if line.walk is None else line.walk)

    def _take_record(self, line: Record) -> None:
        node = self._node_of(line)
        if node is None or node.role == "user":
            if isinstance(line, Failed) and self._session is None:
                raise LineError(f"the reply failed: {line.message}")
            raise LineError("a reply's record appears before its reply starts")
        try:
            node.add(line)
        except OverflowError:
            raise LineError("a number in it is too large") from None
        self._records += 1
        if self._records > MOST_RECORDS:
            raise LineError(f"there are more than {MOST_RECORDS:,} records")
        packed = codec.from_record(line)
        self._kept += len(packed)
        if self._kept > MOST_KEPT:
            raise LineError(f"its records are larger than {size(MOST_KEPT)}")
        self._packed[node.number].append(packed)

    def _begin_node(self, node: Node, tokens: int | None) -> None:
        if len(self._chat.nodes) >= MOST_NODES:
            raise LineError(f"there are more than {MOST_NODES:,} nodes")
        self._chat.attach_node(node)
        self._node, self._wanted = node, tokens
        if node.role == "assistant":
            self._packed[node.number] = []

    def _close_node(self) -> None:
        """Refuse a node with fewer tokens than it said."""
        node = self._node
        if node is not None and self._wanted is not None and len(node.ids) != self._wanted:
            raise LineError(f"node {node.number} ended with {len(node.ids)} of its {self._wanted} tokens")

    _TAKES: dict[type, Callable[[_Reader, Any], None]] = {  # noqa: RUF012 - a table, never changed
        SessionLine: _take_session,
        NodeLine: _take_node,
        Start: _take_start,
        SettingsRecord: _take_record,
        Prefill: _take_record,
        Token: _take_token,
        Finished: _take_record,
        Failed: _take_record,
        Beams: _take_beams,
        Ranking: _take_ranking,
    }


def _parse_time(time: str | None) -> float:
    seconds = datetime.fromisoformat(time).timestamp() if time else 0.0
    if not 0 <= seconds < codec.LATEST:
        raise ValueError(f"{time:.40} is before 1970 or beyond the year 9998")
    return seconds
