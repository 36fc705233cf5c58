"""The views of a group of walks that Tab turns: one table, each row with what draws it and what the keys do there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from termchat.decoding.group import GroupKind
from termchat.tui.walks.walk_scene import TEXT_PAGE, PageBody, ReadPage


class WalksPage(NamedTuple):
    """A view of the walks. `make` makes its body when it is first turned to for a group; None for the text, which the view has
    widgets for. `kinds` are the kinds of groups that have it, none for all. `first`: groups of these kinds are opened with it.
    """

    name: str
    make: Callable[[], PageBody] | None
    kinds: tuple[GroupKind, ...] = ()
    first: bool = False


def _parting() -> PageBody:
    from termchat.tui.walks.walk_parting import PartingPage

    return PartingPage()


def _table() -> PageBody:
    from termchat.tui.walks.walk_table import table_lines

    return ReadPage(lambda scene: table_lines(scene.reader, scene.labels, scene.cursor, scene.width))


def _grid() -> PageBody:
    from termchat.tui.walks.grid_table import GridPage

    return GridPage()


def _lockstep() -> PageBody:
    from termchat.tui.walks.lockstep import LockstepPage

    return LockstepPage()


def _tally() -> PageBody:
    from termchat.tui.walks.tally import TallyPage

    return TallyPage()


def _beams() -> PageBody:
    from termchat.tui.walks.beams_page import BeamsPage

    return BeamsPage()


PAGES: tuple[WalksPage, ...] = (
    WalksPage("grid", _grid, ("grid",), first=True),
    WalksPage("A/B", _lockstep, ("compare",), first=True),
    WalksPage("ranking", _tally, ("best",), first=True),
    WalksPage("vote", _tally, ("vote",), first=True),
    WalksPage("beams", _beams, ("beams",), first=True),
    WalksPage(TEXT_PAGE, None),
    WalksPage("parting", _parting),
    WalksPage("table", _table),
)
"""In the order in which they are turned."""


def pages_of(kind: GroupKind) -> list[WalksPage]:
    return [page for page in PAGES if not page.kinds or kind in page.kinds]


def first_of(kind: GroupKind) -> WalksPage:
    pages = pages_of(kind)
    return next((page for page in pages if page.first), pages[0])
