"""What the terminal can show, as far as its environment tells: worth a readable screen without UTF-8, and without colours."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from rich.cells import split_graphemes
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.constants import COLOR_SYSTEM
from textual.filter import LineFilter

from termchat.tui.themes.library import Depth

Glyphs = Literal["unicode", "console", "ascii"]
"""Everything; everything but what draws, for the console of Linux, whose fonts have few such characters; nothing but ASCII."""

_DRAWN = {
    "".join(map(chr, range(0x2500, 0x2580))): (
        "-=||-=||+=:|++++++++++++++++++++++++++++++++++++++++++++++++++++"
        "++++++++++++--||=|+++++++++++++++++++++++++++++++/\\X-|-|-|-|-|-|"
    ),
    "▁▂▃▄▅▆▇█": "_.:-=+*#",
    "▏▎▍▌▋▊▉▐▕▖▗▘▝": "|||||||||..''",
    "▀▔░▒▓■□▪▫": '"".:%#o*o',
    "…·•●○◦◌◆◇★☆⋅∙": "~.**ooo*o**..",
    "←→↑↓↔↕⇧⇥⏎↵↩↳": "<>^v-|^>$$$>",
    "▲▼◀▶◄►△▽▸▾▹▿‹›«»": "^v<><>^v>v>v<><>",
    "⟦⟧❚∅×✕✗✘✓✔☐☑": "[]|0xxxxvvox",
    "‐‑‒–—―‘’‚‛“”„‟′″": "------''''\"\"\"\"'\"",
    "".join(map(chr, range(0x2400, 0x2427))): "?" * 39,
    "±≈≠≤≥−µ°\N{NO-BREAK SPACE}\N{REPLACEMENT CHARACTER}": "~~!<>-uo ?",
}


TABLE = {ord(char): ascii for chars, asciis in _DRAWN.items() for char, ascii in zip(chars, asciis, strict=True)}
"""What draws, by code point: each one cell, and so is what stands for it."""

_COERCED = frozenset({"C.UTF-8", "C.utf8", "UTF-8"})
"""What Python puts in LC_CTYPE when it finds the locale C (PEP 538)."""


def glyphs_for(environ: Mapping[str, str], asked: str = "auto") -> Glyphs:
    """Return what a terminal can show: as asked, "unicode" or "ascii", else by LC_ALL, LC_CTYPE, LANG and TERM."""
    if asked != "auto":
        return "ascii" if asked == "ascii" else "unicode"
    language, kind = environ.get("LANG", ""), environ.get("LC_CTYPE", "")
    if kind in _COERCED and language in ("C", "POSIX"):
        kind = language
    locale = environ.get("LC_ALL") or kind or language
    if locale and "utf" not in locale.lower():
        return "ascii"
    return "console" if environ.get("TERM") == "linux" else "unicode"


@lru_cache(1024)
def _without_color(style: Style) -> Style:
    grounded = style.bgcolor is not None and not style.bgcolor.is_default
    return style.without_color + Style(reverse=True) if grounded and not style.reverse else style.without_color


@lru_cache(4096)
def redrawn(text: str, *, strict: bool) -> str:
    """Return the text as such a terminal shows it, cell for cell; `strict`: in ASCII only."""
    drawn = text.translate(TABLE)
    if not strict or drawn.isascii():
        return drawn
    spans, _ = split_graphemes(drawn)
    return "".join(_folded(drawn[begin:end], width) for begin, end, width in spans)


def _folded(grapheme: str, width: int) -> str:
    """Return a character without its accents if that fits, else question marks."""
    if grapheme.isascii():
        return grapheme
    plain = unicodedata.normalize("NFKD", grapheme).encode("ascii", "ignore").decode()
    return plain if len(plain) == width and plain.isprintable() else "?" * width


_SYSTEMS: dict[str | None, Depth] = {"standard": "16", "256": "256"}


class Abilities(NamedTuple):
    """How many colours a terminal has, and which characters."""

    depth: Depth = "truecolor"
    glyphs: Glyphs = "unicode"

    @property
    def filters(self) -> list[LineFilter]:
        return [TerminalFilter(self)] if self.depth == "none" or self.glyphs != "unicode" else []


class TerminalFilter(LineFilter):
    """Replaces the characters that a terminal cannot show, and removes the colours that Textual's own widgets draw.

    A background of its own becomes reverse.
    """

    def __init__(self, abilities: Abilities) -> None:
        super().__init__()
        self._is_colorless, self._glyphs = abilities.depth == "none", abilities.glyphs

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(
                text if text.isascii() or self._glyphs == "unicode" else redrawn(text, strict=self._glyphs == "ascii"),
                _without_color(style) if style is not None and self._is_colorless else style,
                control,
            )
            for text, style, control in segments
        ]


EVERYTHING = Abilities()


def abilities_of(environ: Mapping[str, str], glyphs: str = "auto") -> Abilities:
    """Read NO_COLOR (no-color.org: anything but nothing), TERM, COLORTERM and the locale; an unknown terminal has all colours.

    `glyphs` is the setting of that name.
    """
    console = Console(color_system=COLOR_SYSTEM, force_terminal=True, legacy_windows=False, _environ=environ)  # type: ignore[arg-type]
    depth: Depth = "none" if environ.get("NO_COLOR") else _SYSTEMS.get(console.color_system, "truecolor")
    return Abilities(depth, glyphs_for(environ, glyphs))
