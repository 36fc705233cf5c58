"""What the store's columns hold: texts, ids, records and settings, there and back."""

from __future__ import annotations

import contextlib
from typing import Any, TypeVar

import msgspec

from termchat.conversation.node import Node, TokenColumns
from termchat.conversation.session import Breakpoint
from termchat.conversation.store.database import StoreError
from termchat.decoding.conditions import Rule, format_condition, parse
from termchat.decoding.escapes import well_formed
from termchat.decoding.records import Record, Token, as_packed, bytes_of, drop_impossible
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.text import UNREADABLE, explain_unreadable

_encode_record = msgspec.msgpack.Encoder(enc_hook=as_packed).encode
_decode_record = msgspec.msgpack.Decoder(Record).decode
_T = TypeVar("_T")

LATEST = 253_370_764_800.0
"""The year 9999 begins, in seconds since the epoch, UTC: times around the end of all calendars are beyond it somewhere."""


def to_record(blob: bytes) -> Record:
    """Decode a record; numbers that cannot be are absent.

    Raises:
        StoreError: it is damaged, or of a newer termchat.
    """
    try:
        record: Record = _decode_record(blob)
    except UNREADABLE as error:
        problem = f"a record of the chat cannot be read: {explain_unreadable(error)}"
        raise StoreError(problem, "Its file may be damaged.") from error
    return drop_impossible(record) if isinstance(record, Token) else record


def from_record(record: Record) -> bytes:
    """Encode a record as it travels on the pipe; one that came from there is not encoded again."""
    if (packed := bytes_of(record)) is not None:
        return packed
    try:
        return _encode_record(record)
    except UnicodeEncodeError:  # a file name that is no UTF-8, in a message
        names = record.__struct_fields__
        texts = {name: well_formed(value) for name in names if isinstance(value := getattr(record, name), str)}
        return _encode_record(msgspec.structs.replace(record, **texts))


def from_settings(value: object) -> str:
    """Encode a struct, or a tuple of them, as JSON."""
    return msgspec.json.encode(value).decode("utf-8")


def to_settings(text: str, otherwise: _T, kind: type[_T] | None = None) -> _T:
    """Decode the result of `from_settings`; return `otherwise` where it is damaged, or of a newer termchat."""
    with contextlib.suppress(*UNREADABLE):
        return msgspec.json.decode(text, type=kind or type(otherwise))
    return otherwise


def to_tuning(text: str) -> Tuning:
    """Decode knobs; one whose value is damaged, or of a newer termchat, is as by default."""
    knobs: dict[str, Any] = {}
    for name, value in to_settings(text, dict[str, Any](), dict[str, Any]).items():
        with contextlib.suppress(KeyError, ValueError):
            knobs[name] = KNOBS[name].check(value)
    return Tuning(**knobs)


def to_breakpoints(text: str) -> tuple[Breakpoint, ...]:
    """Decode breakpoints; leave out a damaged or impossible one."""
    points: list[Breakpoint] = []
    for one in to_settings(text, (), tuple[msgspec.Raw, ...]):
        with contextlib.suppress(*UNREADABLE):
            point = msgspec.json.decode(one, type=Breakpoint)
            if isinstance(point.condition, Rule):
                parse(format_condition(point.condition))
            points.append(point)
    return tuple(points)


def to_seconds(moment: object) -> float:
    """Read a moment in seconds since the epoch, UTC; 0.0, for unknown, where it is damaged or beyond all calendars."""
    return float(moment) if isinstance(moment, (int, float)) and 0 <= moment < LATEST else 0.0


class _Reply(msgspec.Struct, array_like=True):
    """A reply in memory: all its records except the tokens, with beams and ranking, and the tokens as columns."""

    records: list[Record]
    settings_at: list[int]
    columns: list[bytes]


def from_reply(node: Node) -> bytes | None:
    """Pack a reply that has ended; None if one of its texts cannot be packed."""
    others = (node.start, *node.settings, node.prefill, node.finished, node.failed, *node.beams, node.ranking)
    records: list[Record] = [record for record in others if record is not None]
    try:
        return msgspec.msgpack.encode(_Reply(records, node.settings_at, node.tokens.packed()))
    except UnicodeEncodeError:
        return None


def to_reply(node: Node, packed: bytes) -> bool:
    """Fill a new node with the result of `from_reply`; return False and leave it unchanged if that is damaged."""
    try:
        reply = msgspec.msgpack.decode(packed, type=_Reply)
        tokens = TokenColumns.unpacked(reply.columns)
        tokens.check()
    except UNREADABLE:
        return False
    for record in reply.records:
        node.add(record)
    tokens.searched = node.tokens.searched
    node.tokens, node.settings_at = tokens, reply.settings_at
    return True
