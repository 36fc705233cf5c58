"""Where settings come from: one source for each place, in the order in which they count (`PLACES`).

A mistake in a flag is an error. Anywhere else it is told in one line and that value left out, so that the next place counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from termchat.config.options import Setting, settings_of, tables_of
from termchat.config.origins import FLAG, MODEL, PERSONA, PICKER, TUNED
from termchat.decoding.samplers import unescape
from termchat.text import guess_of
from termchat.toml import TomlError, TomlFile

NEWER, CHAT, VARIABLES, FILE = "newer", "chat", "variables", "file"
PLACES = (
    NEWER,  # what a person set for one model since the program began, and so since the flags
    FLAG,
    CHAT,  # what a saved chat was left with
    PERSONA,
    VARIABLES,
    PICKER,  # what a person set for one model: it is closer than what the file says of all
    FILE,
    TUNED,  # what `termchat tune` measured for a model
    MODEL,  # what is recommended for it
)
"""What goes before what; the defaults come last."""

PREFIX = "TERMCHAT_"
_NOT_OURS = frozenset({"TERMCHAT_OFFLINE"})
"""Variables that speak to another part of termchat."""
KEYS = "keys"
"""The table of the config file that binds keys; what may be bound is the screen's to say."""
_TOLD = 20
"""Problems of a source that are told one by one; of a file that is all wrong, the number of the others says enough."""
_LONGEST = 500
"""Characters of a problem: what is wrong may be a text of any length."""


class FlagError(ValueError):
    """A flag's value is refused; `name` is the setting's."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class SettingsSource(PydanticBaseSettingsSource):
    """What one of `PLACES` says, by setting: `values` that their settings take, and the `origin` of each.

    `places` says where in a file or which variable: "config.toml, line 3"; what binds a key goes by `keys.ID` there.
    """

    def __init__(self, settings_cls: type[BaseSettings], place: str) -> None:
        super().__init__(settings_cls)
        self.place = place
        self.settings, self.tables = settings_of(settings_cls), tables_of(settings_cls)
        self.values: dict[str, Any] = {}
        self.origin: dict[str, str] = {}
        self.places: dict[str, str] = {}
        self._problems: list[str] = []
        self._untold = 0

    def __call__(self) -> dict[str, Any]:
        """The values as `Settings` nests them."""
        found: dict[str, Any] = {}
        for name, value in self.values.items():
            table = self.tables.get(name)
            (found.setdefault(table, {}) if table else found)[name] = value
        return found

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self.values.get(field_name), field_name, False

    @property
    def problems(self) -> list[str]:
        """One line each, and how many more there are than anybody reads."""
        return [*self._problems, *([f"and {self._untold:,} more mistakes"] if self._untold else [])]

    def _tell(self, problem: str) -> None:
        if len(self._problems) < _TOLD:
            self._problems.append(problem if len(problem) <= _LONGEST else problem[:_LONGEST] + "…")
        else:
            self._untold += 1

    def _unknown(self, problem: str, name: str, known: Iterable[str]) -> None:
        guess = guess_of(name, known) if len(self._problems) < _TOLD else ""  # to guess takes time
        self._tell(f"{problem}{guess} (ignored)")

    def _try(self, name: str, origin: str, place: str, read: Callable[[Setting, Any], object], raw: object) -> None:
        try:
            self.values[name] = read(self.settings[name], raw)
        except ValueError as error:
            self._tell(f"{place}: {error} (ignored)")
        else:
            self.origin[name], self.places[name] = origin, place


class Flags(SettingsSource):
    """The flags that were given; texts as typed.

    Raises:
        FlagError: a value is refused.
    """

    def __init__(self, settings_cls: type[BaseSettings], given: Mapping[str, object]) -> None:
        super().__init__(settings_cls, FLAG)
        for name, value in given.items():
            try:
                self.values[name] = _flag(self.settings[name], value)
            except ValueError as error:
                raise FlagError(name, str(error)) from error
            self.origin[name] = FLAG


class Variables(SettingsSource):
    """`TERMCHAT_*`. An empty one sets a text; of anything else it says nothing."""

    def __init__(self, settings_cls: type[BaseSettings], environ: Mapping[str, str]) -> None:
        super().__init__(settings_cls, VARIABLES)
        variables = {PREFIX + name.upper(): name for name in self.settings}
        for variable, text in environ.items():
            if name := variables.get(variable):
                if text or self.settings[name].kind in ("text", "texts"):
                    self._try(name, variable, variable, _typed, text)
            elif variable.startswith(PREFIX) and variable not in _NOT_OURS:
                self._unknown(f"{variable}: unknown setting", variable, variables)


class ConfigFile(SettingsSource):
    """config.toml, which need not be there."""

    def __init__(self, settings_cls: type[BaseSettings], path: Path) -> None:
        super().__init__(settings_cls, FILE)
        try:
            source = TomlFile(path)
        except TomlError as error:
            if not error.is_missing:
                self._tell(f"{error}; the file is ignored")
            return
        tables = {*self.tables.values(), KEYS} - {""}
        for keys, value in _entries(source.table, tables):
            table, name, place = ".".join(keys[:-1]), keys[-1], source.place(*keys)
            if table == KEYS:
                self._bind(name, value, place)
            elif self.tables.get(name) == table:
                self._try(name, path.name, place, _native, value)
            elif name in self.tables:
                right = f"under [{self.tables[name]}]" if self.tables[name] else "at the top, before any table"
                self._tell(f"{place}: {name} belongs {right} (ignored)")
            elif name in tables:
                self._tell(f"{place}: {name} must be a table, [{name}] (ignored)")
            else:
                known = (
                    [one for one, where in self.tables.items() if where == table]
                    if table
                    else self.tables | dict.fromkeys(tables)
                )
                self._unknown(f"{place}: unknown setting {name!r}", name, known)

    def _bind(self, id: str, value: object, place: str) -> None:
        given = value if isinstance(value, list) else [value]
        keys = [key for key in given if isinstance(key, str)]
        if len(keys) == len(given):
            self.values.setdefault(KEYS, {})[id] = ",".join(keys)
            self.places[f"{KEYS}.{id}"] = place
        else:
            self._tell(f"{place}: {id} must be a key or a list of keys, not {value!r} (ignored)")


class Kept(SettingsSource):
    """What nobody types now; its origin is the place unless it is given. What a setting refuses is left out without a word:
    another termchat may have kept it."""

    def __init__(
        self,
        settings_cls: type[BaseSettings],
        place: str,
        values: Mapping[str, object],
        origin: str | Mapping[str, str] = "",
        problems: Iterable[str] = (),
    ) -> None:
        super().__init__(settings_cls, place)
        for name, value in values.items():
            with suppress(ValueError):
                self.values[name] = self.settings[name].check(value)
                self.origin[name] = origin[name] if isinstance(origin, Mapping) else origin or place
        self._problems += problems


def _entries(table: Mapping[str, object], tables: set[str]) -> Iterator[tuple[tuple[str, ...], object]]:
    """Keys and values of a config file; of the tables we know, what is in them."""
    for key, value in table.items():
        if key in tables and isinstance(value, dict):
            yield from (((key, inner), content) for inner, content in value.items())
        else:
            yield (key,), value


def _native(setting: Setting, value: object) -> object:
    """A value of a TOML file, which has types; numbers may also be words, such as "off" and "fresh"."""
    if isinstance(value, str) and setting.kind in ("float", "int", "seed", "bool"):
        return setting.parse(value)
    return setting.check(value)


def _typed(setting: Setting, text: str) -> object:
    """A value of a variable, which is text; a list of texts may be JSON."""
    if setting.kind == "texts" and text.lstrip().startswith("["):
        with suppress(json.JSONDecodeError):
            listed = json.loads(text)
            if all(isinstance(item, str) for item in listed):
                return setting.check(listed)
    return setting.parse(text)


def _flag(setting: Setting, value: object) -> object:
    """A value of a flag: as typed, or already of the right type."""
    if isinstance(value, str):
        return setting.parse(value)
    if setting.kind == "texts" and isinstance(value, (list, tuple)):
        return setting.check([unescape(item) if isinstance(item, str) else item for item in value])
    return setting.check(value)
