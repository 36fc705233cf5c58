"""What was recorded: what an engine was asked, and what it answered when."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from termchat import atomic
from termchat.decoding.records import as_packed
from termchat.engine.port import Command, Describe, Event, Explain, Generate, Inspect, Load, Render, Tokenize

FILE = Path(__file__).with_name("session.tape")

_ASKED: dict[type[Command], Callable[..., object]] = {
    Load: lambda _: "",
    Render: lambda command: [*((one.role, one.content) for one in command.messages), command.after_reply],
    Tokenize: lambda command: command.text,
    Describe: lambda command: command.ids,
    Generate: lambda command: command.ids,
    Explain: lambda command: (command.ids, command.id),
    Inspect: lambda command: (command.ids, command.samplers),
}
"""What makes a question the same as another one: less than all of it, which grows with termchat."""


class Exchange(msgspec.Struct, frozen=True, array_like=True):
    """A command, and the events that answered it, each with its delay in seconds."""

    asked: str
    events: list[tuple[float, Event]]


class Tape(msgspec.Struct, frozen=True, array_like=True):
    exchanges: list[Exchange]


def asked(command: Command) -> str | None:
    """The part of a command that tells it from others; None for commands without an answer of their own."""
    what = _ASKED.get(type(command))
    return f"{type(command).__name__} {what(command)!r}" if what is not None else None


def load(path: Path = FILE) -> Tape:
    """Raises:
    OSError, zlib.error, msgspec.DecodeError: the tape is not there, or is of another termchat.
    """
    return msgspec.msgpack.decode(zlib.decompress(path.read_bytes()), type=Tape)


def save(tape: Tape, path: Path = FILE) -> None:
    atomic.replace(path, zlib.compress(msgspec.msgpack.encode(tape, enc_hook=as_packed), 9))
