"""A page of the panels or of a group of walks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from termchat.conversation.tree import Node, Span
from termchat.tui.draw.ink import Ink, Line

HERE = Ink("cursor", ground="panel", bold=True)
"""The ink of a token under the cursor."""


class Scene(NamedTuple):
    """The room of a page: `width` cells and `rows` lines, of the `height` of the widget. A `big` one has all the screen, and
    hides the text that it is about."""

    width: int
    rows: int
    height: int = 0
    big: bool = False


class Page:
    """Lines about the source of the page, and the keys that mean something else while it is shown.

    A page with a cursor keeps it among the lines that fit; other pages may have more lines than that, and are scrolled.
    """

    name = ""
    words: Mapping[str, str] = {}
    """Labels of the keys that do something else here, by the ids of the keys (see `keys.tables.working`)."""

    def lines(self, scene: Scene) -> Sequence[Line]:
        """Render the page."""
        return ()

    def act(self, what: str, *arguments: object) -> bool:
        """Run the action of a key (its name and arguments in `keys.tables`); False for its usual action."""
        return False


def by_of(arguments: Sequence[object]) -> int:
    """Return the number that the action of a key has, 0 for none."""
    return arguments[0] if arguments and isinstance(arguments[0], int) else 0


def first_in_view(at: int, count: int, rows: int) -> int:
    """Return the first of `rows` lines around line `at` of `count`."""
    return max(min(at - rows // 2, count - rows), 0)


def unread_spans(before: Sequence[Span], now: Sequence[Span]) -> list[tuple[Node, int, int]] | None:
    """List the parts of a reply from the last one that was read before: node, first new token, and the one behind the last.
    None for another reply, and for one that was cut."""
    last = len(before) - 1
    for at, then in enumerate(before):
        grew = now[at].count - then.count if at < len(now) and now[at].node is then.node else -1
        if grew < 0 or (grew and at < last):
            return None
    parts = enumerate(now[max(last, 0) :])
    return [(part.node, before[-1].count if before and at == 0 else 0, part.count) for at, part in parts]
