"""The lines of a JSON Lines transcript as values, checked against their types.

Records travel as arrays on the pipe and as objects in JSON. So a line is read as a twin of its type, made from it here: the
same fields by name, and in it no arrays but lists.
"""

from __future__ import annotations

import json
import math
import typing
from collections.abc import Iterable, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union

import msgspec

from termchat.conversation.node import Omission
from termchat.conversation.session import Breakpoint, ModelRef, View
from termchat.conversation.transcript import VERSION
from termchat.decoding.conditions import Condition, ConditionError, Every, Text, Threshold, describe, parse
from termchat.decoding.records import FORMAT, RECORD_NAMES, Record, Settings, Start
from termchat.decoding.samplers import KNOBS, KnobError, SamplerSettings, Tuning


class LineError(ValueError):
    """A line is not what it should be; the message says what is wrong with it."""


LONGEST_NAME = 10_000
"""Characters of what a list shows on a line."""

Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]


class SessionLine(msgspec.Struct, tag_field="record", tag="session"):
    """The first line of a transcript: all that is known of the chat beside its nodes."""

    version: int
    format: int
    id: str
    title: Name
    system: str
    raw: bool
    leaf: int | None
    created: str | None
    updated: str | None
    model: ModelRef
    tuning: Tuning
    breakpoints: tuple[Breakpoint, ...] = ()
    view: View = View()


class NodeLine(msgspec.Struct, tag_field="record", tag="node"):
    """A node; the records of its reply follow."""

    number: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    parent: int | None
    at: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    role: Literal["user", "assistant"]
    text: str
    ids: list[Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]]
    whole: bool
    name: Name = ""
    deleted: bool = False
    omitted: Omission | None = None


Line = SessionLine | NodeLine | Record

_KINDS: dict[str, type] = {
    "session": SessionLine,
    "node": NodeLine,
    **{name: kind for kind, name in RECORD_NAMES.items()},
}
_HOLD_ARRAYS = (SessionLine, ModelRef)
"""Structs that are objects already, but not what is in them."""


def decode(data: bytes) -> Line:
    """The value of a line.

    Raises:
        LineError: it is no JSON object, of no known kind or another version, or a field is not of its type or range.
    """
    try:
        twin = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        twin = _decode_patiently(data)
    line: Line = msgspec.convert(twin, _KINDS[twin.__struct_config__.tag], from_attributes=True)
    if isinstance(line, (SessionLine, Start)):
        _check_versions(type(line), {name: getattr(line, name, None) for name in ("version", "format")})
    if isinstance(line, Start):
        _check_knob("seed", line.seed)
    if isinstance(line, (SessionLine, Settings)):
        _check_knobs(line.tuning if isinstance(line, SessionLine) else line.samplers)
        met = line.conditions if isinstance(line, Settings) else [point.condition for point in line.breakpoints]
        _check_conditions(met)
    return line


def _decode_patiently(data: bytes) -> Any:
    """The same for what the quick way refuses, null for a number that was none; or it says what is wrong."""
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise LineError("it is not UTF-8") from None
    except (ValueError, RecursionError):
        raise LineError("it is not one JSON object") from None
    kind = _KINDS.get(str(found.get("record"))) if isinstance(found, dict) else None
    if kind is None:
        raise LineError("it is no line of a transcript")
    _check_versions(kind, found)
    try:
        return msgspec.convert(_with_numbers(found, kind), _twin(kind))
    except msgspec.MsgspecError as error:
        raise LineError(str(error)) from None


def _check_versions(kind: type, found: dict[str, Any]) -> None:
    for name, known in (("version", VERSION if kind is SessionLine else FORMAT), ("format", FORMAT)):
        if found.get(name, known) not in (known, None):
            raise LineError(f"its {name} is {found[name]!r:.40}; this termchat reads {known}")


def _check_knobs(samplers: SamplerSettings) -> None:
    """Settings out of range could bring down what is given them."""
    for name in samplers.__struct_fields__:
        _check_knob(name, getattr(samplers, name))


def _check_knob(name: str, value: object) -> None:
    try:
        KNOBS[name].check(value)
    except KnobError as error:
        raise LineError(str(error)) from None


def _check_conditions(conditions: Iterable[Condition]) -> None:
    """So could conditions that nobody could have written."""
    for condition in conditions:
        if isinstance(condition, (Threshold, Every, Text)):
            try:
                parse(describe(condition))
            except ConditionError as error:
                raise LineError(f"a condition is none: {error}") from None


def _with_numbers(value: Any, kind: Any) -> Any:
    """The value with NaN where a number has to stand and there is null (see `to_dict`)."""
    if kind is float:
        return math.nan if value is None else value
    inner = typing.get_args(kind)
    if isinstance(value, list) and inner:
        return [_with_numbers(item, inner[0]) for item in value]
    if isinstance(value, dict):
        hints = typing.get_type_hints(kind) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else {}
        otherwise = inner[-1] if inner else None
        return {name: _with_numbers(item, hints.get(name, otherwise)) for name, item in value.items()}
    return value


_twins: dict[type, Any] = {}


def _twin(kind: Any) -> Any:
    """The type that reads JSON for a type of a line."""
    inner = typing.get_args(kind)
    if kind is int:
        return Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # what the pipe and the store can hold
    if typing.get_origin(kind) in (list, Sequence):
        return list[_twin(inner[0])]  # type: ignore[misc]
    if typing.get_origin(kind) is UnionType:
        return Union[tuple(_twin(one) for one in inner)]  # noqa: UP007 - of a tuple
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return kind
    if not (kind.__struct_config__.array_like or kind in _HOLD_ARRAYS):
        return kind
    if kind not in _twins:
        hints = typing.get_type_hints(kind, include_extras=True)
        fields: list[Any] = [
            (field.name, _twin(hints[field.name]), *(() if field.default is msgspec.NODEFAULT else (field.default,)))
            for field in msgspec.structs.fields(kind)
        ]
        tag: dict[str, Any] = (
            {"tag_field": "record", "tag": kind.__struct_config__.tag} if kind in _KINDS.values() else {}
        )
        _twins[kind] = msgspec.defstruct(kind.__name__, fields, gc=False, **tag)
    return _twins[kind]


_decode = msgspec.json.Decoder(Union[tuple(map(_twin, _KINDS.values()))]).decode  # noqa: UP007
