"""The one place where an engine is made. Callers know it by its contract (`port.Engine`) alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from termchat.engine.local import LocalEngine
from termchat.engine.port import Engine, EngineError


def make_engine(log: Path | None = None, *, started: bool = False) -> Engine:
    """The engine on this machine; `log`: see `LocalEngine`.

    With `started` its process starts at once instead of with the first command, which tells of it if that fails.
    """
    engine = LocalEngine(log)
    if started:
        with suppress(EngineError):
            engine.start()
    return engine
