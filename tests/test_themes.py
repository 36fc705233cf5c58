"""The themes can be read, in both senses; a bad file says where it is bad and harms nobody else."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from textual.app import App

from termchat.tui.themes import LoadedTheme, Palette, ThemeError, load_theme, load_themes

ROOT = Path(__file__).parent.parent / "themes"
DARK = (ROOT / "dark.toml").read_text("utf-8")
SHIPPED, PROBLEMS = load_themes([ROOT])


def luminance(color: str) -> float:
    """Relative luminance of #rrggbb, by WCAG 2.2."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_dark_and_light_are_shipped() -> None:
    assert not PROBLEMS
    assert {name: loaded.palette.dark for name, loaded in SHIPPED.items()} == {"dark": True, "light": False}


@pytest.mark.parametrize("loaded", SHIPPED.values(), ids=list(SHIPPED))
def test_contrast(loaded: LoadedTheme) -> None:
    p = loaded.palette
    for ground in (p.background, p.surface, p.panel):
        assert contrast(p.text, ground) >= 7
        for name in ("muted", "accent", "user", "reply", "stamp", "success", "warning", "error", "heading", "link"):
            assert contrast(getattr(p, name), ground) >= 4.5, (name, ground)
    for name in ("code", "code_comment", "code_keyword", "code_string", "code_number", "code_name"):
        assert contrast(getattr(p, name), p.code_background) >= 4.5, name
    assert all(contrast(p.text, heat) >= 7 for heat in p.heat)
    assert contrast(p.quote, p.background) >= 7
    assert contrast(p.cursor, p.background) >= 7  # it stands on the one and is written on in it
    assert all(contrast(p.cursor, heat) >= 4.5 for heat in p.heat)


@pytest.mark.parametrize("loaded", SHIPPED.values(), ids=list(SHIPPED))
def test_the_heat_scale_fades_into_the_background(loaded: LoadedTheme) -> None:
    p = loaded.palette
    assert p.heat[-1] == p.background
    distances = [contrast(heat, p.background) for heat in p.heat]
    assert all(further > nearer for further, nearer in pairwise(distances))


async def test_css_can_use_every_colour(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(DARK.replace('name = "dark"', 'name = "odd"').replace("#b9a0e6", "#010203"), "utf-8")
    loaded = load_theme(path)

    class Themed(App[None]):
        CSS = "Screen { background: $stamp; color: $heat-0; border: solid $code-background; }"

        def get_theme_variable_defaults(self) -> dict[str, str]:
            return dict(loaded.theme.variables)

    async with Themed().run_test() as pilot:
        pilot.app.register_theme(loaded.theme)
        pilot.app.theme = "odd"
        await pilot.pause()
        assert pilot.app.screen.styles.background.hex == "#010203"


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ('muted = "#969eae"', 'muted = "grey"', 10, "muted must be a colour like #82b1ff, not 'grey'"),
        ('muted = "#969eae"', "", None, "the colour 'muted' is missing"),
        ('muted = "#969eae"', 'mutet = "#969eae"', 10, "'mutet' is not a colour"),
        ('muted = "#969eae"', "muted = ", 10, "Invalid value"),
        ("dark = true", 'dark = "yes"', 2, "dark must be true or false"),
        ('name = "dark"', "name = 3", 1, "name must be a text"),
        ("[colors]", "[colours]", None, "there is no table [colors]"),
        ('heat = ["#7c293b",', 'heat = ["red",', 33, "heat must be a list of at least two colours"),
    ],
)
def test_a_bad_file_says_where(tmp_path: Path, old: str, new: str, line: int | None, says: str) -> None:
    assert old in DARK
    path = tmp_path / "mine.toml"
    path.write_text(DARK.replace(old, new), "utf-8")
    with pytest.raises(ThemeError) as caught:
        load_theme(path)
    assert caught.value.line == line
    assert str(path) in str(caught.value)
    assert says in str(caught.value)
    assert line is None or f", line {line}: " in str(caught.value)


def test_a_bad_file_fails_alone_and_a_later_folder_wins(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "worse\x1b.toml").write_text("name", "utf-8")
    (tmp_path / "mine.toml").write_text(DARK.replace("#b9a0e6", "#010203"), "utf-8")
    themes, problems = load_themes([ROOT, tmp_path])
    assert set(themes) == {"dark", "light"}
    assert themes["dark"].palette.stamp == "#010203"
    assert len(problems) == 2
    assert not any("\x1b" in str(problem) for problem in problems)


def test_without_folders_it_finds_the_shipped_ones() -> None:
    themes, problems = load_themes()
    assert {"dark", "light"} <= set(themes)
    assert not problems
    assert isinstance(themes["dark"].palette, Palette)
