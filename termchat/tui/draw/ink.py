"""What a line of the transcript is made of, and how it gets its colours.

Layout speaks of inks by name and knows no colour; `Paint` turns a laid-out line into a strip in the colours of a palette.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from termchat.tui.themes.theme_file import DEFAULT, Palette

HEATS = 32
"""Steps of an ink's heat; a palette has fewer colours and takes the nearest."""

MARGIN = 1
"""Empty cells at the left of every line."""


class Ink(NamedTuple):
    """How text is painted, and what the mouse does with it.

    `color` and `ground` are names of palette colours; `heat` is 0 (hot) to HEATS - 1. `double` underlines twice. `does` is an
    action of the screen that a click performs. `knob` is the name of the one that the wheel turns there; what has it and does
    nothing is that knob's bar, along which a drag sets it.
    """

    color: str = "text"
    ground: str = ""
    heat: int = -1
    bold: bool = False
    italic: bool = False
    strike: bool = False
    underline: bool = False
    double: bool = False
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
        """Without the margin."""
        return "".join(text for text, _ in self.runs)

    def ink_at(self, cell: int) -> Ink | None:
        """Return the ink on a cell, counted from 0 behind the margin, None where no run is."""
        end = 0
        for text, ink in self.runs if cell >= 0 else ():
            end += cell_len(text)
            if cell < end:
                return ink
        return None


BLANK = Line(())


def doing(does: str, runs: Iterable[Run]) -> list[Run]:
    """Have a click on the runs perform that action."""
    return [(text, _clicked(ink, does)) for text, ink in runs]


@lru_cache(1 << 12)
def _clicked(ink: Ink, does: str) -> Ink:
    return ink._replace(does=does)


def on_ground(lines: Iterable[Line], ground: str) -> list[Line]:
    """Fill the lines with that colour where they have none of their own."""
    blank = Line((), ground)  # one for all: a message may be nothing but line breaks
    return [line if line.ground else line._replace(ground=ground) if line.runs else blank for line in lines]


class Paint:
    def __init__(self, palette: Palette) -> None:
        self.palette = palette
        self._styles: dict[tuple[Ink, str], Style] = {}

    def strip(self, line: Line, width: int) -> Strip:
        """Paint a line with its margin, filled to `width` cells."""
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
        """Return colours and attributes. What the palette has no colours for stands out by attributes instead."""
        if (known := self._styles.get((ink, ground))) is not None:
            return known
        palette, own_ground = self.palette, ink.ground or ground or "background"
        color, bgcolor = str(getattr(palette, ink.color)), str(getattr(palette, own_ground))
        bold, underline, reverse = ink.bold, ink.underline, False
        if ink.heat >= 0:
            step = min(ink.heat * len(palette.heat) // HEATS, len(palette.heat) - 1)
            color = palette.heat_text[step] if ink.color == "text" else color
            bgcolor = palette.heat[step]
            if palette.heat[0] == palette.heat[-1]:
                bold, underline = bold or ink.heat < _HOT, underline or ink.heat < _WARM
        elif palette.background == DEFAULT:
            if ink.color == "background":  # written on a colour: that on the background, the other way round
                color, bgcolor, reverse = bgcolor, DEFAULT, True
            elif own_ground == "panel" and palette.panel == DEFAULT:
                color, reverse = DEFAULT, True
        if palette.accent == palette.text:
            bold, underline = bold or ink.color in _LOUD, underline or (ink.color == "success" and bool(ink.ground))
        style = self._styles[ink, ground] = _make_style(
            color=color.removeprefix("ansi_"),
            bgcolor=bgcolor.removeprefix("ansi_"),
            bold=bold or None,
            italic=ink.italic or None,
            strike=ink.strike or None,
            underline=(underline and not ink.double) or None,
            underline2=ink.double or None,
            reverse=reverse or None,
        )
        return style


_HOT, _WARM = HEATS // 5, HEATS // 2
"""Without colours, heats below these are bold and underlined, or underlined: under 4 % and 25 % by probability."""
_LOUD = frozenset({"accent", "user", "stamp", "warning", "error", "heading", "cursor"})
"""What is bold without colours."""


_make_style = cache(Style)
"""One object for each way to look: Textual writes the escape codes of the first of equal ones only."""
