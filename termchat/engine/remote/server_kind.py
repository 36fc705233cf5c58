"""Which server answers at a URL."""

from __future__ import annotations

from typing import get_args

from termchat.engine.address import ServerKind
from termchat.engine.port import EngineError
from termchat.engine.remote.http_client import HttpClient, ServerError
from termchat.engine.remote.served import read_models
from termchat.engine.remote.server_answers import BadAnswer

_SMALL = 8 << 20
_OWNERS: dict[str, ServerKind] = {"llamacpp": "llama-server", "vllm": "vllm", "sglang": "sglang"}
"""Who owns a model, in the words of its server; what others say is not known."""
_LOADS = "Loading model"
"""All that llama-server says while it loads; others that are busy have words of their own."""
UNLISTED = (400, 404, 405, 501)
"""What servers of a chat API answer that list no models."""
_UNSEEN = 'is the path of the URL right? A chat API that lists no models needs kind = "openai" and a model'


def kind_of(client: HttpClient, said: ServerKind | None = None) -> ServerKind:
    """The kind of the server at the client's URL: what was `said` of it, else what its list of models tells, and one that
    tells nothing is taken for any server of OpenAI's chat API.

    Raises:
        EngineError: it cannot be reached, or refuses.
    """
    if said is not None:
        return said
    try:
        data = client.get("/v1/models", _SMALL)
    except ServerError as error:
        if error.status == 503 and _LOADS in error.said:
            return "llama-server"
        if error.status in UNLISTED:
            raise EngineError(error.kind, error.message, _UNSEEN) from None
        raise
    try:
        models = read_models(data)
    except BadAnswer:
        raise EngineError(
            "server", f"{client.shown} is no server of models", f"is the path of the URL right? kinds: {_KINDS}"
        ) from None
    return next((_OWNERS[one.owned_by] for one in models if one.owned_by in _OWNERS), "openai")


_KINDS = ", ".join(get_args(ServerKind))
