"""What a line of the transcript is made of, and how it gets its colours.

Layout speaks of inks by name and knows no colour; `Paint` turns a laid-out line into a strip in the colours of a palette.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from termchat.tui.themes import Palette

HEATS = 32
"""Steps of an ink's heat; a palette has fewer colours and takes the nearest."""

MARGIN = 1
"""Empty cells at the left of every line."""


class Ink(NamedTuple):
    """How text is painted, and what the mouse does with it.

    `color` and `ground` are names of palette colours; `heat` is 0 (hot) to HEATS - 1. `does` is an action of the screen that a
    click performs. `knob` is the name of the one that the wheel turns there; what has it and does nothing is that knob's bar,
    along which a drag sets it.
    """

    color: str = "text"
    ground: str = ""
    heat: int = -1
    bold: bool = False
    italic: bool = False
    strike: bool = False
    underline: bool = False
    does: str = ""
    knob: str = ""


Run = tuple[str, Ink]
"""Text in one ink."""


class Line(NamedTuple):
    """A laid-out line. `ground` names the colour that fills it to its full width, "" for the background."""

    runs: tuple[Run, ...]
    ground: str = ""

    @property
    def text(self) -> str:
        """The line's text, without the margin."""
        return "".join(text for text, _ in self.runs)


BLANK = Line(())


def doing(does: str, runs: Iterable[Run]) -> list[Run]:
    """The runs, of which a click performs that action."""
    return [(text, ink._replace(does=does)) for text, ink in runs]


def on_ground(lines: Iterable[Line], ground: str) -> list[Line]:
    """The lines, filled with that colour where they have none of their own."""
    return [line if line.ground else line._replace(ground=ground) for line in lines]


class Paint:
    """Lines to strips in the colours of one palette."""

    def __init__(self, palette: Palette) -> None:
        self.palette = palette
        self._styles: dict[tuple[Ink, str], Style] = {}

    def strip(self, line: Line, width: int) -> Strip:
        """The line with its margin, filled to `width` cells."""
        fill = self.style(Ink(), line.ground)
        segments = [Segment(" " * MARGIN, fill)]
        used = MARGIN
        for text, ink in line.runs:
            segments.append(Segment(text, self.style(ink, line.ground)))
            used += len(text) if text.isascii() else cell_len(text)
        if used > width:
            return Strip(segments, used).crop(0, width)
        segments.append(Segment(" " * (width - used), fill))
        return Strip(segments, width)  # made once: a strip's caches cost more to make than its text

    def style(self, ink: Ink, ground: str = "") -> Style:
        """The ink on a ground, as Rich's style."""
        style = self._styles.get((ink, ground))
        if style is None:
            color, bgcolor = str(getattr(self.palette, ink.color)), self._ground(ink, ground)
            style = self._styles[ink, ground] = _style(color, bgcolor, ink.bold, ink.italic, ink.strike, ink.underline)
        return style

    def _ground(self, ink: Ink, ground: str) -> str:
        if ink.heat >= 0:
            heat = self.palette.heat
            return heat[min(ink.heat * len(heat) // HEATS, len(heat) - 1)]
        return str(getattr(self.palette, ink.ground or ground or "background"))


@cache
def _style(color: str, bgcolor: str, bold: bool, italic: bool, strike: bool, underline: bool) -> Style:
    """One object for each way to look: Textual writes the escape codes of the first of equal ones only."""
    return Style(
        color=color,
        bgcolor=bgcolor,
        bold=bold or None,
        italic=italic or None,
        strike=strike or None,
        underline=underline or None,
    )
