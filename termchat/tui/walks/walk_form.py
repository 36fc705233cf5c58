"""The form of the dialog that starts walks: what to walk, and its values. It writes the argument of the command that does the
same, so that both are read and refused in one place. No widget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from textual.actions import parse

from termchat.decoding.group import MOST_BEAMS, MOST_WALKS, GroupKind
from termchat.decoding.samplers import KNOBS
from termchat.decoding.walk_plan import NUMERIC, PRESETS, PlanError, shown_value
from termchat.text import cells, erase_last
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, STRONG, TEXT, column, length
from termchat.tui.keys.dialogs import START, actions
from termchat.tui.slash.walk_words import (
    AFTER_CHAIN,
    BEAMS,
    BEST,
    EARLY,
    N_BEST,
    PATTERN,
    PENALTY,
    RUNS,
    SAME_DICE,
    VOTERS,
    WALKS,
    Asked,
    read,
)

KINDS: tuple[GroupKind, ...] = get_args(GroupKind)
COMMANDS_OF: dict[GroupKind, str] = {
    "walks": "walks", "grid": "grid", "compare": "ab", "best": "best", "vote": "vote", "beams": "beams",
}  # fmt: skip
"""The command of each kind."""

_NAMES: dict[GroupKind, str] = {
    "walks": "walks", "grid": "grid", "compare": "A/B", "best": "best of", "vote": "vote", "beams": "beams",
}  # fmt: skip
_ABOUT: dict[GroupKind, str] = {
    "walks": "Several replies to the same prompt, side by side: see where they part.",
    "grid": "Replies for each value of one or two knobs, as a table.",
    "compare": "Two settings with the same dice, token by token: see what a knob changes.",
    "best": "Several replies, ranked by score: keep the best.",
    "vote": "Several replies: see which answer most of them give.",
    "beams": "Beam search: at each step, continue the beginnings with the best scores.",
}
_NONE = "none"
_MODEL, _CHAIN = "model's own", "after the chain"
_KNOBS = tuple(knob.name for knob in KNOBS.values() if knob.kind in NUMERIC and not knob.needs)
_NAME = 9


class WalkField(NamedTuple):
    """A row of the form. A number is between its first and last choice, a real number and a text have none; a choice is one of
    them. `empty` is what an empty text stands for."""

    name: str
    help: str
    default: str
    choices: tuple[str, ...] = ()
    kind: Literal["choice", "number", "real", "text"] = "choice"
    empty: str = ""


def _number(name: str, help: str, default: int, most: int, least: int = 2) -> WalkField:
    return WalkField(name, help, str(default), (str(least), str(most)), "number")


def _values_of(knob: str) -> str:
    """The values of the exercise with a knob; else its present default and where it is off."""
    made = PRESETS.get(knob)
    values = made().group.knobs[0].values if made is not None else ()
    return " ".join(shown_value(KNOBS[knob], value) for value in values)


_DICE = WalkField(
    "dice",
    "different dice for each reply, or the same for all until you turn a knob of one",
    "different",
    ("different", "the same"),
)
_PENALTY = WalkField(
    "penalty",
    "score = sum of logprobs / length^penalty; 0 favours short replies, 1 ranks by mean logprob",
    "1",
    (),
    "real",
)
_REPLIES = "how many replies are decoded together"
FIELDS: dict[GroupKind, tuple[WalkField, ...]] = {
    "walks": (_number("replies", _REPLIES, WALKS, MOST_WALKS), _DICE),
    "grid": (
        WalkField("knob", "the knob to vary", "temperature", _KNOBS),
        WalkField("values", "its values, separated by spaces; off works too", _values_of("temperature"), (), "text"),
        WalkField("knob 2", "a second knob, for a table of rows and columns", _NONE, (_NONE, *_KNOBS)),
        WalkField("values 2", "the values of the second knob", "", (), "text"),
        _number("runs", "replies per cell, with different dice; run 1 has the same dice in every cell, and so on", 3,
            MOST_WALKS, 1),
    ),
    "compare": (
        WalkField("A", "knobs and their values, such as temperature 0.7; leave it empty for the current knobs", "", (), "text",
            "the current knobs"),
        WalkField("B", "the same for the other reply", "temperature 1.2", (), "text"),
    ),
    "best": (_number("replies", _REPLIES, BEST, MOST_WALKS), _PENALTY),
    "vote": (
        WalkField(
            "answer", "where the answer is: a regular expression (its last match counts) or a JSON path such as $.answer",
            PATTERN, (), "text",
        ),
        _number("replies", _REPLIES, VOTERS, MOST_WALKS),
    ),
    "beams": (
        _number("width", "how many beams continue at each step", BEAMS.width, MOST_BEAMS),
        _PENALTY,
        _number("n-best", "how many replies to keep at the end", BEAMS.n_best, MOST_BEAMS, 1),
        WalkField("end", "late: when no running beam can beat the finished ones; early: as soon as enough beams have ended",
            "late", ("late", "early")),
        WalkField("scores", "score tokens by the model's own probabilities, or by those after the chain", _MODEL,
            (_MODEL, _CHAIN)),
    ),
}  # fmt: skip


class WalkForm:
    """`at` is the row that is chosen, 0 that of the kind. `refused` says of a kind why the engine cannot make it."""

    def __init__(self, kind: GroupKind = "walks", refused: Callable[[GroupKind], str] = lambda _: "") -> None:
        self.kind = kind
        self._refused = refused
        self.at = 0
        self._values = {kind: [field.default for field in fields] for kind, fields in FIELDS.items()}
        self._fresh = True
        self._actions = actions(START)

    @property
    def fields(self) -> tuple[WalkField, ...]:
        return (WalkField("kind", _ABOUT[self.kind], "walks", KINDS), *FIELDS[self.kind])

    @property
    def field(self) -> WalkField:
        return self.fields[self.at]

    @property
    def argument(self) -> str:
        """What the command of the same kind would be given."""
        values = dict(zip((field.name for field in FIELDS[self.kind]), self._values[self.kind], strict=True))
        return " ".join(filter(None, _WRITTEN[self.kind](values))).strip()

    def read(self) -> Asked:
        """Raises:
        PlanError: it cannot be walked like this.
        """
        return read(self.kind, self.argument)

    @property
    def refusal(self) -> str:
        """Why the engine cannot make what is chosen; "" where it can."""
        return self._refused(self.kind)

    @property
    def problem(self) -> str:
        if self.refusal:
            return self.refusal
        try:
            self.read()
        except PlanError as error:
            return error.message
        return ""

    @property
    def told(self) -> str:
        """How many replies it makes; "" where it is refused."""
        try:
            plan = self.read().plan
        except PlanError:
            return ""
        if plan.group.beams is not None:
            return (
                f"the best {plan.group.size} of {plan.group.beams.width} beams"
                if plan.group.size > 1
                else f"the best of {plan.group.beams.width} beams"
            )
        parts = plan.group.size // plan.group.runs
        each = (
            f": {parts} cells with {plan.group.runs} runs each"
            if plan.group.kind == "grid" and plan.group.runs > 1
            else ""
        )
        return f"{plan.group.size} replies{each}"

    def choose(self, at: int) -> None:
        self.at, self._fresh = min(max(at, 0), len(self.fields) - 1), True

    def press(self, key: str, character: str | None) -> bool:
        """False if the key is bound to nothing here. `character` is what it would type."""
        _, does, parameters = parse(self._actions.get(key, ""))
        writes = self.field.kind == "text"
        if does in self._DOES and not (writes and key == "space"):
            self._DOES[does](self, *parameters)
        elif character is not None and character.isprintable() and self.field.kind != "choice":
            self._type(character)
        else:
            return False
        return True

    # --- how it is done ----------------------------------------------------------------------------------------------

    @property
    def _value(self) -> str:
        return self.kind if self.at == 0 else self._values[self.kind][self.at - 1]

    def set(self, value: str) -> None:
        if self.at == 0:
            self.kind = next(kind for kind in KINDS if kind == value)
            return
        before, self._values[self.kind][self.at - 1] = self._value, value
        if self.kind == "grid" and self.field.name in ("knob", "knob 2") and value != before:
            self._values["grid"][self.at] = _values_of(value) if value != _NONE else ""

    def takes(self, text: str) -> bool:
        """Whether the row takes all of a text that is typed."""
        kind = self.field.kind
        return kind == "text" or (
            kind != "choice" and all(one.isdecimal() or (kind == "real" and one in ".-") for one in text)
        )

    def _type(self, character: str) -> None:
        if self.takes(character):
            self.set(character if self._fresh and self.field.kind != "text" else self._value + character)
        self._fresh = False

    def _move(self, by: int) -> None:
        field = self.field
        if field.kind == "number":
            low, high = map(int, field.choices)
            self.set(str(min(max((int(self._value) if self._value else low) + by, low), high)))
        elif field.kind == "real":
            self.set(f"{_float(self._value) + by / 10:.3g}")
        elif field.kind == "choice":
            self.set(field.choices[(field.choices.index(self._value) + by) % len(field.choices)])
        self._fresh = True

    def _erase(self) -> None:
        if self.field.kind != "choice":
            self.set(erase_last(self._value))
            self._fresh = False

    def _reset(self) -> None:
        self.set("" if self.field.kind == "text" and self._value else self.field.default)

    _DOES: dict[str, Callable[..., None]] = {"move": _move, "erase": _erase, "reset": _reset}  # noqa: RUF012

    # --- how it is drawn ---------------------------------------------------------------------------------------------

    def lines(self, width: int) -> list[Line]:
        return [self._line(at, field, width) for at, field in enumerate(self.fields)]

    def _line(self, at: int, field: WalkField, width: int) -> Line:
        here = at == self.at
        value = self.kind if at == 0 else self._values[self.kind][at - 1]
        runs: list[Run] = [("▌ " if here else "  ", ACCENT), (column(field.name, _NAME), STRONG if here else MUTED)]
        if field.kind == "choice" and len(field.choices) <= len(KINDS):
            for choice in field.choices:
                name = _NAMES[choice] if at == 0 else choice  # type: ignore[index]
                ink = FAINT if at == 0 and self._refused(choice) else MUTED  # type: ignore[arg-type]
                ink = Ink("accent", bold=True) if choice == value else ink
                runs += doing(f"pick({at}, {choice!r})", [(f"[{name}]" if choice == value else f" {name} ", ink)])
        else:
            room = max(width - length(runs) - 4, 4)
            shown = value if cells(value) < room else "…" + value[-room + 2 :]
            writes, arrows = field.kind != "choice", here and field.kind != "text"
            ink = Ink("accent", bold=True) if here else TEXT
            runs.append(
                (f"{'‹' if arrows else ' '}{shown}{'▏' if here and writes else ''}{' ›' if arrows else ''}", ink)
            )
            runs.append(("" if value else f" {field.empty}", MUTED))
        return Line(tuple(runs), "panel" if here else "")


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _of_walks(values: dict[str, str]) -> list[str]:
    return [values["replies"], SAME_DICE if values["dice"] == "the same" else ""]


def _of_grid(values: dict[str, str]) -> list[str]:
    second = [values["knob 2"], values["values 2"]] if values["knob 2"] != _NONE else []
    return [values["knob"], values["values"], *second, RUNS, values["runs"]]


def _of_compare(values: dict[str, str]) -> list[str]:
    return [values["A"], "|" if values["A"].strip() else "", values["B"]]


def _of_vote(values: dict[str, str]) -> list[str]:
    quoted = values["answer"].replace('"', '\\"')
    return [f'"{quoted}"', values["replies"]]


def _of_penalty(values: dict[str, str]) -> list[str]:
    return [PENALTY, values["penalty"]] if values["penalty"] != "1" else []


def _of_beams(values: dict[str, str]) -> list[str]:
    early, after = values["end"] == "early", values["scores"] == _CHAIN
    n_best = [N_BEST, values["n-best"]] if values["n-best"] != "1" else []
    return [values["width"], *_of_penalty(values), *n_best, EARLY if early else "", AFTER_CHAIN if after else ""]


_WRITTEN: dict[GroupKind, Callable[[dict[str, str]], list[str]]] = {
    "walks": _of_walks, "grid": _of_grid, "compare": _of_compare, "vote": _of_vote, "beams": _of_beams,
    "best": lambda values: [values["replies"], *_of_penalty(values)],
}  # fmt: skip
