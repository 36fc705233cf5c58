"""A setting as people meet it: what it takes in words, how it is typed and how it is shown.

Knobs know that by themselves (`termchat.decoding.samplers.Knob`); an `Option` is the same of any other field of the settings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Annotated, Any, Literal, cast, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from termchat.decoding.samplers import KNOBS, Knob

OptionValue = int | str | bool | tuple[str, ...]
Kind = Literal["text", "texts", "choice", "int", "bool"]

_KINDS: dict[object, Kind] = {str: "text", tuple: "texts", Literal: "choice", int: "int", bool: "bool"}


class OptionError(ValueError):
    """A value an option refuses. The message names the option, what it takes and the value."""


class Option:
    """One field of the settings, in the table `table` of the config file; `step` is the move of one key press."""

    def __init__(self, name: str, field: FieldInfo, table: str = "") -> None:
        self.name, self.table = name, table
        self.help = field.description or ""
        self.default: OptionValue = field.default
        self.kind = _KINDS[get_origin(field.annotation) or field.annotation]
        self.choices: tuple[str, ...] = get_args(field.annotation) if self.kind == "choice" else ()
        self.low, self.high = (
            next((getattr(at, end) for at in field.metadata if hasattr(at, end)), 0) for end in ("ge", "le")
        )
        self.step = int(cast(Mapping[str, Any], field.json_schema_extra or {}).get("step", 1))
        self._field = field

    def check(self, value: object) -> OptionValue:
        """The value, if the option takes it.

        Raises:
            OptionError: it is of another kind, outside the range or not among the choices.
        """
        try:
            return self._adapter.validate_python(value, strict=True)
        except ValidationError:
            raise OptionError(f"{self.name} must be {self._wanted}, not {value!r}") from None

    def parse(self, text: str) -> OptionValue:
        """The value a person typed; texts are parted as PATH is.

        Raises:
            OptionError: see `check`.
        """
        if self.kind == "text":
            return self.check(text)
        if self.kind == "texts":
            return self.check([part for part in text.split(os.pathsep) if part])
        try:
            return self._adapter.validate_strings(text.strip().lower())
        except ValidationError:
            raise OptionError(f"{self.name} must be {self._wanted}, not {text!r}") from None

    def show(self, value: OptionValue) -> str:
        """A value as `parse` takes it."""
        if isinstance(value, bool):
            return "on" if value else "off"
        return os.pathsep.join(value) if isinstance(value, tuple) else str(value)

    def moved(self, value: OptionValue, steps: int) -> OptionValue:
        """The value after some key presses: numbers stay in range, choices go round; texts do not move."""
        if self.kind == "bool":
            return not value
        if self.kind == "choice":
            return self.choices[(self.choices.index(str(value)) + steps) % len(self.choices)]
        return min(max(value + steps * self.step, self.low), self.high) if isinstance(value, int) else value

    @property
    def range(self) -> str:
        """What it takes, in short."""
        return {
            "text": "text",
            "texts": "strings",
            "choice": " ".join(self.choices),
            "int": f"{self.low} to {self.high}",
            "bool": "on off",
        }[self.kind]

    @property
    def _wanted(self) -> str:
        return {
            "text": "a string",
            "texts": "a list of strings",
            "choice": f"one of {', '.join(self.choices)}",
            "int": f"a whole number from {self.low} to {self.high}",
            "bool": "true or false",
        }[self.kind]

    @cached_property
    def _adapter(self) -> TypeAdapter[OptionValue]:
        what: Any = self._field.annotation
        return TypeAdapter(Annotated[what, *self._field.metadata] if self._field.metadata else what)


Setting = Option | Knob


def range_of(setting: Setting) -> str:
    """What a setting takes, in short: "0 to 1; off is 1", "auto on off", "fresh, or 0 to 9007199254740991"."""
    if isinstance(setting, Option):
        return setting.range
    if setting.kind == "texts":
        return "strings"
    numbers = f"{setting.gap or setting.low:.16g} to {setting.high:.16g}"
    if setting.kind == "seed":
        return f"fresh, or {numbers}"
    if setting.gap:
        return f"{setting.low:g}, or {numbers}"
    return f"{numbers}; off is {setting.off:g}" if isinstance(setting.off, (int, float)) else numbers


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, str, FieldInfo]]:
    """Table, name and field of every setting that a model declares."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from ((name, *one[1:]) for one in _fields(inner))
        elif get_origin(inner) is not dict:
            yield "", name, field


@cache
def settings_of(model: type[BaseModel]) -> dict[str, Setting]:
    """Every setting that a model declares, by name, those of its tables too."""
    return {name: KNOBS.get(name) or Option(name, field, table) for table, name, field in _fields(model)}


@cache
def tables_of(model: type[BaseModel]) -> dict[str, str]:
    """In which table of the config file each setting stands; "" is before any."""
    return {name: table for table, name, _ in _fields(model)}
