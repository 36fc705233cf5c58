"""Notices and the queue, as lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from termchat.chat.changes import Notice
from termchat.text import one_line, sanitize
from termchat.tui.draw.ink import Ink, Line, doing
from termchat.tui.draw.marks import ACCENT, TEXT
from termchat.tui.keys.tables import name_of

_INKS = {"information": Ink("accent"), "warning": Ink("warning"), "error": Ink("error", bold=True)}
_MOST_LINES = 4
_MOST_QUEUED = 3
_LOOKED_AT = 2_000
"""Characters of a text that are drawn, at most."""
_TAKE_BACK = "  Up edits it"
_QUEUED, _HINT = Ink("muted", does="queue"), Ink("border")


def notice_lines(notices: Sequence[Notice], width: int, *, dead: bool = False) -> list[Line]:
    """What happened, and what to do about it; long texts are cut. `dead` adds the key that starts the engine again.

    A click takes a notice away.
    """
    lines = [
        Line(tuple(doing(f"forget_notice({at})", line.runs)), line.ground)
        for at, notice in enumerate(notices)
        for line in _notice(notice, width)
    ]
    if dead and lines:
        again = f"{name_of('continue')} starts the engine again"
        lines.append(_barred(again, ACCENT._replace(does="continue"), lines[-1].runs[0][1]))
    return lines


def _notice(notice: Notice, width: int) -> list[Line]:
    ink = _INKS[notice.severity]
    said = [(line, ink) for line in wrapped(notice.message, width - 2)]
    said += [(line, TEXT) for line in wrapped(notice.hint, width - 2)]
    return [_barred(line, shade, ink) for line, shade in said]


def _barred(text: str, ink: Ink, bar: Ink) -> Line:
    return Line((("▌ ", bar), (text, ink)), "panel")


def queue_lines(queue: Iterable[str], width: int) -> list[Line]:
    """The texts that wait, the next one first, and how the last is taken back. A click shows all of them."""
    texts = list(queue)
    shown, more = texts[:_MOST_QUEUED], len(texts) - _MOST_QUEUED
    lines: list[Line] = []
    for number, text in enumerate(shown, 1):
        hint = _TAKE_BACK if number == len(texts) else ""
        said = one_line(text[:_LOOKED_AT], width - 8 - len(hint))
        lines.append(Line((("queued  ", Ink("stamp", does="queue")), (said, _QUEUED), (hint, _HINT))))
    if more > 0:
        lines.append(Line(((f"        and {more} more", _QUEUED), (_TAKE_BACK, _HINT))))
    return lines


def wrapped(text: str, width: int) -> list[str]:
    """Foreign text on a few lines; what does not fit them is cut."""
    lines = textwrap.wrap(sanitize(text[:_LOOKED_AT], keep=""), max(width, 10))
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES - 1 :] = [lines[_MOST_LINES - 1] + " …"]
    return [one_line(line, width) for line in lines]
