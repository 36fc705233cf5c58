"""How many colours a terminal has, and a palette fitted to that.

With 256 colours each colour becomes the nearest that there is, by the eye's measure: Rich's own rounding would make dark greys
blue and mix up the heat scale. With 16 only themes of the terminal's own colours are shown. Without any (NO_COLOR) bold,
underline and reverse carry what colour would.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Literal, NamedTuple

import msgspec
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from termchat.tui.themes.theme_file import COLORS, DEFAULT, Palette

Depth = Literal["none", "16", "256", "truecolor"]

_Point = tuple[float, float, float]


PLAIN = Palette(
    name="no-color", dark=True, heat=(DEFAULT, DEFAULT), heat_text=(DEFAULT, DEFAULT), **dict.fromkeys(COLORS, DEFAULT)
)
"""The palette of a terminal without colours. No theme file can have its name: it is not looked for."""


def fitted(palette: Palette, depth: Depth) -> Palette:
    """Return the palette as such a terminal can show it; with 256 colours, hotter steps still stand out more."""
    if depth != "256":
        return palette
    return msgspec.structs.replace(
        palette,
        heat=_in_order(palette.heat),
        heat_text=tuple(map(_nearest, palette.heat_text)),
        **{name: _nearest(getattr(palette, name)) for name in COLORS},
    )


def _in_order(heat: tuple[str, ...]) -> tuple[str, ...]:
    """Return the nearest colours whose distance in luminance from the calm one never shrinks as the heat rises."""
    if not all(color.startswith("#") for color in heat):
        return tuple(map(_nearest, heat))
    cells = _cells()
    calm = _nearest_of(heat[-1], cells)
    fitting, least = [calm.ask], 0.0
    for color in heat[-2::-1]:
        nearest = _nearest_of(color, [cell for cell in cells if abs(cell.luminance - calm.luminance) >= least])
        least = abs(nearest.luminance - calm.luminance)
        fitting.insert(0, nearest.ask)
    return tuple(fitting)


class Colorless(LineFilter):
    """Removes the colours that Textual's own widgets draw; a background of its own becomes reverse."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(text, _without(style) if style else style, control) for text, style, control in segments]


@lru_cache(1024)
def _without(style: Style) -> Style:
    grounded = style.bgcolor is not None and not style.bgcolor.is_default
    return style.without_color + Style(reverse=True) if grounded and not style.reverse else style.without_color


class _Cell(NamedTuple):
    """One of the 256 colours: what to ask Rich for, and what is then seen."""

    ask: str
    point: _Point
    luminance: float


@cache
def _cells() -> list[_Cell]:
    """Return the colours of the 256 that no user can change. Rich finds greys by lightness in 25 steps, never the cube's."""
    levels = (0, 95, 135, 175, 215, 255)
    cube = [(r, g, b) for r in levels for g in levels for b in levels if not r == g == b or r in (0, 255)]
    greys = [(round(10.2 * step), 10 * step - 2) for step in range(1, 25)]
    pairs = [(rgb, rgb) for rgb in cube] + [((ask,) * 3, (seen,) * 3) for ask, seen in greys]
    return [_Cell("#{:02x}{:02x}{:02x}".format(*ask), _oklab(*seen), _luminance(*seen)) for ask, seen in pairs]


@cache
def _nearest(color: str) -> str:
    """Return the nearest of the 256 colours; the terminal's own stay."""
    return _nearest_of(color, _cells()).ask if color.startswith("#") else color


def _nearest_of(color: str, cells: list[_Cell]) -> _Cell:
    lightness, green_red, blue_yellow = _oklab(*(int(color[i : i + 2], 16) for i in (1, 3, 5)))
    best, least = cells[0], 9.0
    for cell in cells:  # as plain as can be: a theme asks for thirty colours before the first frame
        one, two, three = cell.point
        apart = (one - lightness) ** 2 + (two - green_red) ** 2 + (three - blue_yellow) ** 2
        if apart < least:
            best, least = cell, apart
    return best


def _luminance(red: int, green: int, blue: int) -> float:
    """Relative luminance by WCAG 2.2."""
    return 0.2126 * _linear(red) + 0.7152 * _linear(green) + 0.0722 * _linear(blue)


def _oklab(red: int, green: int, blue: int) -> _Point:
    """sRGB to Oklab (Ottosson 2020), in which distance is near to what an eye sees."""
    r, g, b = map(_linear, (red, green, blue))
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    middle = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


@cache
def _linear(channel: int) -> float:
    part = channel / 255
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)
