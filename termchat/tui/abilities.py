"""What the terminal can show, as far as its environment tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rich.console import Console
from textual.constants import COLOR_SYSTEM
from textual.filter import LineFilter

from termchat.tui.depth import Colorless, Depth
from termchat.tui.glyphs import Glyphs, Redrawn, glyphs_for

_SYSTEMS: dict[str | None, Depth] = {"standard": "16", "256": "256"}


class Abilities(NamedTuple):
    """How many colours a terminal has, and which characters."""

    depth: Depth = "truecolor"
    glyphs: Glyphs = "unicode"

    @property
    def filters(self) -> list[LineFilter]:
        """What lines go through before they are shown."""
        wanted = ((Colorless(), self.depth == "none"), (Redrawn(self.glyphs), self.glyphs != "unicode"))
        return [line_filter for line_filter, needed in wanted if needed]


EVERYTHING = Abilities()


def abilities_of(environ: Mapping[str, str], glyphs: str = "auto") -> Abilities:
    """By NO_COLOR (no-color.org: anything but nothing), TERM, COLORTERM and the locale; what is unknown has all colours.

    `glyphs` is the setting of that name.
    """
    console = Console(color_system=COLOR_SYSTEM, force_terminal=True, legacy_windows=False, _environ=environ)  # type: ignore[arg-type]
    depth: Depth = "none" if environ.get("NO_COLOR") else _SYSTEMS.get(console.color_system, "truecolor")
    return Abilities(depth, glyphs_for(environ, glyphs))
