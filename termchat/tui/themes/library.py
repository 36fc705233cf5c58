"""The themes for this terminal, each read when it is wanted, so that the first frame waits for one file only.

With 256 colours each colour becomes the nearest that there is, by the eye's measure: Rich's own rounding would make dark greys
blue and mix up the heat scale. With 16 only themes of the terminal's own colours are shown. Without any (NO_COLOR) bold,
underline and reverse carry what colour would.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from termchat import paths
from termchat.chat.changes import Notice
from termchat.text import guess_of, one_line
from termchat.tui.themes.theme_file import AUTO, COLORS, DEFAULT, Palette, ThemeError, is_name, load_themes

Depth = Literal["none", "16", "256", "truecolor"]

PLAIN = Palette(
    name="no-color", dark=True, heat=(DEFAULT, DEFAULT), heat_text=(DEFAULT, DEFAULT), **dict.fromkeys(COLORS, DEFAULT)
)
"""The palette of a terminal without colours. No theme file can have its name: it is not looked for."""

_AUTO: dict[bool, tuple[str, str]] = {True: ("dark", "terminal-dark"), False: ("light", "terminal-light")}
"""By whether the background is dark: the theme that follows it, and that of terminals with few colours."""
_CONTRAST = {True: "contrast-dark", False: "contrast-light"}
"""The same for a projector, where there are colours enough."""


class ThemeChooser:
    """The themes that this terminal can show, and the one that is wanted.

    `wanted` is a theme's name or "auto"; `dark` is what is known of the terminal's background. With `contrast`, "auto" is a
    theme of high contrast. Of `folders` a later one's themes replace those of an earlier one. A terminal with 16 colours is
    offered themes of its own colours only; one without any a single theme.
    """

    def __init__(
        self,
        depth: Depth = "truecolor",
        wanted: str = AUTO,
        *,
        contrast: bool = False,
        folders: Sequence[Path] | None = None,
    ) -> None:
        self.depth, self.wanted, self.contrast = depth, wanted, contrast
        # Some terminals tell their colours in COLORFGBG: "15;0" is white on black.
        self.dark = os.environ.get("COLORFGBG", "").rpartition(";")[2] not in ("7", "15")
        self._folders = [paths.shipped_folder("themes"), paths.themes_folder()] if folders is None else list(folders)
        self.renew()

    def renew(self) -> None:
        """Forget what was read, so that new and edited files are found."""
        self._themes: dict[str, Palette] = {}
        self._is_whole = False
        self._problems: dict[Path, ThemeError] = {}

    @property
    def problems(self) -> list[ThemeError]:
        """The problems of the files that were read so far."""
        return list(self._problems.values())

    def of(self, wanted: str) -> Palette:
        """Return the theme of that name; for "auto", or one that cannot be shown, the one that suits the background."""
        full, few = _AUTO[self.dark]
        suiting = few if self.depth == "16" else _CONTRAST[self.dark] if self.contrast else full
        named = None if wanted == AUTO else self.get(wanted)
        return named or self.get(suiting) or next(iter(self.all().values()))

    def get(self, name: str) -> Palette | None:
        """Return a theme, None if this terminal cannot show it. A file with the theme's name is read without the others."""
        if self.depth == "none":
            return PLAIN
        if name not in self._themes and not self._is_whole and is_name(name):
            self._read(name)
        return self._themes.get(name) or self.all().get(name)

    def all(self) -> dict[str, Palette]:
        """Return all themes by name. Those shown before stay as they were read until `renew`."""
        if self.depth == "none":
            return {PLAIN.name: PLAIN}
        if not self._is_whole:
            self._read()
            self._is_whole = True
        return self._themes

    def _read(self, file: str = "*") -> None:
        themes, problems = load_themes(self._folders, file)
        self._problems |= {problem.path: problem for problem in problems}
        shown = {name: theme for name, theme in themes.items() if self.depth != "16" or theme.is_ansi}
        self._themes = {name: fit_palette(theme, self.depth) for name, theme in shown.items()} | self._themes

    def missing(self, place: str = "") -> list[Notice]:
        """Return what to tell if the theme cannot be shown because of its file; "auto" and few colours are no mistakes.

        `place` is where the theme was asked for.
        """
        there = self.wanted == AUTO or self.depth in ("none", "16") or self.get(self.wanted) is not None
        problems = [Notice(str(problem), severity="warning") for problem in self.problems]
        if there:
            return problems
        known = [AUTO, *self.all()]
        unknown = f"unknown theme {one_line(self.wanted, 40)!r}{guess_of(self.wanted, known)}"
        text = f"{place}: {unknown}" if place else unknown
        return [*problems, Notice(text, f"known themes: {', '.join(known)}", "warning")]


def fit_palette(palette: Palette, depth: Depth) -> Palette:
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


class _Cell(NamedTuple):
    """One of the 256 colours: what to ask Rich for, and what is then seen."""

    ask: str
    point: tuple[float, float, float]
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
    """Compute the relative luminance by WCAG 2.2."""
    return 0.2126 * _linear(red) + 0.7152 * _linear(green) + 0.0722 * _linear(blue)


def _oklab(red: int, green: int, blue: int) -> tuple[float, float, float]:
    """Convert sRGB to Oklab (Ottosson 2020), in which distance is near to what an eye sees."""
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
