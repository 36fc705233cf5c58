"""What to walk from one prompt: how many replies, with which knobs and which seeds. Pure data; whoever starts them reads it.

The makers check all that a person may have typed: `walks`, `grid`, `compare`, `best`, `vote` and `beams`, and `parse_grid`
for a grid in words. `PRESETS` are the classic exercises.
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
from termchat.decoding.samplers import KNOBS, Knob, KnobError, Value
from termchat.text import guess_of, one_line

MOST_KNOBS = 2
"""Knobs of a grid."""

NUMERIC = ("float", "int", "switch")
_EXAMPLE = "for example: temperature 0 0.5 1"
_OFF = ("off", "none")
_WORD = re.compile(r"[^\s,;=]+")
_LONGEST = 40

_NAMES = (
    {knob.label: name for name, knob in KNOBS.items()} | {name: name for name in KNOBS} | {"n_predict": "max_tokens"}
)
"""What a knob is called, on the panel and by its own name, to its own name."""


class PlanError(ValueError):
    """A plan that cannot be carried out. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class WalkPlan(msgspec.Struct, frozen=True):
    """The `group` of replies to make from one prompt, whose number is 0 until they begin.

    `changes` are, for each reply, the settings that differ from the chat's. `exact`: each is to have the bits of its seed
    alone, whatever that takes.
    """

    group: Group
    changes: tuple[dict[str, Value], ...]
    exact: bool = False

    def set_number(self, number: int) -> WalkPlan:
        """Return the plan with the number of its group."""
        return msgspec.structs.replace(self, group=msgspec.structs.replace(self.group, number=number))

    def choose_seed(self, first: int, walk: int) -> int:
        """Return the seed of a walk: run j of a cell has the first one's + j, so that cells can be compared; with same dice
        all have the first one's.

        Raises:
            PlanError: it would be larger than the dice take.
        """
        group = self.group
        seed = first if group.same_dice or group.kind == "beams" else first + walk % group.runs
        if seed > KNOBS["seed"].high:
            raise PlanError(
                f"the seed of walk {walk + 1} would be larger than {KNOBS['seed'].high:.0f}", "choose a smaller seed"
            )
        return seed

    def label_walk(self, walk: int) -> str:
        """What sets it apart, as "temp 0.5 · top_p 0.9 · run 2"; "" if only the seed does."""
        told = [f"{KNOBS[name].label} {shown_value(KNOBS[name], value)}" for name, value in self.changes[walk].items()]
        if self.group.kind == "grid" and self.group.runs > 1:
            told.append(f"run {walk % self.group.runs + 1}")
        return " · ".join(told)


ONE = WalkPlan(Group(0, "walks", 1), ({},))
"""The plan of a single reply, which belongs to no group."""


def shown_value(knob: Knob, value: Value) -> str:
    """Return the value as labels and headings show it: as the panel, but whole numbers without a point."""
    return knob.show(value).removesuffix(".0") if isinstance(value, float) else knob.show(value)


def walks(n: int, *, same_dice: bool = False) -> WalkPlan:
    """Raises:
    PlanError: n is not from 2 to `MOST_WALKS`; so for the next ones.
    """
    return _make_alike("walks", n, same_dice=same_dice)


def best(n: int, length_penalty: float = 1.0) -> WalkPlan:
    """Raises:
    PlanError: see `walks`; or a length penalty that leaves nothing but the length.
    """
    if wrong := beam_search.penalty_problem(length_penalty):
        raise PlanError(wrong)
    return _make_alike("best", n, length_penalty=length_penalty)


def vote(n: int, answer: str) -> WalkPlan:
    """Raises:
    PlanError: see `walks`; or `answer` is neither a regular expression nor a JSON path.
    """
    try:
        answer_reader(answer)
    except AnswerError as error:
        raise PlanError(error.message, error.hint) from None
    return _make_alike("vote", n, answer=answer)


def compare(a: Mapping[str, object], b: Mapping[str, object]) -> WalkPlan:
    """Two settings with the same dice; each has the knobs that differ from the chat's.

    Raises:
        PlanError: an unknown knob, a value that its knob refuses, or the two are the same.
    """
    changes = (_check_changes(a), _check_changes(b))
    if changes[0] == changes[1]:
        raise PlanError("both settings are the same", "change a knob of one of them")
    return WalkPlan(Group(0, "compare", 2, same_dice=True), changes, exact=True)


def beams(settings: BeamSettings) -> WalkPlan:
    """Raises:
    PlanError: a width, a length penalty or an n-best that cannot be searched for.
    """
    if settings.width == 1:
        raise PlanError("a search with 1 beam is greedy", "set the temperature to 0, or give 2 beams or more")
    if wrong := beam_search.find_problem(settings):
        raise PlanError(wrong)
    n = settings.n_best
    return WalkPlan(Group(0, "beams", n, runs=n, beams=settings), ({},) * n)


def grid(knobs: Iterable[GridKnob], runs: int = 1, *, same_dice: bool = False) -> WalkPlan:
    """Return every combination of the values, in the order given, the last knob's varying fastest; `runs` walks for each.

    Raises:
        PlanError: more than two knobs or the same one twice, an unknown one, a value that its knob refuses or that is there
            twice, or more walks than fit into a batch.
    """
    checked = tuple(map(_check_knob, knobs))
    if not checked:
        raise PlanError("a grid needs a knob and its values", _EXAMPLE)
    if len(checked) > MOST_KNOBS:
        told = ", ".join(knob.name for knob in checked)
        raise PlanError(f"a grid has {MOST_KNOBS} knobs at most, not {len(checked)}: {told}", "leave one out")
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
    names = [knob.name for knob in checked]
    changes = tuple(
        {name: KNOBS[name].check(value) for name, value in zip(names, cell, strict=True)}
        for cell in product(*(knob.values for knob in checked))
        for _ in range(runs)
    )
    return WalkPlan(Group(0, "grid", cells * runs, checked, runs, same_dice), changes, exact=True)


def parse_grid(texts: Sequence[str]) -> tuple[GridKnob, ...]:
    """Return the knobs of a grid in words, "temperature=0,0.5,1" or "temperature 0 0.5 1"; one text may hold several. Values
    are those that the knob takes elsewhere, `off` among them.

    Raises:
        PlanError: an unknown knob, one without values, or a value that its knob refuses.
    """
    found: list[tuple[Knob, list[float]]] = []
    for text in texts:
        knob: Knob | None = None
        for word in _WORD.findall(text):
            # The name of another knob begins with a letter, and so do few values.
            if knob is not None and (not word[0].isalpha() or word.lower() in (*_OFF, "on", *knob.words)):
                found[-1][1].append(_parse_value(knob, word))
            elif knob is None or own_name(word):
                knob = _grid_knob(word)
                found.append((knob, []))
            else:
                said = f"{one_line(word, _LONGEST)!r} is neither a value of {knob.name} nor a knob"
                raise PlanError(f"{said}{guess_of(word, KNOBS)}", _EXAMPLE)
    for knob, values in found:
        if not values:
            raise PlanError(f"{knob.name} has no values", _EXAMPLE)
    return tuple(GridKnob(knob.name, tuple(values)) for knob, values in found)


PRESETS: dict[str, Callable[[], WalkPlan]] = {
    "temperature": lambda: grid([GridKnob("temperature", (0, 0.5, 1, 1.5))], runs=3),
    "top_k": lambda: grid([GridKnob("top_k", (1, 10, 50, 0))]),
    "top_p": lambda: grid([GridKnob("top_p", (0.5, 0.9, 0.95, 1))]),
}
"""The classic exercises, by the knob that they show."""


def _make_alike(kind: GroupKind, n: int, **more: Any) -> WalkPlan:
    if not 2 <= n <= MOST_WALKS:
        raise PlanError(f"the number of walks is 2 to {MOST_WALKS}, not {n}")
    return WalkPlan(Group(0, kind, n, runs=n, **more), ({},) * n)


def _check_changes(knobs: Mapping[str, object]) -> dict[str, Value]:
    return {(knob := _find_knob(name)).name: _convert_refusal(knob.check, value) for name, value in knobs.items()}


def _check_knob(given: GridKnob) -> GridKnob:
    """Return the knob with its own name and its values in its own type."""
    knob = _grid_knob(given.name)
    values = [_convert_refusal(knob.check, value) for value in given.values]
    if not values:
        raise PlanError(f"{knob.name} has no values", _EXAMPLE)
    twice = next((value for at, value in enumerate(values) if value in values[:at]), None)
    if twice is not None:
        raise PlanError(
            f"{knob.name} {shown_value(knob, twice)} is given twice", "leave one out, or give a number of runs"
        )
    return GridKnob(knob.name, tuple(value for value in values if isinstance(value, (int, float))))


def _grid_knob(name: str) -> Knob:
    knob = _find_knob(name)
    if knob.kind not in NUMERIC:
        how = "give a number of runs" if knob.kind == "seed" else f"take one with numbers; {_EXAMPLE}"
        raise PlanError(f"{knob.name} cannot be a knob of a grid", how)
    return knob


def own_name(name: str) -> str:
    """Return a knob's own name for any of its names; "" for an unknown one."""
    return _NAMES.get(name.strip().lower().lstrip("-").replace("-", "_"), "")


def _find_knob(name: str) -> Knob:
    if not (known := own_name(name)):
        raise PlanError(f"unknown knob {one_line(name, _LONGEST)!r}{guess_of(name, KNOBS)}", _EXAMPLE)
    if "draft" in (known, KNOBS[known].needs):
        raise PlanError(f"{known} cannot be a knob of a grid: it changes no reply", "set it for all of them, before")
    return KNOBS[known]


def _parse_value(knob: Knob, word: str) -> float:
    value = _convert_refusal(knob.parse, "off" if word.lower() in _OFF else word)
    assert isinstance(value, (int, float))  # as of every knob of `NUMERIC`
    return value


def _convert_refusal(read: Callable[[Any], Value], value: object) -> Value:
    try:
        return read(value)
    except KnobError as error:
        raise PlanError(str(error)) from None
