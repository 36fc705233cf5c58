"""What the store's columns hold: texts, ids, records and settings, there and back."""

from __future__ import annotations

import contextlib
import sys
from array import array
from typing import TypeVar

import msgspec

from termchat.conversation.database import StoreError
from termchat.decoding.records import Record

_decode_record = msgspec.msgpack.Decoder(Record).decode
_T = TypeVar("_T")


def to_record(blob: bytes) -> Record:
    """A record as it was.

    Raises:
        StoreError: it is damaged, or of a newer termchat.
    """
    try:
        record: Record = _decode_record(blob)
    except msgspec.MsgspecError as error:
        raise StoreError(f"a record of the chat cannot be read: {error}", "Its file may be damaged.") from error
    return record


def from_record(record: Record) -> bytes:
    """The record as it travels on the pipe."""
    try:
        return msgspec.msgpack.encode(record)
    except UnicodeEncodeError:  # a file name that is no UTF-8, in a message
        names = record.__struct_fields__
        texts = {name: from_text(value) for name in names if isinstance(value := getattr(record, name), str)}
        return msgspec.msgpack.encode(msgspec.structs.replace(record, **texts))


def from_text(text: str) -> str:
    """The text with a mark for what is no Unicode."""
    return text.encode("utf-8", "replace").decode("utf-8")


def from_settings(value: object) -> str:
    """A struct, or a tuple of them, as JSON."""
    return msgspec.json.encode(value).decode("utf-8")


def to_settings(text: str, otherwise: _T, kind: type[_T] | None = None) -> _T:
    """What `from_settings` wrote; `otherwise` where it is damaged, or of a newer termchat."""
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(text, type=kind or type(otherwise))
    return otherwise


def from_ids(ids: array[int]) -> bytes:
    """Ids as 32-bit words, little endian."""
    packed = array("i", ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def to_ids(blob: bytes) -> array[int]:
    """The inverse of `from_ids`."""
    ids = array("i")
    ids.frombytes(blob)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids
