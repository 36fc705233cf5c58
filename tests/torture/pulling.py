"""Rounds of a download, killed on its way; the server is on the loopback."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import sleep

from termchat.models.catalogue import Catalogue
from termchat.models.download.pull import pull
from tests.pull.file_server import file_server, gguf
from tests.torture.home import Home
from tests.torture.known import Loss
from tests.torture.plan import Round
from tests.torture.traces import Fault, no_orphans, until

SIZE = 12_000_000


@cache
def _model() -> bytes:
    return gguf(SIZE)


def run(home: Home, what: Round) -> Loss:
    """One round. Raises a Fault."""
    folder = home.folder / f"models-{what.number}"
    path = folder / "big.gguf"
    with file_server() as server:
        address = server.put("/big.gguf", _model())
        process = home.start("-m", "termchat", "models", "pull", address, "--to", str(folder))
        until(lambda: list(folder.glob("*.part")) or process.poll() is not None, "start", "nothing is pulled")
        sleep(what.delay)
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        no_orphans(home.mark)
        if path.exists() and path.read_bytes() != _model():
            raise Fault("file", "a file is in its place that is not whole")
        _again(address, folder)
    if path.read_bytes() != _model():
        raise Fault("file", "the next pull made another file")
    left = sorted(found.name for found in folder.iterdir())
    if left != ["big.gguf", "big.gguf.json"]:
        raise Fault("left over", f"{left} in {folder}")
    path.unlink()
    return Loss()


def _again(address: str, folder: Path) -> None:
    waited: list[str] = []
    pull(
        address, folder, known=Catalogue({}),
        progress=lambda told: waited.append(told.note) if told.stage == "waiting" else None, cancelled=lambda: bool(waited),
    )  # fmt: skip
