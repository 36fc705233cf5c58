"""Presets: the whole sampler chain under a name.

Some ship with termchat (`presets.toml` beside this file); the user's own are in a file of the same form beside config.toml,
where a name replaces the same name here. Each table is one preset: `description`, and any knob of the chain by its name; a
knob that is not named is at its default, so that a preset is the same whatever was set before, and with every model. Only
biases stay where a preset names none: what is banned is about the text. What ends a reply (`stop`, `max_tokens`) and the seed
are no part of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from termchat import paths
from termchat.config import named_tables
from termchat.config.named_tables import EntryRefused, NameRefused
from termchat.config.origins import PRESET
from termchat.decoding.samplers import KNOBS, SamplerSettings, Tuning, Value, well_formed

_BIAS = "logit_bias"
CHAIN = tuple(name for name in SamplerSettings.__struct_fields__ if name != _BIAS)
"""The knobs that every preset sets."""
_MAY = (*CHAIN, _BIAS)

_TEXTS = ("description",)
_SHIPPED = Path(__file__).with_name("presets.toml")
_ABOUT = "# Your presets. Each table is one preset: description, and any knob of the sampler chain by name.\n"


class PresetError(Exception):
    """Unknown preset, or one that cannot be saved; the message says what to do."""


class Preset(msgspec.Struct, frozen=True):
    """The knobs that are `named`; the others of `CHAIN` are at their defaults. `own`: the user's, not one that ships."""

    name: str
    named: Mapping[str, Value] = {}
    description: str = ""
    own: bool = False

    @property
    def knobs(self) -> dict[str, Value]:
        """All knobs that it sets."""
        return {name: KNOBS[name].default for name in CHAIN} | dict(self.named)

    @property
    def origin(self) -> str:
        """Shown as the origin of its knobs."""
        return PRESET + self.name


class Presets(msgspec.Struct, frozen=True):
    """All there are, by name, and what is wrong in the files: one line each, which may hold foreign text."""

    entries: dict[str, Preset]
    problems: tuple[str, ...] = ()

    def get(self, name: str) -> Preset:
        """The preset of that name, however it is capitalised.

        Raises:
            PresetError: there is none.
        """
        try:
            return named_tables.named(name, self.entries, "preset")
        except NameRefused as error:
            raise PresetError(str(error)) from None


def load(own: Path | None = None) -> Presets:
    """All presets, the shipped ones first. `own` is the user's file (None: beside config.toml); it need not be there."""
    problems: list[str] = []
    shipped = named_tables.read(_SHIPPED, partial(_preset, own=False), "preset", problems, optional=False)
    users = named_tables.read(_file(own), partial(_preset, own=True), "preset", problems, optional=True)
    return Presets(shipped | users, tuple(problems))


def of_tuning(name: str, tuning: Tuning, description: str = "") -> Preset:
    """The chain as it stands, as the user's preset."""
    named = {knob: value for knob, value in tuning.find_differing().items() if knob in _MAY}
    return Preset(name, named, description, own=True)


def save(preset: Preset, own: Path | None = None) -> Path:
    """Keeps a preset in the user's file, in place of one of that name; returns the file.

    Raises:
        PresetError: the name is none, or the file cannot be read as it is, or not be written.
    """
    texts = {"description": preset.description} if preset.description else {}
    return _changed(own, lambda file: named_tables.put(file, preset.name, {**texts, **preset.named}, _ABOUT))


def remove(name: str, own: Path | None = None) -> Path:
    """Takes a preset out of the user's file; returns the file.

    Raises:
        PresetError: the file cannot be read as it is, or not be written.
    """
    return _changed(own, lambda file: named_tables.remove(file, name))


def rename(name: str, new: str, own: Path | None = None) -> Path:
    """Gives a preset of the user's file another name, which none has; returns the file.

    Raises:
        PresetError: the new name is none or taken, or the file cannot be read as it is, or not be written.
    """
    if new != name and new in load(own).entries:
        raise PresetError(f"there is a preset {new} already")
    return _changed(own, lambda file: named_tables.rename(file, name, new))


def _file(own: Path | None) -> Path:
    return paths.presets_file() if own is None else own


def _changed(own: Path | None, change: Callable[[Path], None]) -> Path:
    file = _file(own)
    try:
        change(file)
    except NameRefused as error:
        raise PresetError(str(error)) from error
    return file


def _preset(name: str, table: Mapping[str, Any], *, own: bool) -> Preset:
    for key in table:
        if key in KNOBS and key not in _MAY:
            raise EntryRefused(f"{key} is not part of a preset, which sets only the sampler chain", key)
    named_tables.only(table, (*_TEXTS, *_MAY), _TEXTS)
    knobs = {key: named_tables.knob(key, value) for key, value in table.items() if key in _MAY}
    return Preset(name, knobs, well_formed(table.get("description", "")).strip(), own)
