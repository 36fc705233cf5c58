"""Expressions of lessons: checks that must hold before a lesson goes on, and numbers that a lesson tells.

They are Python expressions over the facts of `lesson_facts`. A fact is a name (`loops`), some take a text in brackets
(`says(' blue')`). Beside facts there are numbers, texts, `+ - * /`, comparisons, `not`, `and`, `or` and brackets. Each is
computed once with sample facts as it is read, so that one that can never hold is refused.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from termchat.decoding import conditions
from termchat.decoding.conditions import ConditionError, Text, Threshold
from termchat.decoding.samplers import KNOBS
from termchat.decoding.setting import SettingError
from termchat.lessons.lesson_facts import EARLIER, FACTS, Fact, FactKind, LessonFacts, kind_of
from termchat.text import guess_of

LONGEST_EXPRESSION = 500
"""Characters."""
_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
"""A text in quotes, which may hold line ends."""
_INSTEAD = {
    "logprob": "model, which is exp(logprob)", "mean_logprob": "perplexity, which is exp(-mean_logprob)",
    "phase": "ready, running or paused",
}  # fmt: skip
"""What says the same as a fact of earlier versions, which a lesson of one's own may still name."""
_TRUTHS = {"true": True, "false": False}
"""As TOML writes them."""
_EXAMPLES = {"text": " blue", "text?": " blue", "knob": "temperature", "condition": "entropy > 3"}
_SAMPLES: dict[FactKind, Fact] = {"number": 1.5, "text": "", "truth": True, "any": None}


class ExpressionError(ValueError):
    """Text that is no expression of facts; the message says why, and how it is written."""


class FactRef(NamedTuple):
    """A fact by its name, with the text in brackets behind it."""

    name: str
    argument: str = ""


class Expression:
    """A number or a text of facts, as it is `written`. Its `kind` is "any" where that depends on the facts.

    Raises:
        ExpressionError: it is no expression.
    """

    def __init__(self, written: str) -> None:
        self.written = written
        self.facts: list[FactRef] = []
        if len(written) > LONGEST_EXPRESSION:
            raise ExpressionError(f"it has more than {LONGEST_EXPRESSION} characters")
        if not written.strip():
            raise ExpressionError("it is empty; for example: temperature == 0")
        source = _TEXT.sub(lambda text: text[0].replace("\n", "\\n").replace("\r", "\\r"), written)
        source = re.sub(r"[\r\n]", " ", source).strip()
        value: object = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of backslashes that Python does not know
                self._tree: ast.expr = _Words().visit(ast.parse(source, mode="eval").body)
            value = _evaluate(self._tree, self._sample_fact, strict=True)
        except SyntaxError as error:
            rest = source[max(error.offset or 1, 1) - 1 :]
            example = "some_token('entropy > 3')" if "token " in written else "temperature == 0"
            raise ExpressionError(f"{error.msg} at {rest or written!r}; for example: {example}") from None
        except ArithmeticError:
            pass
        except TypeError as error:
            raise ExpressionError(str(error)) from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise error if isinstance(error, ExpressionError) else ExpressionError("Python cannot read it") from None
        kinds: dict[type, FactKind] = {bool: "truth", int: "number", float: "number", str: "text"}
        self.kind = kinds.get(type(value), "any")

    def _sample_fact(self, name: str, argument: str) -> Fact:
        """Check a fact's name and argument; return a value of its kind."""
        self.facts.append(FactRef(name, argument))
        if name not in FACTS:
            if instead := _INSTEAD.get(name.removeprefix(EARLIER)):
                raise ExpressionError(f"{name!r} is no fact any more: use {instead}")
            raise ExpressionError(f"unknown fact {name!r}{guess_of(name, FACTS)}")
        wanted = FACTS[name].argument
        if wanted == "none" and argument:
            raise ExpressionError(f"{name} takes nothing in brackets")
        if wanted not in ("none", "text?") and not argument:
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
        return _SAMPLES[kind_of(name, argument)]

    def value(self, facts: LessonFacts) -> Fact:
        """Compute it from the facts as they are now; None where one of them is absent, or the result is not a number."""
        try:
            value: Fact = _evaluate(self._tree, facts.fact)
        except (ArithmeticError, TypeError):  # a knob may be a word now, where it was a number
            return None
        return None if _is_nan(value) else value


class LessonCheck(Expression):
    """What must hold.

    Raises:
        ExpressionError: it is no expression, or none that holds or does not.
    """

    def __init__(self, written: str) -> None:
        super().__init__(written)
        if self.kind in ("number", "text"):
            raise ExpressionError(_explain_no_truth(self._tree, self.kind))

    def holds(self, facts: LessonFacts) -> bool:
        """Tell whether it is true now. Where a fact is absent nothing is, negated or not."""
        return bool(self.value(facts))

    def describe(self, facts: LessonFacts) -> str:
        """Write it with the values of its facts: "tokens > 3 (tokens is 2)"."""
        parts = []
        for name, argument in dict.fromkeys(self.facts):
            value = facts.fact(name, argument)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            shown = "absent" if value is None else f"{value:.4g}" if is_number else repr(value)
            parts.append(f"{name}({argument!r}) is {shown}" if argument else f"{name} is {shown}")
        return f"{self.written} ({', '.join(parts)})"


class _Words(ast.NodeTransformer):
    """Reads `true`, `false`, and words for the values of knobs: `top_k == 'off'`."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_TRUTHS[node.id]) if node.id in _TRUTHS else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        for pair in pairwise([node.left, *node.comparators]):
            for fact, word in (pair, pair[::-1]):
                if (
                    isinstance(fact, ast.Name | ast.Call)
                    and isinstance(word, ast.Constant)
                    and isinstance(word.value, str)
                ):
                    name, argument = _ref(fact)
                    knob = KNOBS.get(argument if name in FACTS and FACTS[name].argument == "knob" else name)
                    if knob is None or knob.kind == "seed" or kind_of(name, argument) == "text":
                        continue
                    try:
                        value = knob.parse(word.value)
                    except SettingError as error:
                        raise ExpressionError(str(error)) from None
                    word.value = float(value) if isinstance(value, (int, float)) else word.value
        return node


def _ref(node: ast.expr) -> FactRef:
    match node:
        case ast.Name(id=name):
            return FactRef(name)
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(argument))], keywords=[]):
            return FactRef(name, argument)
    raise ExpressionError(f"{ast.unparse(node)!r}: a fact takes one text in quotes, as says(' blue')")


def _evaluate(node: ast.expr, ask: Callable[[str, str], Fact], *, strict: bool = False) -> Any:
    """Compute a value of facts that are asked for; None where one of them is absent. With `strict` a text and a number are not
    compared: only a knob may be either.

    Raises:
        ExpressionError: something in it is not allowed.
        TypeError: values of these kinds do not go together.
    """
    operators: Sequence[ast.AST] = ()
    operands: list[ast.expr] = []
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as constant):
            return constant
        case ast.Name() | ast.Call():
            value = ask(*_ref(node))
            return None if _is_nan(value) else value
        case ast.UnaryOp(operand=operand):
            operators, operands = [node.op], [operand]
        case ast.BoolOp(values=operands):
            operators = [node.op]
        case ast.BinOp(left=left, right=right):
            operators, operands = [node.op], [left, right]
        case ast.Compare(left=left, comparators=others):
            operators, operands = node.ops, [left, *others]
    if not operators or any(type(one) not in _OPERATORS for one in operators):
        raise ExpressionError(f"{ast.unparse(node)!r} is not made of facts, numbers, texts, comparisons, not, and, or")
    values = [_evaluate(one, ask, strict=strict) for one in operands]
    if isinstance(node, ast.BoolOp) or isinstance(operators[0], ast.Not):
        for one, value in zip(operands, values, strict=True):
            if isinstance(value, (int, float, str)) and not isinstance(value, bool):
                raise TypeError(_explain_no_truth(one, "text" if isinstance(value, str) else "number"))
    if None in values:
        return None
    texts = {isinstance(value, str) for value in values}
    if isinstance(node, ast.Compare):
        if strict and texts == {True, False}:
            raise TypeError(f"{ast.unparse(node)}: a text is never equal to what is none")
        if True in texts and not all(isinstance(one, ast.Eq | ast.NotEq) for one in operators):
            raise TypeError("texts can only be == or !=")
        return all(_OPERATORS[type(one)](*pair) for one, pair in zip(operators, pairwise(values), strict=True))
    if True in texts:
        raise TypeError(f"only numbers can be reckoned with, in {ast.unparse(node)!r}")
    try:
        return _OPERATORS[type(operators[0])](*([values] if isinstance(node, ast.BoolOp) else values))
    except ZeroDivisionError:
        if not strict:
            raise
        return _SAMPLES["number"]  # of facts that are not the same


def _explain_no_truth(node: ast.expr, kind: FactKind) -> str:
    fact = next((ast.unparse(one) for one in ast.walk(node) if isinstance(one, ast.Name)), "temperature")
    example = f"{fact} == 'length'" if kind == "text" else f"{fact} > 1"
    return f"{ast.unparse(node)!r} is a {kind}: compare it, for example: {example}"


def _equal(one: Any, other: Any) -> bool:
    """Compare; numbers are equal if they nearly are: knobs move in steps that binary numbers do not hit."""
    if isinstance(one, str) or isinstance(other, str):
        return bool(one == other)
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Eq: _equal, ast.NotEq: lambda one, other: not _equal(one, other), ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.And: all, ast.Or: any, ast.Not: operator.not_, ast.USub: operator.neg,
}  # fmt: skip
