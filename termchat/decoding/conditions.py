"""Conditions that end or pause a reply, how people write them, and the text that a stop sequence holds back."""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Callable, Iterable
from typing import Literal, get_args

import msgspec

from termchat.decoding.escapes import escape, unescape, well_formed

Action = Literal["stop", "pause"]


class Stop(msgspec.Struct, frozen=True, tag_field="condition", tag="stop"):
    """The reply's text holds `text`; it and what follows are never shown."""

    text: str
    action: Action = "stop"


class Length(msgspec.Struct, frozen=True, tag_field="condition", tag="length"):
    """The reply has `tokens` tokens: as many as the knob says, and `extra` for one that goes on beyond it or begins with a text
    that was prescribed."""

    tokens: int
    action: Action = "stop"
    extra: int = 0


Measure = Literal["entropy", "p_end", "survivors", "model", "probability", "rank"]
"""What a threshold looks at, named as in a `Token` record: of the step's distribution the first three (`survivors` is what the
whole chain left), of the token about to be taken the others. `model` is the model's own probability of it, the exponential of
`logprob`; `probability`, which is after the whole chain, people write as `after`."""


class Threshold(msgspec.Struct, frozen=True, tag_field="condition", tag="threshold"):
    """A measure of the step that is about to be taken is above or below a value; it is met before the token is taken."""

    measure: Measure
    sign: Literal[">", "<"]
    value: float
    action: Action = "pause"


class Every(msgspec.Struct, frozen=True, tag_field="condition", tag="every"):
    """Before step `tokens`, 2 `tokens`, …; the first token of a reply is step 0."""

    tokens: int
    action: Action = "pause"


class Text(msgspec.Struct, frozen=True, tag_field="condition", tag="text"):
    """The reply's text has come to hold `pattern`, as it stands or as a regular expression; it is met after the token."""

    pattern: str
    regex: bool = False
    action: Action = "pause"


class ThinkingBudget(msgspec.Struct, frozen=True, tag_field="condition", tag="thinking"):
    """The thoughts have `tokens` tokens; their end is forced, and the answer follows."""

    tokens: int
    action: Literal["answer"] = "answer"


Condition = Stop | Length | Threshold | Every | Text | ThinkingBudget
Rule = Threshold | Every | Text
"""The conditions that people write; the others are knobs."""


class ConditionError(ValueError):
    """Not a condition. The message says what is wrong and shows how to write it."""


_RANGES: dict[Measure, tuple[float, float, str]] = {
    "entropy": (0, math.inf, "entropy > 3"),
    "p_end": (0, 1, "p_end > 0.5"),
    "survivors": (1, math.inf, "survivors < 2"),
    "model": (0, 1, "model < 0.05"),
    "probability": (0, 1, "after < 0.05"),
    "rank": (0, math.inf, "rank > 10"),
}
"""What each measure can be, and an example."""
_ALSO = {"p(end)": "p_end", "after": "probability"}
_WRITTEN: dict[Measure, str] = {"probability": "after"}
_SIGNS: dict[str, Literal[">", "<"]] = {">": ">", "<": "<"}
_THRESHOLD = re.compile(r"([^\s<>=]+)\s*([<>]=?|=+|)\s*(.*)")
EXAMPLES = (*(example for _, _, example in _RANGES.values()), "every 20", 'text "foo"', "/fo+/", "stop entropy > 3")
"""One of each kind, for help and messages."""


def parse(text: str) -> Rule:
    r"""The condition that a person wrote; `EXAMPLES` shows every kind.

    `stop` or `pause` (which may be left out) before it says what is done when it is met. A text takes the escapes of
    `escapes.unescape`; a regular expression stands between slashes as it is, with `^` and `$` at every line.

    Raises:
        ConditionError: it is not a condition, or could never be met.
    """
    rest = text.strip()
    action: Action = "pause"
    for word in get_args(Action):
        if rest.lower().startswith(word) and rest[len(word) : len(word) + 1].isspace():
            action, rest = word, rest[len(word) :].strip()
            break
    if rest.startswith("/"):
        return _parse_regex(rest, action)
    head = re.match(r"[a-z]*", rest.lower())
    reader = _READERS.get(head[0] if head else "")
    return reader(rest, action) if reader is not None else _parse_threshold(rest, action)


def describe(condition: Condition) -> str:
    """The condition as people write it: `parse` makes the same of it. Stop sequences and lengths go by their knob's name."""
    if isinstance(condition, Stop):
        return f'stop sequence "{escape(condition.text)}"'
    if isinstance(condition, Length):
        return f"max_tokens {condition.tokens}"
    if isinstance(condition, ThinkingBudget):
        return f"think {condition.tokens}"
    action = "stop " if condition.action == "stop" else ""
    if isinstance(condition, Threshold):
        value = repr(float(condition.value)).removesuffix(".0")
        return f"{action}{_WRITTEN.get(condition.measure, condition.measure)} {condition.sign} {value}"
    if isinstance(condition, Every):
        return f"{action}every {condition.tokens}"
    return action + (f"/{condition.pattern}/" if condition.regex else f'text "{escape(condition.pattern)}"')


def compiled(condition: Text) -> re.Pattern[str]:
    """What finds the condition's text.

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


def _parse_regex(text: str, action: Action) -> Text:
    if len(text) < 2 or not text.endswith("/"):
        raise ConditionError("end the regular expression with a slash, for example: /fo+/")
    condition = Text(well_formed(text[1:-1]), regex=True, action=action)
    compiled(condition)
    return condition


def _parse_text(text: str, action: Action) -> Text:
    quoted = text[len("text") :].strip()
    if len(quoted) < 2 or not (quoted[0] == quoted[-1] == '"'):
        raise ConditionError('put the text in double quotes, for example: text "foo"')
    condition = Text(well_formed(unescape(quoted[1:-1])), action=action)
    compiled(condition)
    return condition


def _parse_every(text: str, action: Action) -> Every:
    count = text[len("every") :].strip()
    if not (count.isascii() and count.isdigit() and len(count) < 10 and int(count)):
        raise ConditionError(f"every needs a whole number of tokens, at least 1, not {count!r}; for example: every 20")
    return Every(int(count), action)


_READERS: dict[str, Callable[[str, Action], Rule]] = {"text": _parse_text, "every": _parse_every}
"""First word to how the rest is read; anything else is a threshold."""


def _parse_threshold(text: str, action: Action) -> Threshold:
    found = _THRESHOLD.fullmatch(text)
    word = found[1].lower() if found else ""
    measure = next((name for name in _RANGES if name == _ALSO.get(word, word)), None)
    if found is None or measure is None:
        raise ConditionError(f"{text!r} is not a condition; examples: {', '.join(EXAMPLES)}")
    low, high, example = _RANGES[measure]
    sign = _SIGNS.get(found[2])
    if sign is None:
        raise ConditionError(f"compare {measure} with > or <, for example: {example}")
    try:
        value = float(found[3])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ConditionError(f"{measure} needs a number, not {found[3]!r}; for example: {example}")
    if not (low <= value < high if sign == ">" else low < value <= high):
        span = f"from {low:g} to {high:g}" if math.isfinite(high) else f"{low:g} or more"
        raise ConditionError(f"{measure} is {span}, so it is never {sign} {value:g}; for example: {example}")
    return Threshold(measure, sign, value, action)


class TextGate:
    """Bytes of tokens in, text that may be shown out.

    Two things hold text back: a character whose bytes are not all there yet, and text that may still become a stop
    sequence. Nothing that belongs to a stop sequence ever leaves the gate.
    """

    def __init__(self, stops: Iterable[str] = ()) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops: tuple[str, ...] = tuple(stops)
        self._held = ""
        self._shown = ""
        self.stopped_by: str | None = None

    @property
    def held(self) -> str:
        """The text withheld at this moment; half characters are not part of it until `finish`."""
        return self._held

    def set_stops(self, stops: Iterable[str]) -> None:
        """Other stop sequences from the next token on; what they no longer hold comes out with it."""
        self._stops = tuple(stops)

    def push(self, data: bytes) -> str:
        """The text that this token lets out; "" while it is held. After a stop nothing comes out any more."""
        return self._gate(self._decoder.decode(data))

    def release(self) -> str:
        """The text still held, when no further token comes for now; half a character waits for its other half."""
        if self.stopped_by is not None:
            return ""
        shown, self._held = self._held, ""
        return shown

    def finish(self) -> None:
        """The reply is over: half a character becomes U+FFFD, in `held` as all that is not out yet."""
        self._held += self._decoder.decode(b"", final=True)

    def resume(self, data: bytes) -> None:
        """Takes the bytes of a reply that goes on, all shown already: no text comes out of them.

        An unfinished character is completed by the next token, and a stop sequence may begin in what was shown.
        """
        text = self._decoder.decode(data)
        self._shown = text[len(text) - self._open_tail(text) :]

    def _gate(self, text: str) -> str:
        if self.stopped_by is not None:
            self._held += text
            return ""
        if not self._stops and not self._held:
            return text
        text = self._held + text
        before = len(self._shown)
        whole = self._shown + text
        found = min(((whole.find(stop), -len(stop), stop) for stop in self._stops if stop in whole), default=None)
        if found is not None:
            cut = max(found[0] - before, 0)
            self.stopped_by, self._held = found[2], text[cut:]
            return text[:cut]
        tail = self._open_tail(whole)
        if tail <= len(text):
            self._shown = ""
        keep = len(text) - min(tail, len(text))
        self._held = text[keep:]
        return text[:keep]

    def _open_tail(self, text: str) -> int:
        """Length of the longest end of `text` with which a stop sequence could begin."""
        longest = 0
        for stop in self._stops:
            for size in range(min(len(stop) - 1, len(text)), longest, -1):
                if text.endswith(stop[:size]):
                    longest = size
                    break
        return longest
