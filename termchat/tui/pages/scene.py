"""A page of the panels or of a group of walks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from termchat.conversation.tree import Node, Span
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.transcript.tokens import TokenRef

HERE = Ink("cursor", ground="panel", bold=True)
"""The ink of a token under the cursor."""


class Scene(NamedTuple):
    """The room of a page: `width` cells and `rows` lines. A `big` one has all the screen, and hides the text that it is
    about."""

    width: int
    rows: int
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


def index_of(reply: Sequence[Span], ref: TokenRef | None) -> int | None:
    """Count the tokens of a reply before one of them; None for a token that is not in it."""
    before = 0
    for span in reply:
        if ref is not None and span.node.number == ref.node and ref.index < span.count:
            return before + ref.index
        before += span.count
    return None


def locate_token(reply: Sequence[Span], index: int) -> tuple[Node, int]:
    """Locate a token of a reply, counted over all its pieces: its node, and its place there."""
    for span in reply:
        if index < span.count:
            return span.node, index
        index -= span.count
    raise IndexError("the reply has fewer tokens")


def texts_between(reply: Sequence[Span], begin: int, end: int) -> list[str]:
    """List the texts of the tokens from `begin` to before `end`, counted over all pieces of a reply."""
    texts: list[str] = []
    before = 0
    for span in reply:
        texts += span.node.tokens.texts[max(begin - before, 0) : max(min(end - before, span.count), 0)]
        before += span.count
    return texts
