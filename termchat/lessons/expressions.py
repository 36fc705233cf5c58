"""Expressions of lessons: checks that must hold before a lesson goes on, and numbers that a lesson tells.

They are Python expressions over the facts of `lesson_facts`. A fact is a name (`loops`), some take a text in brackets
(`says(' blue')`). Beside facts there are numbers, texts, `+ - * /`, comparisons, `not`, `and`, `or` and brackets.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from termchat.decoding import conditions
from termchat.decoding.conditions import ConditionError, Text, Threshold
from termchat.decoding.samplers import KNOBS
from termchat.decoding.setting import SettingError
from termchat.lessons.lesson_facts import FACTS, Fact, FactKind, LessonFacts, kind_of
from termchat.text import guess_of

LONGEST_EXPRESSION = 500
"""Characters."""
_KINDS: dict[type, FactKind] = {bool: "truth", int: "number", float: "number", str: "text"}
_A = {"number": "a number", "text": "a text", "truth": "yes or no", "any": "a number"}
_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
"""A text in quotes, which may hold line ends."""
_TRUTHS = {"true": True, "false": False}
"""As TOML writes them."""
_EXAMPLES = {"text": " blue", "text?": " blue", "knob": "temperature", "condition": "entropy > 3"}


class ExpressionError(ValueError):
    """Text that is no expression of facts; the message says why, and how it is written."""


class FactRef(NamedTuple):
    """A fact by its name, with the text in brackets behind it."""

    name: str
    argument: str = ""


class Expression:
    """A number, or a text, that a lesson tells, as it is `written`.

    Raises:
        ExpressionError: it is no expression.
    """

    def __init__(self, written: str) -> None:
        self.written = written
        if len(written) > LONGEST_EXPRESSION:
            raise ExpressionError(f"it has more than {LONGEST_EXPRESSION} characters")
        if not written.strip():
            raise ExpressionError("it is empty; for example: temperature == 0")
        source = _TEXT.sub(lambda text: text[0].replace("\n", "\\n").replace("\r", "\\r"), written)
        source = re.sub(r"[\r\n]", " ", source).strip()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of backslashes that Python does not know
                self._tree: ast.expr = _Truths().visit(ast.parse(source, mode="eval").body)
            self.kind = _kind(self._tree)
        except SyntaxError as error:
            rest = source[max(error.offset or 1, 1) - 1 :]
            example = "some_token('entropy > 3')" if "token " in written else "temperature == 0"
            raise ExpressionError(f"{error.msg} at {rest or written!r}; for example: {example}") from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise error if isinstance(error, ExpressionError) else ExpressionError("Python cannot read it") from None
        self.facts = _facts(self._tree)

    def value(self, facts: LessonFacts) -> Fact:
        """Compute it from the facts as they are now; None where one of them is absent, or the result is not a number."""
        try:
            value: Fact = _evaluate(self._tree, facts)
        except (_AbsentFact, ArithmeticError, TypeError):  # a knob may be a word now, where it was a number
            return None
        return None if _is_nan(value) else value


class LessonCheck(Expression):
    """What must hold.

    Raises:
        ExpressionError: it is no expression, or none that holds or does not.
    """

    def __init__(self, written: str) -> None:
        super().__init__(written)
        _require_condition(self._tree, self.kind)

    def holds(self, facts: LessonFacts) -> bool:
        """Tell whether it is true now. Where a fact is absent nothing is, negated or not."""
        return bool(self.value(facts))


class _AbsentFact(Exception):
    """A fact of an expression is not known now."""


class _Truths(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_TRUTHS[node.id]) if node.id in _TRUTHS else node


# --- checking ---------------------------------------------------------------------------------------------------------


def _kind(node: ast.expr) -> FactKind:
    """Infer the kind of an expression's value; refuse what is not allowed in it, and what can never hold."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return _KINDS[type(value)]
        case ast.Name() | ast.Call():
            return _kind_of_fact(node)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            _require_condition(operand, _kind(operand))
            return "truth"
        case ast.BoolOp(values=values):
            for operand in values:
                _require_condition(operand, _kind(operand))
            return "truth"
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
            return "number"
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            if "text" in (_kind(left), _kind(right)):
                raise ExpressionError(f"only numbers can be reckoned with, in {ast.unparse(node)!r}")
            return "number"
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _OPERATORS for op in ops):
            for (one, other), op in zip(pairwise([left, *others]), ops, strict=True):
                _read_word(one, other)
                _read_word(other, one)
                _check_pair(one, op, other)
            return "truth"
    raise ExpressionError(f"{ast.unparse(node)!r} is not made of facts, numbers, texts, comparisons, not, and, or")


def _require_condition(node: ast.expr, kind: FactKind) -> None:
    if kind in ("number", "text"):
        name = next((fact.name for fact in _facts(node)), "temperature")
        example = f"{name} == 'length'" if kind == "text" else f"{name} > 1"
        raise ExpressionError(f"{ast.unparse(node)!r} is {_A[kind]}: compare it, for example: {example}")


def _kind_of_fact(node: ast.Name | ast.Call) -> FactKind:
    name, argument = _ref(node)
    if name not in FACTS:
        raise ExpressionError(f"unknown fact {name!r}{guess_of(name, FACTS)}")
    wanted = FACTS[name].argument
    if wanted == "none" and isinstance(node, ast.Call):
        raise ExpressionError(f"{name} takes nothing in brackets")
    if wanted not in ("none", "text?") and isinstance(node, ast.Name):
        raise ExpressionError(f"{name} needs a text in brackets, as {name}('{_EXAMPLES[wanted]}')")
    if wanted == "knob" and argument not in KNOBS:
        raise ExpressionError(f"unknown knob {argument!r}{guess_of(argument, KNOBS)}")
    if wanted == "condition":
        try:
            condition = conditions.parse(argument)
        except ConditionError as error:
            raise ExpressionError(f"{name}: {error}") from None
        if not isinstance(condition, (Text, Threshold)) or getattr(condition, "measure", "") == "survivors":
            example = f"{name}('entropy > 3'), {name}('p_token < 0.05'), {name}('text \"fox\"')"
            raise ExpressionError(f"{name}: {argument!r} does not look at one token; for example: {example}")
    return kind_of(name, argument)


def _read_word(node: ast.expr, other: ast.expr) -> None:
    """Replace the word for a knob's value by that value: `top_k == 'off'`."""
    if (
        not isinstance(node, ast.Constant)
        or not isinstance(node.value, str)
        or not isinstance(other, ast.Name | ast.Call)
    ):
        return
    name, argument = _ref(other)
    knob = KNOBS.get(argument or name)
    if knob is None or knob.kind == "seed" or kind_of(name, argument) == "text":
        return
    try:
        value = knob.parse(node.value)
    except SettingError as error:
        raise ExpressionError(str(error)) from None
    if isinstance(value, (int, float)):
        node.value = float(value)


def _check_pair(one: ast.expr, op: ast.cmpop, other: ast.expr) -> None:
    kinds = {_kind(one): one, _kind(other): other}
    if "text" not in kinds:
        return
    if not isinstance(op, (ast.Eq, ast.NotEq)):
        raise ExpressionError("texts can only be == or !=")
    for kind in kinds.keys() - {"text", "any"}:
        number, text = ast.unparse(kinds[kind]), ast.unparse(kinds["text"])
        raise ExpressionError(f"{number} is {_A[kind]}, and {text} a text: they are never equal")


def _ref(node: ast.expr) -> FactRef:
    match node:
        case ast.Name(id=name):
            return FactRef(name)
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(argument))], keywords=[]):
            return FactRef(name, argument)
    raise ExpressionError(f"{ast.unparse(node)!r}: a fact takes one text in quotes, as says(' blue')")


def _facts(tree: ast.expr) -> list[FactRef]:
    names = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return [_ref(node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Call) and id(node) not in names]


# --- evaluating -------------------------------------------------------------------------------------------------------


def _evaluate(node: ast.expr, facts: LessonFacts) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name() | ast.Call():
            value = facts.fact(*_ref(node))
            if value is None or _is_nan(value):
                raise _AbsentFact
            return value
        case ast.UnaryOp(op=op, operand=operand):
            value = _evaluate(operand, facts)
            return not value if isinstance(op, ast.Not) else -value
        case ast.BoolOp(op=op, values=operands):
            values = [_evaluate(one, facts) for one in operands]
            return all(values) if isinstance(op, ast.And) else any(values)
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_evaluate(left, facts), _evaluate(right, facts))
        case ast.Compare(left=left, ops=ops, comparators=others):
            values = [_evaluate(one, facts) for one in (left, *others)]
            return all(_OPERATORS[type(op)](*pair) for op, pair in zip(ops, pairwise(values), strict=True))
    raise TypeError(node)


def _equal(one: Any, other: Any) -> bool:
    """Compare; numbers are equal if they nearly are: knobs move in steps that binary numbers do not hit."""
    if isinstance(one, str) or isinstance(other, str):
        return bool(one == other)
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)


def _differ(one: Any, other: Any) -> bool:
    return not _equal(one, other)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Eq: _equal, ast.NotEq: _differ, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
