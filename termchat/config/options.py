"""A setting as people meet it: what it takes in words, how it is typed and how it is shown.

Knobs know that by themselves (`termchat.decoding.samplers.Knob`); an `Option` is the same of any other field of the settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from termchat.decoding.samplers import Knob

OptionValue = int | str | bool | tuple[str, ...]
Kind = Literal["text", "texts", "choice", "int", "bool"]

_KINDS: dict[object, Kind] = {str: "text", tuple: "texts", Literal: "choice", int: "int", bool: "bool"}


class OptionError(ValueError):
    """A value that an option refuses. The message names the option, what it takes and the value."""


class Option:
    """One field of the settings, in the table `table` of the config file; `step` is the move of one key press.

    `range` is what it takes, in short.
    """

    def __init__(self, name: str, field: FieldInfo, table: str = "", step: int = 1) -> None:
        self.name, self.table, self.step, self._field = name, table, step, field
        self.help = field.description or ""
        self.default: OptionValue = field.default
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        self._separator = str(extra.get("separator", os.pathsep))
        self.kind = _KINDS[get_origin(field.annotation) or field.annotation]
        self.choices: tuple[str, ...] = get_args(field.annotation) if self.kind == "choice" else ()
        self.low, self.high = (
            next((getattr(at, end) for at in field.metadata if hasattr(at, end)), 0) for end in ("ge", "le")
        )
        self.range, self._wanted = {
            "text": ("text", "a string"),
            "texts": ("strings", "a list of strings"),
            "choice": (" ".join(self.choices), f"one of {', '.join(self.choices)}"),
            "int": (f"{self.low} to {self.high}", f"a whole number from {self.low} to {self.high}"),
            "bool": ("on off", "true or false"),
        }[self.kind]

    def check(self, value: object) -> OptionValue:
        """The value, if the option takes it.

        Raises:
            OptionError: it is of another kind, outside the range or not among the choices.
        """
        return self._valid(lambda: self._adapter.validate_python(value, strict=True), value)

    def parse(self, text: str) -> OptionValue:
        """The value a person typed; texts are separated as in PATH, or as the field says.

        Raises:
            OptionError: see `check`.
        """
        if self.kind == "text":
            return self.check(text)
        if self.kind == "texts":
            return self.check([part.strip() for part in text.split(self._separator) if part.strip()])
        return self._valid(lambda: self._adapter.validate_strings(text.strip().lower()), text)

    def show(self, value: OptionValue) -> str:
        """A value as `parse` takes it."""
        if isinstance(value, bool):
            return "on" if value else "off"
        return self._separator.join(value) if isinstance(value, tuple) else str(value)

    def moved(self, value: OptionValue, steps: int) -> OptionValue:
        """The value after some key presses: numbers stay in range, choices go round; texts do not move."""
        if self.kind == "bool":
            return not value
        if self.kind == "choice":
            return self.choices[(self.choices.index(str(value)) + steps) % len(self.choices)]
        return min(max(value + steps * self.step, self.low), self.high) if isinstance(value, int) else value

    def _valid(self, read: Callable[[], OptionValue], given: object) -> OptionValue:
        try:
            return read()
        except ValidationError:
            raise OptionError(f"{self.name} must be {self._wanted}, not {given!r}") from None

    @cached_property
    def _adapter(self) -> TypeAdapter[OptionValue]:
        what: Any = self._field.annotation
        return TypeAdapter(Annotated[what, *self._field.metadata] if self._field.metadata else what)


Setting = Option | Knob
