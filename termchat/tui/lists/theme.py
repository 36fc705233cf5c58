"""All themes; the highlighted one is shown at once, on the chat and on a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.content import Content

from termchat.text import one_line
from termchat.tui.draw.ink import BLANK, Ink, Line
from termchat.tui.draw.list_dialog import ListDialog
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, bar, column
from termchat.tui.keys import dialogs
from termchat.tui.themes.library import ThemeChooser
from termchat.tui.themes.theme_file import AUTO
from termchat.tui.transcript.looks import legend_line

_NAME = 18
_GROUND = "code_background"
_CODE, _PLAIN, _SAID = (Ink(color, _GROUND) for color in ("code_keyword", "code", "code_comment"))
_FOLLOWS = "match the terminal"
_LIMITS = {
    "none": "NO_COLOR is set, so bold, underline and reverse replace colours.",
    "16": "This terminal has 16 colours; these themes use its own palette.",
}


class ThemePicker(ListDialog[str, str]):
    """Its result is the name of the chosen theme, or "auto". `preview` shows one; the caller undoes that after Esc."""

    DEFAULT_CSS = """
    ThemePicker { align: right middle; background: transparent; }
    ThemePicker > Vertical { width: 46; max-height: 32; }
    ThemePicker.-tight #body { margin-top: 0; }
    ThemePicker #details { height: 7; }
    """
    TITLE = "Themes"
    HINTS = (("list-up", "shows"), ("theme-keep", "keeps"), ("close", "cancels"))
    KEYS = "THEMES"
    BESIDE = 1 << 20
    LOW = 16

    def __init__(self, chooser: ThemeChooser, preview: Callable[[str], None]) -> None:
        super().__init__(chooser.of(chooser.wanted))
        self._chooser, self._preview = chooser, preview
        shown = chooser.all() if chooser.depth != "none" else ()
        names = [AUTO, *sorted(shown, key=self._rank)]
        self.set_rows(names, names.index(chooser.wanted) if chooser.wanted in names else 0)
        self.problem = "; ".join(map(str, chooser.problems))

    def hint(self) -> Content:
        return dialogs.hint(*self.HINTS, before=_LIMITS.get(self._chooser.depth, ""))

    def moved(self) -> None:
        assert self.row is not None
        self._preview(self.row)
        self.paint_with(self._chooser.of(self.row))

    def action_keep(self) -> None:
        self.dismiss(self.row)

    def line(self, row: str, width: int, *, chosen: bool) -> Line:
        kept = "●" if row == self._chooser.wanted else " "
        kind = _FOLLOWS if row == AUTO else "dark" if self._chooser.of(row).dark else "light"
        name = column(one_line(row, _NAME), _NAME)
        return Line(((f"{kept} ", ACCENT), (name, STRONG if chosen else TEXT), (kind, MUTED)))

    def render_details(self, row: str, width: int, height: int) -> list[Line]:
        return list(sample_lines())

    def _rank(self, name: str) -> tuple[bool, str]:
        return not self._chooser.of(name).dark, name


def sample_lines() -> Iterable[Line]:
    """Yield a sample of the colours: speakers, marks, code, a bar, and the heat."""
    yield Line(((" you  ", Ink("user", bold=True)), ("Write a story.", TEXT)), "panel")
    yield Line(((" model ", Ink("reply")), ("Once upon a time a ", TEXT), ("fox", STRONG), (" met …", TEXT)))
    yield Line(((" def ", _CODE), ("fox", Ink("code_name", _GROUND)), ("():  ", _PLAIN), ("# sly", _SAID)), _GROUND)
    marks = (("stamp", "changed"), ("success", "fine"), ("warning", "warning"), ("error", "error"), ("link", "link"))
    yield Line(tuple((f" {word}", Ink(color)) for color, word in marks))
    yield Line(((" k ", ACCENT), ("top_k  ", TEXT), *bar(0.4, 16), ("   left 23", MUTED)))
    yield BLANK
    yield Line(((" ", TEXT), *legend_line("probability").runs))
