"""What was recorded: what an engine was asked, and what it answered when."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from termchat import atomic
from termchat.decoding.records import as_packed
from termchat.engine.port import Cancel, Command, Event, Load, Pause, Resume, Step
from termchat.models.gguf.header import Header

FILE = Path(__file__).with_name("session.tape")
LESSONS = Path(__file__).with_name("lessons")
"""A tape a lesson, by its id."""

_LEFT_OUT = frozenset({"origin", "shapes", "rebuild_exactly", "exact", "keep_logits", "candidates", "number"})
"""What makes no other answer: where settings came from, how cells were made, and what things are called."""
_OF_LOAD = ("fast_prefill",)
"""What of a spec makes another model."""


class Steered(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The place where the viewer steered the reply: the events after it answer that."""

    asked: str


Recorded = list[tuple[float, Event | Steered]]
"""Events, each with its delay in seconds."""


class Exchange(msgspec.Struct, frozen=True, array_like=True):
    """A command, and the events that answered it."""

    asked: str
    events: Recorded


class Tape(msgspec.Struct, frozen=True, array_like=True):
    """`header` is that of the model's file, where the model was loaded in several ways."""

    exchanges: list[Exchange]
    header: Header | None = None


def identify(command: Command, *, seeded: bool = True) -> str:
    """Make the key by which a command is found on a tape; without the seed where that is drawn for each reply.

    Fields with their default values do not count, so that new ones change nothing.
    """
    name = type(command).__name__
    if isinstance(command, Load):
        return f"{name} {[getattr(command.spec, field) for field in _OF_LOAD]}"
    if isinstance(command, Cancel | Pause | Resume | Step) and command.reply is None:
        return name
    plain = repr(_simplify(command, _LEFT_OUT if seeded else _LEFT_OUT | {"seed"}))
    return f"{name} {hashlib.blake2b(plain.encode(), digest_size=9).hexdigest()}"


def identify_way(load: Load) -> str:
    """Make the end of the key of all commands to a model that was loaded in this way; "" for the usual one."""
    unusual = any(getattr(load.spec, field) for field in _OF_LOAD)
    return f" of {identify(load)}" if unusual else ""


def _simplify(value: Any, left_out: frozenset[str]) -> object:
    """Reduce a value to plain types, without fields that have their defaults."""
    if isinstance(value, msgspec.Struct):
        given = (
            (field.name, getattr(value, field.name), _default(field))
            for field in msgspec.structs.fields(type(value))
            if field.name not in left_out
        )
        return [
            type(value).__name__,
            *((name, _simplify(one, left_out)) for name, one, default in given if one != default),
        ]
    if isinstance(value, Mapping):
        return sorted((str(key), _simplify(one, left_out)) for key, one in value.items())
    if isinstance(value, list | tuple):
        return [_simplify(one, left_out) for one in value]
    return value


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default


def load(path: Path = FILE) -> Tape:
    """Load a tape.

    Raises:
        OSError, zlib.error, msgspec.DecodeError: the tape is not there, or is of another termchat.
    """
    return msgspec.msgpack.decode(zlib.decompress(path.read_bytes()), type=Tape)


def find_tape(id: str) -> Path:
    """Find the place of a lesson's tape, if there is one."""
    return LESSONS / f"{id}.tape"


def save(tape: Tape, path: Path = FILE) -> None:
    path.parent.mkdir(exist_ok=True)
    atomic.replace(path, zlib.compress(msgspec.msgpack.encode(tape, enc_hook=as_packed), 9))
