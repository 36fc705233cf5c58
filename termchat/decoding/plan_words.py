"""Reads the arguments of `/walks`, `/grid`, `/ab`, `/best`, `/vote` and `/beams`: a plan of replies, and the message.

    /walks 4 same-dice Tell me a joke          /best 8                     /vote "answer: (\\d+)" 8 What is 17 + 25?
    /grid temperature 0 0.5 1 top_p 0.5 0.95 runs 3 : Tell me a joke      /ab temperature 0.7 | temperature 1.2 top_p 0.9
    /beams 4 penalty 1 n-best 2 early after-chain

The message comes last: after a colon or a line break, or from the first word on that is no option. A word that only looks
like an option is refused, as it is more likely a slip than the beginning of a message.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from termchat.decoding import walk_plan
from termchat.decoding.group import GroupKind
from termchat.decoding.plans import NO_KNOB, PLANS, VARIABLE, PlanField
from termchat.decoding.walk_plan import PRESETS, PlanError, WalkPlan, make_plan
from termchat.text import one_line

_WORD = re.compile(r"\S+")
_MESSAGE = re.compile(r"\n|:(?=\s|$)")
_NUMBER = re.compile(r"[-+]?\.?\d\S*")
_VALUES = ("off", "none", "on")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LONGEST = 40
_NEAR = 0.75
"""How alike a word and an option are, from 0 to 1, if one is taken for the other misspelled."""

_COLON = "put a colon before the message"


class Asked(NamedTuple):
    """A plan and the message to reply to, "" for the last one."""

    plan: WalkPlan
    message: str = ""


class _Words:
    """The words of an argument up to its message, taken one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        parts = _MESSAGE.search(text)
        self._end, self._message = (parts.start(), parts.end()) if parts is not None else (len(text), len(text))
        self._words = list(_WORD.finditer(text, 0, self._end))

    @property
    def next(self) -> str:
        """The next word; "" behind the last one."""
        return self._words[0][0] if self._words else ""

    def take(self) -> str:
        return self._words.pop(0)[0] if self._words else ""

    def count(self, field: PlanField) -> dict[str, Any]:
        """Take the value of a field that stands alone, if a whole number is next."""
        return {field.name: int(self.take())} if self.next.isdecimal() else {}

    def option(self, kind: GroupKind) -> dict[str, Any]:
        """Take the option that is next, with its value; none if the next word is no option of the kind."""
        word = _plain(self.next)
        field = next(
            (field for field in PLANS[kind].fields if field.word and word in (field.word, _plain(field.name))), None
        )
        if field is None:
            return {}
        self.take()
        if field.kind == "switch":
            return {field.name: 1}
        named = msgspec.structs.replace(field, name=field.word)
        return {field.name: walk_plan.convert_refusal(named.parse, self.take())}

    def options(self, kind: GroupKind) -> dict[str, Any]:
        """Take all options that are next, with their values."""
        values: dict[str, Any] = {}
        while option := self.option(kind):
            values |= option
        return values

    def message(self, options: Iterable[str]) -> str:
        """Take the rest, the message.

        Raises:
            PlanError: it begins like one of the options, or with a number.
        """
        if not self._words:
            return self._text[self._message :].strip()
        word, known = self.next, {_plain(option): option for option in options}
        near = difflib.get_close_matches(_plain(word), known, n=1, cutoff=_NEAR)
        if near or _NUMBER.fullmatch(word):
            guess = f" (did you mean {known[near[0]]}?)" if near else ""
            raise PlanError(f"{one_line(word, _LONGEST)!r} does not belong here{guess}", _COLON)
        return self._text[self._words[0].start() :].strip()


def read(kind: GroupKind, text: str) -> Asked:
    """Read the argument of a command.

    Raises:
        PlanError: it cannot be understood, or cannot be walked.
    """
    text = text.strip()
    values: dict[str, Any] = {}
    if kind == "vote":
        values["vote"], text = _parse_pattern(text)
    words = _Words(text)
    if kind == "grid":
        values |= _read_grid(words)
    elif kind == "compare":
        values |= _read_sides(words)
    else:
        values |= words.count(_counted(kind)) | words.options(kind)
    return Asked(make_plan(kind, values), words.message(options(kind)))


def write(kind: GroupKind, values: Mapping[str, str]) -> str:
    """Write the argument that `read` takes; `values` are typed texts, by field."""
    parts: list[str] = []
    if kind == "compare":
        parts = [values["A"], "|" if values["A"].strip() else "", values["B"]]
    elif kind == "grid":
        second = [values["knob 2"], values["values 2"]] if values["knob 2"] != NO_KNOB else []
        parts = [values["knob"], values["values"], *second, "runs", values["runs"]]
    else:
        for field in PLANS[kind].fields:
            value = values.get(field.name, field.typed_default)
            if not field.word and field.label:
                quoted = value.replace('"', '\\"')
                parts.append(f'"{quoted}"' if field.kind == "text" else value)
            elif value != field.typed_default:
                parts += [field.word] if field.kind == "switch" else [field.word, value]
    return " ".join(filter(None, parts)).strip()


def options(kind: GroupKind) -> dict[str, str]:
    """Return the words of a kind's options, with their helps."""
    knobs = VARIABLE if kind in ("grid", "compare") else {}
    return knobs | {field.word: field.word_help for field in PLANS[kind].fields if field.word}


def offered(kind: GroupKind, before: str) -> Mapping[str, str]:
    """Return the options that may come behind the words before; none in a message."""
    known = {_plain(option) for option in options(kind)} | {"|", *_VALUES}
    begun = _MESSAGE.search(before) or any(
        _plain(word) not in known and not _NUMBER.match(word) for word in before.split()
    )
    return {} if begun else options(kind)


def _counted(kind: GroupKind) -> PlanField:
    """Return the field with the number of replies, which stands alone."""
    return next(field for field in PLANS[kind].fields if field.kind == "int" and not field.word)


def _plain(word: str) -> str:
    return word.lower().replace("_", "-")


def _parse_pattern(text: str) -> tuple[str, str]:
    """Parse the pattern of a vote, in quotes or one word, and the text behind it. Unquoted it ends at a number or a message."""
    quoted = _QUOTED.match(text)
    match = quoted or _WORD.match(text)
    if match is None:
        return "", ""
    pattern, rest = match[match.re.groups], text[match.end() :]
    if quoted is None and (word := _Words(rest).next) and not word.isdecimal():
        count = _counted("vote").default
        how = f'put it in quotes, or add the number of replies: /vote "{one_line(pattern, _LONGEST)}" {count} …'
        raise PlanError("unclear where the pattern ends", how)
    return pattern.replace('\\"', '"'), rest


def _read_grid(words: _Words) -> dict[str, Any]:
    values: dict[str, Any] = {}
    knobs: list[list[str]] = []
    while word := words.next:
        if option := words.option("grid"):
            values |= option
        elif walk_plan.own_name(word) or not knobs:
            knobs.append([words.take()])
        elif _NUMBER.match(word) or word.lower() in _VALUES:
            knobs[-1].append(words.take())
        else:
            break
    # The name of a knob alone is the classic exercise with it.
    exercises = [PRESETS.get(walk_plan.own_name(words[0])) if len(words) == 1 else None for words in knobs]
    if len(exercises) == 1 and exercises[0] is not None:
        values.setdefault("runs", exercises[0].group.runs)
    return values | {
        "grid": [
            exercise.group.knobs[0] if exercise is not None else walk_plan.parse_grid([" ".join(words)])[0]
            for exercise, words in zip(exercises, knobs, strict=True)
        ]
    }


def _read_sides(words: _Words) -> dict[str, Any]:
    """Read the two settings of an A/B; one alone is compared with the knobs as they are."""
    sides: list[dict[str, object]] = [{}]
    while word := words.next:
        if word == "|":
            words.take()
            sides.append({})
        elif walk_plan.own_name(word) or not any(sides):
            knob = walk_plan.find_knob(words.take(), "for example: temperature 0.7 | temperature 1.2 top_p 0.9")
            if not words.next:
                raise PlanError(f"{knob.name} needs a value", knob.range)
            sides[-1][knob.name] = walk_plan.convert_refusal(knob.parse, words.take())
        else:
            break
    if len(sides) > 2:
        raise PlanError(f"/ab compares two settings, not {len(sides)}", _COLON)
    return dict(zip("AB", sides if len(sides) == 2 else ({}, *sides), strict=True))
