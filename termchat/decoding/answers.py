"""The answer in a reply: the last match of a regular expression, or the value at a path of its JSON document."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import Any

from termchat.decoding.deadline import MATCHING, interrupt_after

Path = tuple[str | int, ...]

_PATH_BEGINS = ("$.", "$[")
_STEP = re.compile(r'\.([^.\[\]"]+)|\[(-?\d{1,9})\]|\[("(?:[^"\\]|\\.)*")\]')
_EXAMPLES = "for example: answer: (\\d+) or $.answer"
_DOCUMENT = re.compile(r"[\[{]")
_DEEP = 100
"""Levels that are passed over at a time where something is nested too deep to be read: so no text takes long."""
_MISSING = object()


class AnswerError(ValueError):
    """A pattern or path that extracts no answers. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def answer_reader(answer: str) -> Callable[[str], str | None]:
    """Make a function that reads the answer out of a text; it returns None where the text has none.

    A JSON path (`$.a.b[0]`, `$["a b"]`) reads the last document of the text that has it: a string as it is, anything else
    as JSON. Everything else is a regular expression, with `^` and `$` at every line: the answer is its last match that is not
    empty, or of that the first group if it has groups. White space around an answer does not count.

    Raises:
        AnswerError: it is neither of the two, or the expression matches empty text; and when a text is read, it takes too long
            to match (only the main thread can stop it).
    """
    if is_path(answer):
        path = _parse_path(answer)
        return lambda text: _read_path(text, path)
    pattern = _compile_pattern(answer)
    return lambda text: _find_last(text, pattern)


def is_path(answer: str) -> bool:
    """Tell whether it is a JSON path, not a regular expression."""
    return answer.startswith(_PATH_BEGINS)


def _compile_pattern(answer: str) -> re.Pattern[str]:
    if not answer:
        raise AnswerError("a vote needs a regular expression or a JSON path", _EXAMPLES)
    try:
        pattern = re.compile(answer, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise AnswerError(f"{answer!r} is not a valid regular expression: {error}", _EXAMPLES) from None
    if pattern.search(""):
        raise AnswerError(f"{answer!r} matches empty text", "write a pattern that needs at least one character")
    return pattern


def _find_last(text: str, pattern: re.Pattern[str]) -> str | None:
    stoppable = threading.current_thread() is threading.main_thread()
    last = None
    try:
        with interrupt_after(MATCHING) if stoppable else nullcontext():
            for match in pattern.finditer(text):
                last = (match[1 if pattern.groups else 0] or "").strip() or last
    except TimeoutError:
        raise AnswerError(
            f"{pattern.pattern!r} takes too long to match", "avoid nested repeats such as (a+)+"
        ) from None
    return last


def _parse_path(answer: str) -> Path:
    steps: list[str | int] = []
    at = 1
    for step in _STEP.finditer(answer, at):
        if step.start() != at:
            break
        name, index, quoted = step.groups()
        steps.append(name or (int(index) if index else json.loads(quoted, strict=False)))
        at = step.end()
    if at < len(answer):
        place = f"at character {at + 1}"
        raise AnswerError(f"{answer!r} is not a JSON path ({place})", 'for example: $.answer, $.steps[0] or $["a b"]')
    return tuple(steps)


def _read_path(text: str, path: Path) -> str | None:
    last = None
    for document in _find_documents(text):
        value = _follow_path(document, path)
        if value is not _MISSING:
            last = value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return last or None


def _find_documents(text: str) -> Iterator[Any]:
    """Yield the JSON objects and arrays in a text, which may stand between prose or in a fence of Markdown."""
    read = json.JSONDecoder(strict=False).raw_decode
    at = 0
    while (begin := _DOCUMENT.search(text, at)) is not None:
        try:
            document, at = read(text, begin.start())
        except ValueError:
            at = begin.end()
        except RecursionError:
            *_, last = islice(_DOCUMENT.finditer(text, begin.start()), _DEEP)
            at = last.end()
        else:
            yield document


def _follow_path(value: Any, path: Path) -> Any:
    for step in path:
        named = isinstance(step, str) and isinstance(value, dict) and step in value
        counted = isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value)
        if not (named or counted):
            return _MISSING
        value = value[step]
    return value
