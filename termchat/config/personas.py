"""Personas: a system prompt with the knobs and stop sequences that suit it, under a name.

Some ship with termchat (`personas.toml` beside this file); the user's own are in a file of the same form beside config.toml,
where a name replaces the same name here. A bad entry fails alone. Each table is one persona: `description`, `system`, and any
knob by its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from termchat import atomic, paths
from termchat.config.origins import PERSONA
from termchat.decoding.samplers import KNOBS, Tuning, Value, well_formed
from termchat.text import guess_of
from termchat.toml import TomlError, TomlFile, literal, parsed

_TEXTS = ("description", "system")
_KNOWN = (*_TEXTS, *KNOBS)
_NAME = re.compile(r"[\w+-](?:[\w .+-]{0,38}[\w.+-])?")
_SHIPPED = Path(__file__).with_name("personas.toml")
_ABOUT = "# Your personas. Each table is one persona: description, system, and any knob by name. /persona save NAME adds one.\n"


class PersonaError(Exception):
    """Unknown persona, or one that cannot be saved; the message says what to do."""


class Persona(msgspec.Struct, frozen=True):
    """A system prompt, and the knobs that it sets; others stay as they are. `own`: the user's, not one that ships."""

    name: str
    system: str = ""
    description: str = ""
    knobs: Mapping[str, Value] = {}
    own: bool = False

    @property
    def origin(self) -> str:
        """Shown as the origin of its knobs."""
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
        guess = guess_of(name, self.entries)
        raise PersonaError(f"unknown persona {name!r}{guess}; known personas: {', '.join(self.entries)}")


def load(own: Path | None = None) -> Personas:
    """All personas, the shipped ones first. `own` is the user's file (None: beside config.toml); it need not be there."""
    own = paths.personas_file() if own is None else own
    problems: list[str] = []
    found = _read(_SHIPPED, problems, own=False) | _read(own, problems, own=True)
    return Personas(found, tuple(problems))


def save(persona: Persona, own: Path | None = None) -> Path:
    """Keeps a persona in the user's file, in place of one of that name; returns the file.

    Raises:
        PersonaError: the name is none, or the file cannot be read as it is, or not be written.
    """
    own = paths.personas_file() if own is None else own
    if not _NAME.fullmatch(persona.name):
        raise PersonaError(f"{persona.name!r} is not a valid name: use up to 40 letters, digits, spaces and . _ + -")
    before: dict[str, object] = {}
    text = _ABOUT
    try:
        source = TomlFile(own)
        before, text = source.table, source.mark + _without(source, persona.name)
    except TomlError as error:
        if not error.is_missing:
            raise PersonaError(str(error)) from error
    written = _written(persona)
    text = f"{text.rstrip()}\n\n{written}"
    # A file that people write may hold anything: what was there must be there afterwards.
    if _said(text) != {**before, **parsed(written)}:
        raise PersonaError(f"{persona.name!r} in {own} cannot be replaced automatically; remove it by hand first")
    try:
        atomic.replace(own, text.encode("utf-8"))
    except OSError as error:
        raise PersonaError(f"{own} cannot be written: {error.strerror or error}") from error
    return own


def differing(tuning: Tuning) -> dict[str, Value]:
    """The knobs that a persona made of these settings would set, by name. The seed is no part of one."""
    return {name: value for name, value in tuning.differing().items() if name != "seed"}


def _read(path: Path, problems: list[str], *, own: bool) -> dict[str, Persona]:
    try:
        source = TomlFile(path)
    except TomlError as error:
        if not (own and error.is_missing):
            problems.append(f"{error}; its personas are ignored")
        return {}
    found = {}
    for name, table in source.table.items():
        try:
            found[name] = _persona(name, table, own=own)
        except _Wrong as wrong:
            problems.append(f"{source.place(name, *wrong.keys)}: {wrong}; this persona is ignored")
    return found


class _Wrong(ValueError):
    def __init__(self, message: str, *keys: str) -> None:
        super().__init__(message)
        self.keys = keys


def _persona(name: str, table: object, *, own: bool) -> Persona:
    if not _NAME.fullmatch(name):
        raise _Wrong(f"{name!r} is not a valid name: use up to 40 letters, digits, spaces and . _ + -")
    if not isinstance(table, dict):
        raise _Wrong(f"{name} must be a table, [{name}]")
    knobs: dict[str, Value] = {}
    for key, value in table.items():
        if key not in _KNOWN:
            raise _Wrong(f"unknown key {key!r}{guess_of(key, _KNOWN)}", key)
        if key in KNOBS:
            try:
                knobs[key] = KNOBS[key].parse(value) if isinstance(value, str) else KNOBS[key].check(value)
            except ValueError as error:
                raise _Wrong(str(error), key) from error
        elif not isinstance(value, str):
            raise _Wrong(f"{key} must be a string, not {value!r}", key)
    texts = {key: well_formed(table.get(key, "")).strip() for key in _TEXTS}
    return Persona(name, knobs=knobs, own=own, **texts)


def _written(persona: Persona) -> str:
    values = {key: text for key in _TEXTS if (text := getattr(persona, key))} | dict(persona.knobs)
    lines = [f"[{literal(persona.name)}]", *(f"{key} = {literal(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _without(source: TomlFile, name: str) -> str:
    """The text without the lines of one table; comments after them stay, as they may belong to what follows."""
    mine = [statement for statement in source.statements if statement.keys[0] == name]
    return source.text[: mine[0].start] + source.text[mine[-1].after :] if mine else source.text


def _said(text: str) -> dict[str, object] | None:
    try:
        return parsed(text)
    except ValueError:
        return None
