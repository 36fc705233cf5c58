"""What a step can meet: one family of conditions, and the text that a stop sequence holds back."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Literal

import msgspec

Action = Literal["stop", "pause"]


class Stop(msgspec.Struct, frozen=True, tag_field="condition", tag="stop"):
    """The reply's text holds `text`; it and what follows are never shown."""

    text: str
    action: Action = "stop"


class Length(msgspec.Struct, frozen=True, tag_field="condition", tag="length"):
    """The reply has `tokens` tokens."""

    tokens: int
    action: Action = "stop"


Measure = Literal["entropy", "p_end", "survivors", "probability", "rank"]
"""What a threshold looks at, named as in a `Token` record: of the step's distribution the first three (`survivors` is what the
whole chain left), of the token about to be taken the others."""


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


Condition = Stop | Length | Threshold | Every | Text


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
        """No token will ever follow: half a character becomes U+FFFD. What is not out yet stays in `held`."""
        if self.stopped_by is None:
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
