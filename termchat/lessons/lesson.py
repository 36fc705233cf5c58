"""A lesson as values: what it teaches, in which state it begins, and its steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec

from termchat.decoding.constraint import Constraint
from termchat.decoding.samplers import KNOBS, Value
from termchat.engine.port import Feature
from termchat.lessons.expressions import Expression, LessonCheck
from termchat.text import guess_of

_HOLE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
TUNE_KNOB = "tune."

DeedKind = Literal["press", "keys", "type", "say", "row", "wait", "command"]
_NEEDS: dict[DeedKind, str] = {
    "press": "the id of one key, for example: press tune",
    "keys": "names of keys, for example: keys down enter",
    "type": "a text, for example: type blue",
    "say": "a message, for example: say Hello",
    "row": "the name of a row in the open list, for example: row fast_prefill",
}


class LessonText(str):
    """A text of a lesson, without the white space around it. `{tune}` in it stands for the key that is bound to the id `tune`
    now, `{tune.temperature}` for the way to that knob; two braces are one. What is to be typed stands in `backticks`."""

    __slots__ = ()

    def __new__(cls, text: str = "") -> LessonText:
        return super().__new__(cls, text.strip())

    @property
    def keys(self) -> list[str]:
        """The ids of keys that it names."""
        return [found[1] for found in _HOLE.finditer(self) if found[1] is not None]

    @property
    def lone_brace(self) -> bool:
        """Whether a brace in it has no partner."""
        return any(found[0] in ("{", "}") for found in _HOLE.finditer(self))

    def fill_keys(self, key_of: Callable[[str], str]) -> str:
        """Replace the ids of keys by their names, which `key_of` returns."""
        return _HOLE.sub(lambda hole: hole[0][0] if hole[1] is None else key_of(hole[1]), self)


Text = Annotated[str, msgspec.Meta(max_length=4000)]
NeededText = Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]
Knobs = Mapping[str, Value]
"""Knobs that are not at their default."""


class Opening(msgspec.Struct, frozen=True):
    """The state in which a lesson begins. The look and the page "" stay as they are. `text` is put into the composer, and not
    sent. `rules` are breakpoints and stop rules, as people
    write them."""

    system: Text = ""
    raw: bool = False
    text: Text = ""
    look: str = ""
    page: str = ""
    knobs: Knobs = msgspec.field(default_factory=dict)
    rules: tuple[Text, ...] = ()
    constraint: Constraint | None = None


RightAnswer = int | tuple[LessonCheck, ...]
"""The number of an answer, from 1 on, or a check for each answer: the first that holds is right."""


class LessonQuestion(msgspec.Struct, frozen=True, rename={"unit": "number"}):
    """A question before a step is done, or with `before` False after it: which of the `answers` is `right`; or without answers
    for a number with the `unit`, whose value is the `truth`."""

    ask: LessonText
    answers: tuple[LessonText, ...] = ()
    right: RightAnswer = 0
    unit: Text = ""
    truth: Expression | None = None
    before: bool = True

    @property
    def is_number(self) -> bool:
        return not self.answers

    @property
    def is_share(self) -> bool:
        return self.is_number and self.unit == "%"

    def describe(self, value: float, digits: int = 3) -> str:
        """Write an answer: the text that has this number, or the number with its unit: "40 %", "1 token", "2 tokens"."""
        if not self.is_number:
            return self.answers[int(value) - 1] if 1 <= value <= len(self.answers) else str(int(value))
        number = f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"
        return f"{number} {self.unit.removesuffix('s') if number == '1' else self.unit}".strip()


class DeedError(ValueError):
    """Text that is no deed; the message says why, and how it is written."""


class Deed:
    """One deed: its `kind`, and `what` it is done with: the id of a key, keys by name, a text, or a whole command.

    Raises:
        DeedError: the line is no deed.
    """

    def __init__(self, written: str) -> None:
        text = written.strip("\n")
        if text.startswith("/") and text[1:2].strip():
            self.kind: DeedKind = "command"
            self.what = text
            return
        word, _, rest = text.strip().partition(" ")
        kind: DeedKind | None = next((kind for kind in get_args(DeedKind) if kind == word and kind != "command"), None)
        if kind is None:
            known = "press ID, keys NAMES, type TEXT, say MESSAGE, row NAME, wait, and commands such as /temperature 0"
            raise DeedError(f"unknown deed {word!r}{guess_of(word, (*_NEEDS, 'wait'))}; known deeds: {known}")
        self.kind, self.what = kind, rest if kind in ("type", "say") else " ".join(rest.split())
        if kind == "wait" and self.what:
            raise DeedError("wait stands alone")
        if kind in _NEEDS and (not self.what or (kind == "press" and " " in self.what)):
            raise DeedError(f"{kind} needs {_NEEDS[kind]}")

    @property
    def sends(self) -> bool:
        """Whether it sends the text in the composer."""
        return (self.kind, self.what) == ("press", "send")

    @property
    def steers(self) -> bool:
        """Whether it is done at once while a reply runs; others wait for its end."""
        return self.kind in ("press", "keys", "type") and not self.sends


class LessonStep(msgspec.Struct, frozen=True, rename={"checks": "check", "claims": "claim", "deeds": "do"}):
    """One step: what to do, what is pointed at, what must hold then, and how it is done for the reader. `claims` hold at its
    end with the model that the lesson was written with. `line` is where it begins in its file. `compose` is put into the
    composer as it begins, if that is empty."""

    text: LessonText
    points: tuple[Text, ...] = ()
    checks: tuple[LessonCheck, ...] = ()
    claims: tuple[LessonCheck, ...] = ()
    deeds: tuple[Deed, ...] = ()
    hints: tuple[LessonText, ...] = ()
    question: LessonQuestion | None = None
    notes: LessonText = LessonText()
    compose: Text = ""
    line: int = 0

    @property
    def rungs(self) -> int:
        """The number of hints: the texts, and that it can be done for the reader."""
        return len(self.hints) + bool(self.deeds)


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """A lesson. `number` is its place in the course, "" for one that has none."""

    id: str = ""
    number: str = ""
    path: Path = Path()
    title: NeededText
    minutes: Annotated[int, msgspec.Meta(ge=1, le=120)]
    summary: NeededText
    learned: LessonText
    next: LessonText = LessonText()
    needs: tuple[Feature, ...] = ()
    terms: tuple[Text, ...] = ()
    notes: LessonText = LessonText()
    opening: Opening = Opening()
    steps: tuple[LessonStep, ...] = ()

    @property
    def messages(self) -> frozenset[str] | None:
        """The messages that the reader is to send, without commands; None for any."""
        deeds = [deed for step in self.steps for deed in step.deeds]
        typed = [deed.what for deed in deeds if deed.kind == "type"]
        given = {text.strip() for text in (self.opening.text, *(step.compose for step in self.steps), *typed)}
        given = {text for text in given if text and not text.startswith("/")}
        return None if not given or any(deed.kind == "say" for deed in deeds) else frozenset(given)

    @property
    def is_of_endings(self) -> bool:
        """Whether a step waits for how a reply ended, which then may be a stop by the reader."""
        return any("ending" in check.written for step in self.steps for check in step.checks)


def is_knob_key(id: str) -> bool:
    """Whether an id is that of a knob in TUNE: `tune.temperature`."""
    return id.startswith(TUNE_KNOB) and id.removeprefix(TUNE_KNOB) in KNOBS
