"""The lines of our own JSON Lines: what may stand in one, and how it is read.

A file is foreign: versions and ranges are checked, and every refusal says what is wrong. What the fast decoder refuses is read
again by a patient one, which takes null for NaN, or for -inf where a field lacks what would be NaN. JSON may escape half of a
surrogate pair alone; such a half becomes U+FFFD and is counted.
"""

from __future__ import annotations

import json
import math
import re
import typing
from collections.abc import Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union

import msgspec

from termchat.conversation.node import Omission
from termchat.conversation.session import Breakpoint, ModelRef, View
from termchat.conversation.transcripts.transcript import VERSION
from termchat.decoding.beam_search import find_problem, penalty_problem
from termchat.decoding.conditions import ConditionError, Rule, format_condition, parse
from termchat.decoding.group import MOST_BEAMS, MOST_WALKS
from termchat.decoding.records import FORMAT, RECORD_NAMES, UNTOLD, Record, SettingsRecord, Start
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.decoding.setting import SettingError

_MAY_BE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""An escape of JSON: both halves of a character, a half alone, or any other."""


LONGEST_NAME = 10_000
"""Characters of what a list shows on a line."""
Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]


def replace_surrogates(data: bytes) -> tuple[bytes, int]:
    """Return JSON with U+FFFD for each lone surrogate, and how many there were."""
    if _MAY_BE.search(data) is None:
        return data, 0
    count = 0

    def replace(found: re.Match[bytes]) -> bytes:
        nonlocal count
        if found[1] is None:
            return found[0]
        count += 1
        return rb"\ufffd"

    return _ESCAPES.sub(replace, data), count


class LineError(ValueError):
    """A line is invalid; the message says why."""


class SessionLine(msgspec.Struct, tag_field="record", tag="session", kw_only=True):
    """The first line of a transcript: all that is known of the chat beside its nodes."""

    version: int
    format: int
    termchat: Any = ""
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
    system: str | None = None


Line = SessionLine | NodeLine | Record

_KINDS: dict[str, type] = {
    "session": SessionLine,
    "node": NodeLine,
    **{name: kind for kind, name in RECORD_NAMES.items()},
}
_HOLD_ARRAYS = (SessionLine, ModelRef)
"""Structs that are objects already, but not what is in them."""


def decode(data: bytes) -> Line:
    """Decode a line.

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
    try:  # settings out of range could crash the engine, and so could conditions that cannot be written by hand
        if isinstance(line, Start):
            KNOBS["seed"].check(line.seed)
            _check_walk(line)
        if isinstance(line, (SessionLine, SettingsRecord)):
            samplers = line.tuning if isinstance(line, SessionLine) else line.samplers
            for name in samplers.__struct_fields__:
                KNOBS[name].check(getattr(samplers, name))
            met = (
                line.conditions if isinstance(line, SettingsRecord) else [point.condition for point in line.breakpoints]
            )
            for rule in (condition for condition in met if isinstance(condition, Rule)):
                parse(format_condition(rule))
    except SettingError as error:
        raise LineError(str(error)) from None
    except ConditionError as error:
        raise LineError(f"a condition is invalid: {error.message}") from None
    return line


def _decode_patiently(data: bytes) -> Any:
    """Decode a line that the fast decoder refuses: null becomes NaN; raise an error with the fault otherwise."""
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise LineError("it is not UTF-8") from None
    except (ValueError, RecursionError):
        raise LineError("not a JSON object") from None
    kind = _KINDS.get(str(found.get("record"))) if isinstance(found, dict) else None
    if kind is None:
        raise LineError("not a line of a transcript")
    _check_versions(kind, found)
    try:
        return msgspec.convert(_fill_numbers(found, kind), _make_twin(kind))
    except msgspec.MsgspecError as error:
        raise LineError(str(error)) from None


def _check_versions(kind: type, found: dict[str, Any]) -> None:
    for name, known in (("version", VERSION if kind is SessionLine else FORMAT), ("format", FORMAT)):
        if found.get(name, known) not in (known, None):
            raise LineError(f"its {name} is {found[name]!r:.40}; this termchat reads {known}")


def _check_walk(start: Start) -> None:
    """Refuse a group that nobody could make again."""
    group, walk = start.group, start.walk
    if (walk is None) != (group is None):
        raise LineError("a walk has a number and a group, or neither")
    if group is None or walk is None:
        return
    most = MOST_BEAMS if group.beams is not None else MOST_WALKS
    if not (1 <= group.size <= most and group.runs >= 1 and walk >= 0 and 0 <= group.number < 2**53):
        raise LineError(f"walk {walk} of a group of {group.size} is none that can be made")
    if group.beams is not None and (wrong := find_problem(group.beams)):
        raise LineError(wrong)
    if wrong := penalty_problem(group.length_penalty):
        raise LineError(wrong)
    for knob in group.knobs:
        if knob.name not in KNOBS:
            raise LineError(f"unknown knob {knob.name!r:.40} in a grid")


def _fill_numbers(value: Any, kind: Any, null: float = math.nan) -> Any:
    """Return the value with a number for `null` where one is expected (see `to_dict`)."""
    if kind is float:
        return null if value is None else value
    inner = typing.get_args(kind)
    if isinstance(value, list) and inner:
        return [_fill_numbers(item, inner[0]) for item in value]
    if isinstance(value, dict):
        hints = typing.get_type_hints(kind) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else {}
        otherwise = inner[-1] if inner else None
        left_out = UNTOLD.get(kind, {})
        return {
            name: _fill_numbers(item, hints.get(name, otherwise), -math.inf if name in left_out else math.nan)
            for name, item in value.items()
        }
    return value


_twins: dict[type, Any] = {}


def _make_twin(kind: Any) -> Any:
    """Return the type that reads JSON objects for a type whose own form is an array."""
    inner = typing.get_args(kind)
    if kind is int:
        return Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # what the pipe and the store can hold
    if typing.get_origin(kind) in (list, Sequence):
        return list[_make_twin(inner[0])]  # type: ignore[misc]
    if typing.get_origin(kind) is tuple and inner[-1] is ...:
        return tuple[_make_twin(inner[0]), ...]  # type: ignore[misc]
    if typing.get_origin(kind) is UnionType:
        return Union[tuple(_make_twin(one) for one in inner)]  # noqa: UP007 - of a tuple
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return kind
    if not (kind.__struct_config__.array_like or kind in _HOLD_ARRAYS):
        return kind
    if kind not in _twins:
        hints = typing.get_type_hints(kind, include_extras=True)
        defaults = {field.name: field.default for field in msgspec.structs.fields(kind)} | UNTOLD.get(kind, {})
        fields: list[Any] = [
            (name, _make_twin(hints[name]), *(() if default is msgspec.NODEFAULT else (default,)))
            for name, default in defaults.items()
        ]
        tag: dict[str, Any] = (
            {"tag_field": "record", "tag": kind.__struct_config__.tag} if kind in _KINDS.values() else {}
        )
        _twins[kind] = msgspec.defstruct(kind.__name__, fields, gc=False, kw_only=True, **tag)
    return _twins[kind]


_decode = msgspec.json.Decoder(Union[tuple(map(_make_twin, _KINDS.values()))]).decode  # noqa: UP007
