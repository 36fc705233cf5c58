"""Frames on a pipe: four bytes of length, little endian, then msgpack of (number, message)."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from termchat.decoding.records import as_packed
from termchat.engine.port import Command, Event

T = TypeVar("T")

EVENT_ENCODER = COMMAND_ENCODER = msgspec.msgpack.Encoder(enc_hook=as_packed)
EVENTS: msgspec.msgpack.Decoder[tuple[int, Event]] = msgspec.msgpack.Decoder(tuple[int, Event])
COMMANDS: msgspec.msgpack.Decoder[tuple[int, Command]] = msgspec.msgpack.Decoder(tuple[int, Command])

_HEAD = 4


def frame(encoder: msgspec.msgpack.Encoder, number: int, message: Command | Event) -> bytes:
    body = encoder.encode((number, message))
    return len(body).to_bytes(_HEAD, "little") + body


class Frames(Generic[T]):
    """Splits a stream of bytes into whole messages."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[T]) -> None:
        self._decoder = decoder
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[T]:
        """Takes bytes and returns the messages they complete.

        Raises:
            msgspec.DecodeError: the bytes are not a message of this pipe.
        """
        buffer = self._buffer
        buffer += data
        found: list[T] = []
        at = 0
        while len(buffer) - at >= _HEAD:
            end = at + _HEAD + int.from_bytes(buffer[at : at + _HEAD], "little")
            if len(buffer) < end:
                break
            found.append(self._decoder.decode(memoryview(buffer)[at + _HEAD : end]))
            at = end
        del buffer[:at]
        return found
