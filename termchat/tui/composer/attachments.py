"""What is attached to a message: long pastes, each a label while one writes, and files that the message names as `@path`.

The model gets the message with the pastes in place of their labels, then each file in a fenced block under its name; the chat
shows just that. A word behind an @ that names no file is a word. A file that is in the message already is not added twice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import NamedTuple

from termchat import regular_files
from termchat.text import size

EDITABLE = 200_000
"""The most characters that the composer shows as text,"""
LONGEST_LINE = 10_000
"""and of one line: beyond that a key takes longer than a frame."""
LARGEST_FILE = 1_000_000
"""Bytes of the largest file that is put into a message."""
_OPEN, _CLOSE = "\ue0f0", "\ue0f1"
_LABEL = re.compile(f"{_OPEN}[^{_OPEN}{_CLOSE}\n]*#([0-9]+){_CLOSE}")
_DRAWN = str.maketrans({_OPEN: "[", _CLOSE: "]"})
_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|([^\s"]\S*))')
_STOPS = ".,;:!?)]}'"
_PROBED = 8192
"""Bytes at the beginning of a file that show whether it is text."""


def is_editable(text: str) -> bool:
    """Return whether the composer stays quick with the text in it."""
    return len(text) <= EDITABLE and (len(text) <= LONGEST_LINE or max(map(len, text.split("\n"))) <= LONGEST_LINE)


def draw_labels(text: str) -> str:
    """Return a text as it is shown, of the same length."""
    return text.translate(_DRAWN) if _OPEN in text else text


class Attachments:
    """The texts that labels stand for, and the blocks of files: a message that comes back is as it was written."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}
        """By text its label; "" for the block of a file, whose name is in the message."""
        self._numbers = count(1)

    def hold(self, text: str) -> str:
        """Keep a text and return its label."""
        if not self._labels.get(text):
            lines = text.count("\n") + (not text.endswith("\n"))
            name = f"pasted {size(len(text.encode('utf-8', 'surrogatepass')))}, {lines:,} line{'s' * (lines != 1)}"
            self._labels[text] = f"{_OPEN}{name} #{next(self._numbers)}{_CLOSE}"
        return self._labels[text]

    def hide(self, blocks: Iterable[str]) -> None:
        """Keep the blocks of files that were sent behind a message, so that `fold` takes them away again."""
        self._labels |= dict.fromkeys(blocks, "")

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Return where the labels of a line begin and end."""
        if _OPEN not in line:
            return []
        return [match.span() for match in _LABEL.finditer(line) if match[0] in self._labels.values()]

    def unfold(self, written: str) -> str:
        """Replace labels by the texts that they stand for."""
        if _OPEN not in written:
            return written
        texts = {label: text for text, label in self._labels.items()}
        return _LABEL.sub(lambda match: texts.get(match[0], match[0]), written)

    def fold(self, text: str) -> str:
        """Replace attachments by their labels; a text that is still too long for the composer becomes an attachment."""
        for attached in sorted(self._labels, key=len, reverse=True):
            text = text.replace(attached, self._labels[attached])
        return text if is_editable(text) else self.hold(text)


class Unreadable(Exception):
    """A file cannot be put into a message; the message says which and why."""


class IncludedFile(NamedTuple):
    """A file of a message: its name, its size in bytes, and the block that the model gets behind the message."""

    name: str
    size: int
    block: str


def include(written: str, message: str) -> list[IncludedFile]:
    """Read the files that a text names, except those already in the message.

    Args:
        written: where names are looked for.
        message: the same with all attachments.

    Raises:
        Unreadable: a file that is named cannot be put in.
    """
    files = []
    for mention in dict.fromkeys(quoted or plain for quoted, plain in _MENTION.findall(written)):
        name = next((one for one in (mention, mention.rstrip(_STOPS)) if _is_there(one)), "")
        if not name or f"\n\n{name}\n```" in message:
            continue
        text, length = _read_file(name)
        longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
        fence = "`" * (longest + 1)
        end = "" if text.endswith("\n") else "\n"
        files.append(IncludedFile(name, length, f"\n\n{name}\n{fence}\n{text}{end}{fence}"))
    return files


def _is_there(name: str) -> bool:
    try:
        Path(name).expanduser().lstat()
    except (OSError, RuntimeError, ValueError):  # the last two: an unknown ~user, a NUL
        return False
    return bool(name)


def _read_file(name: str) -> tuple[str, int]:
    """Return the text of a file and its size in bytes.

    Raises:
        Unreadable: it is no text, or too large.
    """
    path = Path(name).expanduser()
    try:
        with regular_files.opened(path) as opened:
            length, data = os.fstat(opened.fileno()).st_size, opened.read(LARGEST_FILE + 1)
    except regular_files.NotAFile as error:
        instead = "; name a file inside it" if path.is_dir() else ", not a regular file"
        raise Unreadable(f"@{name} is {error.kind}{instead}") from error
    except OSError as error:
        raise Unreadable(f"@{name} cannot be read: {error.strerror or error}") from error
    if len(data) > LARGEST_FILE:
        raise Unreadable(f"@{name} is too large: {size(max(length, len(data)))}, at most {size(LARGEST_FILE)}")
    if b"\0" in data[:_PROBED]:
        raise Unreadable(f"@{name} is not text")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n"), len(data)
    except UnicodeDecodeError as error:
        raise Unreadable(f"@{name} is not UTF-8 text (byte {error.start})") from error
