"""Themes are TOML files: a name, whether it is dark, and colours by what they are for.

A colour is #rrggbb, or one of the terminal's own: `ansi_default` or `ansi_` and a name, as in `ansi_bright_blue`. A file
becomes a `Palette` for widgets that draw their own lines; that which is shown also a Textual theme for CSS, in which every
colour of ours is a variable of its own, `$stamp` or `$code-string`, and the heat scale is `$heat-0` and so on. A bad file
fails alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from textual.theme import Theme

from termchat import paths
from termchat.text import sanitize
from termchat.toml import TomlError, TomlFile

DEFAULT = "ansi_default"
"""The terminal's own text colour or background, whichever it is asked for as."""

_HUES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
ANSI = frozenset({DEFAULT, *(f"ansi_{hue}" for hue in _HUES), *(f"ansi_bright_{hue}" for hue in _HUES)})
"""What a theme may call the terminal's own colours."""

AUTO = "auto"
"""What is no theme's name: it stands for whichever suits the terminal."""

_NAME = rf"^(?!{AUTO}\Z)[A-Za-z0-9_-]{{1,40}}\Z"
Name = Annotated[str, msgspec.Meta(pattern=_NAME)]
Color = Annotated[str, msgspec.Meta(pattern=rf"^(#[0-9a-fA-F]{{6}}|{'|'.join(ANSI)})\Z")]

_RULE = "a colour like #82b1ff or ansi_bright_blue"
_RULES = {
    "name": "letters, digits, - and _",
    "dark": "true or false",
    "heat": "a list of at least two colours like #82b1ff",
    "heat_text": "a list of colours, one for each colour of heat",
}
"""What values have to be, those of all others by `_RULE`."""
_FIELD = re.compile(r"`(?:\$\.)?(\w+)[^`]*`")
"""The field that a message of msgspec is about, in its last place."""

_SHARED = ("accent", "background", "surface", "panel", "success", "warning", "error")
"""What Textual calls by the same names."""
_ANSI = {
    "ansi-background": DEFAULT,
    "ansi-foreground": DEFAULT,
    "input-cursor-background": DEFAULT,
    "input-cursor-foreground": DEFAULT,
    "input-cursor-text-style": "reverse",
    "block-cursor-background": DEFAULT,
    "block-cursor-foreground": DEFAULT,
    "block-cursor-text-style": "reverse",
    "screen-selection-background": "ansi_cyan",
    "screen-selection-foreground": "ansi_black",
}
"""What stands out where it is not known which colours the terminal has for text and background."""


class Palette(msgspec.Struct, frozen=True, kw_only=True):
    """The colours of a theme. `cursor` is the ground of the token cursor; `heat` is grounds from hot to calm, `heat_text` what
    is written on each of them."""

    name: Name
    dark: bool
    background: Color
    surface: Color
    panel: Color
    border: Color
    text: Color
    muted: Color
    accent: Color
    user: Color
    reply: Color
    stamp: Color
    success: Color
    warning: Color
    error: Color
    heading: Color
    link: Color
    quote: Color
    code: Color
    code_background: Color
    code_comment: Color
    code_keyword: Color
    code_string: Color
    code_number: Color
    code_name: Color
    cursor: Color
    heat: Annotated[tuple[Color, ...], msgspec.Meta(min_length=2)]
    heat_text: tuple[Color, ...]

    @property
    def is_ansi(self) -> bool:
        """Whether all its colours are the terminal's own."""
        return all(getattr(self, name) in ANSI for name in COLORS) and ANSI.issuperset(self.heat + self.heat_text)


COLORS = tuple(name for name in Palette.__struct_fields__ if name not in ("name", "dark", "heat", "heat_text"))
"""What a theme must have a colour for, besides its heat."""


class ThemeError(ValueError):
    """A theme file that cannot be used. The message names the file and, where there is one, the line."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(sanitize(message, keep=""))
        self.path = path


def is_name(text: str) -> bool:
    return re.match(_NAME, text) is not None


def load_themes(folders: Iterable[Path] | None = None, file: str = "*") -> tuple[dict[str, Palette], list[ThemeError]]:
    """Return the themes of the folders by name, and the problems of the files that could not be loaded.

    Without folders, the ones that come with termchat. A later folder's theme replaces an earlier one of the same name. `file`
    is the name of the files to read, without its ending.
    """
    themes: dict[str, Palette] = {}
    problems: list[ThemeError] = []
    for folder in [paths.shipped_folder("themes")] if folders is None else folders:
        for path in sorted(folder.glob(f"{file}.toml")):
            try:
                palette = load_theme(path)
            except ThemeError as error:
                problems.append(error)
            else:
                themes[palette.name] = palette
    return themes, problems


def load_theme(path: Path) -> Palette:
    """Read a theme file.

    Raises:
        ThemeError: the file cannot be read, is not TOML, or a colour is missing, unknown or no colour.
    """
    try:
        file = TomlFile(path)
    except TomlError as error:
        raise ThemeError(path, str(error)) from error

    table = dict(file.table)
    colors = table.pop("colors", None)
    known = (*COLORS, "heat", "heat_text")
    values: dict[str, Any] = {key: table[key] for key in ("name", "dark") if key in table}
    strange: list[tuple[str, ...]] = [(key,) for key in table if key not in values]
    if isinstance(colors, dict):
        values |= {key: colors[key] for key in known if key in colors}
        strange += [("colors", key) for key in colors if key not in known]
    if isinstance(heat := values.get("heat"), list):
        values.setdefault("heat_text", [values.get("text", DEFAULT)] * len(heat))
    if strange:
        problem = f"{strange[0][-1]!r} is not a colour of a theme; known colours: {', '.join(known)}"
        problem = problem if isinstance(colors, dict) else "the table [colors] is missing"
        raise ThemeError(path, f"{path.with_name(file.place(*strange[0]))}: {problem}")
    try:
        palette = msgspec.convert(values, Palette)
        if len(palette.heat_text) != len(palette.heat):
            raise msgspec.ValidationError("`heat_text`")
    except msgspec.ValidationError as error:
        key = _FIELD.findall(str(error))[-1]
        if key in values:
            problem = f"{key} must be {_RULES.get(key, _RULE)}, not {values[key]!r}"
        elif not isinstance(colors, dict):
            problem = "the table [colors] is missing"
        else:
            problem = f"{key!r} is missing"
        place = file.place(key) if key in table else file.place("colors", key)
        raise ThemeError(path, f"{path.with_name(place)}: {problem}") from error
    return palette


def textual_theme(palette: Palette) -> Theme:
    """Return the theme that has the colours of a palette for style sheets."""
    ours = {name.replace("_", "-"): str(getattr(palette, name)) for name in COLORS}
    ours |= {f"heat-{index}": color for index, color in enumerate(palette.heat)}
    derived = {
        "text-muted": palette.muted,
        "border-blurred": palette.border,
        "scrollbar": palette.border,
        "scrollbar-hover": palette.muted,
        "scrollbar-active": palette.accent,
        "scrollbar-background": palette.background,
        "scrollbar-background-hover": palette.background,
        "scrollbar-background-active": palette.background,
        "scrollbar-corner-color": palette.background,
        "input-cursor-background": palette.text,
        "input-cursor-foreground": palette.background,
        "screen-selection-background": palette.accent,  # Textual's own is see-through: a line of ours would be unreadable
        "screen-selection-foreground": palette.background,
    }
    if ansi := DEFAULT in (palette.background, palette.text):
        derived |= _ANSI
    colors: dict[str, Any] = {name: getattr(palette, name) for name in _SHARED}
    return Theme(
        name=palette.name,
        dark=palette.dark,
        primary=palette.accent,
        secondary=palette.reply,
        foreground=palette.text,
        variables=ours | derived,
        ansi=ansi,
        **colors,
    )
