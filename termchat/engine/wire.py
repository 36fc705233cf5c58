"""Frames on a pipe: four bytes of length, little endian, then msgpack of (number, message).

A worker on another machine says hello first: it may run another termchat, and a shell there may have printed before it.

What comes is checked here: the length of a frame before it is waited for, its types and ranges as `port` and `records` declare
them.
"""

from __future__ import annotations

import re
import zlib
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec

import termchat
from termchat.decoding.records import Token, as_packed, keep_bytes
from termchat.engine.port import Command, Event
from termchat.text import UNREADABLE, explain_unreadable, size

T = TypeVar("T")

ENCODER = msgspec.msgpack.Encoder(enc_hook=as_packed)

_HEAD = 4
_NUMBER_BYTES = {0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9}
"""How long a number is in msgpack that begins with this byte; 1 with any other."""
LONGEST_FRAME = 1 << 26
"""Bytes. The longest real ones have the ids and texts of a prompt: a million tokens take half of that."""
LONGEST_HELLO = 1 << 12
"""Bytes; a real one has about 70."""
_ZEROS = re.compile(rb"\0+")
_VERSION = re.compile(r"[0-9A-Za-z.+_-]{1,40}")


class FrameError(ValueError):
    """Bytes on a pipe that termchat did not send; the message says what is wrong with them."""


def frame(number: int, message: Command | Event) -> bytes:
    body = ENCODER.encode((number, message))
    return len(body).to_bytes(_HEAD, "little") + body


BEAT = bytes(_HEAD)
"""An empty frame: a sign of life, and no message. A worker on another machine gives it every `BEATS_S` seconds while it does
something, once the app has sent one: an older app would not know what it is."""
BEATS_S = 2.5


class Frames(Generic[T]):
    """Splits a stream of bytes into whole messages of a kind; `beats` counts the signs of life among them. With `keeps_bytes`
    each token carries its encoded bytes (see `records.keep_bytes`) for the store.
    """

    def __init__(self, kind: Any, *, keeps_bytes: bool = False) -> None:
        self._kind, self._keeps_bytes = kind, keeps_bytes
        self._buffer = bytearray()
        self.beats = 0

    @cached_property
    def _decoder(self) -> msgspec.msgpack.Decoder[tuple[int, T]]:
        """Made for the first message: for all kinds it takes some milliseconds, and the first frame needs none."""
        return msgspec.msgpack.Decoder(tuple[int, self._kind])  # type: ignore[name-defined]

    def feed_bytes(self, data: bytes) -> list[tuple[int, T]]:
        """Take bytes and return the messages they complete.

        Raises:
            FrameError: they are no message of this pipe, or begin one that is too long.
        """
        buffer = self._buffer
        buffer += data
        found: list[tuple[int, T]] = []
        at = 0
        while len(buffer) - at >= _HEAD:
            length = int.from_bytes(buffer[at : at + _HEAD], "little")
            end = at + _HEAD + length
            if length > LONGEST_FRAME:
                raise FrameError(f"a message of {size(length)} (at most {size(LONGEST_FRAME)})")
            if len(buffer) < end:
                break
            if not length:
                zeros = _ZEROS.match(buffer, at)  # a hostile stream of beats costs no more than its bytes
                assert zeros is not None
                beats = len(zeros[0]) // _HEAD
                self.beats, end = self.beats + beats, at + beats * _HEAD
            else:
                try:
                    body = bytes(memoryview(buffer)[at + _HEAD : end])
                    found.append(self._decoder.decode(body))
                except UNREADABLE as error:
                    raise FrameError(explain_unreadable(error)) from error
                if self._keeps_bytes and isinstance(token := found[-1][1], Token):
                    # Behind the head of the pair and its number.
                    keep_bytes(token, body[1 + _NUMBER_BYTES.get(body[1], 1) :])
            at = end
        del buffer[:at]
        return found


# --- the hello of a worker on another machine ------------------------------------------------------------------------

_SIGN = b"\0termchat worker\0"
"""No shell prints this by accident."""


class Hello(msgspec.Struct, frozen=True):
    """Which termchat speaks, the digest of all that it can send and receive, and the seconds between its signs of life; 0.0
    where it gives none."""

    termchat: str
    protocol: Annotated[str, msgspec.Meta(max_length=40)]
    beats: Annotated[float, msgspec.Meta(ge=0, le=600)] = 0.0

    def __post_init__(self) -> None:
        if _VERSION.fullmatch(self.termchat) is None:
            raise ValueError("not a version of termchat")


def hello() -> bytes:
    """What a worker on another machine sends before its first frame."""
    body = msgspec.json.encode(Hello(termchat.__version__, digest_protocol(), BEATS_S))
    return _SIGN + len(body).to_bytes(_HEAD, "little") + body


def find_hello(data: bytes) -> tuple[bytes, Hello, bytes] | None:
    """What came before a hello, the hello, and what follows it; None while it has not arrived whole.

    Raises:
        FrameError: it is none.
    """
    before, sign, rest = data.partition(_SIGN)
    if not sign or len(rest) < _HEAD:
        return None
    length = int.from_bytes(rest[:_HEAD], "little")
    end = _HEAD + length
    if length > LONGEST_HELLO:
        raise FrameError(f"a hello of {size(length)} (at most {size(LONGEST_HELLO)})")
    if len(rest) < end:
        return None
    try:
        return before, msgspec.json.decode(rest[_HEAD:end], type=Hello), rest[end:]
    except UNREADABLE as error:
        raise FrameError(f"its hello: {explain_unreadable(error)}") from error


def digest_protocol() -> str:
    """Return a digest of every command and event, field by field: workers with the same one understand each other."""
    described: dict[str, str] = {}
    _describe_type((Command, Event), described)
    return f"{zlib.crc32(repr(sorted(described.items())).encode()):08x}"


def _describe_type(kind: Any, described: dict[str, str]) -> str:
    """Describe a type, the same on every machine; add the structs in it to `described`."""
    if isinstance(kind, tuple):
        return ", ".join(_describe_type(part, described) for part in kind)
    if arguments := get_args(kind):
        origin = get_origin(kind)
        if origin is Annotated:  # bounds of a type do not travel
            return _describe_type(arguments[0], described)
        name = "union" if origin in (Union, UnionType) else getattr(origin, "__name__", "")
        return f"{name}[{_describe_type(arguments, described)}]"
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__name__ not in described:
        described[kind.__name__] = ""  # a struct may hold itself
        config, fields = kind.__struct_config__, msgspec.structs.fields(kind)
        inside = [f"{field.encode_name}: {_describe_type(field.type, described)}" for field in fields]
        described[kind.__name__] = f"{config.tag} {config.array_like} {'; '.join(inside)}"
    return kind.__name__ if isinstance(kind, type) else repr(kind)
