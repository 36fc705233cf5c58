"""The themes for this terminal, each read when it is wanted, so that the first frame waits for one file only.

With 256 colours each colour becomes the nearest that there is, by the eye's measure: Rich's own rounding would make dark greys
blue and mix up the heat scale. With 16 only themes of the terminal's own colours are shown. Without any (NO_COLOR) bold,
underline and reverse carry what colour would.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from itertools import product
from math import dist
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from textual.color import Color

from termchat import paths
from termchat.chat.changes import Notice
from termchat.text import guess_of, one_line
from termchat.tui.themes.theme_file import AUTO, COLORS, DEFAULT, Palette, ThemeError, is_name, load_themes

Depth = Literal["none", "16", "256", "truecolor"]

PLAIN = Palette(
    name="no-color", dark=True, heat=(DEFAULT, DEFAULT), heat_text=(DEFAULT, DEFAULT), **dict.fromkeys(COLORS, DEFAULT)
)
"""The palette of a terminal without colours. No theme file can have its name: it is not looked for."""


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
        self._is_whole = self.depth == "none"
        if self._is_whole:
            self._themes[PLAIN.name] = PLAIN
        self._problems: dict[Path, ThemeError] = {}

    @property
    def problems(self) -> list[ThemeError]:
        """The problems of the files that were read so far."""
        return list(self._problems.values())

    def of(self, wanted: str) -> Palette:
        """Return the theme of that name; for "auto", or one that cannot be shown, the one that suits the background."""
        kind = "terminal-" if self.depth == "16" else "contrast-" if self.contrast else ""
        named = None if wanted == AUTO else self.get(wanted)
        return named or self.get(kind + ("dark" if self.dark else "light")) or next(iter(self.all().values()))

    def get(self, name: str) -> Palette | None:
        """Return a theme, None if this terminal cannot show it. A file with the theme's name is read without the others."""
        if name not in self._themes and not self._is_whole and is_name(name):
            self._read(name)
        return self._themes.get(name) or self.all().get(name)

    def all(self) -> dict[str, Palette]:
        """Return all themes by name. Those shown before stay as they were read until `renew`."""
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
        heat=_fit_heat(palette.heat),
        heat_text=tuple(map(_fit_color, palette.heat_text)),
        **{name: _fit_color(getattr(palette, name)) for name in COLORS},
    )


def _fit_heat(heat: tuple[str, ...]) -> tuple[str, ...]:
    """Return the nearest colours whose distance in luminance from the calm one never shrinks as the heat rises."""
    if not all(color.startswith("#") for color in heat):
        return tuple(map(_fit_color, heat))
    colors = _list_256_colors()
    asked, calm = _find_nearest(heat[-1], colors)
    fitting, least = [asked], 0.0
    for color in heat[-2::-1]:
        asked, shown = _find_nearest(
            color, {a: s for a, s in colors.items() if abs(s.luminance - calm.luminance) >= least}
        )
        least = abs(shown.luminance - calm.luminance)
        fitting.insert(0, asked)
    return tuple(fitting)


@cache
def _fit_color(color: str) -> str:
    """Return the nearest of the 256 colours; the terminal's own stay."""
    return _find_nearest(color, _list_256_colors())[0] if color.startswith("#") else color


def _find_nearest(color: str, colors: dict[str, _Seen]) -> tuple[str, _Seen]:
    wanted = _see(*Color.parse(color).rgb)
    return min(colors.items(), key=lambda item: dist(item[1].oklab, wanted.oklab))


@cache
def _list_256_colors() -> dict[str, _Seen]:
    """Return how those of the 256 colours look that no user can change, by what to ask Rich for.

    Rich finds greys by lightness in 25 steps, never those of the cube.
    """
    cube = {rgb: rgb for rgb in product((0, 95, 135, 175, 215, 255), repeat=3) if len({*rgb}) > 1 or rgb[0] in (0, 255)}
    greys = {(round(10.2 * step),) * 3: (10 * step - 2,) * 3 for step in range(1, 25)}
    return {"#{:02x}{:02x}{:02x}".format(*asked): _see(*shown) for asked, shown in (cube | greys).items()}


class _Seen(NamedTuple):
    """How a colour looks: in Oklab (Ottosson 2020), in which distance is near to what an eye sees, and by WCAG 2.2."""

    oklab: tuple[float, float, float]
    luminance: float


def _see(*rgb: int) -> _Seen:
    r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (c / 255 for c in rgb))
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    middle = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    oklab = (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )
    return _Seen(oklab, 0.2126 * r + 0.7152 * g + 0.0722 * b)
