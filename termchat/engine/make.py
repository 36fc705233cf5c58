"""The one place where an engine is made. Callers know it by its contract (`port.Engine`) alone."""

from __future__ import annotations

from pathlib import Path

from termchat.engine.local import LocalEngine
from termchat.engine.port import Engine


def make_engine(log: Path | None = None) -> Engine:
    """The engine on this machine; its process starts with the first command. `log`: see `LocalEngine`."""
    return LocalEngine(log)
