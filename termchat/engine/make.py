"""The one place where an engine is made. Callers know it by its contract (`port.Engine`) alone."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from termchat.engine.address import EngineAddress
from termchat.engine.local import LocalEngine
from termchat.engine.port import Engine, EngineError
from termchat.engine.switching_engine import SwitchingEngine

SERVER_WORKER = "termchat.engine.remote.server_worker"


def make_engine(log: Path | None = None, *, started: bool = False) -> Engine:
    """Make the engine of this machine, until a model is loaded elsewhere; `log`: see `LocalEngine`.

    With `started` its process starts at once instead of with the first command, which tells of it if that fails.
    """
    here = LocalEngine(log)
    if started:
        with suppress(EngineError):
            here.start()
    return SwitchingEngine(here, partial(engine_at, log=log))


def engine_at(address: EngineAddress, log: Path | None = None) -> Engine:
    """Make the engine at one address.

    Raises:
        EngineError: termchat has none for it.
    """
    if not address.url:
        return LocalEngine(log)
    if address.scheme == "ssh":
        from termchat.engine.ssh import SshEngine  # not needed by most

        return SshEngine(address, log)
    if address.is_server:
        return LocalEngine(log, command=[sys.executable, "-P", "-m", SERVER_WORKER])
    raise EngineError("capability", f"{address.shown}: this termchat has no engine for {address.scheme}://")
