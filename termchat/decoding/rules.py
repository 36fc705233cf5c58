"""Which conditions a step meets: texts after its token is taken, all others before."""

from __future__ import annotations

import codecs
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from termchat.decoding.conditions import (
    After,
    Condition,
    Every,
    IgnoreEnd,
    Loop,
    Measure,
    Quantity,
    Rule,
    Text,
    Threshold,
    compile_text,
)
from termchat.decoding.loops import LoopFinder, Repetition
from termchat.decoding.records import ABSENT, UNKNOWN, Token
from termchat.decoding.units import UnitCounter, decode_beginning

WINDOW = 1024
"""Characters that a regular expression sees before the newest token."""
_PAST = 8 * WINDOW
"""Characters of what was said before the rules that are searched for texts, which do not count as met."""


MEASURES: dict[Measure, Callable[[Token], float]] = {
    "entropy": lambda step: step.entropy,
    "p_end": lambda step: step.p_end,
    # The last stage is the draw itself.
    "survivors": lambda step: step.stages[-2].survivors if step.stages else ABSENT,
    "model": lambda step: math.exp(step.logprob),
    "probability": lambda step: step.probability,
    "rank": lambda step: ABSENT if step.rank == UNKNOWN else step.rank,
}
"""How each measure is read off a step. What its engine does not tell meets nothing."""
_COMPARES: dict[str, Callable[[Any, Any], bool]] = {">": operator.gt, "<": operator.lt}


class Rules:
    """The conditions that people write, ready to be looked at. Where several are met at once, one that stops counts.

    A quantity that the reply has reached, or a loop that it is in, before it says anything new does not count. The `earlier`
    rules hand on how many steps in a row have met each threshold.

    Raises:
        ConditionError: a text condition does not compile.
    """

    def __init__(self, conditions: Iterable[Condition], earlier: Rules | None = None) -> None:
        ordered = sorted(dict.fromkeys(conditions), key=lambda condition: condition.action != "stop")
        self._before = [c for c in ordered if isinstance(c, Threshold | Every | After | Loop)]
        self._texts = [_Search(c) for c in ordered if isinstance(c, Text)]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.has_regex = any(search.condition.regex for search in self._texts)
        self.ignores_end = any(isinstance(c, IgnoreEnd) for c in ordered)
        known: dict[Threshold, int] = earlier._in_a_row if earlier is not None else {}
        self._in_a_row: dict[Threshold, int] = {c: known.get(c, 0) for c in ordered if isinstance(c, Threshold)}
        quantities = {c.quantity for c in ordered if isinstance(c, After)} - {"seconds"}
        self._counters: dict[Quantity, UnitCounter] = {quantity: UnitCounter(quantity) for quantity in quantities}
        self._reached: set[After] = set()
        self._finder = LoopFinder() if any(isinstance(c, Loop) for c in ordered) else None
        self._looped = -1
        self._looked = False

    @property
    def measures(self) -> set[Measure]:
        """What its thresholds look at."""
        return {condition.measure for condition in self._in_a_row}

    @property
    def repetition(self) -> Repetition | None:
        """The loop that the reply is in, if a condition asks for it."""
        return self._finder.current if self._finder is not None else None

    def are_open(self, known: Mapping[Measure, tuple[float, float]]) -> bool:
        """Return whether a threshold lies between what its measure is at least and at most."""
        return any(
            len({_COMPARES[condition.sign](bound, condition.value) for bound in known[condition.measure]}) > 1
            for condition in self._in_a_row
            if condition.measure in known
        )

    def check_before(
        self,
        number: int,
        step: Token,
        seconds: float = 0.0,
        following: bytes | None = b"",
        least: Mapping[Measure, float] = MappingProxyType({}),
    ) -> Rule | None:
        """Return the condition met before the token of step `number` (0 is the reply's first) is taken.

        The reply has streamed for `seconds`, and goes on with the bytes `following`; None: it ends here. Of measures for which
        the step has only the most that they can be, `least` has the least: what is not certain is not met.
        """
        met: list[Rule] = []
        for condition in self._before:
            if isinstance(condition, Every):
                holds = number > 0 and number % condition.tokens == 0
            elif isinstance(condition, Threshold):
                value = MEASURES[condition.measure](step)
                if condition.sign == ">":
                    value = least.get(condition.measure, value)
                times = self._in_a_row[condition] + 1 if _COMPARES[condition.sign](value, condition.value) else 0
                self._in_a_row[condition] = times % condition.steps
                holds = times >= condition.steps
            else:
                holds = following is not None and self._is_new(condition, seconds, following) and self._looked
            if holds:
                met.append(condition)
        self._looked = True
        return met[0] if met else None

    def _is_new(self, condition: After | Loop, seconds: float, following: bytes) -> bool:
        """Return whether a quantity is reached for the first time, or a loop is another one."""
        if isinstance(condition, Loop):
            before, loop = self._looped, self.repetition
            self._looped = before if loop is None else loop.begin
            return self._looped != before
        counter = self._counters.get(condition.quantity)
        # Of a character that is half said the other half may follow.
        reached = (
            seconds
            if counter is None
            else counter.count_ended(decode_beginning(self._decoder.getstate()[0] + following))
        )
        if reached < condition.amount or condition in self._reached:
            return False
        self._reached.add(condition)
        return True

    def resume(self, ids: Sequence[int], data: bytes) -> None:
        """Take the tokens and bytes of the reply so far."""
        self._hear_pieces(ids, data, _PAST)

    def check_after(self, data: bytes, token: int = 0) -> Text | None:
        """Take the reply's next token and its bytes; return the condition that they complete."""
        if not self._looked:  # it was forced
            self._looked = True
            for condition in self._before:
                if isinstance(condition, After | Loop):
                    self._is_new(condition, 0.0, data)
        return self._hear_pieces((token,), data, 0)

    def _hear_pieces(self, ids: Sequence[int], data: bytes, most: int) -> Text | None:
        if self._finder is not None:
            self._finder.extend_ids(ids)
        if not self._texts and not self._counters:
            return None
        text = self._decoder.decode(data)
        for counter in self._counters.values():
            counter.push_text(text)
        met = [search.condition for search in self._texts if search.push_text(text[-most:])]
        return met[0] if met else None


class _Search:
    r"""Finds a condition's text in what comes in pieces, looking at a bounded window.

    A match is new when it begins where the last one ended, or later: one that only grows (`\d+` in "1", "12", "123") stays the
    same.
    """

    def __init__(self, condition: Text) -> None:
        self.condition = condition
        self._pattern = compile_text(condition)
        self._keep = WINDOW if condition.regex else len(condition.pattern)
        self._window = ""
        self._match = (0, 0)

    def push_text(self, text: str) -> bool:
        """Add the next piece; return whether it completes a match."""
        window = self._window + text
        start, end = self._match
        grown = self._pattern.match(window, start) if end > start else None
        if grown is not None:
            end = max(end, grown.end())
        met = False
        for match in self._pattern.finditer(window, end):
            if match[0]:
                start, end = match.span()
                met = True
        # One character more than is searched, for what looks behind: `^`, `\b`.
        dropped = max(len(window) - self._keep - 1, 0)
        self._window = window[dropped:]
        edge = int(len(self._window) > self._keep)
        self._match = (max(start - dropped, edge), max(end - dropped, edge))
        return met
