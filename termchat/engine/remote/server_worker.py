"""The child process of an engine behind a URL: the commands and events of `engine.llama.worker`, the model of a server.

`python -m termchat.engine.remote.server_worker`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from termchat.decoding.records import Failed
from termchat.engine.llama import worker
from termchat.engine.port import (
    Command,
    Compare,
    GenerateWalks,
    Keep,
    LoadDraft,
    MeasureBatches,
    ModelSpec,
    SearchBeams,
)

if TYPE_CHECKING:
    from termchat.engine.llama.model_session import Session

_INSTEAD = "load one on this machine for that"
_REFUSED: dict[type, str] = {
    GenerateWalks: "make several replies at once",
    SearchBeams: "search with beams",
    Keep: "make several replies at once",
    LoadDraft: "draft tokens",
    MeasureBatches: "measure batches",
    Compare: "compare batches with single tokens",
}


class ServerWorker(worker.Worker):
    """Answers the commands of the inbox with what a server computes."""

    def _open(self, spec: ModelSpec, progress: Callable[[float], None]) -> Session:
        from termchat.engine.remote.server_session import ServerSession

        return cast("Session", ServerSession(spec, progress))  # what it lacks is refused below

    def _do(self, number: int, command: Command, arrived: float) -> None:
        what = _REFUSED.get(type(command))
        if what is None:
            super()._do(number, command, arrived)
        else:
            self._send(number, Failed("capability", f"a model on a server cannot {what}", _INSTEAD))


if __name__ == "__main__":
    worker.main(kind=ServerWorker)
