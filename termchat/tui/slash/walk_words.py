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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from termchat.decoding import walk_plan
from termchat.decoding.group import BeamSettings, GridKnob, GroupKind
from termchat.decoding.samplers import KNOBS
from termchat.decoding.setting import SettingError
from termchat.decoding.walk_plan import NUMERIC, PRESETS, PlanError, WalkPlan
from termchat.text import guess_of, one_line

WALKS, BEST, VOTERS = 4, 8, 8
"""How many replies, where nothing is said."""
BEAMS = BeamSettings(4)
PATTERN = r"\d+"
"""What a vote counts, as an example."""
SAME_DICE, RUNS, PENALTY, N_BEST, EARLY, AFTER_CHAIN = "same-dice", "runs", "penalty", "n-best", "early", "after-chain"

_ALSO = {"length-penalty": PENALTY, "early-stopping": EARLY}
"""What `termchat run` calls them."""
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
    """`message` is "" where none was written."""

    plan: WalkPlan
    message: str = ""


class _Words:
    """The words of an argument, one after the other, up to where the message begins."""

    def __init__(self, text: str) -> None:
        self._text = text
        parts = _MESSAGE.search(text)
        self._end, self._message = (parts.start(), parts.end()) if parts is not None else (len(text), len(text))
        self._words = list(_WORD.finditer(text, 0, self._end))

    @property
    def next(self) -> str:
        """ "" where there is none."""
        return self._words[0][0] if self._words else ""

    def take(self) -> str:
        return self._words.pop(0)[0] if self._words else ""

    def alone(self, option: str) -> bool:
        """Takes the option if it is next."""
        return _plain(self.next) == option and bool(self.take())

    def number(self, option: str) -> float:
        """The number behind an option."""
        word = self.take()
        try:
            return float(word)
        except ValueError:
            raise PlanError(f"{option} needs a number, not {one_line(word, _LONGEST)!r}") from None

    def whole(self, option: str) -> int:
        """The same, where it counts something."""
        number = self.number(option)
        if not number.is_integer():
            raise PlanError(f"{option} needs a whole number, not {number}")
        return int(number)

    def count(self, default: int) -> int:
        """A whole number, if one is next."""
        return int(self.take()) if self.next.isdecimal() else default

    def message(self, options: Iterable[str]) -> str:
        """What is left.

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
    """Raises:
    PlanError: it cannot be understood, or cannot be walked.
    """
    return _READERS[kind](text.strip())


def offered(kind: GroupKind, before: str) -> Mapping[str, str]:
    """The words that may come behind these, and what they mean; none in a message."""
    known = {_plain(option) for option in _OPTIONS[kind]} | {"|", *_VALUES}
    begun = _MESSAGE.search(before) or any(
        _plain(word) not in known and not _NUMBER.match(word) for word in before.split()
    )
    return {} if begun else _OPTIONS[kind]


def _plain(word: str) -> str:
    return word.lower().replace("_", "-")


def _word(words: _Words) -> str:
    """The next word, as the options are written here."""
    return _ALSO.get(_plain(words.next), _plain(words.next))


def _walks(text: str) -> Asked:
    words = _Words(text)
    plan = walk_plan.walks(words.count(WALKS), same_dice=words.alone(SAME_DICE))
    return Asked(plan, words.message(_OPTIONS["walks"]))


def _best(text: str) -> Asked:
    words = _Words(text)
    n, penalty = words.count(BEST), 1.0
    while _word(words) == PENALTY:
        words.take()
        penalty = words.number(PENALTY)
    return Asked(walk_plan.best(n, penalty), words.message(_OPTIONS["best"]))


def _vote(text: str) -> Asked:
    """The pattern stands in quotes, or is one word; behind that a message needs a number before it."""
    quoted = _QUOTED.match(text)
    found = quoted or _WORD.match(text)
    pattern = found[found.re.groups] if found is not None else ""
    words = _Words(text[found.end() if found is not None else 0 :])
    if quoted is None and words.next and not words.next.isdecimal():
        how = f'put it in quotes, or add the number of replies: /vote "{one_line(pattern, _LONGEST)}" {VOTERS} …'
        raise PlanError("unclear where the pattern ends", how)
    return Asked(walk_plan.vote(words.count(VOTERS), pattern.replace('\\"', '"')), words.message(()))


def _beams(text: str) -> Asked:
    words = _Words(text)
    settings = replace(BEAMS, width=words.count(BEAMS.width))
    while (word := _word(words)) in _OPTIONS["beams"]:
        words.take()
        if word == PENALTY:
            settings = replace(settings, length_penalty=words.number(PENALTY))
        elif word == N_BEST:
            settings = replace(settings, n_best=words.whole(N_BEST))
        elif word == EARLY:
            settings = replace(settings, early_stopping=True)
        else:
            settings = replace(settings, after_chain=True)
    return Asked(walk_plan.beams(settings), words.message(_OPTIONS["beams"]))


def _grid(text: str) -> Asked:
    """A knob without values has those of the exercise with it."""
    words = _Words(text)
    knobs: list[list[str]] = []
    runs, same = None, False
    while word := words.next:
        if words.alone(RUNS):
            runs = words.whole(RUNS)
        elif words.alone(SAME_DICE):
            same = True
        elif walk_plan.own_name(word) or not knobs:
            knobs.append([words.take()])
        elif _NUMBER.match(word) or word.lower() in _VALUES:
            knobs[-1].append(words.take())
        else:
            break
    message = words.message(_OPTIONS["grid"])
    presets = [made() for words in knobs if len(words) == 1 and (made := PRESETS.get(walk_plan.own_name(words[0])))]
    if runs is None:
        runs = presets[0].group.runs if presets and len(knobs) == 1 else 1
    return Asked(walk_plan.grid(map(_grid_knob, knobs), runs, same_dice=same), message)


def _grid_knob(words: Sequence[str]) -> GridKnob:
    preset = PRESETS.get(walk_plan.own_name(words[0])) if len(words) == 1 else None
    return preset().group.knobs[0] if preset is not None else walk_plan.parse_grid([" ".join(words)])[0]


def _compare(text: str) -> Asked:
    """One side alone is compared with the knobs as they are."""
    words = _Words(text)
    sides: list[dict[str, object]] = [{}]
    while word := words.next:
        if word == "|":
            words.take()
            sides.append({})
        elif walk_plan.own_name(word) or not any(sides):
            sides[-1].update([knob_value(words.take(), words.take())])
        else:
            break
    if len(sides) > 2:
        raise PlanError(f"/ab compares two settings, not {len(sides)}", _COLON)
    message = words.message(_OPTIONS["compare"])
    return Asked(walk_plan.compare(*(sides if len(sides) == 2 else ({}, *sides))), message)


def knob_value(word: str, value: str) -> tuple[str, object]:
    """The name and the value of a knob, as they are written one behind the other.

    Raises:
        PlanError: there is no such knob, or it refuses the value.
    """
    name = walk_plan.own_name(word)
    if not name:
        known = f"unknown knob {one_line(word, _LONGEST)!r}{guess_of(word, KNOBS)}"
        raise PlanError(known, "for example: temperature 0.7 | temperature 1.2 top_p 0.9")
    if not value:
        raise PlanError(f"{name} needs a value", KNOBS[name].range)
    try:
        return name, KNOBS[name].parse(value)
    except SettingError as error:
        raise PlanError(str(error)) from error


_READERS: dict[GroupKind, Callable[[str], Asked]] = {
    "walks": _walks, "grid": _grid, "compare": _compare, "best": _best, "vote": _vote, "beams": _beams,
}  # fmt: skip

_NUMBERS = {knob.name: knob.help for knob in KNOBS.values() if knob.kind in NUMERIC and not knob.needs}
_SCORED = {PENALTY: "X  score = sum of logprobs / length^X"}
_DICE = {SAME_DICE: "same dice for all replies"}
_OPTIONS: dict[GroupKind, dict[str, str]] = {
    "walks": _DICE,
    "grid": {**_NUMBERS, RUNS: "N  replies per cell", **_DICE},
    "compare": _NUMBERS,
    "best": _SCORED,
    "vote": {},
    "beams": {
        **_SCORED, N_BEST: "N  replies to keep at the end",
        EARLY: "end as soon as enough beams have ended", AFTER_CHAIN: "score by probabilities after the chain",
    },
}  # fmt: skip

EXAMPLES: dict[GroupKind, tuple[tuple[str, str], ...]] = {
    "walks": (("4 ", "four replies; a message may follow"), (f"4 {SAME_DICE} ", _DICE[SAME_DICE])),
    "grid": (
        ("temperature", "the classic exercise: 0, 0.5, 1 and 1.5, three runs each"), ("top_k", "1, 10, 50 and off"),
        ("top_p", "0.5, 0.9, 0.95 and 1"), ("temperature 0 1 top_p 0.5 0.95 runs 2 ", "a table of two knobs"),
    ),
    "compare": (
        ("temperature 1.2", "compared with the current knobs"), ("temperature 0.7 | temperature 1.2 top_p 0.9", "two settings"),
    ),
    "best": (("8 ", "the best of eight; a message may follow"),),
    "vote": (
        (f'"{PATTERN}" 8 ', "the last number in each reply; a message may follow"),
        (r'"answer: (\w+)" 8 ', "the word after the last “answer: ”"),
        ("$.answer 8 ", "the value at a path of a JSON reply"),
    ),
    "beams": (("4 ", "four beams; a message may follow"), ("4 n-best 2 ", "four beams, keeping the two best replies")),
}  # fmt: skip
"""What is offered behind a command, and what it does."""
