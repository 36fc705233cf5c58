"""Themes are TOML files: a name, whether it is dark, and colours by what they are for.

A file becomes a Textual theme for CSS (every colour of ours is a variable of its own, `$stamp` or `$code-string`, the
heat scale is `$heat-0` and so on) and a `Palette` for widgets that draw their own lines. A bad file fails alone.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from textual.theme import Theme

from termchat import shipped
from termchat.text import sanitize

_COLOR = re.compile(r"#[0-9a-fA-F]{6}")
_LINE = re.compile(r" \(at line (\d+), column \d+\)$")


class Palette(msgspec.Struct, frozen=True, kw_only=True):
    """The colours of a theme, each #rrggbb. `cursor` is the ground of the token cursor; `heat` is grounds from hot to calm."""

    name: str
    dark: bool
    background: str
    surface: str
    panel: str
    border: str
    text: str
    muted: str
    accent: str
    user: str
    reply: str
    stamp: str
    success: str
    warning: str
    error: str
    heading: str
    link: str
    quote: str
    code: str
    code_background: str
    code_comment: str
    code_keyword: str
    code_string: str
    code_number: str
    code_name: str
    cursor: str
    heat: tuple[str, ...]


_COLORS = tuple(name for name in Palette.__struct_fields__ if name not in ("name", "dark"))


class LoadedTheme(NamedTuple):
    """One theme file, for Textual and for widgets that draw their own lines."""

    theme: Theme
    palette: Palette


class ThemeError(ValueError):
    """A theme file that cannot be used. The message names the file and, where there is one, the line."""

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        place = sanitize(str(path), keep="") + (f", line {line}" if line else "")
        super().__init__(f"{place}: {sanitize(problem, keep='')}")
        self.path, self.line = path, line


def load_themes(folders: Iterable[Path] | None = None) -> tuple[dict[str, LoadedTheme], list[ThemeError]]:
    """All themes of the folders by name, and what was wrong with the files that are missing there.

    Without folders, the ones that come with termchat. A later folder's theme replaces an earlier one of the same name.
    """
    themes: dict[str, LoadedTheme] = {}
    problems: list[ThemeError] = []
    for folder in [shipped.folder("themes")] if folders is None else folders:
        for path in sorted(folder.glob("*.toml")):
            try:
                loaded = load_theme(path)
            except ThemeError as error:
                problems.append(error)
            else:
                themes[loaded.palette.name] = loaded
    return themes, problems


def load_theme(path: Path) -> LoadedTheme:
    """One theme.

    Raises:
        ThemeError: the file cannot be read, is not TOML, or a colour is missing, unknown or not #rrggbb.
    """
    palette = _palette(path)
    return LoadedTheme(_textual(palette), palette)


def _palette(path: Path) -> Palette:
    try:
        source = path.read_text("utf-8")
        table = tomllib.loads(source)
    except (OSError, UnicodeDecodeError) as error:
        raise ThemeError(path, None, f"cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        at = _LINE.search(str(error))
        raise ThemeError(path, int(at[1]) if at else None, _LINE.sub("", str(error))) from error

    def refuse(key: str, problem: str) -> ThemeError:
        lines = enumerate(source.splitlines(), 1)
        return ThemeError(path, next((n for n, line in lines if line.split("=")[0].strip() == key), None), problem)

    name, dark, colors = table.get("name"), table.get("dark"), table.get("colors")
    if not isinstance(name, str) or not name:
        raise refuse("name", "name must be a text")
    if not isinstance(dark, bool):
        raise refuse("dark", "dark must be true or false")
    if not isinstance(colors, dict):
        raise refuse("[colors]", "there is no table [colors]")
    for key in [*(table.keys() - {"name", "dark", "colors"}), *(colors.keys() - set(_COLORS))]:
        raise refuse(key, f"{key!r} is not a colour of a theme; they are {', '.join(_COLORS)}")
    for key in _COLORS:
        if key not in colors:
            raise ThemeError(path, None, f"the colour {key!r} is missing")
        if not (_is_scale if key == "heat" else _is_color)(colors[key]):
            wanted = "a list of at least two colours" if key == "heat" else "a colour"
            raise refuse(key, f"{key} must be {wanted} like #82b1ff, not {colors[key]!r}")
    return Palette(name=name, dark=dark, **{**colors, "heat": tuple(colors["heat"])})


def _is_color(value: object) -> bool:
    return isinstance(value, str) and _COLOR.fullmatch(value) is not None


def _is_scale(value: object) -> bool:
    return isinstance(value, list) and len(value) >= 2 and all(map(_is_color, value))


def _textual(palette: Palette) -> Theme:
    named: dict[str, Any] = {name: getattr(palette, name) for name in _COLORS if name != "heat"}
    ours = {name.replace("_", "-"): color for name, color in named.items()}
    ours |= {f"heat-{index}": color for index, color in enumerate(palette.heat)}
    return Theme(
        name=palette.name,
        dark=palette.dark,
        primary=palette.accent,
        secondary=palette.reply,
        accent=palette.accent,
        foreground=palette.text,
        background=palette.background,
        surface=palette.surface,
        panel=palette.panel,
        success=palette.success,
        warning=palette.warning,
        error=palette.error,
        variables=ours
        | {
            "text-muted": palette.muted,
            "border-blurred": palette.border,
            "scrollbar": palette.border,
            "scrollbar-hover": palette.muted,
            "scrollbar-active": palette.accent,
            "scrollbar-background": palette.background,
            "scrollbar-background-hover": palette.background,
            "scrollbar-background-active": palette.background,
            "scrollbar-corner-color": palette.background,
            "footer-key-foreground": palette.accent,
            "footer-description-foreground": palette.muted,
            "input-cursor-background": palette.text,
            "input-cursor-foreground": palette.background,
        },
    )
