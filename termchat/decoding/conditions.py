"""Conditions that end or pause a reply, how people write them, and the text that a stop sequence holds back."""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from termchat.decoding.escapes import escape, unescape, well_formed

Action = Literal["stop", "pause"]


class Stop(msgspec.Struct, frozen=True, tag_field="condition", tag="stop"):
    """The reply's text holds `text`; it and what follows are never shown."""

    text: str
    action: Action = "stop"


class Length(msgspec.Struct, frozen=True, tag_field="condition", tag="length"):
    """The reply has `tokens` tokens: the knob's number, and `extra` for one that continues beyond it or begins with a
    prescribed text.
    """

    tokens: int
    action: Action = "stop"
    extra: int = 0


Measure = Literal["entropy", "p_end", "survivors", "model", "probability", "rank"]
"""What a threshold looks at, named as in a `Token` record: of the step's distribution the first three (`survivors` is what the
whole chain left), of the token about to be taken the others. `model` is the model's own probability of it, the exponential of
`logprob`; `probability`, which is after the whole chain, people write as `after`."""


class Threshold(msgspec.Struct, frozen=True, tag_field="condition", tag="threshold"):
    """A measure of the pending step is above or below a value, `steps` times in a row; met before the token is taken."""

    measure: Measure
    sign: Literal[">", "<"]
    value: float
    action: Action = "pause"
    steps: int = 1


class Every(msgspec.Struct, frozen=True, tag_field="condition", tag="every"):
    """Before step `tokens`, 2 `tokens`, …; the first token of a reply is step 0."""

    tokens: int
    action: Action = "pause"


class Text(msgspec.Struct, frozen=True, tag_field="condition", tag="text"):
    """The reply's text contains `pattern`, as plain text or regular expression; met after the token."""

    pattern: str
    regex: bool = False
    action: Action = "pause"


Quantity = Literal["seconds", "sentences", "lines", "paragraphs"]


class After(msgspec.Struct, frozen=True, tag_field="condition", tag="after"):
    """The reply has so much text, or has streamed for so long; met once, before the following token is taken.

    Seconds count from the first token of the reply or of its continuation, without pauses; the others from the first token of
    the reply (`units`), so that a reply that goes on beyond them is not held by them again.
    """

    amount: float
    quantity: Quantity
    action: Action = "pause"


class Loop(msgspec.Struct, frozen=True, tag_field="condition", tag="loop"):
    """The reply says the same tokens again and again (`repetition`); it is met once a repetition, before the token that would
    go on with it."""

    action: Action = "pause"


class IgnoreEnd(msgspec.Struct, frozen=True, tag_field="condition", tag="ignore_end"):
    """The reply continues past an end token, which is recorded and shown as a mark."""

    action: Literal["ignore"] = "ignore"


class ThinkingBudget(msgspec.Struct, frozen=True, tag_field="condition", tag="thinking"):
    """The thoughts have `tokens` tokens; their end is forced, and the answer follows."""

    tokens: int
    action: Literal["answer"] = "answer"


Condition = Stop | Length | Threshold | Every | Text | After | Loop | IgnoreEnd | ThinkingBudget
Rule = Threshold | Every | Text | After | Loop | IgnoreEnd
"""The conditions that people write; the others are knobs."""


class ConditionError(ValueError):
    """Text that is no condition: the place `at` in characters, and the `message` with the fault and how to write it."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(f"at character {at + 1}: {message}" if at else message)
        self.message, self.at = message, at


_RANGES: dict[Measure, tuple[float, float, str]] = {
    "entropy": (0, math.inf, "entropy > 3"),
    "p_end": (0, 1, "p_end > 0.5"),
    "survivors": (1, math.inf, "survivors < 2"),
    "model": (0, 1, "p_token < 0.05"),
    "probability": (0, 1, "after < 0.05"),
    "rank": (0, math.inf, "rank > 10"),
}
"""What each measure can be, and an example."""
_ALSO = {"p(end)": "p_end", "after": "probability", "p_token": "model"}
_WRITTEN: dict[Measure, str] = {"probability": "after", "model": "p_token"}
_SIGNS: dict[str, Literal[">", "<"]] = {">": ">", "<": "<"}
_THRESHOLD = re.compile(r"([^\s<>=]+)\s*([<>]=?|=+|)\s*(.*?)(?:\s+for\b\s*(.*))?", re.IGNORECASE)
_AFTER = re.compile(r"after\s*([^\s<>=]\S*?)\s*([a-z]*)", re.IGNORECASE)
_QUANTITIES: dict[str, Quantity] = {
    "s": "seconds", "sec": "seconds", "second": "seconds", "seconds": "seconds",
    "sentence": "sentences", "sentences": "sentences", "line": "lines", "lines": "lines",
    "paragraph": "paragraphs", "paragraphs": "paragraphs",
}  # fmt: skip
_MOST = 999_999_999
"""Tokens, steps, sentences …"""
EXAMPLES = (
    *(example for _, _, example in _RANGES.values()), "entropy > 4 for 5", "every 20", "after 30 s", "after 3 sentences",
    "after 10 lines", "after 2 paragraphs", 'text "foo"', "/fo+/", "loop", "ignore end", "stop entropy > 3",
)  # fmt: skip
"""One of each kind, for help and messages."""


def parse(text: str, action: Action = "pause") -> Rule:
    r"""Parse a condition; `EXAMPLES` shows every kind.

    `stop` or `pause` before it says what is done when it is met; without either, `action` is. A text takes the escapes of
    `escapes.unescape`; a regular expression stands between slashes as it is, with `^` and `$` at every line.

    Raises:
        ConditionError: it is not a condition, or could never be met.
    """
    rest = text.strip()
    for word in ("stop", "pause"):
        if rest.lower().startswith(word) and rest[len(word) : len(word) + 1].isspace():
            action, rest = "stop" if word == "stop" else "pause", rest[len(word) :].strip()
            break
    try:
        return _parse(rest, action)
    except ConditionError as error:
        # The rest is the end of the text, but for white space.
        at = min(len(text.rstrip()) - len(rest) + error.at, len(text))
        raise ConditionError(error.message, at) from None


def _parse(rest: str, action: Action) -> Rule:
    head = re.split(r"[^a-z]", rest.lower(), maxsplit=1)[0]
    if rest.startswith("/"):
        if len(rest) < 2 or not rest.endswith("/"):
            raise ConditionError("end the regular expression with a slash, for example: /fo+/", len(rest))
        return _check_text(Text(well_formed(rest[1:-1]), regex=True, action=action))
    if head == "text":
        quoted = rest[len("text") :].strip()
        if len(quoted) < 2 or not (quoted[0] == quoted[-1] == '"'):
            raise ConditionError('put the text in double quotes, for example: text "foo"', len(rest) - len(quoted))
        return _check_text(Text(well_formed(unescape(quoted[1:-1])), action=action))
    if head == "every":
        written = rest[len("every") :].strip()
        tokens = f"every needs a whole number of tokens, at least 1, not {written!r}; for example: every 20"
        return Every(_parse_count(written, tokens, len(rest) - len(written)), action)
    if head == "after" and _AFTER.match(rest):
        return _parse_after(rest, action)
    if head == "loop":
        if rest.lower() != "loop":
            raise ConditionError("write loop alone, for example: stop loop", len("loop"))
        return Loop(action)
    if head == "ignore":
        if rest.lower().split() != ["ignore", "end"]:
            raise ConditionError("only end can be ignored, for example: ignore end", len("ignore"))
        return IgnoreEnd()
    return _parse_threshold(rest, action)


def _check_text(condition: Text) -> Text:
    compile_text(condition)
    return condition


def _parse_count(text: str, error: str, at: int) -> int:
    """Return the whole number, at least 1, that a text is.

    Raises:
        ConditionError: it is none.
    """
    fits = text.isascii() and text.isdigit() and len(text.lstrip("0")) <= len(str(_MOST))
    if not fits or not int(text):
        raise ConditionError(error, at)
    return int(text)


def _parse_after(text: str, action: Action) -> After:
    match = _AFTER.fullmatch(text)
    quantity = _QUANTITIES.get(match[2].lower()) if match is not None else None
    if match is None or quantity is None:
        number = re.match(r"after\s*[\d.]*\s*", text, re.IGNORECASE)
        raise ConditionError(
            "after needs a number and s, sentences, lines or paragraphs; for example: after 30 s, after 3 sentences",
            number.end() if number is not None else 0,
        )
    written, at = match[1], match.start(1)
    if quantity != "seconds":
        whole = (
            f"after needs a whole number of {quantity}, at least 1, not {written!r}; for example: after 3 {quantity}"
        )
        return After(float(_parse_count(written, whole, at)), quantity, action)
    amount = _parse_finite(written)
    if not 0 < amount <= _MOST:
        raise ConditionError(f"after needs a number of seconds above 0, not {written!r}; for example: after 30 s", at)
    return After(amount, quantity, action)


def _parse_finite(text: str) -> float:
    """Return the number that a text is; NaN if it is none, or not finite."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _parse_threshold(text: str, action: Action) -> Threshold:
    match = _THRESHOLD.fullmatch(text)
    word = match[1].lower() if match else ""
    measure = next((name for name in _RANGES if name == _ALSO.get(word, word)), None)
    if match is None or measure is None:
        raise ConditionError(f"{text!r} is not a condition; examples: {', '.join(EXAMPLES)}")
    low, high, example = _RANGES[measure]
    name, sign = _WRITTEN.get(measure, measure), _SIGNS.get(match[2])
    if sign is None:
        raise ConditionError(f"compare {name} with > or <, for example: {example}", match.start(2))
    value = _parse_finite(match[3])
    if math.isnan(value):
        raise ConditionError(f"{name} needs a number, not {match[3]!r}; for example: {example}", match.start(3))
    if not (low <= value < high if sign == ">" else low < value <= high):
        span = f"from {low:g} to {high:g}" if math.isfinite(high) else f"{low:g} or more"
        raise ConditionError(
            f"{name} is {span}, so it is never {sign} {value:g}; for example: {example}", match.start(3)
        )
    if match[4] is None:
        return Threshold(measure, sign, value, action)
    steps = f"for needs a whole number of steps, at least 1, not {match[4]!r}; for example: {example} for 5"
    return Threshold(measure, sign, value, action, _parse_count(match[4].strip(), steps, match.start(4)))


def format_condition(condition: Condition) -> str:
    """Format a condition as `parse` reads it; stop sequences and lengths by their knob's name."""
    if isinstance(condition, Stop):
        return f'stop sequence "{escape(condition.text)}"'
    if isinstance(condition, Length):
        return f"max_tokens {condition.tokens}"
    if isinstance(condition, IgnoreEnd):
        return "ignore end"
    if isinstance(condition, ThinkingBudget):
        return f"think {condition.tokens}"
    action = "stop " if condition.action == "stop" else ""
    if isinstance(condition, Threshold):
        times = f" for {condition.steps}" if condition.steps > 1 else ""
        name = _WRITTEN.get(condition.measure, condition.measure)
        return f"{action}{name} {condition.sign} {_format_number(condition.value)}{times}"
    if isinstance(condition, Every):
        return f"{action}every {condition.tokens}"
    if isinstance(condition, After):
        word = "s" if condition.quantity == "seconds" else condition.quantity
        return f"{action}after {_format_number(condition.amount)} {word if condition.amount != 1 else word[:-1] or 's'}"
    if isinstance(condition, Loop):
        return f"{action}loop"
    return action + (f"/{condition.pattern}/" if condition.regex else f'text "{escape(condition.pattern)}"')


def is_of_text(condition: Condition) -> bool:
    """Tell whether a condition can be evaluated where only the text is known, and a reply can end, but not wait."""
    return isinstance(condition, Stop | Length) or (
        isinstance(condition, After | Text | Loop) and condition.action == "stop"
    )


def _format_number(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def compile_text(condition: Text) -> re.Pattern[str]:
    """Compile the pattern of a text condition.

    Raises:
        ConditionError: the pattern is empty, matches the empty text, or is not a valid regular expression.
    """
    if not condition.pattern:
        raise ConditionError('the text is empty; for example: text "foo"')
    if not condition.regex:
        return re.compile(re.escape(condition.pattern))
    try:
        pattern = re.compile(condition.pattern, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConditionError(
            f"/{condition.pattern}/ is not a valid regular expression: {error}; for example: /fo+/"
        ) from None
    if pattern.search(""):
        raise ConditionError(
            f"/{condition.pattern}/ matches empty text; write a pattern that needs at least one character, for example: /fo+/"
        )
    return pattern


class TextGate:
    """Bytes of tokens in, text that may be shown out.

    Two things hold text back: a character whose bytes are not all there yet, and text that may still become a stop
    sequence. Nothing that belongs to a stop sequence ever leaves the gate.
    """

    def __init__(self, stops: Iterable[str] = ()) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops: tuple[str, ...] = tuple(stops)
        self.held = ""
        """The text withheld at this moment; half characters are not part of it until `finish_reply`."""
        self._shown = ""
        self.stopped_by: str | None = None

    def set_stops(self, stops: Iterable[str]) -> None:
        """Change the stop sequences from the next token on; it releases the text that none of them withholds any more."""
        self._stops = tuple(stops)

    def push_bytes(self, data: bytes) -> str:
        """Add the bytes of a token; return the text to show, "" while it is withheld and after a stop."""
        text = self._decoder.decode(data)
        if self.stopped_by is not None:
            self.held += text
            return ""
        if not self._stops and not self.held:
            return text
        text = self.held + text
        before = len(self._shown)
        whole = self._shown + text
        first = min(((whole.find(stop), -len(stop), stop) for stop in self._stops if stop in whole), default=None)
        if first is not None:
            cut = max(first[0] - before, 0)
            self.stopped_by, self.held = first[2], text[cut:]
            return text[:cut]
        tail = self._open_tail(whole)
        if tail <= len(text):
            self._shown = ""
        keep = len(text) - min(tail, len(text))
        self.held = text[keep:]
        return text[:keep]

    def release_text(self) -> str:
        """Return the withheld text when no further token comes for now; half a character waits for its other half."""
        if self.stopped_by is not None:
            return ""
        released, self.held = self.held, ""
        return released

    def finish_reply(self) -> None:
        """End the reply: half a character becomes U+FFFD, in `held` with the rest of the withheld text."""
        self.held += self._decoder.decode(b"", final=True)

    def resume(self, data: bytes) -> None:
        """Take the bytes of a continued reply, all of them shown already.

        An unfinished character is completed by the next token, and a stop sequence may begin in what was shown.
        """
        text = self._decoder.decode(data)
        self._shown = text[len(text) - self._open_tail(text) :]

    def _open_tail(self, text: str) -> int:
        """Return the length of the longest end of `text` with which a stop sequence could begin."""
        sizes = (
            size
            for stop in self._stops
            for size in range(1, min(len(stop), len(text) + 1))
            if text.endswith(stop[:size])
        )
        return max(sizes, default=0)
