"""Several knobs at once: what a persona sets, and what becomes of what another one had set."""

from __future__ import annotations

from collections.abc import Mapping

from termchat.decoding.samplers import KNOBS, Tuning
from termchat.settings import DEFAULT, PERSONA


def replaced(
    tuning: Tuning, origin: Mapping[str, str], values: Mapping[str, object], place: str
) -> tuple[Tuning, dict[str, str]]:
    """The knobs with these values, and where those that changed came from; what another persona had set is as it comes again.

    Raises:
        KnobError: a knob refuses its value.
    """
    left = [name for name in KNOBS if origin[name].startswith(PERSONA) and name not in values]
    turned = tuning.turned({**{name: KNOBS[name].default for name in left}, **values})
    return turned, dict.fromkeys(left, DEFAULT) | dict.fromkeys(values, place)
