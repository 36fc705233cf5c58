"""The themes for this terminal, each read when it is wanted, so that the first frame waits for one file only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from termchat import paths
from termchat.chat.changes import Notice
from termchat.text import guess_of, one_line
from termchat.tui.themes.depth import PLAIN, Depth, fitted
from termchat.tui.themes.theme_file import AUTO, Palette, ThemeError, is_name, load_theme, load_themes

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
        self._read: dict[str, Palette] = {}
        self._all: dict[str, Palette] | None = None
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
        if name not in self._read and (palette := self._read_file(name)) is not None:
            self._read[name] = palette
        return self._read.get(name) or self.all().get(name)

    def all(self) -> dict[str, Palette]:
        """Return all themes by name. Those shown before stay as they were read until `renew`."""
        if self.depth == "none":
            return {PLAIN.name: PLAIN}
        if self._all is None:
            themes, problems = load_themes(self._folders)
            self._problems |= {problem.path: problem for problem in problems}
            fits = {name: self._fit(palette) for name, palette in themes.items()}
            self._all = {name: self._read.get(name) or palette for name, palette in fits.items() if palette is not None}
        return self._all

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

    def _read_file(self, name: str) -> Palette | None:
        for folder in reversed(self._folders) if is_name(name) else ():
            path = folder / f"{name}.toml"
            try:
                palette = load_theme(path) if path.exists() else None
            except (OSError, ThemeError) as error:
                self._problems[path] = error if isinstance(error, ThemeError) else ThemeError(path, None, str(error))
            else:
                if palette is not None and palette.name == name:
                    return self._fit(palette)
        return None

    def _fit(self, palette: Palette) -> Palette | None:
        """Return the palette as the terminal can show it, None if it cannot."""
        if self.depth == "16" and not palette.is_ansi:
            return None
        return fitted(palette, self.depth)
