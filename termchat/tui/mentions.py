"""Files that a message names as `@path`: finding them in a text, and the text that goes to the model with them.

What the model gets is the message as it was written, then each file in a fenced block under its name, and the chat shows just
that. A word behind an @ that names no file is a word. A file that stands in the message already, since it was sent before,
is not put in twice.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from termchat.text import size

LARGEST = 2_000_000
"""Bytes of the largest file that is put into a message."""
_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|([^\s"]\S*))')
_STOPS = ".,;:!?)]}'"
_LOOKED_AT = 8192
"""Bytes at the beginning of a file that say whether it is text."""


class Unreadable(Exception):
    """A file cannot be put into a message; the message says which and why."""


class Included(NamedTuple):
    """A message with its files. `files` are the names and sizes in bytes of those that are in `text`."""

    text: str
    files: tuple[tuple[str, int], ...]


def mentions(text: str) -> Iterator[str]:
    """What stands behind an @, as it was written, each once."""
    seen: set[str] = set()
    for quoted, plain in _MENTION.findall(text):
        name = quoted or plain
        if name not in seen:
            seen.add(name)
            yield name


def include(written: str, message: str) -> Included:
    """The message with every file that is named in what was written. Reads the disk.

    Args:
        written: where names are looked for.
        message: what the files are put behind: the same, with all that was attached.

    Raises:
        Unreadable: a file that is named cannot be put in.
    """
    parts, files = [message], []
    for name in mentions(written):
        found = _find(name)
        if found is not None and f"\n\n{found[0]}\n```" not in message:
            shown, path = found
            text, length = _read(shown, path)
            files.append((shown, length))
            parts.append(_block(shown, text))
    return Included("\n\n".join(parts), tuple(files))


def _find(name: str) -> tuple[str, Path] | None:
    """The file that a name means, without the stops behind it if need be; None where there is none."""
    for shown in (name, name.rstrip(_STOPS)):
        if not shown:
            continue
        path = Path(shown)
        try:
            path = path.expanduser()
            path.lstat()
        except (OSError, RuntimeError, ValueError):
            continue
        return shown, path
    return None


def _read(shown: str, path: Path) -> tuple[str, int]:
    """The text of a file, and its bytes."""
    try:
        kind = path.stat()
        if stat.S_ISDIR(kind.st_mode):
            raise Unreadable(f"@{shown} is a folder: name a file in it")
        if not stat.S_ISREG(kind.st_mode):
            raise Unreadable(f"@{shown} is no ordinary file")
        with path.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise Unreadable(f"@{shown} cannot be read: {error.strerror or error}") from error
    if len(data) > LARGEST:
        raise Unreadable(f"@{shown} is too large: {size(max(kind.st_size, len(data)))}, at most {size(LARGEST)}")
    if b"\0" in data[:_LOOKED_AT]:
        raise Unreadable(f"@{shown} is not text")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n"), len(data)
    except UnicodeDecodeError as error:
        raise Unreadable(f"@{shown} is not UTF-8 text: byte {error.start}") from error


def _block(shown: str, text: str) -> str:
    """A fenced block, its fence longer than any in the text."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{shown}\n{fence}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"
