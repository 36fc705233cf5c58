"""A model in a server's list of models. llama-server without a model of its own has several, and says what each is doing."""

from __future__ import annotations

import re

import msgspec

from termchat.engine.address import called
from termchat.engine.port import EngineError

LOADED = "loaded"
_READY = (LOADED, "sleeping")
"""What a sleeping model is asked wakes it."""
_SIZES = {" - Small": "_S", " - Medium": "_M", " - Large": "_L"}


class ServedMeta(msgspec.Struct, frozen=True):
    n_vocab: int = 0
    n_ctx: int = 0
    n_ctx_train: int = 0
    n_params: int = 0
    size: int = 0
    ftype: str = ""


class ServedStatus(msgspec.Struct, frozen=True):
    value: str = LOADED
    failed: bool = False


class ServedEntry(msgspec.Struct, frozen=True):
    """`status` is None where the server has this one model; `max_model_len` is vLLM's word for its context."""

    id: str
    aliases: list[str] = []
    meta: ServedMeta | None = None
    status: ServedStatus | None = None
    max_model_len: int | None = None

    @property
    def context(self) -> int:
        """0 where it is not told."""
        return self.max_model_len or (self.meta.n_ctx if self.meta is not None else 0)

    @property
    def state(self) -> str:
        """What the server says that the model is doing."""
        if self.status is None:
            return LOADED
        return "failed" if self.status.failed and self.status.value not in _READY else self.status.value

    @property
    def ready(self) -> bool:
        return self.state in _READY


class ThereModel(msgspec.Struct, frozen=True):
    """A model of a server: what to ask for there; its context and its size in bytes, 0 where that is not told. `state` is
    "loaded", or what a server of several models says of it; `aliases` are what else it can be asked for with."""

    id: str
    context: int = 0
    quantization: str = ""
    size: int = 0
    state: str = LOADED
    aliases: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What to call it."""
        return called(self.id)

    @property
    def names(self) -> tuple[str, ...]:
        """All that it can be asked for with."""
        return tuple(dict.fromkeys((self.id, *self.aliases)))


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
