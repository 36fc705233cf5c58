"""Which conditions a step meets: thresholds and counts before its token is taken, texts after it; and where a unit ends."""

from __future__ import annotations

import codecs
import math
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from termchat.decoding.conditions import Condition, Every, Measure, Text, Threshold, compiled
from termchat.decoding.records import Stage

WINDOW = 1024
"""Characters that a regular expression sees before the newest token."""


class Measured(Protocol):
    """A step's numbers, as in a `Token` record."""

    @property
    def logprob(self) -> float: ...
    @property
    def probability(self) -> float: ...
    @property
    def rank(self) -> int: ...
    @property
    def entropy(self) -> float: ...
    @property
    def p_end(self) -> float: ...
    @property
    def stages(self) -> list[Stage]: ...


MEASURES: dict[Measure, Callable[[Measured], float]] = {
    "entropy": lambda step: step.entropy,
    "p_end": lambda step: step.p_end,
    "survivors": lambda step: step.stages[-2].survivors,  # the last stage is the draw itself
    "model": lambda step: math.exp(step.logprob),
    "probability": lambda step: step.probability,
    "rank": lambda step: step.rank,
}
"""How each measure is read off a step."""
_COMPARES: dict[str, Callable[[Any, Any], bool]] = {">": operator.gt, "<": operator.lt}


class Rules:
    """The conditions that people write, ready to be looked at. Where two are met at once, the one that stops counts.

    Raises:
        ConditionError: a text condition does not compile.
    """

    def __init__(self, conditions: Iterable[Condition]) -> None:
        ordered = sorted(conditions, key=lambda condition: condition.action != "stop")
        self._before = [c for c in ordered if isinstance(c, Threshold | Every)]
        self._texts = [_Search(c) for c in ordered if isinstance(c, Text)]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.has_regex = any(search.condition.regex for search in self._texts)

    def before(self, number: int, step: Measured) -> Threshold | Every | None:
        """The condition that step `number` (0 is the reply's first), about to be taken, meets."""
        for condition in self._before:
            if isinstance(condition, Every):
                met = number > 0 and number % condition.tokens == 0
            else:
                met = _COMPARES[condition.sign](MEASURES[condition.measure](step), condition.value)
            if met:
                return condition
        return None

    def after(self, data: bytes) -> Text | None:
        """The condition that these bytes, the next of the reply, complete. Every part of the reply is to come by here."""
        if not self._texts:
            return None
        text = self._decoder.decode(data)
        met = [search.condition for search in self._texts if search.push(text)]
        return met[0] if met else None


class _Search:
    r"""Finds a condition's text in what comes in pieces, looking at a bounded window.

    A match is new when it begins where the last one ended, or later: one that only grows (`\d+` in "1", "12", "123") stays the
    same.
    """

    def __init__(self, condition: Text) -> None:
        self.condition = condition
        self._pattern = compiled(condition)
        self._keep = WINDOW if condition.regex else len(condition.pattern)
        self._window = ""
        self._match = (0, 0)

    def push(self, text: str) -> bool:
        """Takes the next piece; says whether a match was completed in it."""
        window = self._window + text
        start, end = self._match
        grown = self._pattern.match(window, start) if end > start else None
        if grown is not None:
            end = max(end, grown.end())
        met = False
        for found in self._pattern.finditer(window, end):
            if found[0]:
                start, end = found.span()
                met = True
        # One character more than is searched, for what looks behind: `^`, `\b`.
        dropped = max(len(window) - self._keep - 1, 0)
        self._window = window[dropped:]
        edge = int(len(self._window) > self._keep)
        self._match = (max(start - dropped, edge), max(end - dropped, edge))
        return met


_SPACED = re.compile(r"""[.!?…]["'”’»)\]*]*(\s*)$""")
_UNSPACED = re.compile(r"[。！？][」』”’）]*$")
_CLOSING = tuple("\"'”’»)]*」』）")


def ends_sentence(text: str, following: str) -> bool:
    """Whether a sentence ends with `text`, where `following` comes next ("" when nothing does).

    It ends with `.`, `!`, `?` or `…` and what closes quotes, brackets and emphasis, before white space or the end; the East
    Asian marks need no space after them.
    """
    found = _SPACED.search(text)
    if found is not None:
        return bool(found[1]) or not following or following[0].isspace()
    return _UNSPACED.search(text) is not None and not following.startswith(_CLOSING)
