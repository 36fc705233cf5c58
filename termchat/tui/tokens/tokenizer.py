"""How the model reads a text: its tokens, control tokens marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.widget import Widget
from textual.widgets import Input

from termchat.decoding.escapes import escape, unescape
from termchat.engine.port import Tokenized
from termchat.text import show_piece
from termchat.tui.dialogs.base import ReadListing
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.marks import MUTED, TEXT, column
from termchat.tui.themes.theme_file import Palette

_NUMBER, _ID = 6, 8
_CONTROL = Ink("stamp", bold=True)
_MOST_BYTES = 8
_MARK = " control"


def piece_lines(tokenized: Tokenized, width: int) -> list[Line]:
    """One line per token: its number, id, piece and bytes; control tokens are marked."""
    control = set(tokenized.control)
    names = tokenized.names or [piece.decode("utf-8", "replace") for piece in tokenized.pieces]
    room = max(width - _NUMBER - _ID - len(_MARK), 8)
    piece_room = min(room, max(room * 3 // 5, 8))
    lines = []
    for index, (token_id, name, piece) in enumerate(zip(tokenized.ids, names, tokenized.pieces, strict=True)):
        steers = index in control
        shown = column(show_piece(name), piece_room)
        data = piece[:_MOST_BYTES].hex(" ") + (" …" if len(piece) > _MOST_BYTES else "")
        numbers = f"{index:>{_NUMBER - 1}} {token_id:>{_ID - 2}}  "
        tail = (_MARK, _CONTROL) if steers else (column(data, room - piece_room + len(_MARK)), MUTED)
        lines.append(Line(((numbers, MUTED), (shown, _CONTROL if steers else TEXT), tail)))
    return lines


def pieces_title(tokenized: Tokenized) -> str:
    """How many tokens, and how many of them are control tokens."""
    total, control = len(tokenized.ids), len(tokenized.control)
    return f"{total} token{'s' if total != 1 else ''}" + (f", {control} control" if control else "")


class PiecesDialog(ReadListing):
    """The tokens of one turn. They are shown when they come: `take` gets them, `refuse` what went wrong."""

    TITLE = "Tokens of the turn"

    def __init__(self, palette: Palette) -> None:
        super().__init__(palette)
        self._tokenized: Tokenized | None = None

    def take(self, tokenized: Tokenized) -> None:
        self._tokenized = tokenized
        if self.is_mounted:
            self.say("")
            self.lay_out()

    def refuse(self, problem: str) -> None:
        self.say(problem)

    def lay_out(self) -> None:
        super().lay_out()
        if self._tokenized is not None:
            self.retitle(f"{self.TITLE}: {pieces_title(self._tokenized)}")

    def made(self, width: int) -> list[Line]:
        if self._tokenized is None:
            return [Line((("tokenizing …", MUTED),))]
        return piece_lines(self._tokenized, width)


class TokenizerDialog(PiecesDialog):
    r"""The same for any text, as it is typed; `\n` and the like are read as such. `ask` is called with each text."""

    TITLE = "Tokenizer"
    HINT = "Type any text: \\n is a line break."
    HINTS = (("list-up", "line"), ("list-page-up", "page"), ("close", "closes"))
    KEYS = "LISTS"

    def __init__(self, palette: Palette, text: str, ask: Callable[[str], None]) -> None:
        super().__init__(palette)
        self._text, self._ask = text, ask

    def inputs(self) -> Iterable[Widget]:
        yield Field(escape(self._text), select_on_focus=False)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._ask(unescape(event.value))
