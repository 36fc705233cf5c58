"""The one place where an engine is made. Callers know it by its contract (`port.Engine`) alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from termchat.engine.local import LocalEngine
from termchat.engine.port import Engine, EngineError


def make_engine(log: Path | None = None, *, start: bool = False) -> Engine:
    """The engine on this machine. `log`: see `LocalEngine`.

    Its process starts with the first command; with `start` it starts now, beside what the caller does next.
    """
    engine = LocalEngine(log)
    if start:
        with suppress(EngineError):  # it is tried again, and reported, when there is a model to load
            engine.start()
    return engine
