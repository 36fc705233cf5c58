"""The models of another machine: those that the termchat there lists."""

from __future__ import annotations

import msgspec

from termchat.engine.address import EngineAddress
from termchat.engine.port import EngineError
from termchat.engine.ssh import run_there
from termchat.models.listing import ModelRow

_WITHIN = 30.0


def models_of(address: EngineAddress, within: float = _WITHIN) -> list[ModelRow]:
    """All models that the termchat at an ssh:// address lists, its catalogue's too; `path` is None. Waits for the answer.

    Raises:
        EngineError: there is no answer `within` so many seconds, or none that is understood.
    """
    said = run_there(address, "models list --json", within)
    start = said.find(b"{\n")  # after what a shell printed
    try:
        listed = msgspec.json.decode(said[max(start, 0) :], type=dict[str, object])["models"]
        rows = msgspec.convert([{**row, "path": None} for row in listed], list[ModelRow], strict=False)  # type: ignore[attr-defined]
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise EngineError(
            "engine", f"{address.shown} lists its models in another way", "update termchat there"
        ) from error
    return rows
