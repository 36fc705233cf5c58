"""Saved chats as lines: one row per chat with its match, and a preview of its last turns."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from termchat.conversation.session import SessionSummary
from termchat.conversation.tree import Role
from termchat.text import one_line
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, count, length
from termchat.tui.draw.wrap import Wrapper

_OPEN: Run = ("● ", Ink("success", bold=True))
_WHEN, _TURNS, _TOKENS, _MODEL = 11, 6, 8, 22
_MODEL_FROM = 64
"""Cells from which there is room for the model."""
_LEAST_TITLE = 12
_ROOMY = 12
"""Lines from which dates are worth one."""
_MARKED = re.compile("([\x02\x03])")
_HIT = Ink("accent", bold=True)
_DAY = 86_400
_SPEAKERS: dict[Role, tuple[Run, Ink]] = {
    "user": (("› ", ACCENT), Ink("user")),
    "assistant": (("  ", TEXT), TEXT),
}


class _Columns(NamedTuple):
    """Cells of the columns, 0 for those there is no room for. While something is searched for, `match` says where it stands,
    in the place of the numbers."""

    title: int
    match: int
    model: int
    numbers: bool

    @classmethod
    def of(cls, width: int, *, searching: bool) -> _Columns:
        left = max(width - 2 - _WHEN, 1)
        if searching and left > 3 * _LEAST_TITLE:
            title = left * 2 // 5
            return cls(title, left - title, 0, False)
        numbers = left >= _LEAST_TITLE + _TURNS + _TOKENS
        left -= _TURNS + _TOKENS if numbers else 0
        model = min(_MODEL, left // 3) if width >= _MODEL_FROM else 0
        return cls(left - model, 0, model, numbers)


def heading(width: int, *, searching: bool) -> Line:
    columns = _Columns.of(width, searching=searching)
    text = "  " + column("TITLE", columns.title) + column("MATCH", columns.match) + column("MODEL", columns.model)
    text += column("USED", _WHEN)
    if columns.numbers:
        text += column("TURNS", _TURNS, right=True) + column("TOKENS", _TOKENS, right=True)
    return Line(((text, TITLE),), "surface")


def session_line(
    row: SessionSummary, width: int, now: float, *, searching: bool, opened: bool = False, chosen: bool = False
) -> Line:
    """A chat on one line; `opened`: it is the one on the screen. `now` is in seconds since the epoch."""
    columns = _Columns.of(width, searching=searching)
    runs: list[Run] = [_OPEN if opened else ("  ", TEXT)]
    title = column(one_line(row.called, max(columns.title - 2, 1)), columns.title)
    runs.append((title, STRONG if opened else TEXT if row.title else MUTED))
    if columns.match:
        found = matched(row.snippet, columns.match - 2)
        runs += [*found, (" " * (columns.match - length(found)), TEXT)]
    if columns.model:
        runs.append((column(one_line(row.model, columns.model - 2), columns.model), MUTED))
    runs.append((column(when(row.updated, now), _WHEN), MUTED))
    if columns.numbers:
        runs.append((column(str(row.turns), _TURNS, right=True) + column(count(row.tokens), _TOKENS, right=True), TEXT))
    return Line(tuple(runs), "panel" if chosen else "")


def when(moment: float, now: float) -> str:
    """A moment as people say it, at most ten cells: 14:05, Tue 14:05, 3 Nov, 2025-11-03."""
    then, today = time.localtime(moment), time.localtime(now)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    if 0 <= now - moment < 6 * _DAY:
        return time.strftime("%a %H:%M", then)
    if then.tm_year == today.tm_year:
        return f"{then.tm_mday} {time.strftime('%b', then)}"
    return time.strftime("%Y-%m-%d", then)


def matched(snippet: str, width: int) -> list[Run]:
    """A snippet with the matching words highlighted, the first of them always in view."""
    runs: list[Run] = []
    ink = MUTED
    for part in _MARKED.split(snippet):
        if part in ("\x02", "\x03"):
            ink = _HIT if part == "\x02" else MUTED
        elif part:
            runs.append((part.replace("\r\n", " ").replace("\n", " "), ink))
    if len(runs) > 1 and runs[0][1] is MUTED:
        runs[0] = (_end_of(runs[0][0], width // 3), MUTED)
    shown: list[Run] = []
    for text, shade in runs:
        room = width - length(shown)
        if room > 0:
            shown.append((one_line(text, room, cell_len), shade))
    return shown


def preview_lines(row: SessionSummary, said: Sequence[tuple[Role, str]] | None, width: int, height: int) -> list[Line]:
    """A chat's title and facts, then as much of its last turns as fits. `said` None means they are not read yet."""
    turns = f"{row.turns} turn" + ("s" if row.turns != 1 else "")
    facts = [turns, f"{count(row.tokens)} tokens", *([row.model] if row.model else [])]
    head = [Line(((one_line(row.called, width), STRONG),)), _muted(" · ".join(facts), width)]
    if height >= _ROOMY:
        head.append(_muted(f"started {_date(row.created)}, used {_date(row.updated)} {_clock(row.updated)}", width))
    room = height - len(head) - 1
    if room <= 0:
        return head[:height]
    if said is None:
        return [*head, BLANK, _muted("reading …", width)]
    return [*head, BLANK, *_last_lines(said, width, room)]


def _muted(text: str, width: int) -> Line:
    return Line(((one_line(text, width), MUTED),))


def _last_lines(said: Sequence[tuple[Role, str]], width: int, rows: int) -> list[Line]:
    lines: list[Line] = []
    for role, text in reversed(said):
        if len(lines) >= rows:
            break
        mark, ink = _SPEAKERS[role]
        wrapper = Wrapper(width, (mark,), (("  ", TEXT),))
        wrapper.feed(_end_of(text.strip(), width * rows), ink)
        lines = [*wrapper.lines, *lines]
    return lines[-rows:]


def _end_of(text: str, width: int) -> str:
    return text if len(text) <= width else "…" + text[len(text) - max(width - 1, 0) :]


def _date(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(moment))


def _clock(moment: float) -> str:
    return time.strftime("%H:%M", time.localtime(moment))
