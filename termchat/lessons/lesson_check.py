"""Checks: what must hold in the chat before a lesson goes on, and values that a lesson tells.

A check is a fact (`loops`), a comparison (`temperature == 0`, `ttft_ms < earlier_ttft_ms / 2`), or `token` with a condition
that some token of the last reply meets (`token entropy > 3`); `not` may stand before it. A value is a fact or a number, or two
of them with + - * or / between. Facts are those of `lesson_facts`.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from termchat.decoding import conditions
from termchat.decoding.conditions import ConditionError, Text, Threshold
from termchat.decoding.escapes import unescape
from termchat.decoding.samplers import KNOBS
from termchat.decoding.setting import SettingError
from termchat.lessons.lesson_facts import FACTS, Fact, FactKind, LessonFacts, kind_of
from termchat.text import guess_of

LONGEST_CHECK = 500
"""Characters."""


class CheckError(ValueError):
    """Not a check, or not a value; the message says what is wrong and how it is written."""


class FactRef(NamedTuple):
    """A fact, with what stands in brackets behind its name."""

    name: str
    argument: str = ""

    @property
    def kind(self) -> FactKind:
        return kind_of(self.name, self.argument)


Operand = float | str | bool | FactRef


class LessonValue(NamedTuple):
    """A fact or a constant; or, with a `sign`, what two of them come to."""

    left: Operand
    sign: str = ""
    right: Operand = 0.0

    @property
    def kind(self) -> FactKind:
        return "number" if self.sign else _kind(self.left)

    @property
    def facts(self) -> Iterator[FactRef]:
        for operand in (self.left, self.right):
            if isinstance(operand, FactRef):
                yield operand

    def value(self, facts: LessonFacts) -> Fact:
        """What it is now; None where a fact is absent, or nothing can be divided by it."""
        left = _value(self.left, facts)
        if not self.sign:
            return left
        right = _value(self.right, facts)
        if isinstance(left, str) or isinstance(right, str) or left is None or right is None:
            return None
        return None if self.sign == "/" and right == 0 else _SIGNS[self.sign](left, right)


class LessonCheck(NamedTuple):
    """One thing that must hold, as it is `written`: either a condition of a token, or a value, or two that are compared."""

    written: str
    negated: bool = False
    left: LessonValue | None = None
    relation: str = ""
    right: LessonValue | None = None
    condition: Threshold | Text | None = None

    @property
    def facts(self) -> Iterator[FactRef]:
        for value in (self.left, self.right):
            if value is not None:
                yield from value.facts

    def holds(self, facts: LessonFacts) -> bool:
        """Whether it does now. Where a fact is absent nothing does, negated or not."""
        found = self._found(facts)
        return found is not None and found != self.negated

    def _found(self, facts: LessonFacts) -> bool | None:
        if self.condition is not None:
            return facts.meets(self.condition)
        left = self.left.value(facts) if self.left is not None else None
        if left is None or self.right is None:
            return None if left is None else bool(left)
        right = self.right.value(facts)
        if right is None:
            return None
        if isinstance(left, str) != isinstance(right, str):
            return {"==": False, "!=": True}.get(self.relation)
        if not isinstance(left, str) and not isinstance(right, str) and self.relation in _NEAR:
            return math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-9) == _NEAR[self.relation]
        return _RELATIONS[self.relation](left, right)


_SIGNS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
_RELATIONS: dict[str, Callable[..., bool]] = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_NEAR = {"==": True, "!=": False}
"""What it says of numbers that they are almost equal: knobs move in steps that binary numbers do not hit."""

_PIECE = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<relation>==|!=|<=|>=|<|>)
      | (?P<sign>[-+*/])
      | (?P<bracket>[()])
      | (?P<other>\S)
    )""",
    re.VERBOSE,
)
_TRUTHS = {"true": True, "false": False}


class _Piece(NamedTuple):
    kind: str
    text: str


def parse_check(written: str) -> LessonCheck:
    """The check that a person wrote.

    Raises:
        CheckError: it is none.
    """
    rest = _short(written)
    negated = rest.startswith("not ")
    rest = rest.removeprefix("not ").strip()
    if rest == "token" or rest.startswith("token "):
        return LessonCheck(written, negated, condition=_condition(rest.removeprefix("token").strip()))
    pieces = _Pieces(rest)
    left = pieces.value()
    if pieces.at_end:
        if left.kind not in ("truth", "any"):
            raise CheckError(f"{rest!r} is {_A[left.kind]}: compare it, for example: {_example(left)}")
        return LessonCheck(written, negated, left)
    relation = pieces.take("relation", "one of == != < <= > >=")
    right = pieces.value()
    pieces.end()
    left, right = _named(left, right), _named(right, left)
    _check_kinds(left, relation, right)
    return LessonCheck(written, negated, left, relation, right)


def parse_value(written: str) -> LessonValue:
    """The number, or the text, that a lesson tells.

    Raises:
        CheckError: it is none.
    """
    pieces = _Pieces(_short(written))
    value = pieces.value()
    pieces.end()
    return value


class _Pieces:
    """The words of a check, taken one after the other."""

    def __init__(self, written: str) -> None:
        self._left = [_Piece(found.lastgroup or "", found[0].strip()) for found in _PIECE.finditer(written)]
        self._written = written
        self._left.reverse()

    @property
    def at_end(self) -> bool:
        return not self._left

    def end(self) -> None:
        if self._left:
            raise CheckError(f"{self._left[-1].text!r} is too much in {self._written!r}")

    def take(self, kind: str, wanted: str) -> str:
        if not self._left or self._left[-1].kind != kind:
            found = repr(self._left[-1].text) if self._left else "the end"
            raise CheckError(f"{self._written!r} needs {wanted}, not {found}")
        return self._left.pop().text

    def value(self) -> LessonValue:
        left = self._operand()
        next_one = self._left[-1] if self._left else None
        if next_one is not None and next_one.kind == "number" and next_one.text.startswith("-"):
            self._left[-1:] = [_Piece("number", next_one.text[1:]), _Piece("sign", "-")]  # a -1 is a minus 1
        if not self._left or self._left[-1].kind != "sign":
            return LessonValue(left)
        sign = self._left.pop().text
        right = self._operand()
        for operand in (left, right):
            if _kind(operand) == "text":
                raise CheckError(f"only numbers can be reckoned with, in {self._written!r}")
        return LessonValue(left, sign, right)

    def _operand(self) -> Operand:
        if not self._left:
            raise CheckError(
                f"{self._written!r} breaks off: a fact, a number or a 'text' is missing"
                if self._written
                else "it is empty; for example: temperature == 0"
            )
        piece = self._left.pop()
        if piece.kind == "text":
            return _text(piece.text)
        if piece.kind == "number":
            return float(piece.text)
        if piece.kind != "name":
            raise CheckError(f"{piece.text!r} is not a fact, a number or a 'text', in {self._written!r}")
        if piece.text in _TRUTHS:
            return _TRUTHS[piece.text]
        return self._fact(piece.text)

    def _fact(self, name: str) -> FactRef:
        entry = FACTS.get(name)
        if entry is None:
            raise CheckError(f"unknown fact {name!r}{guess_of(name, FACTS)}")
        if not self._left or self._left[-1].text != "(":
            if entry.argument in ("text", "knob"):
                raise CheckError(f"{name} needs {_ARGUMENTS[entry.argument]} in brackets, as {_applied(name)}")
            return FactRef(name)
        self._left.pop()
        if entry.argument == "none":
            raise CheckError(f"{name} takes nothing in brackets")
        argument = _text(self.take("text", f"{_ARGUMENTS[entry.argument]} in quotes, as {_applied(name)}"))
        if not self._left or self._left.pop().text != ")":
            raise CheckError(f"the bracket behind {name} is not closed, in {self._written!r}")
        if entry.argument == "knob" and argument not in KNOBS:
            raise CheckError(f"unknown knob {argument!r}{guess_of(argument, KNOBS)}")
        return FactRef(name, argument)


_ARGUMENTS = {"text": "a text", "text?": "a text", "knob": "the name of a knob"}
_A = {"number": "a number", "text": "a text", "truth": "yes or no", "any": "a number"}


def _applied(name: str) -> str:
    return f"{name}('temperature')" if FACTS[name].argument == "knob" else f"{name}(' blue')"


def _example(value: LessonValue) -> str:
    name = next((fact.name for fact in value.facts), "temperature")
    return f"{name} == 'length'" if value.kind == "text" else f"{name} > 1"


def _short(written: str) -> str:
    if len(written) > LONGEST_CHECK:
        raise CheckError(f"it has more than {LONGEST_CHECK} characters")
    return written.strip()


def _text(quoted: str) -> str:
    return unescape(quoted[1:-1].replace(r"\'", "'").replace(r"\"", '"'))


def _condition(written: str) -> Threshold | Text:
    try:
        found = conditions.parse(written)
    except ConditionError as error:
        raise CheckError(f"token: {error}") from None
    if isinstance(found, Text) or (isinstance(found, Threshold) and found.measure != "survivors"):
        return found
    raise CheckError(
        f'token: {written!r} does not look at one token; for example: token entropy > 3, token p_token < 0.05, token text "fox"'
    )


def _kind(operand: Operand) -> FactKind:
    if isinstance(operand, FactRef):
        return operand.kind
    return "truth" if isinstance(operand, bool) else "text" if isinstance(operand, str) else "number"


def _value(operand: Operand, facts: LessonFacts) -> Fact:
    found = facts.fact(*operand) if isinstance(operand, FactRef) else operand
    return None if isinstance(found, float) and math.isnan(found) else found


def _named(value: LessonValue, other: LessonValue) -> LessonValue:
    """The word for a knob's value as that value."""
    fact = other.left if not other.sign and isinstance(other.left, FactRef) else None
    knob = KNOBS.get(fact.argument or fact.name) if fact is not None else None
    if knob is None or value.sign or not isinstance(value.left, str):
        return value
    if knob.kind == "seed" or fact is None or fact.kind == "text":
        return value
    try:
        found = knob.parse(value.left)
    except SettingError as error:
        raise CheckError(str(error)) from None
    return LessonValue(float(found)) if isinstance(found, (int, float)) else value


def _check_kinds(left: LessonValue, relation: str, right: LessonValue) -> None:
    kinds = {left.kind, right.kind}
    if "text" in kinds and relation not in ("==", "!="):
        raise CheckError(f"texts can only be == or !=, not {relation}")
    if "text" in kinds and not kinds <= {"text", "any"}:
        number, text = (left, right) if right.kind == "text" else (right, left)
        raise CheckError(f"{_shown(number)} is {_A[number.kind]}, and {_shown(text)} a text: they are never equal")


def _shown(value: LessonValue) -> str:
    if isinstance(value.left, FactRef) and not value.sign:
        return value.left.name
    return repr(value.left) if not value.sign else "what is reckoned"


def all_hold(checks: Sequence[LessonCheck], facts: LessonFacts) -> bool:
    """Whether all hold at once; none is no reason to wait."""
    return all(check.holds(facts) for check in checks)
