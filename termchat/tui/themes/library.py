"""The themes for this terminal, each read when it is wanted, so that the first frame waits for one file only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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


class ThemeLibrary:
    """The themes of some folders, of which a later one's come first; `problems` are those of the files read so far.

    A terminal with 16 colours is offered themes of its own colours only; one without any a single theme.
    """

    def __init__(self, depth: Depth = "truecolor", folders: Sequence[Path] | None = None) -> None:
        self.depth: Depth = depth
        self._folders = [paths.shipped_folder("themes"), paths.themes_folder()] if folders is None else list(folders)
        self._read: dict[str, Palette] = {}
        self._all: dict[str, Palette] | None = None
        self._problems: dict[Path, ThemeError] = {}

    @property
    def problems(self) -> list[ThemeError]:
        return list(self._problems.values())

    def get(self, name: str) -> Palette | None:
        """Return a theme, None if this terminal cannot show it. A file with the theme's name is read without the others."""
        if self.depth == "none":
            return PLAIN
        if name not in self._read and (palette := self._read_file(name)) is not None:
            self._read[name] = palette
        return self._read.get(name) or self.all().get(name)

    def for_background(self, *, dark: bool, contrast: bool = False) -> Palette:
        full, few = _AUTO[dark]
        if contrast:
            full = _CONTRAST[dark]
        return self.get(few if self.depth == "16" else full) or next(iter(self.all().values()))

    def all(self) -> dict[str, Palette]:
        """Return all themes that this terminal can show, by name. Those shown before stay as they were read until `renew`."""
        if self.depth == "none":
            return {PLAIN.name: PLAIN}
        if self._all is None:
            themes, problems = load_themes(self._folders)
            self._problems |= {problem.path: problem for problem in problems}
            fits = {name: self._fit(palette) for name, palette in themes.items()}
            self._all = {name: self._read.get(name) or palette for name, palette in fits.items() if palette is not None}
        return self._all

    def renew(self) -> None:
        """New and edited files are found from then on."""
        self._read, self._all, self._problems = {}, None, {}

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


class ThemeChooser:
    """`wanted` is a theme's name or "auto"; `dark` is what is known of the terminal's background. With `contrast`, "auto" is a
    theme of high contrast."""

    def __init__(
        self,
        library: ThemeLibrary,
        wanted: str = AUTO,
        environ: Mapping[str, str] | None = None,
        *,
        contrast: bool = False,
    ) -> None:
        self.library, self.wanted, self.contrast = library, wanted, contrast
        self.dark = _guessed(os.environ if environ is None else environ)

    def of(self, wanted: str) -> Palette:
        """Return the theme of that name; for "auto", or one that cannot be shown, the one that suits the background."""
        named = None if wanted == AUTO else self.library.get(wanted)
        return named or self.library.for_background(dark=self.dark, contrast=self.contrast)

    def missing(self, place: str = "") -> list[Notice]:
        """What to tell a user whose theme cannot be shown because of its file; "auto" and few colours are no mistakes.

        `place` is where the theme was asked for.
        """
        there = self.wanted == AUTO or self.library.depth in ("none", "16") or self.library.get(self.wanted) is not None
        problems = [Notice(str(problem), severity="warning") for problem in self.library.problems]
        if there:
            return problems
        known = [AUTO, *self.library.all()]
        said = f"unknown theme {one_line(self.wanted, 40)!r}{guess_of(self.wanted, known)}"
        said = f"{place}: {said}" if place else said
        return [*problems, Notice(said, f"known themes: {', '.join(known)}", "warning")]


def _guessed(environ: Mapping[str, str]) -> bool:
    """Whether the background is dark, by what some terminals say in COLORFGBG: "15;0" is white on black."""
    return environ.get("COLORFGBG", "").rpartition(";")[2] not in ("7", "15")
