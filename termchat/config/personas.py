"""Personas: a system prompt with the preset, the knobs and the stop sequences that suit it, under a name.

Some ship with termchat (`personas.toml` beside this file); the user's own are in a file of the same form beside config.toml,
where a name replaces the same name here. A bad entry fails alone. Each table is one persona: `description`, `system`,
`preset`, and any knob by its name, which overrides the preset's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from termchat import paths
from termchat.config import named_tables, presets
from termchat.config.named_tables import EntryRefused, NameRefused
from termchat.config.origins import PERSONA
from termchat.config.presets import Preset, PresetError, Presets
from termchat.decoding.samplers import KNOBS, Tuning, Value, well_formed

_TEXTS = ("description", "system", "preset")
_KNOWN = (*_TEXTS, *KNOBS)
_SHIPPED = Path(__file__).with_name("personas.toml")
_ABOUT = (
    "# Your personas. Each table is one persona: description, system, preset, and any knob by name. "
    "/persona save NAME adds one.\n"
)


class PersonaError(Exception):
    """Unknown persona, or one that cannot be saved; the message says what to do."""


class Persona(msgspec.Struct, frozen=True):
    """A system prompt, the preset that it sets, and the knobs that it sets beside; others stay as they are. `own`: the user's,
    not one that ships."""

    name: str
    system: str = ""
    description: str = ""
    knobs: Mapping[str, Value] = {}
    own: bool = False
    preset: Preset | None = None

    @property
    def origin(self) -> str:
        """Shown as the origin of its knobs."""
        return PERSONA + self.name

    @property
    def values(self) -> dict[str, Value]:
        """All knobs that it sets."""
        return {**(self.preset.knobs if self.preset is not None else {}), **self.knobs}

    @property
    def origins(self) -> dict[str, str]:
        """Where each of these comes from."""
        chain = dict.fromkeys(self.preset.knobs, self.preset.origin) if self.preset is not None else {}
        return chain | dict.fromkeys(self.knobs, self.origin)


class Personas(msgspec.Struct, frozen=True):
    """All there are, by name, and what is wrong in the files: one line each, which may hold foreign text."""

    entries: dict[str, Persona]
    problems: tuple[str, ...] = ()

    def get(self, name: str) -> Persona:
        """The persona of that name, however it is capitalised.

        Raises:
            PersonaError: there is none.
        """
        try:
            return named_tables.named(name, self.entries, "persona")
        except NameRefused as error:
            raise PersonaError(str(error)) from None


def load(own: Path | None = None) -> Personas:
    """All personas, the shipped ones first. `own` is the user's file (None: beside config.toml); it need not be there."""
    own = paths.personas_file() if own is None else own
    known = presets.load()
    problems: list[str] = []
    shipped = named_tables.read(_SHIPPED, partial(_persona, known, own=False), "persona", problems, optional=False)
    users = named_tables.read(own, partial(_persona, known, own=True), "persona", problems, optional=True)
    return Personas(shipped | users, tuple(problems))


def save(persona: Persona, own: Path | None = None) -> Path:
    """Keeps a persona in the user's file, in place of one of that name; returns the file.

    Raises:
        PersonaError: the name is none, or the file cannot be read as it is, or not be written.
    """
    own = paths.personas_file() if own is None else own
    preset = persona.preset.name if persona.preset is not None else ""
    texts = {"description": persona.description, "system": persona.system, "preset": preset}
    try:
        named_tables.put(
            own, persona.name, {k: text for k, text in texts.items() if text} | dict(persona.knobs), _ABOUT
        )
    except NameRefused as error:
        raise PersonaError(str(error)) from error
    return own


def differing(tuning: Tuning) -> dict[str, Value]:
    """The knobs that a persona made of these settings would set, by name. The seed is no part of one."""
    return {name: value for name, value in tuning.find_differing().items() if name != "seed"}


def _persona(known: Presets, name: str, table: Mapping[str, Any], *, own: bool) -> Persona:
    named_tables.only(table, _KNOWN, _TEXTS)
    knobs = {key: named_tables.knob(key, value) for key, value in table.items() if key in KNOBS}
    texts = {key: well_formed(table.get(key, "")).strip() for key in _TEXTS}
    try:
        preset = known.get(texts["preset"]) if texts["preset"] else None
    except PresetError as error:
        raise EntryRefused(str(error), "preset") from error
    return Persona(name, texts["system"], texts["description"], knobs, own, preset)
