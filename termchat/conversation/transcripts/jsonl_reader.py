"""Reads our own JSON Lines, line by line, into a conversation with its records.

A file is foreign: sizes, counts, versions, ranges and the order of lines are checked, and every refusal names the line. What
the fast decoder refuses is read again by a patient one, which takes null for NaN and otherwise says what is wrong.
JSON may escape half of a surrogate pair alone; such a half becomes U+FFFD and is counted.
"""

from __future__ import annotations

import json
import math
import re
import typing
from array import array
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union

import msgspec

from termchat import regular_files
from termchat.conversation.node import Omission
from termchat.conversation.session import Breakpoint, ModelRef, SessionInfo, View
from termchat.conversation.store import codec
from termchat.conversation.transcripts.transcript import VERSION, Transcript, TranscriptError
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.conditions import Condition, ConditionError, Rule, describe, parse
from termchat.decoding.records import (
    FORMAT,
    RECORD_NAMES,
    Failed,
    Finished,
    Prefill,
    Record,
    SettingsRecord,
    Start,
    Token,
)
from termchat.decoding.samplers import KNOBS, KnobError, SamplerSettings, Tuning
from termchat.text import size

_MAY_BE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""An escape of JSON: both halves of a character, a half alone, or any other."""


LONGEST_NAME = 10_000
"""Characters of what a list shows on a line."""
Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
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
_HINT = "Use a chat saved as .jsonl, or complete, unedited output of termchat run --json."


def replaced(data: bytes) -> tuple[bytes, int]:
    """JSON with U+FFFD for each lone surrogate, and how many there were."""
    if _MAY_BE.search(data) is None:
        return data, 0
    count = 0

    def replace(found: re.Match[bytes]) -> bytes:
        nonlocal count
        if found[1] is None:
            return found[0]
        count += 1
        return rb"\ufffd"

    return _ESCAPES.sub(replace, data), count


class LineError(ValueError):
    """A line is invalid; the message says why."""


class SessionLine(msgspec.Struct, tag_field="record", tag="session"):
    """The first line of a transcript: all that is known of the chat beside its nodes."""

    version: int
    format: int
    id: str
    title: Name
    system: str
    raw: bool
    leaf: int | None
    created: str | None
    updated: str | None
    model: ModelRef
    tuning: Tuning
    breakpoints: tuple[Breakpoint, ...] = ()
    view: View = View()


class NodeLine(msgspec.Struct, tag_field="record", tag="node"):
    """A node; the records of its reply follow."""

    number: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    parent: int | None
    at: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    role: Literal["user", "assistant"]
    text: str
    ids: list[Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]]
    whole: bool
    name: Name = ""
    deleted: bool = False
    omitted: Omission | None = None
    system: str | None = None


Line = SessionLine | NodeLine | Record

_KINDS: dict[str, type] = {
    "session": SessionLine,
    "node": NodeLine,
    **{name: kind for kind, name in RECORD_NAMES.items()},
}
_HOLD_ARRAYS = (SessionLine, ModelRef)
"""Structs that are objects already, but not what is in them."""


def decode(data: bytes) -> Line:
    """Raises:
    LineError: it is no JSON object, of no known kind or another version, or a field is not of its type or range.
    """
    try:
        twin = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        twin = _decode_patiently(data)
    line: Line = msgspec.convert(twin, _KINDS[twin.__struct_config__.tag], from_attributes=True)
    if isinstance(line, (SessionLine, Start)):
        _check_versions(type(line), {name: getattr(line, name, None) for name in ("version", "format")})
    if isinstance(line, Start):
        _check_knob("seed", line.seed)
    if isinstance(line, (SessionLine, SettingsRecord)):
        _check_knobs(line.tuning if isinstance(line, SessionLine) else line.samplers)
        met = line.conditions if isinstance(line, SettingsRecord) else [point.condition for point in line.breakpoints]
        _check_conditions(met)
    return line


def _decode_patiently(data: bytes) -> Any:
    """The same for lines that the fast decoder refuses: null becomes NaN, or the error says what is wrong."""
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise LineError("it is not UTF-8") from None
    except (ValueError, RecursionError):
        raise LineError("not a JSON object") from None
    kind = _KINDS.get(str(found.get("record"))) if isinstance(found, dict) else None
    if kind is None:
        raise LineError("not a line of a transcript")
    _check_versions(kind, found)
    try:
        return msgspec.convert(_with_numbers(found, kind), _twin(kind))
    except msgspec.MsgspecError as error:
        raise LineError(str(error)) from None


def _check_versions(kind: type, found: dict[str, Any]) -> None:
    for name, known in (("version", VERSION if kind is SessionLine else FORMAT), ("format", FORMAT)):
        if found.get(name, known) not in (known, None):
            raise LineError(f"its {name} is {found[name]!r:.40}; this termchat reads {known}")


def _check_knobs(samplers: SamplerSettings) -> None:
    """Settings out of range could crash the engine."""
    for name in samplers.__struct_fields__:
        _check_knob(name, getattr(samplers, name))


def _check_knob(name: str, value: object) -> None:
    try:
        KNOBS[name].check(value)
    except KnobError as error:
        raise LineError(str(error)) from None


def _check_conditions(conditions: Iterable[Condition]) -> None:
    """So could conditions that cannot be written by hand."""
    for condition in conditions:
        if isinstance(condition, Rule):
            try:
                parse(describe(condition))
            except ConditionError as error:
                raise LineError(f"a condition is invalid: {error.message}") from None


def _with_numbers(value: Any, kind: Any) -> Any:
    """The value with NaN for null where a number is expected (see `to_dict`)."""
    if kind is float:
        return math.nan if value is None else value
    inner = typing.get_args(kind)
    if isinstance(value, list) and inner:
        return [_with_numbers(item, inner[0]) for item in value]
    if isinstance(value, dict):
        hints = typing.get_type_hints(kind) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else {}
        otherwise = inner[-1] if inner else None
        return {name: _with_numbers(item, hints.get(name, otherwise)) for name, item in value.items()}
    return value


_twins: dict[type, Any] = {}


def _twin(kind: Any) -> Any:
    """The type that reads JSON objects for a type whose own form is an array."""
    inner = typing.get_args(kind)
    if kind is int:
        return Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # what the pipe and the store can hold
    if typing.get_origin(kind) in (list, Sequence):
        return list[_twin(inner[0])]  # type: ignore[misc]
    if typing.get_origin(kind) is tuple and inner[-1] is ...:
        return tuple[_twin(inner[0]), ...]  # type: ignore[misc]
    if typing.get_origin(kind) is UnionType:
        return Union[tuple(_twin(one) for one in inner)]  # noqa: UP007 - of a tuple
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return kind
    if not (kind.__struct_config__.array_like or kind in _HOLD_ARRAYS):
        return kind
    if kind not in _twins:
        hints = typing.get_type_hints(kind, include_extras=True)
        fields: list[Any] = [
            (field.name, _twin(hints[field.name]), *(() if field.default is msgspec.NODEFAULT else (field.default,)))
            for field in msgspec.structs.fields(kind)
        ]
        tag: dict[str, Any] = (
            {"tag_field": "record", "tag": kind.__struct_config__.tag} if kind in _KINDS.values() else {}
        )
        _twins[kind] = msgspec.defstruct(kind.__name__, fields, gc=False, **tag)
    return _twins[kind]


_decode = msgspec.json.Decoder(Union[tuple(map(_twin, _KINDS.values()))]).decode  # noqa: UP007

__all__ = ["Transcript", "read"]


def read(path: Path) -> Transcript:
    """The chat in a file. A bare record stream becomes a chat of its prompts, whose words are not known, and replies.

    Of a reply the tokens' own records count; the ids in its node's line only say how many there must be.

    Raises:
        TranscriptError: the file cannot be read or is no transcript; the message names file and line, and what is wrong.
    """
    reader = _Reader()
    try:
        with regular_files.opened(path) as file:
            while data := file.readline(LONGEST_LINE + 1):
                reader.take(data)
        return reader.finish()
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
            raise LineError("it is cut off: the end is missing") from None
        self._TAKES[type(line)](self, line)

    def finish(self) -> Transcript:
        """Raises:
        LineError: the lines so far are not a whole chat.
        """
        if not self.line:
            raise LineError("the file is empty")
        self._close()
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
            created, updated = (_seconds(time) for time in (line.created, line.updated))
        except ValueError as error:
            raise LineError(f"its time is invalid: {error}") from None
        self._info = SessionInfo(line.id, created, updated, line.model, line.tuning, line.breakpoints, line.view)

    def _take_node(self, line: NodeLine) -> None:
        if self._session is None:
            raise LineError("a node appears before the chat's first line")
        self._close()
        nodes = self._chat.nodes
        if line.number in nodes:
            raise LineError(f"node {line.number} appears twice")
        if line.parent is not None and line.parent not in nodes:
            raise LineError(f"node {line.number} has the parent {line.parent}, which is missing")
        if line.parent is not None and line.at > len(nodes[line.parent].ids):
            raise LineError(
                f"node {line.number} starts at token {line.at} of node {line.parent}, which has fewer tokens"
            )
        if line.omitted is not None and line.omitted.turns < 0:
            raise LineError(f"node {line.number} omits {line.omitted.turns} turns")
        if line.system is not None and (line.parent is not None or line.role != "user"):
            raise LineError(f"node {line.number} has a system prompt of its own, but is not a first message")
        node = Node(line.number, line.parent, line.at, line.role, text=line.text if line.role == "user" else "")
        node.whole, node.name, node.deleted = line.whole, line.name, line.deleted
        node.omitted, node.system = line.omitted, line.system
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
                raise LineError("a prompt id is not a valid token id") from None
            self._begin(Node(prompt.number + 1, prompt.number, len(prompt.ids), "assistant"), None)
            if first:
                self._chat.raw = line.raw
                self._info = SessionInfo(model=ModelRef(line.model.name, line.model.path, line.model))
        elif self._node is not None and self._node.start is not None:
            raise LineError(f"the reply in node {self._node.number} starts twice")
        self._take_record(line)

    def _take_token(self, line: Token) -> None:
        # The reply of a chat may have lost its beginning with a damaged file; a bare stream has nothing else to begin with.
        if self._node is None or (self._session is None and self._node.start is None):
            raise LineError("a token appears before its reply starts")
        if self._step is not None and line.step != self._step:
            raise LineError(f"step {line.step} of node {self._node.number}, where step {self._step} should be")
        if line.logprob > _LIKELIEST or any(other.logprob > _LIKELIEST for other in line.candidates):
            raise LineError("it contains a log-probability above 0")
        self._step = line.step + 1
        self._take_record(line)

    def _take_record(self, line: Record) -> None:
        node = self._node
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

    def _begin(self, node: Node, tokens: int | None) -> None:
        if len(self._chat.nodes) >= MOST_NODES:
            raise LineError(f"there are more than {MOST_NODES:,} nodes")
        self._chat.attach(node)
        self._node, self._wanted, self._step = node, tokens, None
        if node.role == "assistant":
            self._packed[node.number] = []

    def _close(self) -> None:
        """Refuses a node with fewer tokens than it said."""
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
    }


def _seconds(time: str | None) -> float:
    seconds = datetime.fromisoformat(time).timestamp() if time else 0.0
    if not 0 <= seconds < codec.LATEST:
        raise ValueError(f"{time:.40} is before 1970 or beyond the year 9998")
    return seconds
