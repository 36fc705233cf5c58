"""The child process of an engine behind a URL: the commands and events of `engine.llama.worker`, the model of a server.

`python -m termchat.engine.remote.server_worker`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from termchat.decoding.records import Failed
from termchat.engine.access_key import read_key
from termchat.engine.address import ServerKind
from termchat.engine.llama import worker
from termchat.engine.port import (
    Command,
    EngineError,
    Generate,
    LoadDraft,
    MeasureBatches,
    ModelSpec,
)
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.server_kind import kind_of

if TYPE_CHECKING:
    from termchat.engine.llama.model_session import ModelSession

_INSTEAD = "load one on this machine for that"
_REFUSED: dict[type | str, str] = {
    "beams": "search with beams",
    LoadDraft: "draft tokens",
    MeasureBatches: "measure batches",
}

_STREAMS: dict[ServerKind, tuple[str, str]] = {
    "llama-server": ("llama_stream", "LlamaStream"),
    "vllm": ("vllm_stream", "VllmStream"),
}
"""Who draws and streams at servers of a kind: the module and its class, which is made of a client and a spec."""
_BY_TEXT: tuple[ServerKind, ...] = ("sglang", "openai")
"""Kinds that are spoken with by text alone. SGLang could be told ids by a way of its own, which is not tried."""
_TEXTS = ("text_session", "TextSession")
"""The session with a server that tells texts alone, which is made of a client, a spec, and whom to tell of progress."""


class ServerWorker(worker.Worker):
    """Answers the commands of the inbox with what a server computes."""

    def _open(self, spec: ModelSpec, progress: Callable[[float], None]) -> ModelSession:
        client = HttpClient(spec.engine, read_key(spec.engine))
        try:
            kind = kind_of(client, spec.engine.kind)
            if kind == "llama-server" and spec.engine.draws == "here":
                client.close()
                from termchat.engine.remote.server_session import ServerSession

                return cast("ModelSession", ServerSession(spec, progress))  # what it lacks is refused below
            if kind in _BY_TEXT:
                return cast("ModelSession", _of(kind, *_TEXTS)(client, spec, progress))
            from termchat.engine.remote.streamed_session import StreamedSession

            return cast("ModelSession", StreamedSession(_of(kind, *_STREAMS[kind])(client, spec), client, progress))
        except EngineError:
            client.close()
            raise

    def _do(self, number: int, command: Command, arrived: float) -> None:
        kind: type | str = type(command)
        if isinstance(command, Generate) and command.group is not None:
            kind = "beams" if command.group.beams is not None else "walks"
        what = (_REFUSED | getattr(self._session, "refused", {})).get(kind)
        if what is None:
            super()._do(number, command, arrived)
        else:
            self._send(number, Failed("capability", f"a model on a server cannot {what}", _INSTEAD))


def _of(kind: ServerKind, module: str, name: str) -> Any:
    """What is made for a kind of server; only what is needed is imported."""
    path = f"{__package__}.{module}"
    if find_spec(path) is None:
        raise EngineError(
            "capability", f"this termchat cannot talk to {kind} servers that draw by themselves", "use a llama-server"
        )
    return getattr(import_module(path), name)


if __name__ == "__main__":
    worker.main(kind=ServerWorker)
