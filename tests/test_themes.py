"""The themes can be read, in both senses; a bad file says where it is bad and harms nobody else."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App

from termchat.tui.themes import theme_file as themes_of
from termchat.tui.themes.library import PLAIN, ThemeChooser, fit_palette
from termchat.tui.themes.theme_file import (
    ANSI,
    AUTO,
    COLORS,
    Palette,
    ThemeError,
    load_theme,
    load_themes,
    textual_theme,
)
from tests.colors import BLINDNESS, apart, contrast, in_256, lab, linear, seen

ROOT = Path(__file__).parent.parent / "themes"
DARK = (ROOT / "dark.toml").read_text("utf-8")
SHIPPED, PROBLEMS = load_themes([ROOT])
COLORED = {name: palette for name, palette in SHIPPED.items() if not palette.is_ansi}
ON_GROUNDS = ("muted", "accent", "user", "reply", "stamp", "success", "warning", "error", "heading", "link")
IN_CODE = ("code", "code_comment", "code_keyword", "code_string", "code_number", "code_name")


def themes(names: Iterable[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("palette", [SHIPPED[name] for name in names], ids=list(names))


def test_what_is_shipped() -> None:
    assert not PROBLEMS
    assert all((ROOT / f"{name}.toml").is_file() for name in SHIPPED), "a file is named as its theme"
    assert sum(palette.dark for palette in COLORED.values()) >= 4
    assert sum(not palette.dark for palette in COLORED.values()) >= 4
    for kind in ("contrast", "colorblind", "terminal"):
        assert SHIPPED[f"{kind}-dark"].dark
        assert not SHIPPED[f"{kind}-light"].dark


@themes(COLORED)
def test_contrast(palette: Palette) -> None:
    p, least = palette, 7 if palette.name.startswith("contrast") else 4.5
    for ground in (p.background, p.surface, p.panel):
        assert contrast(p.text, ground) >= 7
        for name in ON_GROUNDS:
            assert contrast(getattr(p, name), ground) >= least, (name, ground)
    for name in IN_CODE:
        assert contrast(getattr(p, name), p.code_background) >= least, name
    assert all(contrast(text, heat) >= 7 for text, heat in zip(p.heat_text, p.heat, strict=True))
    assert contrast(p.quote, p.background) >= 7
    assert contrast(p.cursor, p.background) >= 7  # it stands on the one and is written on in it
    assert all(contrast(p.cursor, heat) >= 4.5 for heat in p.heat)


@themes(COLORED)
def test_the_heat_scale_fades_into_the_background(palette: Palette) -> None:
    assert palette.heat[-1] == palette.background
    distances = [contrast(heat, palette.background) for heat in palette.heat]
    assert all(further > nearer for further, nearer in pairwise(distances))


@pytest.mark.parametrize("blindness", BLINDNESS)
@themes(["colorblind-dark", "colorblind-light"])
def test_the_colour_blind_tell_every_step_of_the_heat(palette: Palette, blindness: str) -> None:
    steps = [seen(heat, blindness) for heat in palette.heat]
    assert all(apart(one, other) >= 2.3 for one, other in pairwise(steps))
    assert apart(steps[0], steps[-1]) > 30
    lightness = [step[0] for step in steps]
    assert lightness == sorted(lightness, reverse=palette.dark)
    assert apart(seen(palette.success, blindness), seen(palette.error, blindness)) > 20


@themes(COLORED)
def test_256_colours_stay_readable_and_their_heat_in_order(palette: Palette) -> None:
    p = fit_palette(palette, "256")
    shown = {name: in_256(getattr(p, name)) for name in COLORS}
    for ground in ("background", "surface", "panel"):
        assert contrast(shown["text"], shown[ground]) >= 7
        for name in ON_GROUNDS:
            assert contrast(shown[name], shown[ground]) >= 3.5, (name, ground)
    heat = [in_256(color) for color in p.heat]
    assert all(contrast(in_256(text), ground) >= 4.5 for text, ground in zip(p.heat_text, heat, strict=True))
    assert len(set(heat)) >= 4
    distances = [contrast(color, heat[-1]) for color in heat]
    assert distances == sorted(distances, reverse=True)
    for name in (*COLORS, "heat"):  # asked for as it is shown, the greys but for one step of 25
        for color in [getattr(p, name)] if name != "heat" else p.heat:
            assert apart(lab(linear(color)), lab(linear(in_256(color)))) < 6, (name, color)


# What common terminals show for the 16 colours: VGA's text mode, xterm, and the Windows console since 2017.
_VGA = "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa 555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff"
_XTERM = (
    "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
)
_WINDOWS = (
    "0c0c0c c50f1f 13a10e c19c00 0037da 881798 3a96dd cccccc 767676 e74856 16c60c f9f1a5 3b78ff b4009e 61d6d6 f2f2f2"
)
_HUES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"]


@pytest.mark.parametrize("colors", [_VGA, _XTERM, _WINDOWS], ids=["vga", "xterm", "windows"])
@themes(["terminal-dark", "terminal-light"])
def test_the_terminals_own_colours_can_be_read(palette: Palette, colors: str) -> None:
    names = [f"ansi_{bright}{hue}" for bright in ("", "bright_") for hue in _HUES]
    shown = dict(zip(names, (f"#{color}" for color in colors.split()), strict=True))
    text, ground = ("ansi_white", "ansi_black") if palette.dark else ("ansi_black", "ansi_bright_white")

    def color(name: str, default: str) -> str:
        return shown[default if name == "ansi_default" else name]

    for name in (*ON_GROUNDS, *IN_CODE, "cursor"):
        assert contrast(color(getattr(palette, name), text), shown[ground]) >= 3, name
    for ink, heat in zip(palette.heat_text, palette.heat, strict=True):
        assert contrast(color(ink, text), color(heat, ground)) >= 4.5, heat
    assert palette.is_ansi
    assert len(set(palette.heat)) == len(palette.heat)


async def test_css_can_use_every_colour(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(DARK.replace('name = "dark"', 'name = "odd"').replace("#b9a0e6", "#010203"), "utf-8")
    theme = textual_theme(load_theme(path))

    class Themed(App[None]):
        CSS = "Screen { background: $stamp; color: $heat-0; border: solid $code-background; }"

        def get_theme_variable_defaults(self) -> dict[str, str]:
            return dict(theme.variables)

    async with Themed().run_test() as pilot:
        pilot.app.register_theme(theme)
        pilot.app.theme = "odd"
        await pilot.pause()
        assert pilot.app.screen.styles.background.hex == "#010203"


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        (
            'muted = "#969eae"',
            'muted = "grey"',
            10,
            "muted must be a colour like #82b1ff or ansi_bright_blue, not 'grey'",
        ),
        ('muted = "#969eae"', "", 4, "'muted' is missing"),
        ('muted = "#969eae"', 'mutet = "#969eae"', 10, "'mutet' is not a colour"),
        ('muted = "#969eae"', "muted = ", 10, "Invalid value"),
        ("dark = true", 'dark = "yes"', 2, "dark must be true or false"),
        ('name = "dark"', "name = 3", 1, "name must be letters, digits, - and _"),
        ('name = "dark"', 'name = "a b"', 1, "name must be letters, digits, - and _"),
        ('name = "dark"', 'name = "auto"', 1, "not 'auto'"),
        ('muted = "#969eae"', 'muted = "ansi_pink"', 10, "muted must be a colour like #82b1ff or ansi_bright_blue"),
        (
            'cursor = "#ffd75f"',
            'cursor = "#ffd75f"\nheat_text = ["#ffffff"]',
            33,
            "a list of colours, one for each colour of heat",
        ),
        ("dark = true", 'dark = true\n"" = 1', 3, "'' is not a colour"),
        ('muted = "#969eae"', 'muted = "#969eae"\n"#969eae" = 1', 11, "'#969eae' is not a colour"),
        ('muted = "#969eae"', 'muted = "#969eae"\nmy-blue = "#969eae"', 11, "'my-blue' is not a colour"),
        ('muted = "#969eae"', 'muted = "#969eae"\nname = "other"', 11, "'name' is not a colour"),
        ("[colors]", "[colors", 4, "Expected"),
        ("[colors]", "[colours]", 4, "the table [colors] is missing"),
        ('heat = ["#7c293b",', 'heat = ["red",', 33, "heat must be a list of at least two colours"),
    ],
)
def test_a_bad_file_says_where(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert old in DARK
    path = tmp_path / "mine.toml"
    path.write_text(DARK.replace(old, new), "utf-8")
    with pytest.raises(ThemeError) as caught:
        load_theme(path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)
    assert f"line {line}" in str(caught.value)


def test_a_bad_file_fails_alone_and_a_later_folder_wins(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(b'name = "bad"\n\xff\xfe')
    (tmp_path / "worse\x1b.toml").write_text("name", "utf-8")
    (tmp_path / "mine.toml").write_text(DARK.replace("#b9a0e6", "#010203"), "utf-8")
    (tmp_path / "folder.toml").mkdir()
    found, problems = load_themes([ROOT, tmp_path])
    assert set(found) == set(SHIPPED)
    assert found["dark"].stamp == "#010203"
    assert [str(problem).removeprefix(str(tmp_path)) for problem in problems] == [
        "/bad.toml is not UTF-8 text (byte 13)",
        "/folder.toml cannot be read: it is a folder, not a regular file; remove or replace it",
        "/worse␛.toml is not valid TOML: Expected '=' after a key in a key/value pair (at end of document)",
    ]


VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.text(max_size=8), st.sampled_from(sorted(ANSI)), st.just("#12ab34")),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)
KEYS = st.sampled_from([*COLORS, "heat", "heat_text", "name", "dark", "colours"])


def written(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(char):08X}" for char in value if not 0xD800 <= ord(char) < 0xE000) + '"'
    return str(value).lower()


def loaded_or_told(path: Path) -> Palette | ThemeError:
    try:
        return load_theme(path)
    except ThemeError as error:
        return error


def is_told_well(told: object, path: Path) -> bool:
    """Whether it is an error on one printable line that names the file, and a line that the file has."""
    assert isinstance(told, ThemeError)
    line = re.search(r"line (\d+)[:,]", str(told))
    is_there = line is None or int(line[1]) <= path.read_bytes().count(b"\n") + 1
    return str(told).startswith(str(path)) and str(told).isprintable() and is_there


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("themes") / "made.toml"


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_theme_or_told(scratch: Path, data: bytes) -> None:
    scratch.write_bytes(data)
    assert is_told_well(loaded_or_told(scratch), scratch)


@given(key=KEYS, value=VALUES)
def test_any_value_is_taken_or_told_with_its_line(scratch: Path, key: str, value: object) -> None:
    lines = DARK.splitlines()
    at = next((n for n, line in enumerate(lines) if line.startswith(f"{key} =")), len(lines))
    lines[at : at + 1] = [f"{key} = {written(value)}"]
    scratch.write_text("\n".join(lines), "utf-8")
    found = loaded_or_told(scratch)
    if isinstance(found, ThemeError):
        assert str(found).startswith(f"{scratch}, line {at + 1}: ")
        assert is_told_well(found, scratch)
    else:
        said = tomllib.loads(scratch.read_text("utf-8"))
        taken = getattr(found, key)
        assert (list(taken) if isinstance(taken, tuple) else taken) == {**said, **said["colors"]}[key]


@given(data=st.data())
def test_a_file_cut_or_changed_anywhere_is_taken_or_told(scratch: Path, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(DARK)))
    put = data.draw(st.text(max_size=5))
    scratch.write_text(DARK[:at] + put + DARK[at + data.draw(st.integers(0, 40)) :], "utf-8", errors="replace")
    found = loaded_or_told(scratch)
    assert isinstance(found, Palette) or is_told_well(found, scratch)


# --- which there are for a terminal ---------------------------------------------------------------------------------


def test_without_folders_it_finds_the_shipped_ones() -> None:
    found, problems = load_themes()
    assert {"dark", "light"} <= set(found)
    assert not problems


def test_only_the_theme_that_is_wanted_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read: list[str] = []
    load = themes_of.load_theme

    def noted(path: Path) -> Palette:
        read.append(path.name)
        return load(path)

    monkeypatch.setattr(themes_of, "load_theme", noted)
    (tmp_path / "mine.toml").write_text(DARK.replace('name = "dark"', 'name = "mine"'), "utf-8")
    (tmp_path / "light.toml").write_text(DARK.replace('name = "dark"', 'name = "light"'), "utf-8")
    library = ThemeChooser(folders=[ROOT, tmp_path])
    assert library.of(AUTO).name == "dark"
    assert library.get("mine") is not None
    assert read == ["dark.toml", "mine.toml"]
    library.dark = False
    assert library.of(AUTO).dark, "the user's own light one"
    assert set(read[2:]) == {"light.toml"}
    assert set(library.all()) == {*SHIPPED, "mine"}
    assert library.all()["light"].dark


def test_a_broken_theme_of_the_users_leaves_the_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "dark.toml").write_text(DARK.replace("true", "maybe"), "utf-8")
    library = ThemeChooser(folders=[ROOT, tmp_path])
    assert library.of(AUTO) == SHIPPED["dark"]
    assert ["line 2" in str(problem) for problem in library.problems] == [True]
    library.all()
    assert len(library.problems) == 1


@pytest.mark.parametrize("name", ["", "..", "../themes/dark", "a\0b", "x" * 5000, "\udc80", "nobody"])
def test_a_name_that_is_none_finds_nothing(name: str) -> None:
    assert ThemeChooser(folders=[ROOT]).get(name) is None


def test_a_terminal_is_offered_what_it_can_show() -> None:
    few, none = ThemeChooser("16", folders=[ROOT]), ThemeChooser("none", folders=[ROOT])
    assert set(few.all()) == {"terminal-dark", "terminal-light"}
    assert few.get("dusk") is None
    few.dark = False
    assert few.of(AUTO).name == "terminal-light"
    assert list(none.all().values()) == [PLAIN]
    assert none.of("dusk") == none.of(AUTO) == PLAIN
