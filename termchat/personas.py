"""Personas: a system prompt with the knobs and stop sequences that suit it, under a name.

Some ship with termchat (`personas.toml` beside this file); the user's own are in a file of the same form beside config.toml,
where a name replaces the same name here. A bad entry fails alone. Each table is one persona: `description`, `system`, and any
knob by its name.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from termchat import paths
from termchat.decoding.samplers import KNOBS, Tuning, Value, well_formed
from termchat.settings import PERSONA
from termchat.tomlfile import TomlError, TomlFile

_TEXTS = ("description", "system")
_KNOWN = (*_TEXTS, *KNOBS)
_NAME = re.compile(r"[\w+-](?:[\w .+-]{0,38}[\w.+-])?")
_SHIPPED = Path(__file__).with_name("personas.toml")
_ABOUT = (
    "# Your own personas; see `/persona save NAME`. A table is one: description, system, and any knob by its name.\n"
)


class PersonaError(Exception):
    """There is no such persona, or it cannot be kept; the message says what to do."""


class Persona(msgspec.Struct, frozen=True):
    """A system prompt, and the knobs that it sets; others stay as they are. `own`: the user's, not one that ships."""

    name: str
    system: str = ""
    description: str = ""
    knobs: Mapping[str, Value] = {}
    own: bool = False

    @property
    def origin(self) -> str:
        """What is said of where a knob came from."""
        return PERSONA + self.name


class Personas(msgspec.Struct, frozen=True):
    """All there are, by name, and what is wrong in the files: one line each, which may hold foreign text."""

    entries: dict[str, Persona]
    problems: tuple[str, ...] = ()

    def get(self, name: str) -> Persona:
        """The persona of that name, however it is capitalised.

        Raises:
            PersonaError: there is none.
        """
        folded = {known.lower(): persona for known, persona in self.entries.items()}
        if name in self.entries or name.lower() in folded:
            return self.entries.get(name) or folded[name.lower()]
        close = difflib.get_close_matches(name.lower(), folded, n=1)
        guess = f" (did you mean {folded[close[0]].name}?)" if close else ""
        raise PersonaError(f"there is no persona {name!r}{guess}; there are {', '.join(self.entries)}")


def load(own: Path | None = None) -> Personas:
    """All personas, the shipped ones first. `own` is the user's file (None: beside config.toml); it need not be there."""
    own = paths.personas_file() if own is None else own
    problems: list[str] = []
    found = _read(_SHIPPED, problems, own=False)
    if own.exists():
        found |= _read(own, problems, own=True)
    return Personas(found, tuple(problems))


def save(persona: Persona, own: Path | None = None) -> Path:
    """Keeps a persona in the user's file, in place of one of that name; returns the file.

    Raises:
        PersonaError: the name is none, or the file cannot be read as it is, or not be written.
    """
    own = paths.personas_file() if own is None else own
    if not _NAME.fullmatch(persona.name):
        raise PersonaError(f"{persona.name!r} is no name: up to 40 letters, digits, spaces and . _ + -")
    try:
        text = own.read_text("utf-8") if own.exists() else _ABOUT
        before = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise PersonaError(f"{own} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    written = _written(persona)
    text = f"{_without(text, persona.name).rstrip()}\n\n{written}"
    # A file that people write may hold anything: what was there must be there afterwards.
    if _parsed(text) != {**before, **tomllib.loads(written)}:
        raise PersonaError(f"{own} has {persona.name!r} in a form that cannot be replaced; take it out by hand first")
    try:
        _replace(own, text)
    except OSError as error:
        raise PersonaError(f"{own} cannot be written: {error.strerror or error}") from error
    return own


def differing(tuning: Tuning) -> dict[str, Value]:
    """The knobs that are not as they come, by name: what a persona made of these settings would set. The seed is no part
    of one."""
    knobs = {name: getattr(tuning, name) for name in KNOBS if name != "seed"}
    return {name: value for name, value in knobs.items() if value != KNOBS[name].default}


def _read(path: Path, problems: list[str], *, own: bool) -> dict[str, Persona]:
    try:
        source = TomlFile(path)
    except TomlError as error:
        problems.append(f"{error}; its personas are left out")
        return {}
    found = {}
    for name, table in source.table.items():
        try:
            found[name] = _persona(name, table, own=own)
        except _Wrong as wrong:
            problems.append(f"{source.place(name, *wrong.keys)}: {wrong}; this persona is left out")
    return found


class _Wrong(ValueError):
    def __init__(self, message: str, *keys: str) -> None:
        super().__init__(message)
        self.keys = keys


def _persona(name: str, table: object, *, own: bool) -> Persona:
    if not _NAME.fullmatch(name):
        raise _Wrong(f"{name!r} is no name: up to 40 letters, digits, spaces and . _ + -")
    if not isinstance(table, dict):
        raise _Wrong(f"{name} must be a table, [{name}]")
    knobs: dict[str, Value] = {}
    for key, value in table.items():
        if key not in _KNOWN:
            close = difflib.get_close_matches(key, _KNOWN, n=1)
            raise _Wrong(f"a persona has no {key!r}{f' (did you mean {close[0]}?)' if close else ''}", key)
        if key in KNOBS:
            try:
                knobs[key] = KNOBS[key].parse(value) if isinstance(value, str) else KNOBS[key].check(value)
            except (ValueError, OverflowError) as error:  # the latter: a whole number of a thousand digits
                raise _Wrong(str(error), key) from error
        elif not isinstance(value, str):
            raise _Wrong(f"{key} must be a text, not {value!r}", key)
    texts = {key: well_formed(table.get(key, "")).strip() for key in _TEXTS}
    return Persona(name, knobs=knobs, own=own, **texts)


def _written(persona: Persona) -> str:
    lines = [f"[{_quoted(persona.name)}]"]
    lines += [f"{key} = {_quoted(text)}" for key in _TEXTS if (text := getattr(persona, key))]
    for name, value in persona.knobs.items():
        shown = f"[{', '.join(map(_quoted, value))}]" if isinstance(value, tuple) else repr(value)
        lines.append(f"{name} = {shown}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML string: JSON's, but for DEL, which TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _without(text: str, name: str) -> str:
    """The text without the lines of one table."""
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        if header := re.match(r"\s*\[(?!\[)\s*(.+?)\s*\]\s*(#.*)?$", line):
            inside = header[1] in (name, _quoted(name), f"'{name}'")
        if not inside:
            kept.append(line)
    return "".join(kept)


def _parsed(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(made, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise
