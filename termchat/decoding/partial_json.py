"""Where in a JSON document a text stands that may not be finished, and what its schema says of that place."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from copy import copy
from typing import Any, NamedTuple

Path = tuple[str | int, ...]

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|"(?:\\.|[^"\\])*\\?$|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_WORDS = ("true", "false", "null")
_MOST_NAMED = 5
_MARKS = "{}[],:"


class Standing(NamedTuple):
    """`path` leads to the value that is open or comes next. `inside`: the kind of value in which the text would end,
    `coming`: the open item in it; both "" for a whole document.
    """

    path: Path
    inside: str
    coming: str


class _Level:
    """An object or array that is open; `step` is the key or the index of its newest value."""

    def __init__(self, opened: str) -> None:
        self.is_object = opened == "{"
        self.step: str | int = "" if self.is_object else 0
        self.wants = "a key or }" if self.is_object else "a value or ]"


class PartialDocument:
    """A document that grows: each text is read on from where the one before ended, if it begins with that."""

    def __init__(self) -> None:
        self._levels: list[_Level] = []
        self._top = "a value"
        self._read = ""

    def find_standing(self, text: str) -> Standing:
        """Find where the text ends: of a text that is not the beginning of JSON, where it would be, more or less."""
        if not text.startswith(self._read):
            self._levels, self._top, self._read = [], "a value", ""
        tokens = list(_TOKEN.finditer(text, len(self._read)))
        for match in tokens[:-1]:
            self._top = _take_token(self._levels, match[0], self._top)
        if len(tokens) > 1:
            self._read = text[: tokens[-2].end()]
        if not tokens:
            return _find_standing(self._levels, self._top)
        levels, match = [copy(level) for level in self._levels], tokens[-1]
        token, inside = match[0], levels[-1] if levels else None
        if token not in _MARKS and inside is not None and inside.is_object and inside.wants.startswith("a key"):
            if not _is_closed(token):
                return Standing(_build_path(levels[:-1]), "a key", "a key is open")
        elif token not in _MARKS and match.end() == len(text) and (what := _open(token, last=inside is not None)):
            return Standing(_build_path(levels), what, what + " is open")
        return _find_standing(levels, _take_token(levels, token, self._top))


def _take_token(levels: list[_Level], token: str, top: str) -> str:
    """Read a token that is whole. `top`, and the result, is what comes next outside of all levels, "" for nothing."""
    level = levels[-1] if levels else None
    if token in "{[":
        levels.append(_Level(token))
        return top
    if token in "}]":
        if levels:
            levels.pop()
        level = levels[-1] if levels else None
    elif token in ",:":
        if level is not None:
            level.wants = "a key" if token == "," and level.is_object else "a value"
            if token == "," and isinstance(level.step, int):
                level.step += 1
        return top
    elif level is not None and level.is_object and level.wants.startswith("a key"):
        level.wants, level.step = ":", token[1:-1]
        with suppress(ValueError):
            level.step = str(json.loads(token))
        return top
    if level is None:
        return ""
    level.wants = ", or }" if level.is_object else ", or ]"
    return top


def _find_standing(levels: list[_Level], top: str) -> Standing:
    """Return the position at the end of a text with nothing open but these levels."""
    if not levels:
        return Standing((), top and "nothing", top and top + " comes next")
    level = levels[-1]
    inside = "an object" if level.is_object else "an array"
    is_value = level.wants in ("a value", "a value or ]")
    return Standing(_build_path(levels if is_value else levels[:-1]), inside, level.wants + " comes next")


def shown_path(path: Path) -> str:
    """Format a path as `tags[1].name`; "" for the document itself."""
    shown = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return shown.removeprefix(".")


def schema_at(schema: Any, path: Path) -> Any:
    """Return the schema of a place if it is unique; None for alternatives or nothing."""
    here = _follow_reference(schema, schema)
    for step in path:
        if not isinstance(here, dict):
            return None
        if isinstance(step, str):
            properties = here.get("properties")
            named = properties.get(step) if isinstance(properties, dict) else None
            here = here.get("additionalProperties") if named is None else named
        else:
            prefix = here.get("prefixItems")
            here = prefix[step] if isinstance(prefix, list) and step < len(prefix) else here.get("items")
        here = _follow_reference(schema, here)
    return here


def describe_bounds(schema: Any) -> str:
    """Describe the bounds of one value in a schema in a few words; "" without any."""
    if not isinstance(schema, dict):
        return ""
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if isinstance(schema.get("enum"), list):
        values = [json.dumps(value, ensure_ascii=False) for value in schema["enum"][:_MOST_NAMED]]
        return "one of " + ", ".join(values) + (" …" if len(schema["enum"]) > _MOST_NAMED else "")
    bounds = []
    for low, high, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ):
        least, most = schema.get(low), schema.get(high)
        if least is not None and most is not None:
            bounds.append(f"{least} to {most}{unit}")
        elif least is not None:
            bounds.append(f"at least {least}{unit}")
        elif most is not None:
            bounds.append(f"at most {most}{unit}")
    if isinstance(schema.get("pattern"), str):
        bounds.append(f"/{schema['pattern']}/")
    if isinstance(schema.get("format"), str):
        bounds.append(str(schema["format"]))
    return ", ".join(bounds)


def resolve_pointer(schema: Any, pointer: str) -> Any:
    """Follow a reference within the schema; None where it points nowhere in it."""
    here = schema
    for part in pointer.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict):
            here = here.get(name)
        elif isinstance(here, list) and name.isdecimal() and len(name) < 7 and int(name) < len(here):
            here = here[int(name)]
        else:
            return None
    return here


def _follow_reference(schema: Any, here: Any) -> Any:
    seen = 0
    while isinstance(here, dict) and isinstance(here.get("$ref"), str) and seen < 100:
        here, seen = resolve_pointer(schema, here["$ref"]), seen + 1
    return here


def _build_path(levels: list[_Level]) -> Path:
    return tuple(level.step for level in levels)


def _is_closed(token: str) -> bool:
    return re.fullmatch(r'"(?:\\.|[^"\\])*"', token, re.DOTALL) is not None


def _open(token: str, *, last: bool) -> str:
    """Name what the last token leaves open; "" for nothing."""
    if token[0] == '"':
        return "" if _is_closed(token) else "a string"
    if token in _WORDS:
        return ""
    if token[0] in "-0123456789":
        return "a number" if last or not token[-1].isdecimal() else ""
    return "a word"
