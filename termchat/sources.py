"""All there is to set, and what is read of it from the config file, from variables and from flags.

A mistake in a variable or in the file is told and passed over; a mistake in a flag is an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from termchat.decoding.samplers import KNOBS, Knob, Value, unescape
from termchat.options import OPTIONS, Option
from termchat.text import guess_of
from termchat.toml import TomlError, TomlFile

PREFIX = "TERMCHAT_"
_NOT_OURS = frozenset({"TERMCHAT_OFFLINE"})
"""Variables that speak to another part of termchat."""
FLAG = "flag"
"""The origin of what a flag says."""
PERSONA = "persona "
"""What the origin of a setting begins with that a persona set; its name follows."""

SETTINGS: dict[str, Option | Knob] = {**OPTIONS, **KNOBS}
"""All there is to set, by name; `Config` says what each is set to."""
TABLES = {**{name: option.table for name, option in OPTIONS.items()}, **dict.fromkeys(KNOBS, "sampling")}
"""In which table of the config file a setting stands."""
KEYS = "keys"
"""The table of the config file that binds keys; what may be bound is the screen's to say."""
_TOLD = 20
"""Problems that are told one by one; of a file that is all wrong, the number of the others says enough."""
_LONGEST = 500
"""Characters of a problem: what is wrong may be a text of any length."""


class FlagError(ValueError):
    """A flag's value is refused; `name` is the setting's."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class Found:
    """What was found so far; a later source replaces an earlier one."""

    def __init__(self) -> None:
        self.values: dict[str, Value | str] = {}
        self.origin: dict[str, str] = {}
        self.places: dict[str, str] = {}
        self.problems: list[str] = []
        self.untold = 0
        self.keys: dict[str, str] = {}
        self.key_places: dict[str, str] = {}

    def from_file(self, path: Path) -> None:
        try:
            source = TomlFile(path)
        except TomlError as error:
            if not error.is_missing:
                self._tell(f"{error}; the file is ignored")
            return
        tables = {*TABLES.values(), KEYS} - {""}
        for keys, value in _entries(source.table, tables):
            table, name = ".".join(keys[:-1]), keys[-1]
            place = source.place(*keys)
            if table == KEYS:
                self._bind(name, value, place)
            elif name in SETTINGS and TABLES[name] == table:
                self._try(name, path.name, place, _native, value)
            elif name in SETTINGS:
                right = f"under [{TABLES[name]}]" if TABLES[name] else "at the top, before any table"
                self._tell(f"{place}: {name} belongs {right}; it is ignored")
            elif name in tables:
                self._tell(f"{place}: {name} must be a table, [{name}]; it is ignored")
            else:
                known = [n for n in SETTINGS if TABLES[n] == table] if table else [*SETTINGS, *tables]
                self._unknown(f"{place}: there is no setting {name!r}", name, known)

    def from_environment(self, environ: Mapping[str, str]) -> None:
        variables = {PREFIX + name.upper(): name for name in SETTINGS}
        for variable, text in environ.items():
            name = variables.get(variable)
            if name is not None:
                if text or SETTINGS[name].kind in ("text", "texts"):
                    self._try(name, variable, variable, _typed, text)
            elif variable.startswith(PREFIX) and variable not in _NOT_OURS:
                self._unknown(f"{variable}: there is no such setting", variable, variables)

    def from_flags(self, flags: Mapping[str, object]) -> None:
        for name, value in flags.items():
            try:
                self.values[name] = _flag(name, value)
            except ValueError as error:
                raise FlagError(name, str(error)) from error
            self.origin[name] = FLAG
            self.places.pop(name, None)

    def told(self) -> tuple[str, ...]:
        """The problems, and how many more there are than anybody reads."""
        return (*self.problems, *([f"and {self.untold:,} more mistakes"] if self.untold else []))

    def _tell(self, problem: str) -> None:
        if len(self.problems) < _TOLD:
            self.problems.append(problem if len(problem) <= _LONGEST else problem[:_LONGEST] + "…")
        else:
            self.untold += 1

    def _unknown(self, problem: str, name: str, known: Iterable[str]) -> None:
        guess = guess_of(name, known) if len(self.problems) < _TOLD else ""  # to guess takes time
        self._tell(f"{problem}{guess}; it is ignored")

    def _bind(self, name: str, value: object, place: str) -> None:
        given = value if isinstance(value, list) else [value]
        keys = [key for key in given if isinstance(key, str)]
        if len(keys) == len(given):
            self.keys[name] = ",".join(keys)
            self.key_places[name] = place
        else:
            self._tell(f"{place}: {name} must be a key or a list of keys, not {value!r}; it is ignored")

    def _try(self, name: str, origin: str, place: str, read: Callable[[str, Any], Value | str], raw: object) -> None:
        try:
            self.values[name] = read(name, raw)
        except ValueError as error:
            self._tell(f"{place}: {error}; it is ignored")
        else:
            self.origin[name] = origin
            self.places[name] = place


def _entries(table: Mapping[str, object], tables: set[str]) -> Iterator[tuple[tuple[str, ...], object]]:
    """Keys and values of a config file; of the tables we know, what is in them."""
    for key, value in table.items():
        if key in tables and isinstance(value, dict):
            yield from (((key, inner), content) for inner, content in value.items())
        else:
            yield (key,), value


def _native(name: str, value: object) -> Value | str:
    """A value of a TOML file, which has types; numbers may also be words, such as "off" and "fresh"."""
    setting = SETTINGS[name]
    if isinstance(value, str) and setting.kind in ("float", "int", "seed", "bool"):
        return setting.parse(value)
    return setting.check(value)


def _typed(name: str, text: str) -> Value | str:
    """A value of a variable, which is text; a list of texts may be JSON."""
    setting = SETTINGS[name]
    if setting.kind == "texts" and text.lstrip().startswith("["):
        try:
            listed = json.loads(text)
        except ValueError:
            listed = None
        if isinstance(listed, list) and all(isinstance(item, str) for item in listed):
            return setting.check(listed)
    return setting.parse(text)


def _flag(name: str, value: object) -> Value | str:
    """A value of a flag: as typed, or already of the right type."""
    setting = SETTINGS[name]
    if isinstance(value, str):
        return setting.parse(value)
    if setting.kind == "texts" and isinstance(value, (list, tuple)):
        return setting.check([unescape(item) if isinstance(item, str) else item for item in value])
    return setting.check(value)


def range_of(setting: Option | Knob) -> str:
    """What a setting takes, in short: "0 to 1; off is 1", "auto on off", "fresh, or 0 to 9007199254740991"."""
    if isinstance(setting, Option):
        return setting.range
    if setting.kind == "texts":
        return "texts"
    numbers = f"{setting.gap or setting.low:.16g} to {setting.high:.16g}"
    if setting.kind == "seed":
        return f"fresh, or {numbers}"
    if setting.gap:
        return f"{setting.low:g}, or {numbers}"
    return f"{numbers}; off is {setting.off:g}" if isinstance(setting.off, (int, float)) else numbers
