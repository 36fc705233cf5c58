"""What a server tells of itself in a few small answers: which it is, its version, its models, its slots. Nothing is loaded."""

from __future__ import annotations

from statistics import median
from time import perf_counter

import msgspec

from termchat.engine.address import ServerKind
from termchat.engine.port import EngineError
from termchat.engine.remote.http_client import HttpClient, ServerError
from termchat.engine.remote.served import ServedEntry, ThereModel, quantization_of, read_models
from termchat.engine.remote.server_answers import BadAnswer, Count, Phrase, decode
from termchat.engine.remote.server_kind import UNLISTED, kind_of

_SMALL = 8 << 20
_ROUNDS = 3
_MODELS = "/v1/models"
_VERSIONS: dict[ServerKind, str] = {"vllm": "/version", "sglang": "/get_server_info"}


class ServerLook(msgspec.Struct, frozen=True):
    """`version` and `slots` are "" and 0 where that is not told; `round_trip` is the median of a few small answers, in seconds.
    `several` says that the server chooses among its models by name."""

    kind: ServerKind
    version: str
    models: tuple[ThereModel, ...]
    slots: int
    round_trip: float
    several: bool = False


class _Generation(msgspec.Struct, frozen=True):
    n_ctx: Count = 0


class _Props(msgspec.Struct, frozen=True):
    build_info: Phrase = ""
    total_slots: Count = 0
    role: str = ""
    default_generation_settings: _Generation = _Generation()


class _Version(msgspec.Struct, frozen=True):
    version: Phrase = ""


def look(client: HttpClient, said: ServerKind | None = None, wanted: str = "") -> ServerLook:
    """Asks the server at the client's URL; `said` is what is known of its kind, `wanted` the model that is to be asked for,
    which a chat API that lists none is believed to have.

    Raises:
        EngineError: it cannot be reached, refuses, or is no server of models.
    """
    kind = kind_of(client, said)
    times = []
    for _ in range(_ROUNDS):
        begin = perf_counter()
        entries = _listed(client, wanted if kind == "openai" else "")
        times.append(perf_counter() - begin)
    props = _props(client) if kind == "llama-server" else _Props()
    several = props.role == "router"
    context = props.default_generation_settings.n_ctx
    models = tuple(
        ThereModel(
            one.id,
            one.context or (0 if several else context),
            quantization_of(one.meta.ftype) if one.meta is not None else "",
            one.meta.size if one.meta is not None else 0,
            one.state,
            tuple(one.aliases),
        )
        for one in entries
    )
    version = props.build_info or _version(client, _VERSIONS.get(kind, ""))
    return ServerLook(kind, version, models, props.total_slots, median(times), several)


def _listed(client: HttpClient, otherwise: str) -> list[ServedEntry]:
    """Its models; the one called `otherwise` where it lists none."""
    try:
        return read_models(client.get(_MODELS, _SMALL))
    except BadAnswer as error:
        raise _misunderstood(client, error) from None
    except ServerError as error:
        if not otherwise or error.status not in UNLISTED:
            raise
        return [ServedEntry(otherwise)]


def _props(client: HttpClient) -> _Props:
    """Raises:
    EngineError: it is still loading, or refuses.
    """
    try:
        return decode(client.get("/props", _SMALL), _Props)
    except BadAnswer as error:
        raise _misunderstood(client, error) from None
    except ServerError as error:
        if error.status == 404:  # whoever runs it has switched that off
            return _Props()
        raise


def _version(client: HttpClient, path: str) -> str:
    """ "" where the server does not tell."""
    if not path:
        return ""
    try:
        return decode(client.get(path, _SMALL), _Version).version
    except (EngineError, BadAnswer):
        return ""


def _misunderstood(client: HttpClient, error: BadAnswer) -> EngineError:
    return EngineError("server", f"{client.shown} answers in a way that is not understood: {error}")
