"""Where the value of a setting came from, by name. A variable and the config file go by their own names."""

from __future__ import annotations

from collections.abc import Mapping

from termchat.decoding.samplers import KNOBS, Tuning, Value

DEFAULT, TUNED, MODEL, PICKER, FLAG = "default", "tuned", "model", "picker", "flag"
LESSON = "lesson"
"""Where the knobs of a lesson come from."""
PERSONA = "persona "
"""What the origin of a setting begins with that a persona set; its name follows."""
PRESET = "preset "
"""The same of a knob that a preset set."""


def followed(
    tuning: Tuning, origin: Mapping[str, str], recommended: Mapping[str, Value]
) -> tuple[Tuning, dict[str, str], list[str]]:
    """The knobs, where each came from, and problems, once those that nobody set follow a model's recommendation.

    `recommended` goes by knob name; what is no knob of ours is left out, what a knob refuses is a problem.
    """
    origin = {name: DEFAULT if place == MODEL else place for name, place in origin.items()}
    turned = {name: KNOBS[name].default for name in KNOBS if origin[name] == DEFAULT}
    problems = []
    for name, value in recommended.items():
        if name in turned:
            try:
                turned[name] = KNOBS[name].check(value)
                origin[name] = MODEL
            except ValueError as error:
                problems.append(f"the model's recommendation is ignored: {error}")
    return tuning.turn_knobs(turned), origin, problems


def replaced(
    origin: Mapping[str, str], values: Mapping[str, Value], places: Mapping[str, str]
) -> tuple[dict[str, Value], dict[str, str]]:
    """These values of knobs and their `places`, with those added that reset what another persona or a preset had set;
    `origin` is where each knob came from by now."""
    left = [name for name in KNOBS if origin[name].startswith((PERSONA, PRESET)) and name not in values]
    return {name: KNOBS[name].default for name in left} | dict(values), dict.fromkeys(left, DEFAULT) | dict(places)
