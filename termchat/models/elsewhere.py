"""The models of other machines: those that the termchat there lists, or what a server has loaded."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from termchat.engine.address import EngineAddress
from termchat.engine.checkup import Checkup, check
from termchat.engine.port import EngineError
from termchat.engine.ssh import run_there
from termchat.models.listing import ModelRow, State
from termchat.text import UNREADABLE, explain_unreadable

_WITHIN = 30.0
_MOST_MODELS = 10_000
"""Rows of a list; nobody has so many, and a screen can still be scrolled through them."""


class _Listed(msgspec.Struct):
    """What `termchat models list --json` prints on another machine."""

    models: list[dict[str, object]]

    def __post_init__(self) -> None:
        if len(self.models) > _MOST_MODELS:
            raise ValueError(f"more than {_MOST_MODELS:,} models")


def models_of(address: EngineAddress, within: float = _WITHIN) -> list[ModelRow]:
    """All models that an engine has: those that the termchat at an ssh:// address lists, its catalogue's too, or a server's.
    `path` is None. Waits for the answer.

    Raises:
        EngineError: there is no answer `within` so many seconds, or none that is understood.
    """
    if address.scheme != "ssh":
        return _models_of_server(address, within)
    printed = run_there(address, "models list --json", within)
    start = printed.find(b"{\n")  # after what a shell printed
    try:
        listed = msgspec.json.decode(printed[max(start, 0) :], type=_Listed).models
    except UNREADABLE as error:
        what = f"invalid list of models from {address.shown}: {explain_unreadable(error)}"
        raise EngineError("engine", what, "update termchat there") from error
    rows = []
    for row in listed:
        with suppress(*UNREADABLE):  # a bad row is left out
            rows.append(msgspec.convert({**row, "path": None}, ModelRow, strict=False))
    return rows


def _models_of_server(address: EngineAddress, within: float) -> list[ModelRow]:
    """Raises:
    EngineError: there is no answer.
    """
    checkup = check(address, within)
    if (failure := checkup.failure) is not None:
        raise EngineError(failure.kind, failure.message, failure.hint)
    return [
        ModelRow(
            wanted=one.id, name=one.name, state="ready", description=one.state, quantization=one.quantization,
            context=one.context or None, size=one.size or None, source=address.url, engine=address.shown, told=one.state,
            serves=one.names,
        )
        for one in checkup.models
    ]  # fmt: skip


def engine_rows(address: EngineAddress, within: float = 10.0) -> list[ModelRow]:
    """An engine as a row, and one row for each of several models that it has; a row with the problem where there is no answer.
    Waits for it."""
    checkup, name = check(address, within), address.shown
    if (failure := checkup.failure) is not None:
        hint = failure.hint[:1].upper() + failure.hint[1:]
        problem = ". ".join(filter(None, (failure.message.rstrip("."), hint)))
        return [_row(address, state="broken", problem=problem, told=_shortly(failure.message, name))]
    if address.scheme != "ssh":
        return _rows_of_server(address, checkup)
    try:
        there = [row for row in models_of(address) if row.state == "ready"]
    except EngineError as error:
        return [_row(address, round_trip=checkup.round_trip, told=_shortly(error.message, name))]
    own = f"its own choice: {address.model}" if address.model else "its own default model"
    told = f"{_counted(len(there))} · {checkup.manner}"
    return [
        _row(address, round_trip=checkup.round_trip, told=told, description=f"{own}, with all as at home"),
        *(
            msgspec.structs.replace(
                row, wanted=address.asked_as(row.wanted), name=f"{name}: {row.name}", engine=name, source=address.url,
                needs="", draft_model="", draft_models=(),
            )
            for row in there
        ),
    ]  # fmt: skip


def _rows_of_server(address: EngineAddress, checkup: Checkup) -> list[ModelRow]:
    """Of several models each has a row; one model is told in the server's own."""
    models, name = checkup.models, address.shown
    one = models[0] if len(models) == 1 else next((one for one in models if one.id == address.model), None)
    what = one.name if one is not None else _counted(len(models))
    first = _row(
        address,
        round_trip=checkup.round_trip,
        told=" · ".join(filter(None, (what, checkup.manner))),
        description=f"{checkup.kind} {checkup.version}".rstrip(),
        context=(one.context or None) if one is not None else None,
        quantization=one.quantization if one is not None else "",
        serves=one.names if one is not None else (),
    )
    if len(models) < 2:
        return [first]
    return [first, *(
        ModelRow(
            wanted=address.asked_as(one.id), name=f"{name}: {one.name}", state="ready", told=one.state,
            quantization=one.quantization, context=one.context or None, size=one.size or None, source=address.url,
            engine=name,
        )
        for one in models
    )]  # fmt: skip


def _counted(models: int) -> str:
    return f"{models} model" + ("s" if models != 1 else "")


def _shortly(message: str, name: str) -> str:
    """A failure as a remark in a row that names the engine already."""
    said = message.removeprefix(f"{name} ").rpartition(": ")[2]
    return said[:1].lower() + said[1:] if said[1:2].islower() else said


def _row(address: EngineAddress, *, state: State = "ready", **more: Any) -> ModelRow:
    name = address.shown
    return ModelRow(wanted=address.asked_as(), name=name, state=state, engine=name, source=address.url, **more)
