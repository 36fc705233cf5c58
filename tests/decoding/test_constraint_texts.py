"""Texts of constraints: their faults at their place, schemas from examples, where an unfinished document stands, verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from termchat.decoding.constraint import Constraint, Kind, TextError, make_choice
from termchat.decoding.constraint_check import check, schema_of
from termchat.decoding.partial_json import PartialDocument, Path, describe_bounds, schema_at, shown_path
from termchat.decoding.verdict import allowed_after, described_bytes, format_json, verdict_on

PERSON = """{
  "type": "object",
  "properties": {
    "name": {"type": "string", "maxLength": 10},
    "age": {"type": "integer", "minimum": 0, "maximum": 120},
    "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}}
  },
  "required": ["name", "age"],
  "$defs": {"tag": {"enum": ["a", "b"]}}
}"""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)

ENDLESS = """{"type": "object", "properties": {
  "a": {"type": "array", "items": {"$ref": "#/$defs/more"}}},
  "$defs": {"more": {"type": "object", "properties": {"next": {"$ref": "#/$defs/more"}}, "required": ["next"]}}
}"""
OVERLAP = """{"type": "object", "additionalProperties": false,
  "properties": {"a": {"type": "integer"}},
  "patternProperties": {"^a$": {"minimum": 3}}
}"""
"""Behind the one key that there is, a comma would be allowed and then nothing."""

FAULTS: list[tuple[Kind, str, int, int, str]] = [
    ("json_schema", '{"type": "object",\n "required": [,]}', 2, 15, "expecting value"),
    ("json_schema", '{"type": "object",}', 1, 19, "property name"),
    ("json_schema", '{"minimum": NaN}', 1, 13, "NaN is not JSON"),
    ("json_schema", "[]", 1, 1, "a schema is a JSON object"),
    ("json_schema", '{\n "type": "strin"}', 2, 10, "Invalid type: strin"),
    ("json_schema", '{"properties": {"not": {},\n "a": {"not": {}}}}', 2, 8, "not supported: not"),
    ("json_schema", '{"type": "string", "format": "foo"}', 1, 30, "Unknown format: foo"),
    ("json_schema", '{"minLength": 5, "maxLength": 2, "type": "string"}', 1, 2, "minLength (5) is greater"),
    ("json_schema", '{"$ref": "#/$defs/x"}', 1, 10, "does not exist"),
    ("json_schema", '{"type": "string",\n "pattern": "a(b"}', 2, 13, "unclosed group (character 2 of the pattern)"),
    ("json_schema", '{"patternProperties": {"(": {}}, "type": "object"}', 1, 24, "unclosed group"),
    ("json_schema", '{"oneOf": [{"type": "integer"}, {"type": "number"}]}', 1, 2, "use anyOf"),
    ("json_schema", '{"items": ' * 5000 + "{}" + "}" * 5000, 0, 0, "nested too deeply"),
    ("json_schema", "false", 1, 1, "no reply matches the schema false"),
    ("json_schema", '{"minimum": ' + "1" * 5000 + "}", 0, 0, "a number of more than 4,300 digits"),
    ("json_schema", '{"$schema": "http://json-schema.org/draft-03/schema#"}', 1, 2, "$schema: "),
    (
        "json_schema",
        '{"$schema": "http://json-schema.org/draft-06/schema#",\n "exclusiveMinimum": true}',
        2,
        2,
        "exclusiveM",
    ),
    ("json_schema", '{"items": [{}],\n "prefixItems": [{}]}', 2, 2, "prefixItems: only draft 2020-12"),
    ("json_schema", '{"maximum": 9007199254740993}', 1, 2, "maximum: 9007199254740993 has more digits"),
    ("json_schema", '{"type": "integer",\n "enum": [1e21]}', 2, 2, "enum: 1E+21 has more digits"),
    (
        "json_schema",
        '{"type": "number",\n "multipleOf": 0.7, "minimum": 0.1, "maximum": 0.5}',
        2,
        2,
        "multipleOf: no multiple",
    ),
    ("json_schema", '{"type": "string", "pattern": "^a$", "minLength": 2}', 1, 20, "pattern: no text matches"),
    (
        "json_schema",
        '{"exclusiveMinimum": 0,\n "maximum": 0.7, "type": "number"}',
        1,
        2,
        "exclusiveMinimum: the grammar would",
    ),
    ("json_schema", '{"$ref": "#"}', 1, 10, "$ref: # refers to itself without an end"),
    ("json_schema", ENDLESS, 2, 44, "$ref: #/$defs/more refers to itself"),
    ("json_schema", OVERLAP, 3, 25, "patternProperties: only keys in properties match ^a$"),
    ("regex", "a(b", 1, 2, "unclosed group"),
    ("regex", "ab\n/\t/c(d", 2, 5, "unclosed group"),
    ("regex", "ab\\/(", 1, 5, "unclosed group"),
    ("regex", "é[z-a]", 1, 3, "invalid character class range"),
    ("regex", "a(?=b)", 1, 2, "look-around"),
    ("regex", r"(a)\1", 1, 4, "backreferences"),
    ("regex", r"ab\bc", 1, 3, "word borders"),
    ("regex", "ab\\", 1, 3, "a backslash at the end"),
    ("regex", "", 0, 0, "empty"),
    ("choice", "[]", 0, 0, "at least one text"),
    ("choice", '["a", ""]', 0, 0, "none of them empty"),
    ("choice", '["a", 1]', 0, 0, "a list of texts"),
    ("gbnf", 'root ::= "a"\nb ::= [', 2, 7, "never closed"),
    ("lark", 'start: "a"\n  | foo', 2, 5, "unknown name"),
    ("lark", 'start: "a', 1, 10, "lexer error"),
    ("lark", "start: /a(/", 1, 8, "unclosed group in /a(/"),
    ("lark", 'a: "b"', 0, 0, "a rule named start"),
    ("lark", " ", 0, 0, "empty"),
]


@pytest.mark.parametrize(("kind", "text", "line", "column", "says"), FAULTS)
def test_a_fault_is_found_before_the_run_and_at_its_place(
    kind: Kind, text: str, line: int, column: int, says: str
) -> None:
    with pytest.raises(TextError) as error:
        check(Constraint(kind, text))
    assert says in error.value.message
    assert (error.value.line, error.value.column) == (line, column)


GOOD: list[tuple[Kind, str]] = [
    ("json_schema", PERSON),
    ("json_schema", "true"),
    ("json_schema", '{"type": "null", "description": null, "examples": {"one": 1}, "default": 9007199254740993}'),
    ("json_schema", '{"items": [{"type": "boolean"}], "minItems": 1}'),
    ("json_schema", '{"type": "integer", "minimum": 0, "exclusiveMinimum": true}'),
    ("json_schema", '{"type": "object", "properties": {"child": {"$ref": "#"}}}'),
    ("json_schema", '{"properties": {"a": {}}, "patternProperties": {"^a": {}}, "additionalProperties": false}'),
    ("regex", r"\d{4}-\d\d"),
    ("regex", "a\\\\"),
    ("regex", "a{1,99999}"),
    ("choice", '["yes", "no"]'),
    ("gbnf", 'root ::= "a" | [0-9]+'),
    ("lark", 'start: "a" <|im_end|>'),
]


@pytest.mark.parametrize(("kind", "text"), GOOD)
def test_what_can_be_used_passes(kind: Kind, text: str) -> None:
    check(Constraint(kind, text))


def chained(count: int, nested: int = 0) -> dict[Kind, str]:
    """Grammars whose rules refer to the next: llguidance's parsers would overflow the stack."""
    schema = {f"d{i}": wrapped({"$ref": f"#/$defs/d{i + 1}"}, nested) for i in range(count)}
    return {
        "json_schema": json.dumps({"$ref": "#/$defs/d0", "$defs": {**schema, f"d{count}": {}}}),
        "lark": "start: r0\n"
        + "".join(f"r{i}: {'(' * nested}r{i + 1}{')' * nested}\n" for i in range(count))
        + f'r{count}: "a"',
        "gbnf": "root ::= r0\n" + "".join(f"r{i} ::= r{i + 1}\n" for i in range(count)) + f'r{count} ::= "a"',
    }


def wrapped(schema: dict[str, Any], levels: int) -> dict[str, Any]:
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize("kind", ["json_schema", "lark", "gbnf"])
def test_rules_that_lead_too_deep_are_refused_and_do_not_end_the_process(kind: Kind) -> None:
    for count, nested in ((4_000, 0), (300, 20)):
        if kind == "gbnf" and nested:
            continue
        with pytest.raises(TextError, match=r"at most 1,000|1,000 levels"):
            check(Constraint(kind, chained(count, nested)[kind]))
    check(Constraint(kind, chained(100, 3)[kind]))


def test_anchors_that_lead_too_deep_are_refused() -> None:
    parts = {
        f"d{i}": {"$anchor": f"a{i}", "type": "object", "properties": {"p": {"$ref": f"#a{i + 1}"}}, "required": ["p"]}
        for i in range(400)
    }
    schema = {"$ref": "#a0", "$defs": {**parts, "d400": {"$anchor": "a400"}}}
    with pytest.raises(TextError, match="its references lead more than 1,000 levels deep"):
        check(Constraint("json_schema", json.dumps(schema)))


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(TextError, match="at most 200,000"):
        check(Constraint("regex", "a" * 200_001))


@settings(max_examples=40)
@given(VALUES)
def test_an_example_matches_its_schema(value: Any) -> None:
    schema = schema_of(value)
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(value)
    if isinstance(value, dict) and value:
        assert not Draft202012Validator(schema).is_valid({**value, "more than the example": 1})
    check(Constraint("json_schema", json.dumps(schema)))


def test_a_schema_says_what_an_example_shows() -> None:
    example = {"name": "Ada", "age": 36, "tags": [1, 2.5, None], "sons": [{"a": 1}, {"a": 2, "b": "c"}]}
    schema = schema_of(example)
    assert schema["required"] == ["name", "age", "tags", "sons"]
    assert schema["properties"]["age"] == {"type": "integer"}
    assert schema["properties"]["tags"]["items"] == {"type": ["null", "number"]}
    assert schema["properties"]["sons"]["items"]["required"] == ["a"]
    assert not Draft202012Validator(schema).is_valid({**example, "age": "old"})


def written(value: Any, path: Path = ()) -> Iterator[tuple[str, Path, str]]:
    """A document character by character: each with the path and the kind of what stands open after it; "" for nothing."""
    if isinstance(value, str):
        text = json.dumps(value)
        yield from ((c, path, "a string") for c in text[:-1])
        yield '"', path, ""
    elif isinstance(value, dict):
        yield "{", path, ""
        for i, (key, item) in enumerate(value.items()):
            if i:
                yield ",", path, ""
            text = json.dumps(key)
            yield from ((c, path, "a key") for c in text[:-1])
            yield '"', path, ""
            yield ":", (*path, key), ""
            yield from written(item, (*path, key))
        yield "}", path, ""
    elif isinstance(value, list):
        yield "[", (*path, 0), ""
        for i, item in enumerate(value):
            if i:
                yield ",", (*path, i), ""
            yield from written(item, (*path, i))
        yield "]", path, ""
    else:
        text = json.dumps(value)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        yield from ((c, path, "a number" if is_number else "a word") for c in text[:-1])
        yield text[-1], path, "a number" if is_number else ""


@settings(max_examples=40)
@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4) | st.lists(VALUES, max_size=4))
def test_where_an_unfinished_document_stands(value: Any) -> None:
    text, document = "", PartialDocument()
    for character, path, kind in written(value):
        text += character
        found = PartialDocument().find_standing(text)
        assert document.find_standing(text) == found  # read on instead of anew
        if kind:
            assert (found.inside, found.path) == (kind, path), text
        elif character in ":[":
            assert found.coming.startswith("a value"), text
            assert found.path == path, text
        assert (not found.inside) == _parses(text), text


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_the_schema_says_what_stands_at_a_place() -> None:
    schema = json.loads(PERSON)
    assert describe_bounds(schema_at(schema, ("age",))) == "0 to 120"
    assert describe_bounds(schema_at(schema, ("name",))) == "at most 10 characters"
    assert describe_bounds(schema_at(schema, ("tags", 3))) == 'one of "a", "b"'
    assert describe_bounds(schema_at(schema, ("else",))) == ""
    assert schema_at({"$ref": "#"}, ("a",)) is None
    assert shown_path(("tags", 1, "name")) == "tags[1].name"


TUPLE = """{"$schema": "http://json-schema.org/draft-07/schema#",
  "items": [{"type": "boolean"}, {"type": "integer"}], "additionalItems": false}"""
DOUBLED = json.dumps(
    {
        "$ref": "#/$defs/0",
        "$defs": {
            **{str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(40)},
            "40": {"type": "integer"},
        },
    }
)
"""A trillion ways through it."""


def schema(text: str) -> Constraint:
    return Constraint("json_schema", text)


VERDICTS: list[tuple[Constraint, str, str]] = [
    (Constraint("json_schema", PERSON), '{"name": "Ada", "age": 36}', "valid"),
    (
        Constraint("json_schema", PERSON),
        '{"name": "Ada", "age": 360}',
        "invalid: age: 360 is greater than the maximum of 120",
    ),
    (Constraint("json_schema", PERSON), '{"name": "Ada", "age": 3', "incomplete: ends inside a number (age)"),
    (Constraint("json_schema", PERSON), '{"name": "Ad', "incomplete: ends inside a string (name)"),
    (Constraint("json_schema", PERSON), '{"name":', "incomplete: ends before a value (name)"),
    (
        Constraint("json_schema", PERSON),
        '{"name": "Ada", "age": 36, "tags": ["a"',
        "incomplete: ends inside an array (tags)",
    ),
    (Constraint("json_schema", PERSON), "Sure!", "invalid: not JSON: expecting value at character 1"),
    (schema(TUPLE), "[true, 2]", "valid"),
    (schema(TUPLE), "[2, true]", "invalid: [1]: True is not of type 'integer'"),
    (schema('{"items": [{"type": "boolean"}]}'), "[true]", "valid"),
    (schema(r'{"pattern": "^\\p{L}+$"}'), '"Zoé"', "valid"),
    (schema(r'{"pattern": "^\\p{L}+$"}'), '"Zoé1"', r"invalid: 'Zoé1' does not match '^\\p{L}+$'"),
    (schema('{"pattern": "^(?<year>[0-9]+)$"}'), '"2024"', "valid"),
    (schema(r'{"pattern": "^\\d$"}'), '"٣"', r"invalid: '٣' does not match '^\\d$'"),
    (schema('{"pattern": "^a$"}'), r'"a\n"', r"invalid: 'a\n' does not match '^a$'"),
    (
        schema('{"pattern": "a(?=b)"}'),
        '"ab"',
        "unknown: pattern: look-around, including look-ahead and look-behind, is not supported",
    ),
    (
        schema(r'{"patternProperties": {"^\\p{L}$": {"minimum": 1}}}'),
        '{"é": 0}',
        "invalid: é: 0 is less than the minimum of 1",
    ),
    (schema(r'{"patternProperties": {"\\p{L}": {}}, "additionalProperties": false}'), '{"é": 0}', "valid"),
    (
        schema(r'{"patternProperties": {"\\p{L}": {}}, "additionalProperties": false}'),
        '{"1": 0}',
        "invalid: Additional properties are not allowed ('1' was unexpected)",
    ),
    (schema('{"format": "date"}'), '"2024-11-31"', "invalid: '2024-11-31' is not a 'date'"),
    (schema('{"multipleOf": 0.1}'), "0.7", "valid"),
    (schema('{"multipleOf": 0.1}'), "0.75", "invalid: 0.75 is not a multiple of 0.1"),
    (schema('{"multipleOf": 0.1}'), "1e999999999", "unknown: multipleOf: a number is too large"),
    (schema('{"type": "integer"}'), "1" * 5000, "valid"),
    (schema('{"minimum": 0, "exclusiveMinimum": true}'), "1", "valid"),
    (schema('{"minimum": 0, "exclusiveMinimum": true}'), "0", "invalid: 0 is less than or equal to the minimum of 0"),
    (
        schema('{"$id": "http://example.org/a", "$ref": "b", "$defs": {"b": {"$id": "b", "type": "null"}}}'),
        "null",
        "valid",
    ),
    (
        schema('{"$ref": "http://127.0.0.1:9/x"}'),
        "1",
        "unknown: jsonschema cannot check it: Unresolvable: http://127.0.0.1:9/x",
    ),
    (schema('{"$ref": "#"}'), "1", "unknown: the schema refers to itself, or is nested too deeply"),
    (schema('{"properties": 5}'), "{}", "unknown: the constraint cannot be used: "),
    (schema('{"type": "object"}'), '{"a": 1, "a": 2}', 'unknown: the key "a" appears twice in one object'),
    (schema("{}"), "NaN", "invalid: not JSON: NaN is not JSON"),
    (schema("{}"), "[" * 100_000, "unknown: nested too deeply"),
    (schema(DOUBLED), "1", "unknown: it takes more than 2 seconds"),
    (Constraint("regex", r"\d"), "٣", 'invalid: "٣" at character 1 does not fit'),
    (Constraint("lark", "start: " + "(" * 9000 + '"a"' + ")" * 9000), "a", "unknown: the constraint cannot be used: "),
    (Constraint("choice", "[]"), "a", "unknown: the constraint cannot be used: "),
    (Constraint("regex", r"[0-9]{4}-[0-9]{2}"), "2024-11", "valid"),
    (Constraint("regex", r"[0-9]{4}-[0-9]{2}"), "2024-1", "incomplete: 0-9 must follow"),
    (Constraint("regex", r"[0-9]{4}-[0-9]{2}"), "2024", 'incomplete: "-" must follow'),
    (Constraint("regex", r"[0-9]{4}-[0-9]{2}"), "20é4", 'invalid: "é" at character 3 does not fit'),
    (make_choice(["yes", "no"]), "no", "valid"),
    (make_choice(["yes", "no"]), "ye", 'incomplete: "s" must follow'),
    (Constraint("gbnf", 'root ::= "a" [^b]* "c"'), "axx", "incomplete: any character but b must follow"),
    (Constraint("lark", 'start: "a" <|im_end|>'), "a", "unknown: the constraint names tokens that are no text"),
]


@pytest.mark.parametrize(("constraint", "text", "says"), VERDICTS)
def test_the_verdict_on_a_finished_reply(constraint: Constraint, text: str, says: str) -> None:
    said = str(verdict_on(constraint, text.encode()))
    assert said.startswith(says) if says.endswith(" ") else said == says


def test_the_bytes_that_may_follow() -> None:
    regex = Constraint("regex", "[0-9 ]+x")
    after = allowed_after(regex, b"3")
    assert after is not None
    assert sorted(after.allowed) == sorted(b"0123456789 x")
    assert described_bytes(after) == "space 0-9 or x"
    assert allowed_after(regex, b"y") is None


def test_blanks_between_the_parts_of_json_are_bounded() -> None:
    for begun, more in ((b"{", True), (b"{ ", False), (b"{\n" + b"\t" * 19, True), (b"{\n" + b"\t" * 20, False)):
        after = allowed_after(schema('{"type": "object"}'), begun)
        assert after is not None
        assert b'"' in after.allowed
        assert bool(set(b" \t\n") & set(after.allowed)) == more, begun


def test_json_is_shown_a_value_a_line() -> None:
    assert format_json('{"a":[1,"é"]}') == '{\n  "a": [\n    1,\n    "é"\n  ]\n}'
    assert format_json("{") is None
