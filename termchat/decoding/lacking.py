"""What an engine cannot do of what a person set: knobs that it does not know, conditions that it cannot look at."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from termchat.decoding.conditions import After, Condition, Length, Loop, Stop, Text
from termchat.decoding.samplers import KNOBS, SamplerSettings, Value

_SERVANTS = frozenset(
    ("repeat_last_n", "dry_penalty_last_n", "dry_sequence_breakers", "dynatemp_exponent", "draft_max", "seed")
)
"""Knobs with a value at which they are off, or none, that do nothing by themselves."""


def list_acting(settings: SamplerSettings, lacks: Collection[str]) -> list[str]:
    """Return the knobs among these that would do something at the values that they have, in the order of the panel."""
    return [
        name
        for name, knob in KNOBS.items()
        if name in lacks
        and hasattr(settings, name)
        and getattr(settings, name) != _find_idle(name)
        and name not in _SERVANTS
        if knob.off is not None or name == "order"
    ]


def turn_off(settings: SamplerSettings, lacks: Collection[str]) -> SamplerSettings:
    """Return the same with these knobs off."""
    return msgspec.structs.replace(settings, **{name: _find_idle(name) for name in list_acting(settings, lacks)})


def _find_idle(name: str) -> Value:
    """Return the value at which a knob does nothing."""
    knob = KNOBS[name]
    return knob.default if knob.off is None else knob.off


def is_of_text(condition: Condition) -> bool:
    """Return whether a condition can be looked at where only the text is known, and a reply can end, but not wait."""
    return isinstance(condition, Stop | Length) or (
        isinstance(condition, After | Text | Loop) and condition.action == "stop"
    )
