"""A person looks for a theme, and terminals that show less than all."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.selection import SELECT_ALL

from termchat.config import file
from termchat.conversation.heat import probability_heat
from termchat.tui.draw.ink import HEATS, Ink, Line, Paint
from termchat.tui.lists.small_dialogs import ThemePicker
from termchat.tui.terminal.capabilities import TABLE, Abilities, TerminalFilter, abilities_of, glyphs_for, redrawn
from termchat.tui.themes.library import PLAIN
from termchat.tui.themes.theme_file import load_themes
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.looks import CALM
from tests.colors import contrast
from tests.tui.running_app import Desktop, desktop

THEMES, _ = load_themes()


def ground(desk: Desktop) -> str:
    """What the chat really stands on."""
    strip = desk.app.screen_stack[0].query_one("#header").render_line(0)
    style = next(iter(strip)).style
    assert style is not None
    assert style.bgcolor is not None
    return style.bgcolor.get_truecolor().hex


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were put into the config file."""
    names: list[str] = []
    monkeypatch.setattr(file, "put", lambda _key, name: names.append(name))
    return names


def told(desk: Desktop) -> str:
    """What the picker says, without blanks: where its lines break depends on how long the path of a file is."""
    return "".join(line[70:].strip(" │").replace(" ", "") for line in desk.text.splitlines())


# --- the picker ------------------------------------------------------------------------------------------------------


async def test_a_theme_is_shown_while_it_is_highlighted_and_esc_goes_back(kept: list[str]) -> None:
    async with desktop(keeps_theme=True) as desk:
        await desk.type("", "f9")
        assert isinstance(desk.app.screen, ThemePicker)
        await desk.type("", "down")
        await desk.settle()
        assert desk.app.theme == "dusk"
        assert ground(desk) == THEMES["dusk"].surface
        await desk.type("", "end")
        assert not desk.app.current_theme.dark
        await desk.type("", "escape")
        await desk.settle()
        assert desk.app.theme == "dark"
        assert ground(desk) == THEMES["dark"].surface
        assert kept == []


async def test_enter_keeps_a_theme_for_the_next_start(kept: list[str]) -> None:
    async with desktop(keeps_theme=True) as desk:
        await desk.type("", "f9", "home", "down", "enter")
        await desk.settle()
        assert desk.app.theme == "colorblind-dark"
        await desk.type("", "f9")
        assert "● colorblind-dark" in desk.text
        await desk.type("", "enter")  # the same: nothing to write
        assert kept == ["colorblind-dark"]
        await desk.type("", "f9", "home", "enter")
        assert kept[1:] == ["auto"]
        assert desk.app.theme == "dark"


async def test_what_cannot_be_kept_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_key: str, _name: str) -> None:
        raise file.ConfigFileError("config.toml cannot be written")

    monkeypatch.setattr(file, "put", refuse)
    async with desktop(keeps_theme=True) as desk:
        await desk.type("", "f9", "down", "enter")
        await desk.settle()
        assert "config.toml cannot be written" in desk.text
        assert desk.app.theme == "dusk"


async def test_the_users_own_themes_stand_beside_the_shipped_and_a_bad_one_says_where(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("termchat.paths.themes_folder", lambda: tmp_path)
    dusk = (Path(__file__).parents[2] / "themes/dusk.toml").read_text("utf-8")
    (tmp_path / "mine.toml").write_text(dusk.replace('"dusk"', '"mine"').replace("#1d1815", "#200010"), "utf-8")
    (tmp_path / "bad.toml").write_text(dusk.replace("#1d1815", "brown"), "utf-8")
    async with desktop(theme="mine") as desk:
        assert desk.app.palette.background == "#200010"
        assert "bad.toml" not in desk.text
        await desk.type("", "f9")
        assert "● mine" in desk.text
        assert "bad.toml,line6:backgroundmustbeacolour" in told(desk)


async def test_a_theme_that_was_edited_is_read_again_where_it_is_chosen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("termchat.paths.themes_folder", lambda: tmp_path)
    dusk = (Path(__file__).parents[2] / "themes/dusk.toml").read_text("utf-8").replace('"dusk"', '"mine"')
    own = tmp_path / "mine.toml"
    own.write_text("name = 1", "utf-8")
    async with desktop(theme="dusk") as desk:
        await desk.type("", "f9")
        assert "mine.toml,line1:" in told(desk)
        await desk.type("", "escape")
        own.write_text(dusk, "utf-8")
        await desk.type("", "f9")
        assert "mine.toml" not in told(desk)
        await desk.type("", *["down"] * 4, "enter")
        assert ground(desk) == "#26201c"
        own.write_text(dusk.replace("#26201c", "#300030"), "utf-8")
        await desk.type("", "f9")
        await desk.settle()
        assert ground(desk) == "#300030"
        assert desk.app.palette.surface == "#300030"


@pytest.mark.parametrize("theme", ["dark", "paper", "contrast-dark", "colorblind-light"])
async def test_what_is_selected_in_the_chat_can_be_read(theme: str) -> None:
    async with desktop(theme=theme) as desk:
        await desk.sent("hello", "some `code` and *more*")
        desk.app.screen.selections = {desk.app.query_one(TranscriptView): SELECT_ALL}
        await desk.settle()
        view = desk.app.query_one(TranscriptView)
        lines = [line for y in range(view.size.height) if "hello" in (line := view.render_line(y)).text]
        assert lines
        for text, style, _ in lines[0]:
            assert style is not None
            assert style.color is not None
            assert style.bgcolor is not None
            assert (
                not text.strip() or contrast(style.color.get_truecolor().hex, style.bgcolor.get_truecolor().hex) >= 4.5
            )


async def test_on_a_low_screen_there_are_more_themes_and_the_keys_in_place_of_the_sample() -> None:
    async with desktop(size=(40, 12)) as desk:
        await desk.type("", "f9")
        await desk.settle()
        assert sum(name in desk.text for name in THEMES) > 4
        assert "Esc cancels" in desk.text
        assert "Write a story." not in desk.text


@pytest.mark.parametrize(
    ("times", "legend"),
    [
        (0, ""),
        (1, "probability (model) 0% 100% forced"),
        (2, "after (chain) 0% 100% forced"),
        (3, "entropy 6 bit and more 0 bit forced"),
        (4, "rank 257 and beyond 1, the likeliest forced"),
        (5, "time 4 × the median the median forced"),
        (6, ""),
    ],
)
async def test_the_legend_says_what_the_colours_of_the_chat_mean(times: int, legend: str) -> None:
    async with desktop() as desk:
        await desk.sent("go", "a", " b")
        await desk.type("", *["ctrl+l"] * times)
        await desk.settle()
        said = desk.app.screen.query_one("#legend").render_line(0).text if legend else ""
        assert " ".join(said.split()) == legend
        assert desk.app.screen.query_one("#legend").display == bool(legend)


# --- without colours -------------------------------------------------------------------------------------------------


def test_without_colours_heat_is_bold_and_underlined_and_the_cursor_reversed() -> None:
    paint = Paint(PLAIN)

    def attributes(probability: float) -> tuple[bool | None, bool | None]:
        style = paint.style(Ink(heat=probability_heat(probability, CALM)))
        return style.bold, style.underline

    assert attributes(0.01) == (True, True)
    assert attributes(0.1) == (None, True)
    assert attributes(0.9) == (None, None)
    assert paint.style(Ink(heat=CALM)) == paint.style(Ink())
    for ink, line in (
        (Ink("background", ground="cursor"), ""),
        (Ink(), "panel"),
        (Ink("background", ground="accent"), ""),
    ):
        assert paint.style(ink, line).reverse


@pytest.mark.parametrize("name", ["dark", "terminal-dark"])
def test_with_colours_heat_changes_no_attributes(name: str) -> None:
    styles = [Paint(THEMES[name]).style(Ink(heat=heat)) for heat in range(HEATS)]
    assert not any(style.bold or style.underline for style in styles)
    assert len({style.bgcolor for style in styles}) == len(THEMES[name].heat)


def test_colours_of_textuals_widgets_become_reverse_or_nothing() -> None:
    drawn = [Segment("a", Style.parse("bold red on blue")), Segment("b", Style.parse("red")), Segment("c", None)]
    left = [segment.style for segment in TerminalFilter(Abilities("none")).apply(drawn, Color(0, 0, 0))]
    assert left == [Style(bold=True, reverse=True), Style(), None]


async def test_no_color_is_readable() -> None:
    async with desktop(abilities=Abilities("none")) as desk:
        await desk.sent("go", "a", " b")
        await desk.type("", "ctrl+t")
        for y in range(40):
            for segment in desk.app.screen_stack[0]._compositor.render_strips()[y]:
                style = segment.style
                assert style is None or (style.color is None and style.bgcolor is None), (y, segment)
        await desk.type("", "escape", "f9")
        assert "NO_COLOR is set" in desk.text
        assert "dusk" not in desk.text


# --- without Unicode -------------------------------------------------------------------------------------------------


def test_what_draws_keeps_its_cell() -> None:
    assert all(cell_len(chr(code)) == 1 and len(char) == 1 and char.isascii() for code, char in TABLE.items())
    assert redrawn("▁▂▃▄▅▆▇█ ━━── │ ╭─╮ ├┼┤", strict=False) == "_.:-=+*# ==-- | +-+ +++"


@given(st.text(max_size=40))
@example("é ñ 狐狸 👩\u200d🌾 ﬁ ½ e\u0301 ☎\ufe0f 한 \u202e")
def test_nothing_but_ascii_is_left_and_nothing_moves(text: str) -> None:
    shown = redrawn(text, strict=True)
    assert shown.isascii()
    if text.isprintable():
        assert len(shown) == cell_len(text)


@given(st.text(max_size=40))
def test_on_the_console_only_what_draws_is_replaced(text: str) -> None:
    shown = redrawn(text, strict=False)
    assert len(shown) == len(text)
    assert all(new == old or ord(old) in TABLE for new, old in zip(shown, text, strict=True))


async def test_the_whole_screen_in_ascii() -> None:
    async with desktop(abilities=Abilities(glyphs="ascii"), size=(120, 40)) as desk:
        await desk.sent("Was heißt 狐狸?", "Fuchs", " – 🦊")
        for keys in (["ctrl+t"], ["escape", "ctrl+g"], ["escape", "f9"], ["escape", "ctrl+p"], ["escape", "ctrl+s"]):
            await desk.type("", *keys)
            await desk.settle()
            assert desk.text.isascii(), [char for char in desk.text if not char.isascii()]


@pytest.mark.parametrize(
    ("environ", "asked", "wanted"),
    [
        ({"LANG": "C"}, "auto", "ascii"),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, "auto", "ascii"),  # as Python leaves it
        ({"LANG": "POSIX"}, "auto", "ascii"),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, "auto", "ascii"),
        ({"LC_CTYPE": "de_DE.UTF-8", "LANG": "C"}, "auto", "unicode"),
        ({"LANG": "de_DE.ISO-8859-1"}, "auto", "ascii"),
        ({"LANG": "de_DE.utf8"}, "auto", "unicode"),
        ({"LC_CTYPE": "C.UTF-8"}, "auto", "unicode"),
        ({}, "auto", "unicode"),
        ({"TERM": "linux", "LANG": "de_DE.UTF-8"}, "auto", "console"),
        ({"TERM": "linux", "LANG": "C"}, "auto", "ascii"),
        ({"TERM": "linux"}, "unicode", "unicode"),
        ({"LANG": "C"}, "unicode", "unicode"),
        ({"LANG": "de_DE.UTF-8"}, "ascii", "ascii"),
    ],
)
def test_which_characters_a_terminal_shows(environ: dict[str, str], asked: str, wanted: str) -> None:
    assert glyphs_for(environ, asked) == wanted


@pytest.mark.parametrize(
    ("environ", "depth"),
    [
        ({"TERM": "xterm"}, "16"),
        ({"TERM": "linux"}, "16"),
        ({"TERM": "screen"}, "16"),
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "tmux-256color"}, "256"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "xterm", "COLORTERM": "24bit"}, "truecolor"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "256"),
    ],
)
def test_how_many_colours_a_terminal_has(environ: dict[str, str], depth: str) -> None:
    assert abilities_of(environ).depth == depth


def test_a_line_on_a_selected_ground_is_one_bar_of_16_colours() -> None:
    strip = Paint(THEMES["terminal-dark"]).strip(Line((("a", Ink("muted")), ("b", Ink("accent"))), "panel"), 10)
    assert all(segment.style is not None and segment.style.reverse for segment in strip)
    assert len({segment.style.color for segment in strip if segment.style is not None}) == 1
