"""Which pages a group of walks has."""

from __future__ import annotations

from termchat.tui.pages.beams_page import BeamsPage
from termchat.tui.pages.grid_page import GridPage
from termchat.tui.pages.lockstep import LockstepPage
from termchat.tui.pages.page import Page
from termchat.tui.pages.parting import PartingPage
from termchat.tui.pages.shown_group import TEXT_PAGE, ShownGroup
from termchat.tui.pages.tally import RankingPage, VotePage
from termchat.tui.pages.walk_table import TablePage

_FIRST = {"grid": GridPage, "compare": LockstepPage, "best": RankingPage, "vote": VotePage, "beams": BeamsPage}
"""The page that groups of a kind are opened with, and only they have."""


def make_pages(shown: ShownGroup) -> list[Page]:
    """Make the pages of a group, in the order in which they are turned."""
    text, kind = Page(), shown.group.group.kind
    text.name = TEXT_PAGE
    return [*([_FIRST[kind](shown)] if kind in _FIRST else []), text, PartingPage(shown), TablePage(shown)]
