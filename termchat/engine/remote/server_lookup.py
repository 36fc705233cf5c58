"""What a server tells of itself in a few small answers: which it is, its version, its models, its slots. Nothing is loaded."""

from __future__ import annotations

from contextlib import suppress
from statistics import median
from time import perf_counter
from typing import get_args

import msgspec

from termchat.engine.abilities import of_server
from termchat.engine.address import ServerKind
from termchat.engine.port import EngineError
from termchat.engine.remote.http_client import HttpClient, ServerError
from termchat.engine.remote.llama_server import Props
from termchat.engine.remote.served import UNLISTED, Checkup, ServedEntry, ServedVersion, read_models
from termchat.engine.remote.server_answers import BadAnswer, decode

_SMALL = 8 << 20
_ROUNDS = 3
_MODELS = "/v1/models"
_OWNERS: dict[str, ServerKind] = {"llamacpp": "llama-server", "vllm": "vllm", "sglang": "sglang"}
"""Who owns a model, in the words of its server; what others say is not known."""
_LOADS = "Loading model"
"""All that llama-server says while it loads; others that are busy have words of their own."""
_UNSEEN = 'is the path of the URL right? A chat API that lists no models needs kind = "openai" and a model'
_VERSIONS: dict[ServerKind, str] = {"vllm": "/version", "sglang": "/get_server_info"}


def kind_of(client: HttpClient) -> ServerKind:
    """Return the kind of the server at the client's URL: that of its address, else what its list of models tells; one that
    tells nothing is taken for any server of OpenAI's chat API.

    Raises:
        EngineError: it cannot be reached, or refuses.
    """
    if client.address.kind is not None:
        return client.address.kind
    try:
        data = client.get(_MODELS, _SMALL)
    except ServerError as error:
        if error.status == 503 and _LOADS in error.said:
            return "llama-server"
        if error.status in UNLISTED:
            raise EngineError(error.kind, error.message, _UNSEEN) from None
        raise
    try:
        models = read_models(data)
    except BadAnswer:
        kinds = ", ".join(get_args(ServerKind))
        hint = f"is the path of the URL right? kinds: {kinds}"
        raise EngineError("server", f"{client.shown} is no server of models", hint) from None
    return next((_OWNERS[one.owned_by] for one in models if one.owned_by in _OWNERS), "openai")


def look(client: HttpClient) -> Checkup:
    """Ask the server of a client what it is. A chat API that lists no models is believed to have the one that is wanted.

    Raises:
        EngineError: it cannot be reached, refuses, or is no server of models.
    """
    address, kind = client.address, kind_of(client)
    times = []
    try:
        for _ in range(_ROUNDS):
            begin = perf_counter()
            entries = _list_models(client, address.model if kind == "openai" else "")
            times.append(perf_counter() - begin)
        props = _read_props(client) if kind == "llama-server" else Props()
    except BadAnswer as error:
        what = f"{client.shown} answers in a way that is not understood: {error}"
        raise EngineError("server", what) from None
    version = props.build_info
    if kind in _VERSIONS:
        with suppress(EngineError, BadAnswer):
            version = decode(client.get(_VERSIONS[kind], _SMALL), ServedVersion).version
    several = props.role == "router"
    context = 0 if several else props.default_generation_settings.n_ctx
    return Checkup(
        address, kind=kind, version=version,
        models=tuple(one if one.context else msgspec.structs.replace(one, n_ctx=context) for one in entries),
        several=several, slots=props.total_slots, abilities=of_server(kind, address), round_trip=median(times),
    )  # fmt: skip


def _list_models(client: HttpClient, otherwise: str) -> list[ServedEntry]:
    """List its models; the one called `otherwise` where it lists none."""
    try:
        return read_models(client.get(_MODELS, _SMALL))
    except ServerError as error:
        if not otherwise or error.status not in UNLISTED:
            raise
        return [ServedEntry(otherwise)]


def _read_props(client: HttpClient) -> Props:
    try:
        return decode(client.get("/props", _SMALL), Props)
    except ServerError as error:
        if error.status == 404:  # whoever runs it has switched that off
            return Props()
        raise
