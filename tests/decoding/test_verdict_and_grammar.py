"""The grammar that forces a reply and the verdict on it mean the same: what the grammar lets through is valid."""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from termchat.decoding.constraint import Constraint, TextError, make_choice
from termchat.decoding.constraint_check import END_BYTE, byte_tokenizer, check, grammar_of
from termchat.decoding.verdict import allowed_after, verdict_on

LONGEST = 150
DRAFTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-04/schema#",
)
ATOMS = (
    "a", "é", r"\d", r"\w", r"\s", r"\D", r"\W", ".", "[^a]", "[a-c]", r"[\w-]", r"\p{L}", r"\p{Lu}", "(?<n>b)", "(?i:x)",
    r"\x41", r"\u0041", "/", r"\.", r"\\", '"',
)  # fmt: skip
PATTERNS = st.builds(
    lambda start, parts, end: start + "".join(parts) + end,
    st.sampled_from(["^", ""]),
    st.lists(st.builds(str.__add__, st.sampled_from(ATOMS), st.sampled_from(["", "?", "+", "{1,3}"])), max_size=3),
    st.sampled_from(["$", ""]),
)
NUMBERS = st.sampled_from([0, 1, -3, 7, 20, 0.1, 0.7, -2.5, 1e-3, 12345678901, 2**53 + 1])
CONSTANTS = st.sampled_from(
    [1, 0.5, 1.0, True, None, "a", "é\n", '"', "\x7f", "\x01", "/", 1e21, 2**53 + 1, [1], {"a": 0.1}]
)
KEYS = st.sampled_from(["a", "b", "ab", "é", "x y", "a1", "", '"', "$ref", "pattern"])
LEAVES = st.one_of(
    st.sampled_from([True, {}, {"type": "null"}, {"$ref": "#/definitions/x"}, {"$ref": "#"}]),
    st.fixed_dictionaries({"const": CONSTANTS}),
    st.fixed_dictionaries({"enum": st.lists(CONSTANTS, min_size=1, max_size=3)}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", ["string", "integer"]])},
        optional={
            "pattern": PATTERNS,
            "format": st.sampled_from(["date", "time", "ipv4", "uuid", "email", "hostname", "uri"]),
            "minLength": st.integers(0, 3),
            "maxLength": st.integers(0, 5),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={
            "minimum": NUMBERS,
            "maximum": NUMBERS,
            "exclusiveMinimum": NUMBERS | st.booleans(),
            "exclusiveMaximum": NUMBERS | st.booleans(),
            "multipleOf": st.sampled_from([1, 2, 7, 0.1, 0.7, 0.01, 2.5]),
        },
    ),
)


def composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda kind, parts: {kind: parts}, st.sampled_from(["anyOf", "oneOf", "allOf"]), few(inner)),
        st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={
                "items": inner | few(inner),
                "prefixItems": few(inner),
                "additionalItems": st.booleans(),
                "minItems": st.integers(0, 3),
                "maxItems": st.integers(0, 3),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={
                "properties": st.dictionaries(KEYS, inner, min_size=1, max_size=3),
                "required": st.lists(KEYS, unique=True, max_size=2),
                "additionalProperties": st.booleans() | inner,
                "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
                "minProperties": st.integers(0, 2),
            },
        ),
    )


def few(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, min_size=1, max_size=2)


SCHEMAS = st.builds(
    lambda schema, named, target: {**named, **schema, "definitions": {"x": target}},
    st.recursive(LEAVES, composed, max_leaves=5).filter(lambda schema: isinstance(schema, dict)),
    st.sampled_from([{}, {}, *({"$schema": draft} for draft in DRAFTS)]),
    st.recursive(LEAVES, composed, max_leaves=2),
)


def written(grammar: str, rng: Random) -> tuple[bytes, bool]:
    """A text that the grammar allows byte by byte, and whether it is whole. A dead end fails."""
    matcher, text = LLMatcher(byte_tokenizer(), grammar, log_level=0), b""
    while len(text) < LONGEST:
        bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")[:END_BYTE]
        allowed = np.flatnonzero(bits).tolist()
        if matcher.is_accepting() and (not allowed or rng.random() < 0.5):
            return text, True
        assert allowed, (text, matcher.get_error())
        closing = [byte for byte in allowed if byte in b'"]},:0123456789']
        byte = rng.choice(closing if closing and rng.random() < 0.5 else allowed)
        assert matcher.consume_token(byte), (text, byte, matcher.get_error())
        text += bytes([byte])
    return text, False


def agree(constraint: Constraint, rng: Random) -> None:
    try:
        check(constraint)
    except TextError:
        assume(False)
    for _ in range(3):
        text, whole = written(grammar_of(constraint), rng)
        verdict = verdict_on(constraint, text)
        if whole:
            assert verdict.kind in ("valid", "unknown"), (text, str(verdict))
            assert (
                verdict.kind == "valid"
                or "large" in verdict.detail
                or "twice" in verdict.detail
                or "itself" in verdict.detail
            )
        allowed_after(constraint, text)


@settings(max_examples=150, deadline=None)
@given(SCHEMAS, st.randoms(use_true_random=False))
def test_what_a_schemas_grammar_lets_through_is_valid(schema: dict[str, Any], rng: Random) -> None:
    agree(Constraint("json_schema", json.dumps(schema)), rng)


@settings(max_examples=50, deadline=None)
@given(st.lists(PATTERNS, min_size=1, max_size=2).map("|".join).filter(bool), st.randoms(use_true_random=False))
def test_what_an_expression_lets_through_is_valid(pattern: str, rng: Random) -> None:
    agree(Constraint("regex", pattern), rng)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_what_a_choice_lets_through_is_valid(texts: list[str], rng: Random) -> None:
    agree(make_choice(texts), rng)


KEYWORDS = st.sampled_from([
    "$schema", "$id", "$ref", "$defs", "$anchor", "$dynamicRef", "type", "enum", "const", "pattern", "format", "multipleOf",
    "minimum", "exclusiveMinimum", "maxLength", "items", "prefixItems", "additionalItems", "contains", "uniqueItems",
    "properties", "patternProperties", "additionalProperties", "required", "propertyNames", "unevaluatedProperties",
    "dependencies", "if", "then", "not", "anyOf", "allOf", "x-guidance",
])  # fmt: skip
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | KEYWORDS | PATTERNS
    | st.sampled_from(["#", "#/$defs/a", "x", "http://127.0.0.1:9/x", *DRAFTS]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS | st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip
TEXTS = st.one_of(
    ANYTHING.map(json.dumps).map(str.encode),
    st.binary(max_size=20),
    st.sampled_from([b"1" * 5_000, b"1e99999999999999999999", b"[" * 100_000, b'"\\ud800"', b"NaN", b'{"a":1,"a":2}']),
)


@settings(max_examples=200, deadline=None)
@given(ANYTHING, TEXTS)
def test_no_schema_and_no_reply_raises(schema: Any, text: bytes) -> None:
    constraint = Constraint("json_schema", json.dumps(schema))
    assert verdict_on(constraint, text).kind in ("valid", "invalid", "incomplete", "unknown")
    allowed_after(constraint, text)
    with suppress(TextError):
        check(constraint)
