"""Which theme is worn: the one the user wants, or the one that suits the terminal's background."""

from __future__ import annotations

import os
from collections.abc import Mapping

from termchat.chat.changes import Notice
from termchat.text import guess_of, one_line
from termchat.tui.shelf import Shelf
from termchat.tui.themes import AUTO, LoadedTheme


class Wardrobe:
    """`wanted` is a theme's name or "auto"; `dark` is what is known of the terminal's background."""

    def __init__(self, shelf: Shelf, wanted: str = AUTO, environ: Mapping[str, str] | None = None) -> None:
        self.shelf, self.wanted = shelf, wanted
        self.dark = _guessed(os.environ if environ is None else environ)

    def worn(self) -> LoadedTheme:
        """The theme that is to be shown."""
        return self.of(self.wanted)

    def of(self, wanted: str) -> LoadedTheme:
        """The theme of that name; for "auto", and where it cannot be shown, the one that suits the background."""
        found = None if wanted == AUTO else self.shelf.get(wanted)
        return found or self.shelf.fitting(dark=self.dark)

    def missing(self, place: str = "") -> list[Notice]:
        """What to tell a user whose theme cannot be shown for its file's sake; "" and few colours are no mistakes of theirs.

        `place` is where the theme was asked for.
        """
        there = self.wanted == AUTO or self.shelf.depth in ("none", "16") or self.shelf.get(self.wanted) is not None
        problems = [Notice(str(problem), severity="warning") for problem in self.shelf.problems]
        if there:
            return problems
        known = [AUTO, *self.shelf.all()]
        said = f"there is no theme {one_line(self.wanted, 40)!r}{guess_of(self.wanted, known)}"
        said = f"{place}: {said}" if place else said
        return [*problems, Notice(said, f"there are {', '.join(known)}", "warning")]


def _guessed(environ: Mapping[str, str]) -> bool:
    """Whether the background is dark, by what some terminals say in COLORFGBG: "15;0" is white on black."""
    return environ.get("COLORFGBG", "").rpartition(";")[2] not in ("7", "15")
