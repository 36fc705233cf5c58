"""Whether an engine elsewhere can be reached, what it is, and how far away: for reports, and for lists of engines."""

from __future__ import annotations

from time import monotonic
from typing import TypeVar

import msgspec

from termchat.decoding.records import Failed
from termchat.engine.address import EngineAddress
from termchat.engine.make import engine_at
from termchat.engine.port import (
    Command,
    Engine,
    EngineError,
    Event,
    Load,
    Loaded,
    ModelInfo,
    ModelSpec,
    Probe,
    Probed,
    Tokenize,
    is_last,
)

T = TypeVar("T")

_ROUNDS = 3


class Checkup(msgspec.Struct, frozen=True):
    """What an engine said. `termchat` and `library` are versions there, "" where it has none; `model` is what a server has
    loaded. `round_trip` is the shortest of a few, in seconds. `failure` says why there is no answer."""

    address: EngineAddress
    termchat: str = ""
    library: str = ""
    model: ModelInfo | None = None
    round_trip: float = 0.0
    failure: Failed | None = None


def check(address: EngineAddress, within: float = 10.0) -> Checkup:
    """Starts the engine, asks it what it is, and ends it. On another machine of ours no model is loaded."""
    end = monotonic() + within
    try:
        engine = engine_at(address)
    except EngineError as error:
        return Checkup(address, failure=Failed(error.kind, error.message, error.hint))
    try:
        library, model = "", None
        if address.scheme == "ssh":
            library = _answer(engine, Probe(), Probed, end).library
        else:
            name = address.model or address.shown
            model = _answer(engine, Load(ModelSpec(address.model, name, engine=address)), Loaded, end).info
        times = []
        for _ in range(_ROUNDS):
            begin = monotonic()
            _answer(engine, Tokenize("a"), None, end)
            times.append(monotonic() - begin)
        return Checkup(address, getattr(engine, "there", ""), library, model, min(times))
    except EngineError as error:
        return Checkup(address, failure=Failed(error.kind, error.message, error.hint))
    finally:
        engine.close()


def _answer(engine: Engine, command: Command, kind: type[T] | None, end: float) -> T:
    """The answer, of whatever kind where none is wanted.

    Raises:
        EngineError: there is another one, or none in time.
    """
    number = engine.send(command)
    while (left := end - monotonic()) > 0:
        for of, event in engine.receive(min(left, 0.5)):
            if isinstance(event, Failed) and (event.kind == "engine" or (kind is not None and of in (0, number))):
                raise EngineError(event.kind, event.message, event.hint)
            if of == number and _is_answer(event, kind):
                return event  # type: ignore[return-value]
    raise EngineError("engine", "it takes too long", "check the machine and the line to it")


def _is_answer(event: Event, kind: type[T] | None) -> bool:
    return is_last(event) if kind is None else isinstance(event, kind)
