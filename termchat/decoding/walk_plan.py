"""Plans of several replies to one prompt: how many, with which knobs and which seeds. Pure data.

`make_plan` makes one from the fields of its kind (`plans.PLANS`). `walks`, `grid`, `compare`, `best`, `vote` and `beams` check
their values; `parse_grid` reads a grid in words. `PRESETS` are the classic exercises.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import msgspec

from termchat.decoding import beam_search
from termchat.decoding.answers import AnswerError, answer_reader
from termchat.decoding.group import MOST_WALKS, BeamSettings, GridKnob, Group, GroupKind
from termchat.decoding.plans import PLANS, VARIABLE
from termchat.decoding.samplers import KNOBS, Value
from termchat.decoding.setting import Setting, SettingError
from termchat.text import guess_of, one_line

MOST_KNOBS = 2
"""Knobs of a grid."""

_EXAMPLE = "for example: temperature 0 0.5 1"
_OFF = ("off", "none")
_WORD = re.compile(r"[^\s,;=]+")
_LONGEST = 40

_NAMES = {also: name for name, knob in KNOBS.items() for also in (knob.label, *knob.also)} | {
    name: name for name in KNOBS
}
"""All names of the knobs, to their own."""


class PlanError(ValueError):
    """A plan is refused. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class WalkPlan(msgspec.Struct, frozen=True):
    """A group of replies to one prompt, whose number is 0 until they begin.

    `changes` are the settings of each reply that differ from the chat's. `exact`: each has the bits that its seed gives alone,
    though that may be slower.
    """

    group: Group
    changes: tuple[dict[str, Value], ...]
    exact: bool = False

    def set_number(self, number: int) -> WalkPlan:
        """Return the plan with the number of its group."""
        return msgspec.structs.replace(self, group=msgspec.structs.replace(self.group, number=number))

    def choose_seed(self, first: int, walk: int) -> int:
        """Return the seed of a walk: run j of a cell has the first seed + j, so that cells can be compared; with the same dice
        all have the first seed.

        Raises:
            PlanError: the seed is larger than the dice take.
        """
        group = self.group
        seed = first if group.same_dice or group.kind == "beams" else first + walk % group.runs
        if seed > KNOBS["seed"].high:
            raise PlanError(
                f"the seed of walk {walk + 1} would be larger than {KNOBS['seed'].high:.0f}", "choose a smaller seed"
            )
        return seed

    def label_walk(self, walk: int) -> str:
        """Return the settings of a walk, as "temp 0.5 · top_p 0.9 · run 2"; "" if only the seed differs."""
        parts = [f"{KNOBS[name].label} {shown_value(KNOBS[name], value)}" for name, value in self.changes[walk].items()]
        if self.group.kind == "grid" and self.group.runs > 1:
            parts.append(f"run {walk % self.group.runs + 1}")
        return " · ".join(parts)


ONE = WalkPlan(Group(0, "walks", 1), ({},))
"""The plan of a single reply, which belongs to no group."""


def shown_value(knob: Setting, value: Value) -> str:
    """Format a value for labels and headings: as on the panel, but whole numbers without a point."""
    return knob.show(value).removesuffix(".0") if isinstance(value, float) else knob.show(value)


def walks(n: int, *, same_dice: bool = False) -> WalkPlan:
    """Plan replies that differ by their seeds.

    Raises:
        PlanError: n is not from 2 to `MOST_WALKS`.
    """
    return _make_alike("walks", n, same_dice=same_dice)


def best(n: int, length_penalty: float = 1.0) -> WalkPlan:
    """Plan replies of which the one with the highest score counts.

    Raises:
        PlanError: see `walks`; or the length penalty leaves nothing but the length.
    """
    if wrong := beam_search.penalty_problem(length_penalty):
        raise PlanError(wrong)
    return _make_alike("best", n, length_penalty=length_penalty)


def vote(n: int, answer: str) -> WalkPlan:
    """Plan replies whose most common answer counts.

    Raises:
        PlanError: see `walks`; or `answer` is neither a regular expression nor a JSON path.
    """
    try:
        answer_reader(answer)
    except AnswerError as error:
        raise PlanError(error.message, error.hint) from None
    return _make_alike("vote", n, answer=answer)


def compare(a: Mapping[str, object], b: Mapping[str, object]) -> WalkPlan:
    """Plan two replies with the same dice; `a` and `b` are the knobs that differ from the chat's.

    Raises:
        PlanError: an unknown knob, a value that its knob refuses, or the two are the same.
    """
    changes = (_check_changes(a), _check_changes(b))
    if changes[0] == changes[1]:
        raise PlanError("both settings are the same", "change a knob of one of them")
    return WalkPlan(Group(0, "compare", 2, same_dice=True), changes, exact=True)


def beams(settings: BeamSettings) -> WalkPlan:
    """Plan a beam search.

    Raises:
        PlanError: its width, length penalty or n-best is out of range.
    """
    if settings.width == 1:
        raise PlanError("a search with 1 beam is greedy", "set the temperature to 0, or give 2 beams or more")
    if wrong := beam_search.find_problem(settings):
        raise PlanError(wrong)
    n = settings.n_best
    return WalkPlan(Group(0, "beams", n, runs=n, beams=settings), ({},) * n)


def grid(knobs: Iterable[GridKnob], runs: int = 1, *, same_dice: bool = False) -> WalkPlan:
    """Plan `runs` replies for every combination of the values, in the order given, the last knob's varying fastest.

    Raises:
        PlanError: more than two knobs or one twice, an unknown one, a value that its knob refuses or one twice, or more walks
            than fit into a batch.
    """
    checked = tuple(map(_check_knob, knobs))
    if not checked:
        raise PlanError("a grid needs a knob and its values", _EXAMPLE)
    if len(checked) > MOST_KNOBS:
        names = ", ".join(knob.name for knob in checked)
        raise PlanError(f"a grid has {MOST_KNOBS} knobs at most, not {len(checked)}: {names}", "leave one out")
    if len({knob.name for knob in checked}) < len(checked):
        raise PlanError(f"{checked[0].name} is given twice", "name it once, with all its values")
    cells = math.prod(len(knob.values) for knob in checked)
    if runs < 1:
        raise PlanError(f"a grid needs at least 1 run per cell, not {runs}")
    if cells * runs > MOST_WALKS:
        raise PlanError(
            f"{cells} cells with {runs} run{'' if runs == 1 else 's'} each are {cells * runs} walks; the most is {MOST_WALKS}",
            "leave out values or runs",
        )
    if cells * runs < 2:
        raise PlanError("this grid has only one walk", "give more values or more runs")
    changes = tuple(
        {knob.name: KNOBS[knob.name].check(value) for knob, value in zip(checked, cell, strict=True)}
        for cell in product(*(knob.values for knob in checked))
        for _ in range(runs)
    )
    return WalkPlan(Group(0, "grid", cells * runs, checked, runs, same_dice), changes, exact=True)


def parse_grid(texts: Sequence[str]) -> tuple[GridKnob, ...]:
    """Parse the knobs of a grid, "temperature=0,0.5,1" or "temperature 0 0.5 1"; one text may hold several. `off` is a value.

    Raises:
        PlanError: an unknown knob, one without values, or a value that its knob refuses.
    """
    knobs: list[tuple[Setting, list[float]]] = []
    for text in texts:
        knob: Setting | None = None
        for word in _WORD.findall(text):
            # The name of another knob begins with a letter, and so do few values.
            if knob is not None and (not word[0].isalpha() or word.lower() in (*_OFF, "on", *knob.words)):
                value = convert_refusal(knob.parse, "off" if word.lower() in _OFF else word)
                assert isinstance(value, (int, float))  # as of every knob of `VARIABLE`
                knobs[-1][1].append(value)
            elif knob is None or own_name(word):
                knob = _grid_knob(word)
                knobs.append((knob, []))
            else:
                problem = f"{one_line(word, _LONGEST)!r} is neither a value of {knob.name} nor a knob"
                raise PlanError(f"{problem}{guess_of(word, KNOBS)}", _EXAMPLE)
    for knob, values in knobs:
        if not values:
            raise PlanError(f"{knob.name} has no values", _EXAMPLE)
    return tuple(GridKnob(knob.name, tuple(values)) for knob, values in knobs)


def make_plan(kind: GroupKind, values: Mapping[str, Any]) -> WalkPlan:
    """Make a plan from values of its fields, with the defaults for the others.

    Raises:
        PlanError: the values do not make a plan; see the function of the kind.
    """
    filled = {field.name: field.default for field in PLANS[kind].fields} | dict(values)
    match kind:
        case "walks":
            plan = walks(filled["walks"], same_dice=bool(filled["same_dice"]))
        case "grid":
            plan = grid(filled["grid"], filled["runs"], same_dice=bool(filled["same_dice"]))
        case "compare":
            plan = compare(filled["A"], filled["B"])
        case "best":
            plan = best(filled["best_of"], filled["length_penalty"])
        case "vote":
            plan = vote(filled["walks"], filled["vote"])
        case "beams":
            early, after = bool(filled["early_stopping"]), bool(filled["after_chain"])
            plan = beams(BeamSettings(filled["beams"], filled["length_penalty"], filled["n_best"], early, after))
    return msgspec.structs.replace(plan, exact=plan.exact or bool(filled.get("exact")))


def _make_alike(kind: GroupKind, n: int, **more: Any) -> WalkPlan:
    if not 2 <= n <= MOST_WALKS:
        raise PlanError(f"the number of walks is 2 to {MOST_WALKS}, not {n}")
    return WalkPlan(Group(0, kind, n, runs=n, **more), ({},) * n)


def _check_changes(knobs: Mapping[str, object]) -> dict[str, Value]:
    return {(knob := find_knob(name)).name: convert_refusal(knob.check, value) for name, value in knobs.items()}


def _check_knob(given: GridKnob) -> GridKnob:
    """Return the knob under its own name, with its values in its own type."""
    knob = _grid_knob(given.name)
    values = [convert_refusal(knob.check, value) for value in given.values]
    if not values:
        raise PlanError(f"{knob.name} has no values", _EXAMPLE)
    twice = next((value for at, value in enumerate(values) if value in values[:at]), None)
    if twice is not None:
        raise PlanError(
            f"{knob.name} {shown_value(knob, twice)} is given twice", "leave one out, or give a number of runs"
        )
    return GridKnob(knob.name, tuple(value for value in values if isinstance(value, (int, float))))


def _grid_knob(name: str) -> Setting:
    knob = find_knob(name)
    if knob.name not in VARIABLE:
        how = "give a number of runs" if knob.kind == "seed" else f"take one with numbers; {_EXAMPLE}"
        raise PlanError(f"{knob.name} cannot be a knob of a grid", how)
    return knob


def own_name(name: str) -> str:
    """Return a knob's own name for any of its names; "" for an unknown one."""
    return _NAMES.get(name.strip().lower().lstrip("-").replace("-", "_"), "")


def find_knob(name: str, example: str = _EXAMPLE) -> Setting:
    """Find a knob that the replies of a plan may differ in, by any of its names.

    Raises:
        PlanError: there is none; the hint is the `example`.
    """
    if not (known := own_name(name)):
        raise PlanError(f"unknown knob {one_line(name, _LONGEST)!r}{guess_of(name, KNOBS)}", example)
    if "draft" in (known, KNOBS[known].needs):
        raise PlanError(f"{known} cannot be a knob of a grid: it changes no reply", "set it for all of them, before")
    return KNOBS[known]


def convert_refusal(read: Callable[[Any], Value], value: object) -> Value:
    """Return a value as the method of a setting reads it.

    Raises:
        PlanError: the setting refuses it.
    """
    try:
        return read(value)
    except SettingError as error:
        raise PlanError(str(error)) from None


PRESETS: dict[str, WalkPlan] = {
    "temperature": grid([GridKnob("temperature", (0, 0.5, 1, 1.5))], runs=3),
    "top_k": grid([GridKnob("top_k", (1, 10, 50, 0))]),
    "top_p": grid([GridKnob("top_p", (0.5, 0.9, 0.95, 1))]),
}
"""The classic exercises, by the knob that they show."""
