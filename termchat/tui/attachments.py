"""Long pasted texts: the composer holds a short label for each, which is drawn, moved over and deleted as one thing.

A label begins and ends with a private-use character, so that nothing a person types or pastes is one by accident.
"""

from __future__ import annotations

import re
from itertools import count

from termchat.text import size

LINES = 10
"""A paste of more lines becomes an attachment,"""
CHARACTERS = 2_000
"""or of more characters."""
EDITABLE = 200_000
"""The most characters that are put into the field as text,"""
LONGEST_LINE = 10_000
"""and of one line: beyond that a key takes longer than a frame."""
LARGEST = 16_000_000
"""Characters of the largest attachment: no context holds as much."""
_MEMORY = 64_000_000
"""Characters of attachments that are remembered; the oldest which are no longer in use go first."""
_OPEN, _CLOSE = "\ue0f0", "\ue0f1"
_LABEL = re.compile(f"{_OPEN}[^{_OPEN}{_CLOSE}\n]*#([0-9]+){_CLOSE}")
_DRAWN = str.maketrans({_OPEN: "[", _CLOSE: "]"})


def is_long(text: str) -> bool:
    """Whether a paste is better shown as a label."""
    return len(text) > CHARACTERS or text.count("\n") >= LINES


def is_editable(text: str) -> bool:
    """Whether a text can be shown in the field as it is."""
    return len(text) <= EDITABLE and (len(text) <= LONGEST_LINE or max(map(len, text.split("\n"))) <= LONGEST_LINE)


def drawn(text: str) -> str:
    """A text as it is shown, of the same length."""
    return text.translate(_DRAWN) if _OPEN in text else text


def _put_back(text: str, sent: str, written: str) -> str:
    """The text with what was written in the place of what was sent for it."""
    if len(sent) == len(text):  # most often; to look for megabytes in megabytes takes much longer than to compare them
        return written if sent == text else text
    return text.replace(sent, written) if len(sent) < len(text) else text


class Attachments:
    """What the labels stand for. Those that were sent are remembered, so that a message that comes back has them again."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._sent: dict[str, str] = {}
        self._numbers = count(1)

    def hold(self, text: str, beside: str = "") -> str:
        """Keeps a text; returns the label that stands for it. `beside` is what is written by now."""
        known = next((label for label, held in self._texts.items() if held == text), None)
        if known is not None:
            return known
        lines = text.count("\n") + (not text.endswith("\n"))
        label = f"pasted {size(len(text.encode('utf-8', 'surrogatepass')))}, {lines:,} line{'s' * (lines != 1)}"
        label = f"{_OPEN}{label} #{next(self._numbers)}{_CLOSE}"
        self._texts[label] = text
        self._forget(beside + label)
        return label

    def held(self, label: str) -> str:
        """What a label stands for."""
        return self._texts[label]

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where the labels of a line begin and end."""
        if _OPEN not in line:
            return []
        return [found.span() for found in _LABEL.finditer(line) if found[0] in self._texts]

    def unfold(self, written: str) -> str:
        """The text with what every label stands for in its place."""
        if _OPEN not in written:
            return written
        return _LABEL.sub(lambda found: self._texts.get(found[0], found[0]), written)

    def remember(self, sent: str, written: str) -> None:
        """This was sent for what was written; `fold` finds it again."""
        if sent != written:
            self._forget(written)
            self._sent.pop(sent, None)
            self._sent[sent] = written

    def fold(self, text: str) -> str:
        """The text as it was written, as far as it is known; what is too long for the field then is an attachment."""
        for sent, written in sorted(self._sent.items(), key=lambda pair: -len(pair[0])):
            text = _put_back(text, sent, written)
        for label, held in sorted(self._texts.items(), key=lambda pair: -len(pair[1])):
            text = _put_back(text, held, label)
        return text if is_editable(text) else self.hold(text)

    def _forget(self, written: str) -> None:
        """Lets the oldest go while there is too much; what is `written` stays."""
        total = sum(map(len, self._texts.values())) + sum(map(len, self._sent))
        while total > _MEMORY and self._sent:
            oldest = next(iter(self._sent))
            total -= len(oldest)
            del self._sent[oldest]
        for label in [label for label in self._texts if label not in written]:
            if total > _MEMORY:
                total -= len(self._texts.pop(label))
