"""A server's list of models. llama-server without a model of its own has several, and says what each is doing."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec

from termchat.decoding.records import Failed
from termchat.engine.abilities import EngineAbilities
from termchat.engine.address import EngineAddress, ServerKind, name_model
from termchat.engine.port import EngineError
from termchat.engine.remote.server_answers import BadAnswer, Count, Name, Phrase, convert, read_json, read_part

UNLISTED = (400, 404, 405, 501)
"""What servers of a chat API answer that list no models."""
LOADED = "loaded"
_READY = (LOADED, "sleeping")
"""What a sleeping model is asked wakes it."""
_SIZES = {" - Small": "_S", " - Medium": "_M", " - Large": "_L"}


_MOST = 5000
"""Models of a list that are looked at: the largest providers have a few hundred."""
_OWN = ("aliases", "meta", "status", "root", "parent")
"""Fields of llama-server's and vLLM's, which may be of other types elsewhere."""


class ServedVersion(msgspec.Struct, frozen=True):
    version: Phrase = ""


class ServedMeta(msgspec.Struct, frozen=True):
    n_vocab: Count = 0
    n_ctx: Count = 0
    n_ctx_train: Count = 0
    n_params: Count = 0
    size: Count = 0
    ftype: Phrase = ""


class ServedStatus(msgspec.Struct, frozen=True):
    value: str = LOADED
    failed: bool = False


class ServedEntry(msgspec.Struct, frozen=True):
    """`status` is None where the server has this one model. `root` and `parent` are vLLM's words for where its files are, and
    for the model that an adapter belongs to; from `context_length` on they are what servers call the size of the context."""

    id: Name
    aliases: list[Name] = []
    owned_by: Phrase = ""
    meta: ServedMeta | None = None
    status: ServedStatus | None = None
    root: str | None = None
    parent: str | None = None
    context_length: Count = 0
    max_model_len: Count = 0
    context_window: Count = 0
    max_context_length: Count = 0
    n_ctx: Count = 0

    @property
    def context(self) -> int:
        """In tokens, 0 where it is not told."""
        own = (self.context_length, self.max_model_len, self.context_window, self.max_context_length, self.n_ctx)
        return next(filter(None, own), self.meta.n_ctx if self.meta is not None else 0)

    @property
    def state(self) -> str:
        """What the server says that the model is doing."""
        if self.status is None:
            return LOADED
        return "failed" if self.status.failed and self.status.value not in _READY else self.status.value

    @property
    def ready(self) -> bool:
        return self.state in _READY

    @property
    def quantization(self) -> str:
        return quantization_of(self.meta.ftype) if self.meta is not None else ""

    @property
    def size(self) -> int:
        """In bytes, 0 where it is not told."""
        return self.meta.size if self.meta is not None else 0

    @property
    def name(self) -> str:
        """The name by which it is shown."""
        return name_model(self.id)

    @property
    def names(self) -> tuple[str, ...]:
        """All that it can be asked for with."""
        return tuple(dict.fromkeys((self.id, *self.aliases)))


class Checkup(msgspec.Struct, frozen=True):
    """What an engine said.

    `kind` is that of a server. `version` is of the termchat or of the server there, `library` of llama-cpp-python, "" where it
    does not tell; `rpc` says whether that can compute on further machines. `models` are a server's; `several` says that it
    chooses among them by name. `slots` is how many replies it makes at a time, 0 where it does not tell. `abilities` are what
    can be done with it, as far as that is known before a model is loaded. `round_trip` is the median of a few, in seconds.
    `failure` says why there is no answer.
    """

    address: EngineAddress
    kind: ServerKind | None = None
    version: str = ""
    library: str = ""
    rpc: bool = False
    models: tuple[ServedEntry, ...] = ()
    several: bool = False
    slots: int = 0
    abilities: EngineAbilities | None = None
    round_trip: float = 0.0
    failure: Failed | None = None

    @property
    def manner(self) -> str:
        """How replies are made with it: "draws there, 20 candidates"; "" where that is not known."""
        if self.abilities is None:
            return ""
        draws_there = self.abilities.ids and not self.abilities.client_draw
        listed = self.abilities.candidates if draws_there else 0
        return self.abilities.manner + (f", {listed} candidates" if listed else "")


def read_models(data: bytes) -> list[ServedEntry]:
    """Read the models that a server lists, without those whose id is none, or too long.

    Raises:
        BadAnswer: it is no list of models.
    """
    answer = read_json(data)
    listed: Any = read_part(answer, "data") if read_part(answer, "data") is not None else []
    if not isinstance(answer, dict) or not isinstance(listed, list):
        raise BadAnswer("it lists no models")
    found: list[ServedEntry] = []
    for one in listed[:_MOST]:
        plain = {name: value for name, value in one.items() if name not in _OWN} if isinstance(one, dict) else None
        for entry in (one, plain):
            with suppress(BadAnswer):
                found.append(convert(entry, ServedEntry))
                break
    return found


def quantization_of(told: str) -> str:
    """What files call it: a server says "Q4_K - Medium" of Q4_K_M. "" for anything else than one word."""
    for size, short in _SIZES.items():
        told = told.replace(size, short)
    return told if re.fullmatch(r"[\w.]{1,12}", told) else ""


def another_model(server: str, now: str) -> EngineError:
    """The server has another model than was found, as it is shown."""
    return EngineError(
        "model",
        f"{server} now has another model: {now}",
        "load it to go on with it, or have the server load the one of this chat",
    )
