"""Saved chats as rows for people and as objects for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from termchat.text import one_line

if TYPE_CHECKING:
    from termchat.conversation.session import SessionSummary

_TITLES = ("ID", "USED", "TURNS", "TOKENS", "MODEL", "TITLE")
_RIGHT = frozenset({"TURNS", "TOKENS"})
_TITLE = 80
"""Cells of a title, so that one long title does not make all lines long."""


def rows(found: Sequence[SessionSummary]) -> tuple[tuple[str, ...], list[tuple[str, ...]], frozenset[str]]:
    """Titles, rows and the columns that stand to the right, for `said.table`."""
    made: list[tuple[str, ...]] = [
        (one.id, moment(one.updated), f"{one.turns:,}", f"{one.tokens:,}", one.model, one_line(one.called, _TITLE))
        for one in found
    ]
    return _TITLES, made, _RIGHT


def moment(seconds: float) -> str:
    """A time since the epoch, as the clock on the wall had it."""
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M}"


def stamp(seconds: float) -> str:
    """A time since the epoch as ISO 8601, UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def plain(snippet: str) -> str:
    """A snippet without the marks around what matches."""
    return snippet.replace("\x02", "").replace("\x03", "")


def as_objects(found: Sequence[SessionSummary]) -> list[dict[str, Any]]:
    """Summaries for --json."""
    import msgspec

    return [
        msgspec.structs.asdict(one) | {"created": stamp(one.created), "updated": stamp(one.updated)} for one in found
    ]
