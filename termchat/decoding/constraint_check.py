"""Faults of a constraint, found before it is used and told with their place in the text that the person wrote.

llguidance is asked without a vocabulary here. What its parsers cannot bear is refused before: they call themselves for each
rule that a rule refers to, and end the process where that goes too deep (at 2,000 rules; seen in version 1.9.1).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from termchat.decoding.constraint import LONGEST, Constraint, Kind
from termchat.decoding.gbnf import to_lark
from termchat.decoding.partial_json import resolved
from termchat.decoding.text_error import TextError

MOST_RULES = 1_000
"""Rules of a grammar, three parentheses counting as one."""
DEEPEST_REFERENCES = 1_000
"""Levels of a schema, one reference followed by the other, at most."""

_LARK_RULE = re.compile(r"^[ \t]*[!?]?[a-zA-Z_][\w.\[\]]*[ \t]*(?:\.[ \t]*-?\d+[ \t]*)?:", re.MULTILINE)
_PLACE = re.compile(r"^(?:at )?(\d+)\((\d+)\): ")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_PLAIN = {
    "oneOf constraints are not supported. Enable 'coerce_one_of' option to approximate oneOf with anyOf": (
        "oneOf with alternatives that overlap is not supported; use anyOf"
    ),
    "no start rule found": "a grammar needs a rule named start",
    "Empty grammar": "the grammar is empty",
}


def check(constraint: Constraint) -> None:
    """Raises `TextError` where the text is not of its kind, or can never be used."""
    if len(constraint.text) > LONGEST:
        raise TextError(f"the text has {len(constraint.text):,} characters; at most {LONGEST:,} are allowed")
    _CHECKS[constraint.kind](constraint.text)


def parse_json(text: str) -> Any:
    """The value of a JSON text.

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


def _not_json(text: str, name: str) -> NoReturn:
    raise TextError.at(text, max(text.find(name), 0), f"{name} is not JSON")


# --- JSON schema -----------------------------------------------------------------------------------------------------


def _check_schema(text: str) -> None:
    schema = parse_json(text)
    if not isinstance(schema, (dict, bool)):
        raise TextError('a schema is a JSON object, such as {"type": "object"}', 1, 1)
    if _depth_of_references(schema) > DEEPEST_REFERENCES:
        raise TextError(f"its references lead more than {DEEPEST_REFERENCES:,} levels deep", *_place_of(text, ["$ref"]))
    from llguidance import LLMatcher

    try:
        grammar = LLMatcher.grammar_from_json_schema(text)
    except ValueError as error:
        raise TextError(str(error)) from None
    message = _refusal(grammar)
    if message is None:
        return
    if message.startswith("regex parse error"):
        pattern, column, wrong = _caret(message)
        shown = f"{wrong} (character {column} of the pattern)"
        raise TextError(shown, *_place_of(text, [], value=pattern))
    said = _PLAIN.get(message, message)
    if keys := re.fullmatch(r"Unimplemented keys: \[(.*)\]", message):
        said = f"not supported: {keys[1].replace(chr(34), '')}"
    raise TextError(said, *_place_of(text, _words(message)))


def _words(message: str) -> list[str]:
    """What in a refusal may stand in the schema, the surest first."""
    quoted = re.findall(r"""["']([^"']+)["']""", message)
    after_colon = re.findall(r"(?:type|format): (\S+)$", message)
    return [
        *quoted,
        *after_colon,
        *re.findall(r"\b[a-z]+[A-Z]\w+\b", message),
        *re.findall(r"\b[a-z][a-zA-Z]+\b", message),
    ]


def _place_of(text: str, words: list[str], value: str | None = None) -> tuple[int, int]:
    """Line and column of the first of the words that is a key of a schema or a value there; (0, 0) where none is."""
    seen = list(_strings(text))
    if value is not None:
        words = [value]
    for word in words:
        for content, offset, keyword in seen:
            if keyword and (content == word or content == "#" + word):
                error = TextError.at(text, offset, "")
                return error.line, error.column
    return 0, 0


def _strings(text: str) -> Iterator[tuple[str, int, bool]]:
    """Every string of a JSON text, its offset, and whether it says something to a schema: names of properties do not."""
    names = {"properties", "$defs", "definitions", "patternProperties"}
    stack: list[tuple[str, str]] = []  # of each open bracket: itself, and the key that its value belongs to
    key = ""
    tokens = [(found[0], found.start()) for found in _TOKEN.finditer(text)]
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
    """No path through the schema is longer: that of the root, and of everything that is referred to, one after the other."""
    depth, targets = _depth_and_targets(schema)
    seen: set[str] = set()
    while targets:
        pointer = targets.pop()
        if pointer in seen:
            continue
        seen.add(pointer)
        more, further = _depth_and_targets(resolved(schema, pointer))
        depth += more + 1
        targets |= further
    return depth if seen else 0


def _depth_and_targets(value: Any) -> tuple[int, set[str]]:
    deepest, targets = 0, set()
    waiting = [(value, 1)]
    while waiting:
        here, depth = waiting.pop()
        deepest = max(deepest, depth)
        if isinstance(here, dict):
            if isinstance(here.get("$ref"), str):
                targets.add(here["$ref"])
            waiting += [(child, depth + 1) for child in here.values()]
        elif isinstance(here, list):
            waiting += [(child, depth + 1) for child in here]
    return deepest, targets


# --- the others ------------------------------------------------------------------------------------------------------


def _check_regex(text: str) -> None:
    from llguidance import LLMatcher

    if not text:
        raise TextError("the regular expression is empty")
    trailing = len(text) - len(text.rstrip("\\"))
    if trailing % 2:
        raise TextError.at(text, len(text) - 1, "a backslash at the end escapes nothing")
    message = _refusal(LLMatcher.grammar_from_regex(text))
    if message is None:
        return
    if "regex parse error" in message:
        _, column, wrong = _caret(message)
        raise TextError.at(text, _offset(text, column - 1), wrong)
    wrong = message.partition("(in regex): ")[2].partition("; ")[0].partition("\n")[0] or message.partition("\n")[0]
    if wrong.startswith("lookarounds"):
        found = re.search(r"\\[bB]", text)
        raise TextError.at(text, found.start() if found else 0, "word borders and look-around are not supported")
    raise TextError(wrong)


def _offset(text: str, shown: int) -> int:
    """Where in a pattern that is which llguidance shows with new lines, tabs and slashes escaped."""
    width, escaped = 0, False
    for offset, character in enumerate(text):
        if width >= shown:
            return offset
        width += 2 if character in "\n\t\r" or (character == "/" and not escaped) else 1
        escaped = character == "\\" and not escaped
    return len(text)


def _check_choice(text: str) -> None:
    texts = parse_json(text)
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise TextError("a choice is a list of texts")
    if not texts or not all(texts):
        raise TextError("a choice needs at least one text, and none of them empty")


def _check_gbnf(text: str) -> None:
    lark = to_lark(text)
    _bounded(lark)
    message = _refused_lark(lark)
    if message is not None:  # no place in the text that was written
        raise TextError(_PLACE.sub("", message).partition("\n")[0])


def _check_lark(text: str) -> None:
    if not text.strip():
        raise TextError("the grammar is empty")
    _bounded(text)
    message = _refused_lark(text)
    if message is None:
        return
    place = _PLACE.match(message)
    first = _PLACE.sub("", message).partition("\n")[0]
    if "regex parse error" in message:
        pattern, _, wrong = _caret(message)
        first = f"{wrong} in /{pattern}/"
    first = _PLAIN.get(first, first)
    unknown = re.match(r'unknown name: "(\w+)"', first)
    named = unknown and re.search(rf"\b{unknown[1]}\b(?!\s*:)", text)
    if named:  # llguidance says where the whole body of the rule is
        raise TextError.at(text, named.start(), first)
    raise TextError(first, *map(int, place.groups())) if place else TextError(first)


def _bounded(lark: str) -> None:
    rules = len(_LARK_RULE.findall(lark)) + lark.count("(") // 3
    if rules > MOST_RULES:
        raise TextError(f"the grammar has {rules:,} rules and groups; at most {MOST_RULES:,} are allowed")


def _refused_lark(text: str) -> str | None:
    from llguidance import LLMatcher

    return _refusal(LLMatcher.grammar_from_lark(text))


def _refusal(grammar: str) -> str | None:
    """What llguidance has against it; None where it takes it, or would have to know the vocabulary."""
    from llguidance import LLMatcher

    is_error, messages = LLMatcher.validate_grammar_with_warnings(grammar)
    return messages[0] if is_error else None


def _caret(message: str) -> tuple[str, int, str]:
    """Pattern, column from 1 and fault of a regular expression that could not be parsed."""
    lines = message.partition("regex parse error:\n")[2].split("\n")
    marks = next(i for i, line in enumerate(lines) if line.strip() and not line.strip(" ^"))
    fault = next((line.removeprefix("error: ") for line in lines[marks:] if line.startswith("error: ")), "not valid")
    return "\n".join(line[4:] for line in lines[:marks]), len(lines[marks]) - len(lines[marks].lstrip()) - 3, fault


_CHECKS: dict[Kind, Callable[[str], None]] = {
    "json_schema": _check_schema,
    "regex": _check_regex,
    "choice": _check_choice,
    "gbnf": _check_gbnf,
    "lark": _check_lark,
}
