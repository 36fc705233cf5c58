"""The line above the composer in which a text is asked for, and the strip above that, which says what goes on."""

from __future__ import annotations

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.message import Message

from termchat.text import one_line
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.lines_view import Column, LinesView, Row, Slip
from termchat.tui.themes.theme_file import Palette

_WORD = Ink("accent", bold=True)
_REMARK = Ink("muted")


class AskedField(Field):
    """With `walks`, the arrows post `Walked`."""

    class Walked(Message):
        """A step to the next (1) or previous (-1) hit."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    walks = False

    def on_key(self, event: events.Key) -> None:
        by = {"up": -1, "down": 1}.get(event.key)
        if self.walks and by is not None:
            event.stop()
            event.prevent_default()
            self.post_message(self.Walked(by))


class Asking(Column):
    """A strip of lines, and a line with the field: what is asked, the text, a remark."""

    DEFAULT_CSS = """
    Asking { height: auto; }
    Asking > Row { height: 1; display: none; }
    Asking.-open > Row { display: block; }
    Asking #asked, Asking #remark { width: auto; }
    Asking Input, Asking Input:focus { height: 1; width: 1fr; border: none; padding: 0 1; background: $panel; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.strip = Slip(id="strip")
        self.field = AskedField()
        self._asked, self._remark = LinesView(id="asked"), LinesView(id="remark")

    def compose(self) -> ComposeResult:
        yield self.strip
        with Row():
            yield self._asked
            yield self.field
            yield self._remark

    def paint_with(self, palette: Palette) -> None:
        for view in (self.strip, self._asked, self._remark):
            view.paint_with(palette)

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def ask(self, question: str, value: str, placeholder: str, *, walks: bool = False) -> None:
        self.add_class("-open")
        self.field.walks, self.field.placeholder = walks, placeholder
        self.field.value = value
        self.field.cursor_position = len(value)
        self.field.select_all()
        self._put(self._asked, Line(((question, _WORD),)))
        self.remark("")
        self.screen.set_focus(self.field)  # not focus(): the very next key is for it

    def close(self) -> None:
        self.remove_class("-open")

    def remark(self, text: str, color: str = "muted") -> None:
        self._put(self._remark, Line(((text, _REMARK._replace(color=color)),)))

    @staticmethod
    def _put(view: LinesView, line: Line) -> None:
        width = cell_len(line.text)
        view.styles.width = width + 2 if width else 0
        view.show_lines([line] if width else [])


def strip_line(word: str, text: str, rest: str, room: int, does: str = "") -> Line:
    """Render a label, foreign text, and what can be done about it."""
    quoted = one_line(text, max(room - cell_len(word) - cell_len(rest) - 4, 8)) if text else ""
    ink = Ink(does=does)
    runs = ((f"{word} ", _WORD._replace(does=does)), (f"{quoted}  " if quoted else " ", ink), (rest, _REMARK))
    return Line(runs, "panel")
