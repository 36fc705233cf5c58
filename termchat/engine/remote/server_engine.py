"""An engine behind a URL."""

from __future__ import annotations

import sys
from pathlib import Path

from termchat.engine.local import LocalEngine

WORKER = "termchat.engine.remote.server_worker"


class ServerEngine(LocalEngine):
    """A worker process whose model is on a server, which is named by the spec that is loaded."""

    def __init__(self, log: Path | None = None) -> None:
        super().__init__(log, command=[sys.executable, "-P", "-m", WORKER])
