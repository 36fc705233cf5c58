"""Presets: the whole sampler chain under a name.

Some ship with termchat (`presets.toml` beside this file); the user's own are in a file of the same form beside config.toml,
where a name replaces the same name here. Each table is one preset: `description`, and any knob of the chain by its name; a
knob that is not named is at its default, so that a preset is the same whatever was set before, and with every model. Only
biases stay where a preset names none: what is banned is about the text. What ends a reply (`stop`, `max_tokens`) and the seed
are no part of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from termchat import paths
from termchat.config import named_tables
from termchat.config.named_tables import EntryRefused, NamedEntries, NameRefused
from termchat.config.origins import PRESET
from termchat.decoding.samplers import KNOBS, SamplerSettings, Tuning, Value, well_formed

_BIAS = "logit_bias"
CHAIN = tuple(name for name in SamplerSettings.__struct_fields__ if name != _BIAS)
"""The knobs that every preset sets."""
_MAY = (*CHAIN, _BIAS)

_TEXTS = ("description",)
_SHIPPED = Path(__file__).with_name("presets.toml")
_ABOUT = "# Your presets. Each table is one preset: description, and any knob of the sampler chain by name.\n"


class Preset(msgspec.Struct, frozen=True):
    """The knobs that are `named`; the others of `CHAIN` are at their defaults. `own`: the user's, not one that ships."""

    name: str
    named: Mapping[str, Value] = {}
    description: str = ""
    own: bool = False

    @property
    def knobs(self) -> dict[str, Value]:
        """All knobs that it sets, with their values."""
        return {name: KNOBS[name].default for name in CHAIN} | dict(self.named)

    @property
    def origin(self) -> str:
        """Shown as the origin of its knobs."""
        return PRESET + self.name


def load(own: Path | None = None) -> NamedEntries[Preset]:
    """Read all presets. `own` is the user's file, by default the one beside config.toml."""
    return named_tables.load("preset", _SHIPPED, own or paths.presets_file(), _preset)


def of_tuning(name: str, tuning: Tuning, description: str = "") -> Preset:
    """Make the user's preset of a chain."""
    named = {knob: value for knob, value in tuning.find_differing().items() if knob in _MAY}
    return Preset(name, named, description, own=True)


def save(preset: Preset, own: Path | None = None) -> Path:
    """Save a preset in the user's file, in place of one of that name; return the file.

    Raises:
        NameRefused: the name is invalid, or the file cannot be read or written.
    """
    texts = {"description": preset.description} if preset.description else {}
    return named_tables.put(own or paths.presets_file(), preset.name, {**texts, **preset.named}, _ABOUT)


def remove(name: str, own: Path | None = None) -> Path:
    """Remove a preset from the user's file; return the file.

    Raises:
        NameRefused: the file cannot be read or written.
    """
    return named_tables.remove(own or paths.presets_file(), name)


def rename(name: str, new: str, own: Path | None = None) -> Path:
    """Give a preset of the user's file another name; return the file.

    Raises:
        NameRefused: the new name is invalid or taken, or the file cannot be read or written.
    """
    if new != name and new in load(own).entries:
        raise NameRefused(f"there is a preset {new} already")
    return named_tables.rename(own or paths.presets_file(), name, new)


def _preset(name: str, table: Mapping[str, Any], own: bool) -> Preset:
    for key in table:
        if key in KNOBS and key not in _MAY:
            raise EntryRefused(f"{key} is not part of a preset, which sets only the sampler chain", key)
    named_tables.check_keys(table, (*_TEXTS, *_MAY), _TEXTS)
    knobs = {key: named_tables.read_knob(key, value) for key, value in table.items() if key in _MAY}
    return Preset(name, knobs, well_formed(table.get("description", "")).strip(), own)
