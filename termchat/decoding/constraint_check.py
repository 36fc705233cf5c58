"""A constraint as llguidance reads it (`grammar_of`), and its faults, with their place in the text that the person wrote.

llguidance is asked without a vocabulary here. What its parsers cannot bear is refused before: they call themselves for each
rule that a rule refers to, and end the process where that goes too deep (at 2,000 rules; seen in version 1.9.1). So are schemas
that it compiles into a grammar with a dead end, or into one that allows what the schema forbids.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NoReturn

from termchat.decoding.constraint import LONGEST, Constraint, Kind, TextError
from termchat.decoding.gbnf import to_lark
from termchat.decoding.partial_json import resolve_pointer

MOST_RULES = 1_000
"""Rules of a grammar, three parentheses counting as one."""
DEEPEST_REFERENCES = 1_000
"""Levels of a schema, one reference followed by the other, at most."""

END_BYTE = 256
"""The token of `byte_tokenizer` that ends a text."""
_MOST_DIGITS = 4_300
"""Of a whole number: Python reads no more from a text."""
_SPACE = r"( |\n[ \t]{0,20})"
"""Between the parts of JSON, as in llama.cpp's grammars: a model that may write any white space sometimes never stops."""
_ESCAPES = 'nrbtf\\"'
_CONTROL = re.compile(r"\\u00(?:[01]|7f)")
_NO_SCHEMA = 'a schema is a JSON object, such as {"type": "object"}'

_LARK_RULE = re.compile(r"^[ \t]*[!?]?[a-zA-Z_][\w.\[\]]*[ \t]*(?:\.[ \t]*-?\d+[ \t]*)?:", re.MULTILINE)
_DRAFTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
)
"""Those of JSON schema that llguidance knows, the newest first."""
_REMARKS = {"title", "description", "examples", "default", "$comment", "readOnly", "writeOnly", "deprecated"}
"""Keys that nothing follows: what is wrong there harms nothing."""
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_CONSTANTS = ("const", "enum")
_PLACE = re.compile(r"^(?:at )?(\d+)\((\d+)\): ")
_WORDS = (
    re.compile(r"""["']([^"']+)["']"""), re.compile(r"(?:type|format): (\S+)$"),
    re.compile(r"\b[a-z]+[A-Z]\w+\b"), re.compile(r"\b[a-z][a-zA-Z]+\b"),
)  # fmt: skip
"""Words of a refusal that may stand in the schema, the surest first."""
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_PLAIN = {
    "oneOf constraints are not supported. Enable 'coerce_one_of' option to approximate oneOf with anyOf": (
        "oneOf with alternatives that overlap is not supported; use anyOf"
    ),
    "no start rule found": "a grammar needs a rule named start",
    "Empty grammar": "the grammar is empty",
}


def check(constraint: Constraint) -> str:
    """Return the grammar of a constraint that can be used; see `grammar_of`.

    Raises:
        TextError: the text is not of its kind, or can never be used.
    """
    grammar = grammar_of(constraint)
    if constraint.kind in _CHECKS:
        _CHECKS[constraint.kind](constraint.text, grammar)
    return grammar


def grammar_of(constraint: Constraint) -> str:
    """Translate a constraint for llguidance: the one meaning that masks and verdicts share. `\\d` matches the ten ASCII digits.

    Raises:
        TextError: the text is not of its kind.
    """
    from llguidance import LLMatcher, regex_to_lark

    text = constraint.text
    if len(text) > LONGEST:
        raise TextError(f"the text has {len(text):,} characters; at most {LONGEST:,} are allowed")
    if constraint.kind == "regex":
        if not text:
            raise TextError("the regular expression is empty")
        return LLMatcher.grammar_from_lark(f"start: /{regex_to_lark(text, 'd')}/")
    if not text.strip():
        raise TextError("the grammar is empty" if constraint.kind in ("lark", "gbnf") else "the text is empty")
    if constraint.kind in ("lark", "gbnf"):
        return LLMatcher.grammar_from_lark(text if constraint.kind == "lark" else to_lark(text))
    value = parse_json(text)
    if constraint.kind == "json_schema":
        if value is not True and not isinstance(value, dict):
            raise TextError("no reply matches the schema false" if value is False else _NO_SCHEMA, 1, 1)
        return schema_grammar({} if value is True else value)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TextError("a choice is a list of texts")
    if not value or not all(value):
        raise TextError("a choice needs at least one text, and none of them empty")
    # One terminal: a rule of thousands of alternatives has as many items in each row of the parser.
    return LLMatcher.grammar_from_lark("start: TEXT\nTEXT: " + "\n  | ".join(map(json.dumps, value)))


def schema_grammar(schema: dict[str, Any]) -> str:
    """Translate a JSON schema for llguidance.

    Raises:
        TextError: its options for llguidance are no object.
    """
    from llguidance import LLMatcher

    text = json.dumps(schema)
    # A key that is spelled with escapes would escape the schema of its property. Control characters need theirs.
    escapes = _ESCAPES if _CONTROL.search(text) is None else _ESCAPES + "u"
    try:
        return LLMatcher.grammar_from_json_schema(
            text, defaults={"whitespace_pattern": _SPACE, "json_allowed_escapes": escapes}
        )
    except ValueError as error:
        raise TextError(str(error)) from None


@lru_cache(1)
def byte_tokenizer() -> Any:
    """Tokens that are the bytes, by their numbers, and one that ends."""
    from llguidance import LLTokenizer, TokenizerWrapper

    class Bytes:
        eos_token_id, bos_token_id = END_BYTE, None
        tokens = (*(bytes([i]) for i in range(256)), b"\xff<end>")
        special_token_ids = (END_BYTE,)

        def __call__(self, text: bytes | str) -> list[int]:
            return list(text.encode() if isinstance(text, str) else text)

    return LLTokenizer(TokenizerWrapper(Bytes()))


class Exact(Decimal):
    """A number of a JSON text, to its last digit."""

    __repr__ = Decimal.__str__


def parse_exactly(text: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Parse a JSON text, keeping every digit of its numbers.

    Raises:
        ValueError: it is not JSON: `json.JSONDecodeError`, or `TextError` for NaN and infinity.
        RecursionError: it is nested too deeply.
    """
    return json.loads(
        text,
        parse_float=Exact,
        parse_int=_parse_whole,
        parse_constant=lambda name: _not_json(text, name),
        object_pairs_hook=pairs,
    )


def _parse_whole(digits: str) -> int | Exact:
    return int(digits) if len(digits) <= _MOST_DIGITS else Exact(digits)


def parse_json(text: str) -> Any:
    """Parse a JSON text.

    Raises:
        TextError: it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=lambda name: _not_json(text, name))
    except json.JSONDecodeError as error:
        message = error.msg[:1].lower() + error.msg[1:]
        raise TextError(message, error.lineno, error.colno) from None
    except RecursionError:
        raise TextError("it is nested too deeply") from None
    except TextError:
        raise
    except ValueError:
        raise TextError(f"it has a number of more than {_MOST_DIGITS:,} digits") from None


def _not_json(text: str, name: str) -> NoReturn:
    raise TextError.at(text, max(text.find(name), 0), f"{name} is not JSON")


# --- JSON schema -----------------------------------------------------------------------------------------------------


def _check_schema(text: str, grammar: str) -> None:
    schema = parse_json(text)
    if _depth_of_references(schema) > DEEPEST_REFERENCES:
        raise _make_fault(text, f"its references lead more than {DEEPEST_REFERENCES:,} levels deep", "$ref")
    _drafts_of(schema, text)
    message = _find_refusal(grammar)
    if message is None:
        _check_meaning(text, schema)
        return
    if message.startswith("regex parse error"):
        pattern, column, wrong = _parse_caret(message)
        raise _make_fault(text, f"{wrong} (character {column} of the pattern)", pattern)
    fault, words = _PLAIN.get(message, message), [word for pattern in _WORDS for word in pattern.findall(message)]
    if keys := re.fullmatch(r"Unimplemented keys: \[(.*)\]", message):
        fault = f"not supported: {keys[1].replace(chr(34), '')}"
    elif "does not contain a multiple of" in message:
        fault, words = "multipleOf: no multiple lies between the bounds", ["multipleOf"]
    elif "Regex is empty" in message:
        fault, words = "pattern: no text matches it, the format and the lengths together", ["pattern", "format"]
    raise _make_fault(text, fault, *words)


def _check_meaning(text: str, schema: Any) -> None:
    """Raise `TextError` where llguidance compiles a schema that its draft forbids, that has a dead end, or whose numbers it
    rounds."""
    is_old = draft_of(text).META_SCHEMA["$schema"] != _DRAFTS[0]
    for key, number, _ in _walk_values(parse_exactly(text), but=("default", "examples")):
        if not isinstance(number, (int, Exact)) or isinstance(number, bool):
            continue
        if not _is_float(number) or (key in _CONSTANTS and abs(Decimal(number)) >= 1 << 63):
            raise _make_fault(text, f"{key}: {number} has more digits than a grammar can follow", key)
    for _, part, _ in _walk_values(schema):
        if not isinstance(part, dict):
            continue
        if isinstance(part.get("prefixItems"), list) and (is_old or "additionalItems" in part):
            shown = f"prefixItems: only draft 2020-12 has it, without additionalItems; set $schema to {_DRAFTS[0]}"
            raise _make_fault(text, shown, "prefixItems")
        if (bound := _leaking_bound(part)) is not None:
            raise _make_fault(text, f"{bound}: the grammar would allow the bound itself", bound)
        if isinstance(part.get("patternProperties"), dict) and _is_dead_end(part):
            first = next(iter(part["patternProperties"]))
            shown = f"patternProperties: only keys in properties match {first}; remove the pattern"
            raise _make_fault(text, shown, first)
    if (endless := _find_endless(schema)) is not None:
        raise _make_fault(text, f"$ref: {endless} refers to itself without an end", endless)


@lru_cache(8)
def draft_of(text: str) -> Any:
    """Return the validator of the draft that a schema names, else of the newest draft whose rules it keeps.

    Raises:
        TextError: it is not JSON, names no draft that is supported, or breaks the draft's rules.
    """
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for

    schema, faults = parse_json(text), []
    # A target may lie where an older draft does not look.
    parts = [schema, *(resolve_pointer(schema, pointer) for pointer in _find_pointers(schema))]
    for name in _drafts_of(schema, text):
        draft = validator_for({"$schema": name})
        rules = draft(draft.META_SCHEMA)
        wrong = (fault for part in parts for fault in rules.iter_errors(part))
        fault = best_match(fault for fault in wrong if not _REMARKS & {*list(fault.absolute_path)[-1:]})
        if fault is None:
            return draft
        faults.append(fault)
    path = [step for step in faults[0].absolute_path if isinstance(step, str)]
    shown = f"{'.'.join(path)}: {faults[0].message}" if path else faults[0].message
    raise _make_fault(text, shown, *path[-1:])


def _drafts_of(schema: Any, text: str) -> Sequence[str]:
    """Return the draft that a schema names, or all that it may follow, the newest first.

    Raises:
        TextError: it names none that is supported.
    """
    if not isinstance(schema, dict) or "$schema" not in schema:
        return _DRAFTS
    named = schema["$schema"]
    if not isinstance(named, str) or named.rstrip("#") not in _DRAFTS:
        shown = f"$schema: {json.dumps(named)} is not a supported draft; use {_DRAFTS[0]}"
        raise _make_fault(text, shown, "$schema")
    return (named.rstrip("#"),)


def _walk_values(value: Any, but: Collection[str] = ()) -> Iterator[tuple[str, Any, int]]:
    """Yield every value in a JSON document, with its key (one of `_CONSTANTS` for everything below that) and its depth,
    except below the keys in `but`.
    """
    waiting = [("", value, 1)]
    while waiting:
        key, here, depth = waiting.pop()
        yield key, here, depth
        if isinstance(here, dict):
            named = [(name, child) for name, child in here.items() if name not in but]
            waiting += [(key if key in _CONSTANTS else name, child, depth + 1) for name, child in named]
        elif isinstance(here, list):
            waiting += [(key, child, depth + 1) for child in here]


def _is_float(number: int | Exact) -> bool:
    """Return whether a float holds the number as it is written."""
    try:
        return Decimal(repr(float(number))) == number
    except (OverflowError, ArithmeticError):
        return False


def _leaking_bound(part: dict[str, Any]) -> str | None:
    """Find the key of an excluded bound that the grammar allows: llguidance does so for a whole number next to a bound that is
    none."""
    from llguidance import LLMatcher

    for key, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        bound = part.get(plain) if part.get(key) is True else part.get(key)
        if not isinstance(bound, (int, float)) or isinstance(bound, bool) or bound != int(bound):
            continue
        numbers = {name: part[name] for name in _BOUNDS if name in part}
        grammar = schema_grammar({"type": "number", **numbers})
        for written in (str(int(bound)), "-0") if bound == 0 else (str(int(bound)),):
            matcher = LLMatcher(byte_tokenizer(), grammar, log_level=0)
            if matcher.try_consume_tokens(list(written.encode())) == len(written) and matcher.is_accepting():
                return key
    return None


def _is_dead_end(part: dict[str, Any]) -> bool:
    """Return whether the grammar of an object allows a comma and then no key: its patterns match only the keys it has
    already.
    """
    from llguidance import LLMatcher

    listed = [*_list_items(part, "properties", dict), *_list_items(part, "required", list)]
    names = list(dict.fromkeys(name for name in listed if isinstance(name, str)))
    patterns = {pattern: rule is not False for pattern, rule in part["patternProperties"].items()}
    probe = {
        "type": "object",
        "properties": {name: {"type": "null"} for name in names},
        "required": names,
        "patternProperties": patterns,
        "additionalProperties": part.get("additionalProperties") is not False,
    }
    matcher = LLMatcher(byte_tokenizer(), schema_grammar(probe), log_level=0)
    begun = b"{" + b"".join(json.dumps(name).encode() + b":null," for name in names)
    return (
        bool(names) and matcher.try_consume_tokens(list(begun)) == len(begun) and not matcher.try_consume_tokens([34])
    )


def _list_items(part: dict[str, Any], key: str, kind: type[dict[Any, Any] | list[Any]]) -> Iterable[Any]:
    """Return the items below a key if they are of that kind: a constant of a schema may look like a schema."""
    value = part.get(key)
    return value if isinstance(value, kind) else ()


def _find_endless(schema: Any) -> str | None:
    """Find a reference that can only be followed without an end."""
    targets = _find_targets(schema)
    onward = {pointer: _find_pointers(target) for pointer, target in targets.items()}
    still = {pointer for pointer in targets if _leads_back(pointer, onward)}
    while ending := {pointer for pointer in still if _has_end(targets[pointer], still)}:
        still -= ending
    return min(still, default=None)


def _find_references(schema: Any) -> set[str]:
    """Find all references of a schema, those by `$anchor` and `$id` included."""
    targets = (part.get("$ref") for _, part, _ in _walk_values(schema) if isinstance(part, dict))
    return {target for target in targets if isinstance(target, str)}


def _find_pointers(schema: Any) -> set[str]:
    """Find the references of a schema to its own parts."""
    return {target for target in _find_references(schema) if target == "#" or target.startswith("#/")}


def _find_targets(schema: Any, find: Callable[[Any], set[str]] = _find_pointers) -> dict[str, Any]:
    """Find all parts of a schema that are referred to, also from such parts, by their pointers."""
    targets: dict[str, Any] = {}
    waiting = find(schema)
    while waiting:
        pointer = waiting.pop()
        targets[pointer] = resolve_pointer(schema, pointer)
        waiting |= find(targets[pointer]) - targets.keys()
    return targets


def _leads_back(pointer: str, onward: dict[str, set[str]]) -> bool:
    seen: set[str] = set()
    waiting = set(onward[pointer])
    while waiting - seen:
        seen |= waiting
        waiting = set().union(*(onward[one] for one in waiting))
    return pointer in seen


def _has_end(target: Any, still: set[str]) -> bool:
    """Return whether something matches the target that follows none of the references in `still`."""

    def follow(part: dict[str, Any]) -> Any:
        pointer = part.get("$ref")
        if not isinstance(pointer, str):
            return part
        return False if pointer in still else {key: value for key, value in part.items() if key != "$ref"}

    rest = json.loads(json.dumps(target), object_hook=follow)
    if not isinstance(rest, dict):
        return rest is not False
    return not (_find_refusal(schema_grammar(rest)) or "").startswith("Unsatisfiable")


def _make_fault(text: str, message: str, *words: str) -> TextError:
    """Make the error for the first of the words that is a key of a schema or a value there; without a place if none is."""
    strings = list(_find_strings(text))
    for word in words:
        for content, offset, is_keyword in strings:
            if is_keyword and content in (word, "#" + word):
                return TextError.at(text, offset, message)
    return TextError(message)


def _find_strings(text: str) -> Iterator[tuple[str, int, bool]]:
    """Yield every string of a JSON text, its offset, and whether it says something to a schema: names of properties do not."""
    names = {"properties", "$defs", "definitions", "patternProperties"}
    stack: list[tuple[str, str]] = []  # of each open bracket: itself, and the key that its value belongs to
    key = ""
    tokens = [(match[0], match.start()) for match in _TOKEN.finditer(text)]
    for place, (token, offset) in enumerate(tokens):
        if token in "{[":
            stack.append((token, key))
            key = ""
        elif token in "}]":
            stack.pop()
        elif token[0] == '"':
            content = json.loads(token)
            is_key = place + 1 < len(tokens) and tokens[place + 1][0] == ":"
            named = bool(stack) and stack[-1] == ("{", stack[-1][1]) and stack[-1][1] in names
            yield content, offset, not (is_key and named) or (named and stack[-1][1] == "patternProperties")
            if is_key:
                key = content


def _depth_of_references(schema: Any) -> int:
    """Bound the longest path through the schema: the depths of the root and of all parts that are referred to, summed up."""
    parts = [schema, *_find_targets(schema, _find_references).values()]
    depths = [max(depth for _, _, depth in _walk_values(part)) for part in parts]
    return sum(depths) + len(depths) - 1 if len(depths) > 1 else 0


# --- the others ------------------------------------------------------------------------------------------------------


def _check_regex(text: str, _grammar: str) -> None:
    from llguidance import LLMatcher

    trailing = len(text) - len(text.rstrip("\\"))
    if trailing % 2:
        raise TextError.at(text, len(text) - 1, "a backslash at the end escapes nothing")
    message = _find_refusal(LLMatcher.grammar_from_regex(text))
    if message is None:
        return
    if "regex parse error" in message:
        _, column, wrong = _parse_caret(message)
        raise TextError.at(text, _find_offset(text, column - 1), wrong)
    wrong = message.partition("(in regex): ")[2].partition("; ")[0].partition("\n")[0] or message.partition("\n")[0]
    if wrong.startswith("lookarounds"):
        border = re.search(r"\\[bB]", text)
        raise TextError.at(text, border.start() if border else 0, "word borders and look-around are not supported")
    raise TextError(wrong)


def _find_offset(text: str, shown: int) -> int:
    """Convert a column of a pattern as llguidance shows it, with escaped new lines, tabs and slashes, to one of its text."""
    width, escaped = 0, False
    for offset, character in enumerate(text):
        if width >= shown:
            return offset
        width += 2 if character in "\n\t\r" or (character == "/" and not escaped) else 1
        escaped = character == "\\" and not escaped
    return len(text)


def _check_gbnf(text: str, grammar: str) -> None:
    _check_bounds(to_lark(text))
    message = _find_refusal(grammar)
    if message is not None:  # no place in the text that was written
        raise TextError(_PLACE.sub("", message).partition("\n")[0])


def _check_lark(text: str, grammar: str) -> None:
    _check_bounds(text)
    message = _find_refusal(grammar)
    if message is None:
        return
    place = _PLACE.match(message)
    first = _PLACE.sub("", message).partition("\n")[0]
    if "regex parse error" in message:
        pattern, _, wrong = _parse_caret(message)
        first = f"{wrong} in /{pattern}/"
    first = _PLAIN.get(first, first)
    unknown = re.match(r'unknown name: "(\w+)"', first)
    named = unknown and re.search(rf"\b{unknown[1]}\b(?!\s*:)", text)
    if named:  # llguidance says where the whole body of the rule is
        raise TextError.at(text, named.start(), first)
    raise TextError(first, *map(int, place.groups())) if place else TextError(first)


def _check_bounds(lark: str) -> None:
    rules = len(_LARK_RULE.findall(lark)) + lark.count("(") // 3
    if rules > MOST_RULES:
        raise TextError(f"the grammar has {rules:,} rules and groups; at most {MOST_RULES:,} are allowed")


def _find_refusal(grammar: str) -> str | None:
    """Ask llguidance why it refuses a grammar; None if it takes it, or would have to know the vocabulary."""
    from llguidance import LLMatcher

    is_error, messages = LLMatcher.validate_grammar_with_warnings(grammar)
    return messages[0] if is_error else None


def _parse_caret(message: str) -> tuple[str, int, str]:
    """Read the pattern, the column from 1 and the fault of a regular expression that could not be parsed."""
    lines = message.partition("regex parse error:\n")[2].split("\n")
    marks = next(i for i, line in enumerate(lines) if line.strip() and not line.strip(" ^"))
    fault = next((line.removeprefix("error: ") for line in lines[marks:] if line.startswith("error: ")), "not valid")
    return "\n".join(line[4:] for line in lines[:marks]), len(lines[marks]) - len(lines[marks].lstrip()) - 3, fault


_CHECKS: dict[Kind, Callable[[str, str], None]] = {
    "json_schema": _check_schema,
    "regex": _check_regex,
    "gbnf": _check_gbnf,
    "lark": _check_lark,
}


# --- a schema from an example ----------------------------------------------------------------------------------------

_TYPES = {
    type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object",
}  # fmt: skip


def schema_of(*examples: Any) -> dict[str, Any]:
    """Make a JSON schema that matches examples, at least one: the types of all that is in them.

    An object has its keys and no others; those that only some objects have are optional. An array has any number of items like
    those there. An empty object or array holds anything.
    """
    kinds: defaultdict[str, list[Any]] = defaultdict(list)
    for example in examples:
        kinds[_TYPES[type(example)]].append(example)
    if "number" in kinds:
        kinds.pop("integer", None)
    each = [_schema_of_kind(kind, kinds[kind]) for kind in _TYPES.values() if kind in kinds]
    if len(each) == 1:
        return each[0]
    if all(len(one) == 1 for one in each):
        return {"type": [one["type"] for one in each]}
    return {"anyOf": each}


def _schema_of_kind(kind: str, examples: Sequence[Any]) -> dict[str, Any]:
    items = [item for example in examples for item in example] if kind in ("array", "object") else []
    if kind == "array" and items:
        return {"type": kind, "items": schema_of(*items)}
    if kind != "object" or not all(examples):
        return {"type": kind}
    keys = dict.fromkeys(items)
    return {
        "type": kind,
        "properties": {key: schema_of(*(example[key] for example in examples if key in example)) for key in keys},
        "required": [key for key in keys if all(key in example for example in examples)],
        "additionalProperties": False,
    }
