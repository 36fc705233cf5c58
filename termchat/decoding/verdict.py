"""Whether a finished reply is what its constraint asked for, and the bytes that a constraint allows at a place.

Both follow the grammar that forced the reply (`constraint_check.grammar_of`). A JSON reply is checked by jsonschema under the
draft of its schema, but the patterns and formats of strings by the grammar of such a string, and multiples as decimals: Python
has other regular expressions and rounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from termchat.decoding.constraint import Constraint, TextError
from termchat.decoding.constraint_check import (
    END_BYTE,
    Exact,
    byte_tokenizer,
    check,
    draft_of,
    parse_exactly,
)
from termchat.decoding.deadline import interrupt_after
from termchat.decoding.partial_json import PartialDocument, shown_path

if TYPE_CHECKING:
    from llguidance import LLMatcher

_SECONDS = 2.0
"""Of processor time that checking a JSON reply may take: references may multiply."""
_LONGEST_EXPONENT = 5_000


class NotChecked(Exception):
    """A reply cannot be judged; the message says why."""


class Judgement(NamedTuple):
    """A verdict; `detail` explains an invalid one: "incomplete: ends inside a string"."""

    kind: Literal["valid", "incomplete", "invalid", "unknown"]
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


class AllowedBytes(NamedTuple):
    """What may follow a text: one of `allowed`, and `forced` if nothing else can; or nothing where it `may_end`."""

    allowed: bytes
    forced: bytes
    may_end: bool


def verdict_on(constraint: Constraint, data: bytes) -> Judgement:
    """Judge a reply that is over. It never raises."""
    try:
        return _judge_json(constraint, data) if constraint.kind == "json_schema" else _judge_text(constraint, data)
    except NotChecked as reason:
        return Judgement("unknown", str(reason))
    except TextError as fault:
        return Judgement("unknown", f"the constraint cannot be used: {fault}")


def _judge_text(constraint: Constraint, data: bytes) -> Judgement:
    followed = _follow_constraint(constraint)
    fits = followed.follow_bytes(data)
    if fits < len(data):
        before, rest = data[:fits].decode("utf-8", "replace"), data[fits : fits + 4].decode("utf-8", "replace")
        shown = json.dumps(rest[:1], ensure_ascii=False)
        return Judgement("invalid", f"{shown} at character {len(before) + 1} does not fit")
    if followed.matcher.is_accepting():
        return Judgement("valid")
    after = _read_allowed(followed.matcher)
    return Judgement("incomplete", f"{described_bytes(after)} must follow" if after.allowed else "")


def allowed_after(constraint: Constraint, data: bytes) -> AllowedBytes | None:
    """Find the bytes that may follow these; None if these do not fit, or only the vocabulary could tell."""
    try:
        followed = _follow_constraint(constraint)
        return _read_allowed(followed.matcher) if followed.follow_bytes(data) == len(data) else None
    except (NotChecked, TextError):
        return None


def _judge_json(constraint: Constraint, data: bytes) -> Judgement:
    text = data.decode("utf-8", "replace")
    try:
        value = parse_exactly(text, _once_each)
    except json.JSONDecodeError as error:
        from llguidance import LLMatcher

        # Every JSON text, with any white space and all escapes but that of a slash.
        any_json = LLMatcher.grammar_from_json_schema("{}", defaults={"json_allow_general_unicode_escapes": True})
        followed = _follow_grammar(any_json)
        if followed.follow_bytes(data) == len(data) and not followed.matcher.is_accepting():
            at = PartialDocument().find_standing(text)
            where = "before a value" if at.coming.startswith("a value") else f"inside {at.inside}"
            place = shown_path(at.path)
            return Judgement("incomplete", f"ends {where}" + (f" ({place})" if place else ""))
        return Judgement("invalid", f"not JSON: {error.msg[:1].lower()}{error.msg[1:]} at character {error.pos + 1}")
    except TextError as error:
        return Judgement("invalid", f"not JSON: {error.message}")
    except RecursionError:
        raise NotChecked("nested too deeply") from None
    except ArithmeticError:
        raise NotChecked("a number is too large") from None
    from jsonschema.exceptions import best_match

    try:
        with interrupt_after(_SECONDS):
            fault = best_match(_make_validator(constraint.text).iter_errors(value))
    except (NotChecked, TextError):
        raise
    except RecursionError:
        raise NotChecked("the schema refers to itself, or is nested too deeply") from None
    except TimeoutError:
        raise NotChecked(f"it takes more than {_SECONDS:.0f} seconds") from None
    except Exception as error:  # noqa: BLE001 (anybody's schema; jsonschema raises what its libraries do)
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise NotChecked(f"jsonschema cannot check it: {reason}") from None
    if fault is None:
        return Judgement("valid")
    place = shown_path(tuple(fault.absolute_path))
    return Judgement("invalid", f"{place}: {fault.message}" if place else fault.message)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise NotChecked(f"the key {json.dumps(twice, ensure_ascii=False)} appears twice in one object")
    return found


@lru_cache(8)
def _make_validator(text: str) -> Any:
    """Make the validator of a schema.

    Raises:
        TextError: it is no schema.
    """
    import attrs
    from jsonschema import validators
    from referencing import Registry

    draft, schema = draft_of(text), parse_exactly(text)
    here = {
        "pattern": _string_rule("pattern", "{!r} does not match {!r}"),
        "format": _string_rule("format", "{!r} is not a {!r}"),
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties(draft.VALIDATORS["additionalProperties"]),
        "multipleOf": _multiple_of,
    }
    checked = validators.extend(draft, here, type_checker=draft.TYPE_CHECKER.redefine("integer", _is_integer))
    checked.evolve = attrs.evolve  # its own would go back to Python's patterns where a schema names its draft
    return checked(schema, registry=Registry())  # which fetches nothing


def _is_integer(_checker: Any, value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole or (isinstance(value, Exact) and value == value.to_integral_value())


def _multiple_of(validator: Any, unit: Any, value: Any, _schema: Any) -> Iterator[Any]:
    if validator.is_type(value, "number"):
        if isinstance(value, Exact) and abs(value.adjusted()) > _LONGEST_EXPONENT:
            raise NotChecked("multipleOf: a number is too large")
        if (Fraction(value) / Fraction(unit)).denominator != 1:
            yield _make_fault(f"{value!r} is not a multiple of {unit!r}")


def _string_rule(keyword: str, fault: str) -> Any:
    """Make the rule of a keyword for strings, whose fault names the string and the value of the keyword."""

    def check(validator: Any, rule: str, value: Any, _schema: Any) -> Iterator[Any]:
        if validator.is_type(value, "string") and not _matches_rule(keyword, rule, value):
            yield _make_fault(fault.format(value, rule))

    return check


def _pattern_properties(validator: Any, rules: dict[str, Any], value: Any, _schema: Any) -> Iterator[Any]:
    if validator.is_type(value, "object"):
        for pattern, rule in rules.items():
            for key, item in value.items():
                if _matches_rule("pattern", pattern, key):
                    yield from validator.descend(item, rule, path=key, schema_path=pattern)


def _additional_properties(check_rest: Any) -> Any:
    def check(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(value, "object"):
            patterns = schema.get("patternProperties", {})
            named = {key: True for key in value if any(_matches_rule("pattern", pattern, key) for pattern in patterns)}
            yield from check_rest(validator, rule, value, {"properties": {**schema.get("properties", {}), **named}})

    return check


def _make_fault(message: str) -> Any:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message)


def _matches_rule(keyword: str, rule: str, text: str) -> bool:
    """Return whether a text keeps to a pattern or a format of a schema, as the grammar reads it.

    Raises:
        NotChecked: the grammar cannot tell.
    """
    from llguidance import LLMatcher

    # With the escapes that a grammar of replies lacks: what was read may have any character.
    followed = _follow_grammar(LLMatcher.grammar_from_json_schema({"type": "string", keyword: rule}))
    if followed.refusal.startswith("Unsatisfiable"):
        return False
    if followed.refusal.startswith("Unknown format"):  # a remark, as in the drafts
        return True
    if followed.refusal:
        raise NotChecked(f"{keyword}: {followed.refusal}")
    try:
        data = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f").encode()
    except UnicodeEncodeError:
        raise NotChecked("a string has half of a character") from None
    return followed.follow_bytes(data) == len(data) and bool(followed.matcher.is_accepting())


def format_json(text: str) -> str | None:
    """Format JSON with a line for each value; None where the text is not JSON."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def described_bytes(after: AllowedBytes) -> str:
    """Describe what may follow: `"name"`, `0-9 - or the end`, `any character`."""
    if after.forced:
        return json.dumps(after.forced.decode("utf-8", "replace"), ensure_ascii=False)
    ranges: list[list[int]] = []
    for byte in after.allowed:
        if ranges and byte == ranges[-1][1] + 1 and (byte < 128) == (ranges[-1][0] < 128):
            ranges[-1][1] = byte
        else:
            ranges.append([byte, byte])
    if sum(high - low + 1 for low, high in ranges if high < 128) > _MANY:
        missing = [byte for byte in range(32, 127) if byte not in after.allowed]
        parts = ["any character" + (f" but {' '.join(map(_show_byte, missing))}" if missing else "")]
    else:
        spaces = all(byte in after.allowed for byte in b"\t\n\r ")
        parts = ["white space"] if spaces else []
        for low, high in ranges:
            if low < 128 and not (spaces and low in b"\t\n\r "):
                plain = high - low >= 2 and low >= 33 and high <= 126
                parts += [f"{chr(low)}-{chr(high)}"] if plain else map(_show_byte, range(low, high + 1))
        if any(high >= 128 for _, high in ranges):
            parts.append("characters beyond ASCII")
    if after.may_end:
        parts.append("the end")
    return " ".join(parts[:-1]) + (" or " if len(parts) > 1 else "") + parts[-1] if parts else "nothing"


_MANY = 85
_NAMED = {9: "tab", 10: "newline", 13: "return", 32: "space", 44: '","'}


def _show_byte(byte: int) -> str:
    return _NAMED.get(byte) or (chr(byte) if 32 < byte < 127 else f"0x{byte:02x}")


class _Followed:
    """A matcher that has read `data`, of which `fits` bytes fit; `refusal` explains why it is missing."""

    def __init__(self, base: LLMatcher) -> None:
        lines = base.get_error().split("\n")
        self.refusal = next((line[7:] for line in lines if line.startswith("error: ")), lines[0])
        self._base, self.matcher, self.data, self.fits = base, base.deep_copy(), b"", 0

    def follow_bytes(self, data: bytes) -> int:
        """Read on, where the data begin with those before; return how many bytes fit.

        Raises:
            NotChecked: the matcher gives up.
        """
        if self.fits < len(self.data) or not data.startswith(self.data):
            self.matcher, self.data, self.fits = self._base.deep_copy(), b"", 0
        self.fits += int(self.matcher.try_consume_tokens(list(data[len(self.data) :])))
        self.data = data
        if self.matcher.is_error():
            raise NotChecked(self.matcher.get_error().partition("\n")[0])
        return self.fits


def _read_allowed(matcher: LLMatcher) -> AllowedBytes:
    """Read what a matcher allows next."""
    import numpy as np

    may_end, forced = bool(matcher.is_accepting()), bytes(matcher.compute_ff_bytes())
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")[:END_BYTE]
    return AllowedBytes(bytes(np.flatnonzero(bits).tolist()), forced, may_end)


def _follow_constraint(constraint: Constraint) -> _Followed:
    """Make the matcher of a constraint.

    Raises:
        NotChecked, TextError: it has none.
    """
    grammar = _check_once(constraint)
    if isinstance(grammar, TextError):
        raise grammar.with_traceback(None)
    followed = _follow_grammar(grammar)
    if followed.refusal:
        named = constraint.kind in ("gbnf", "lark") and "<" in constraint.text
        raise NotChecked("the constraint names tokens that are no text" if named else followed.refusal)
    return followed


@lru_cache(8)
def _check_once(constraint: Constraint) -> str | TextError:
    """Return the grammar of a constraint, or its fault."""
    try:
        return check(constraint)
    except TextError as fault:
        return fault


@lru_cache(256)
def _follow_grammar(grammar: str) -> _Followed:
    from llguidance import LLMatcher, LLParserLimits

    return _Followed(LLMatcher(byte_tokenizer(), grammar, log_level=0, limits=LLParserLimits(verbose_errors=False)))
