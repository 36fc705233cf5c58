"""The models of other machines: those that the termchat there lists, or what a server has loaded."""

from __future__ import annotations

from typing import Any

import msgspec

from termchat.engine.address import EngineAddress
from termchat.engine.checkup import check
from termchat.engine.port import EngineError
from termchat.engine.ssh import run_there
from termchat.models.listing import ModelRow, State

_WITHIN = 30.0
_DRAWS = {"here": "a server; termchat draws each token here", "server": "a server, which draws the tokens itself"}


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


def engine_rows(address: EngineAddress, within: float = 10.0) -> list[ModelRow]:
    """An engine as a row, with its round trip, and one row for each model that its machine has; a row with the problem where
    there is no answer. Waits for it."""
    checkup, name, url = check(address, within), address.shown, address.url
    if (failure := checkup.failure) is not None:
        hint = failure.hint[:1].upper() + failure.hint[1:]
        problem = ". ".join(filter(None, (failure.message.rstrip("."), hint)))
        return [_row(address, name=name, state="broken", problem=problem, description=failure.message, source=url)]
    far = f"{url}, {checkup.round_trip * 1e3:.1f} ms"
    if address.scheme != "ssh":
        model = checkup.model
        what = f"{name}: {model.name}" if model is not None else name
        context = model.context if model is not None else None
        return [_row(address, name=what, source=far, context=context, description=_DRAWS[address.draws])]
    try:
        there = [row for row in models_of(address) if row.state == "ready"]
    except EngineError as error:
        return [_row(address, name=name, source=far, description=error.message)]
    count = f"{len(there)} model" + ("s" if len(there) != 1 else "")
    own = f"its own choice: {address.model}" if address.model else "its own default model"
    return [
        _row(address, name=name, source=far, description=f"{count} there, and everything works as at home; {own}"),
        *(
            msgspec.structs.replace(
                row, wanted=address.asked_as(row.wanted), name=f"{name}: {row.name}", engine=name, source=far, needs="",
                draft_model="", draft_models=(),
            )
            for row in there
        ),
    ]  # fmt: skip


def _row(address: EngineAddress, *, name: str, state: State = "ready", **more: Any) -> ModelRow:
    return ModelRow(wanted=address.asked_as(), name=name, state=state, engine=address.shown, **more)
