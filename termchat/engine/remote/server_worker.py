"""The child process of an engine behind a URL: the commands and events of `engine.llama.worker`, the model of a server.

`python -m termchat.engine.remote.server_worker`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from termchat.engine.access_key import read_key
from termchat.engine.llama import worker
from termchat.engine.port import EngineError, ModelSpec
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.server_lookup import kind_of
from termchat.engine.remote.streams import StreamingServer

if TYPE_CHECKING:
    from termchat.engine.llama.model_session import ModelSession


def open_there(spec: ModelSpec, progress: Callable[[float], None]) -> ModelSession:
    """Open a session with a server; only what its kind needs is imported.

    Raises:
        EngineError: the server cannot be reached, or has no such model.
    """
    client = HttpClient(spec.engine, read_key(spec.engine))
    try:
        kind = kind_of(client)
        if kind == "llama-server" and spec.engine.draws == "here":
            from termchat.engine.remote.server_session import ServerSession

            return cast("ModelSession", ServerSession(client, spec, progress))  # what it lacks it refuses
        if kind not in ("llama-server", "vllm"):  # SGLang could be told ids in a way of its own, which is not tried
            from termchat.engine.remote.text_session import TextSession

            return cast("ModelSession", TextSession(client, spec, progress))
        server: StreamingServer
        if kind == "vllm":
            from termchat.engine.remote.vllm_stream import VllmStream

            server = VllmStream(client, spec)
        else:
            from termchat.engine.remote.llama_stream import LlamaStream

            server = LlamaStream(client, spec)
        from termchat.engine.remote.streamed_session import StreamedSession

        return cast("ModelSession", StreamedSession(server, client, progress))
    except EngineError:
        client.close()
        raise


if __name__ == "__main__":
    worker.main(open_session=open_there)
