"""The one place where an engine is made. Callers know it by its contract (`port.Engine`) alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from termchat.engine.address import EngineAddress
from termchat.engine.local import LocalEngine
from termchat.engine.port import EngineError


def make_engine(log: Path | None = None, *, started: bool = False) -> LocalEngine:
    """Make the engine of this machine, until a model is loaded elsewhere; `log`: see `LocalEngine`.

    With `started` its process starts at once instead of with the first command, which tells of it if that fails.
    """
    engine = LocalEngine(log)
    if started:
        with suppress(EngineError):
            engine.start()
    return engine


def engine_at(address: EngineAddress, log: Path | None = None) -> LocalEngine:
    """Make the engine at one address.

    Raises:
        EngineError: termchat has none for it.
    """
    return LocalEngine(log, address=address)
