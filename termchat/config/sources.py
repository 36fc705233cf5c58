"""Where settings come from: one `SettingsSource` for each place, in the order in which they count (`PLACES`).

A mistake in a flag is an error. Anywhere else it becomes a problem of one line and the value is left out, so that the next
place counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from termchat.config.fields import ENGINE, ENGINES, KEYS, SETTINGS, TABLES
from termchat.config.named_engines import engine_from
from termchat.config.named_tables import EntryRefused
from termchat.config.origins import FLAG, MODEL, PERSONA, PICKER, TUNED
from termchat.decoding.samplers import KNOBS, unescape
from termchat.decoding.setting import Setting, SettingError
from termchat.text import guess_of
from termchat.toml import TomlError, TomlFile

NEWER, CHAT, VARIABLES, FILE, CHAIN_PRESET = "newer", "chat", "variables", "file", "preset"
PLACES = (
    NEWER,  # what a person set for one model in this run, after the flags
    FLAG,
    CHAT,  # what a saved chat was left with
    PERSONA,
    VARIABLES,
    PICKER,  # what a person saved for one model; the file is for all models
    FILE,
    TUNED,  # what `termchat tune` measured for a model
    MODEL,  # what is recommended for it
)
"""Each overrides those below it, and all override the defaults. A preset comes right after the place that names it."""

PREFIX = "TERMCHAT_"
_NOT_OURS = "TERMCHAT_OFFLINE"
"""A variable of another part of termchat."""
_TABLES = tuple(dict.fromkeys(filter(None, (*TABLES.values(), KEYS, ENGINES))))
_MOST_PROBLEMS, _LONGEST = 20, 500
"""Problems that a source lists, and characters of one: a file may be all wrong."""


class FlagError(ValueError):
    """A flag's value is refused; `name` is the setting's."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class SettingsSource(PydanticBaseSettingsSource):
    """The settings of one of `PLACES`: `values` by name, those of a table in a dict under the table's name.

    `places` are the origins of the values: "flag", "TERMCHAT_TOP_K", "config.toml, line 3"; key bindings go by `keys.ID`,
    engines by `engines.NAME`. `problems` are mistakes, one line each.
    """

    def __init__(self, place: str) -> None:
        super().__init__(BaseSettings)
        self.place = place
        self.values: dict[str, Any] = {}
        self.places: dict[str, str] = {}
        self.problems: list[str] = []
        self._more = 0

    def __call__(self) -> dict[str, Any]:
        return self.values

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self.values.get(field_name), field_name, False

    def put(self, name: str, value: object, place: str, table: str | None = None) -> None:
        table = TABLES[name] if table is None else table
        (self.values.setdefault(table, {}) if table else self.values)[name] = value
        self.places[f"{table}.{name}" if table in (KEYS, ENGINES) else name] = place

    def take(self, name: str, place: str, read: Callable[[Setting, Any], object], raw: object) -> None:
        """Put a value as `read` parses it, or add the problem with it."""
        try:
            self.put(name, read(SETTINGS[name], raw), place)
        except SettingError as error:
            self.tell(f"{place}: {error}")

    def tell(self, problem: str, name: str = "", known: Iterable[str] = ()) -> None:
        """Add a problem with a value that is ignored, with a guess among the `known` for an unknown `name`."""
        if len(self.problems) - bool(self._more) < _MOST_PROBLEMS:
            problem += guess_of(name, known)
            self.problems.append(f"{problem if len(problem) <= _LONGEST else problem[:_LONGEST] + '…'} (ignored)")
            return
        self._more += 1
        self.problems[_MOST_PROBLEMS:] = [f"and {self._more:,} more mistakes"]


def read_flags(given: Mapping[str, object]) -> SettingsSource:
    """Read the flags that were given, by setting; texts as typed, `stop` a list of them.

    Raises:
        FlagError: a value is refused.
    """
    source = SettingsSource(FLAG)
    for name, value in _with_drafter(given).items():
        try:
            source.put(name, _parse_flag(SETTINGS[name], value), FLAG)
        except SettingError as error:
            raise FlagError(name, str(error)) from error
    return source


def _with_drafter(given: Mapping[str, object]) -> Mapping[str, object]:
    """Turn a `draft` flag that names a model into the two settings it stands for.

    Raises:
        FlagError: `draft_model` names another one.
    """
    word = str(given.get("draft", "")).strip()
    if not word or word.lower() in KNOBS["draft"].choices:
        return given
    if given.get("draft_model", word) != word:
        raise FlagError("draft", f"draft_model is {given['draft_model']!r} already; use --draft model with it")
    return {**given, "draft": "model", "draft_model": word}


def read_variables(environ: Mapping[str, str]) -> SettingsSource:
    """Read `TERMCHAT_*`. An empty variable sets a text, and nothing else."""
    source, names = SettingsSource(VARIABLES), {PREFIX + name.upper(): name for name in SETTINGS}
    for variable, text in environ.items():
        if name := names.get(variable):
            if text or SETTINGS[name].kind in ("text", "texts", "biases"):
                source.take(name, variable, _parse_variable, text)
        elif variable.startswith(PREFIX) and variable != _NOT_OURS:
            source.tell(f"{variable}: unknown setting", variable, names)
    return source


def read_config_file(path: Path) -> SettingsSource:
    """Read config.toml, if it exists."""
    source = SettingsSource(FILE)
    try:
        file = TomlFile(path)
    except TomlError as error:
        if not error.is_missing:
            source.problems.append(f"{error}; the file is ignored")
        return source
    for key, value in file.table.items():
        if key == ENGINES and isinstance(value, dict):
            _read_engines(source, file, value)
            continue
        inside = key in _TABLES and isinstance(value, dict)
        for name, content in value.items() if inside else ((key, value),):
            place = file.place(*((key, name) if inside else (key,)))
            _read_entry(source, key if inside else "", name, content, place)
    return source


def _read_engines(source: SettingsSource, file: TomlFile, tables: Mapping[str, object]) -> None:
    for name, table in tables.items():
        if table == {}:  # what `termchat config unset` leaves of an engine
            continue
        if not isinstance(table, dict) and TABLES.get(name) == ENGINE:
            source.tell(f"{file.place(ENGINES, name)}: {name} belongs under [engine]; [engines.NAME] is one elsewhere")
            continue
        try:
            source.put(name, engine_from(name, table), file.place(ENGINES, name), ENGINES)
        except EntryRefused as error:
            source.tell(f"{file.place(ENGINES, name, *error.keys)}: {error}")


def make_source(
    place: str, values: Mapping[str, object], origin: str | Mapping[str, str] = "", problems: Iterable[str] = ()
) -> SettingsSource:
    """Return saved values as a source; their origin is the place unless it is given. Refused values are left out silently:
    another version of termchat may have saved them."""
    source = SettingsSource(place)
    source.problems += problems
    for name, value in values.items():
        with suppress(SettingError):
            from_where = origin[name] if isinstance(origin, Mapping) else origin or place
            source.put(name, SETTINGS[name].check(value), from_where)
    return source


def rank_sources(sources: Iterable[SettingsSource]) -> list[SettingsSource]:
    """Sort sources by how much they count; the last one of each place."""
    by_place = {source.place: source for source in sources}
    ordered = [by_place[place] for place in PLACES if place in by_place]
    if CHAIN_PRESET in by_place:
        naming = next((number for number, source in enumerate(ordered) if "preset" in source.values), -1)
        ordered.insert(naming + 1, by_place[CHAIN_PRESET])
    return ordered


def _read_entry(source: SettingsSource, table: str, name: str, value: object, place: str) -> None:
    if table == KEYS:
        keys = value if isinstance(value, list) else [value]
        if all(isinstance(key, str) for key in keys):
            source.put(name, ",".join(map(str, keys)), place, KEYS)
        else:
            source.tell(f"{place}: {name} must be a key or a list of keys, not {value!r}")
    elif TABLES.get(name) == table:
        source.take(name, place, _parse_toml, value)
    elif name in TABLES:
        right = f"under [{TABLES[name]}]" if TABLES[name] else "at the top, before any table"
        source.tell(f"{place}: {name} belongs {right}")
    elif name in _TABLES:
        source.tell(f"{place}: {name} must be a table, [{name}]")
    else:
        known = [one for one, where in TABLES.items() if where == table] if table else [*TABLES, *_TABLES]
        source.tell(f"{place}: unknown setting {name!r}", name, known)


def _parse_toml(setting: Setting, value: object) -> object:
    """Parse a value of a TOML file, which has types; numbers may also be words, such as "off" and "fresh"."""
    if isinstance(value, str) and setting.kind in ("float", "int", "seed", "bool"):
        return setting.parse(value)
    return setting.check(value)


def _parse_variable(setting: Setting, text: str) -> object:
    """Parse a value of a variable, which is text; a list of texts may be JSON."""
    if setting.kind in ("texts", "biases") and text.lstrip().startswith("["):
        with suppress(json.JSONDecodeError, RecursionError):
            listed = json.loads(text)
            if all(isinstance(item, str) for item in listed):
                return setting.check(listed)
    return setting.parse(text)


def _parse_flag(setting: Setting, value: object) -> object:
    """Parse a value of a flag: typed, or already of the right type."""
    if isinstance(value, str):
        return setting.parse(value)
    if setting.kind == "texts" and isinstance(value, (list, tuple)):
        return setting.check([unescape(item) if isinstance(item, str) else item for item in value])
    return setting.check(value)
