"""Applies a preset to the chat, and keeps the chat's chain as one."""

from __future__ import annotations

from pathlib import Path

from termchat.chat.changes import Notice
from termchat.config import presets
from termchat.config.presets import Preset, PresetError
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.tui.context import ScreenContext
from termchat.tui.keys.dialogs import name_of as key_of
from termchat.tui.keys.tables import name_of


def changes(preset: Preset, now: Tuning) -> dict[str, str]:
    """Return the knobs that a preset would change, with both values, as "0.8 → 0"."""
    values = {name: (getattr(now, name), value) for name, value in preset.knobs.items()}
    return {name: " → ".join(map(KNOBS[name].show, both)) for name, both in values.items() if both[0] != both[1]}


def differences(preset: Preset, now: Tuning) -> list[str]:
    """Return the changes as texts, as "temperature 0.8 → 0"."""
    return [f"{name} {both}" for name, both in changes(preset, now).items()]


def apply(parts: ScreenContext, preset: Preset) -> None:
    """Sets the chain, from the next token on."""
    changed = differences(preset, parts.chat.tuning)
    knobs = parts.knobs
    knobs.apply(preset.knobs, dict.fromkeys(preset.knobs, preset.origin))
    undo = f"{name_of('tune')} {key_of('tune-undo')} undoes it" if changed else ""
    parts.tell(Notice(f"{preset.origin}: {', '.join(changed) or 'nothing changed'}", undo))


def keep(parts: ScreenContext, name: str, *, replacing: bool = False) -> Path:
    """Saves the chain as the user's preset of that name; returns the file.

    Raises:
        PresetError: the name is none or taken, unless that one is to be replaced, or the file cannot be written.
    """
    taken = presets.load().entries.get(name)
    if taken is not None and not replacing:
        raise PresetError(f"{name} {'exists' if taken.own else 'ships with termchat'}")
    description = taken.description if taken is not None and taken.own else ""
    return presets.save(presets.of_tuning(name, parts.chat.tuning, description))
