"""How the model reads a text: its pieces in line, with their ids on demand, or one per line; control tokens marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from rich.cells import chop_cells
from textual.events import Paste
from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.questions import Pieces, Questions
from termchat.decoding.escapes import escape, unescape
from termchat.engine.port import Tokenized
from termchat.text import extent, sanitize
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.list_dialog import ReadDialog
from termchat.tui.draw.marks import MUTED, TEXT, column, flowing
from termchat.tui.themes.theme_file import Palette

MOST_TYPED = 5000
"""Characters in the field; a longer text can only be read."""

_NUMBER, _ID = 6, 8
_CONTROL = Ink("stamp", bold=True)
_PIECES = Ink("accent"), Ink("user", underline=True)
"""Every second piece is underlined, so that their borders are seen without colours, too."""
_MOST_BYTES = 8
_MARK = " control"
_LINES = re.compile("[^⏎]*⏎+|[^⏎]+")


def piece_lines(tokenized: Tokenized, width: int) -> list[Line]:
    """Render a line per token: its number, id, piece and bytes; control tokens are marked."""
    control = set(tokenized.control)
    room = max(width - _NUMBER - _ID - len(_MARK), 8)
    piece_room = min(room, max(room * 3 // 5, 8))
    lines = []
    tokens = zip(tokenized.ids, tokenized.show_tokens(), tokenized.pieces, strict=True)
    for index, (token_id, name, piece) in enumerate(tokens):
        numbers = (f"{index:>{_NUMBER - 1}} {token_id:>{_ID - 2}}  ", MUTED)
        data = piece[:_MOST_BYTES].hex(" ") + (" …" if len(piece) > _MOST_BYTES else "")
        ink, tail = TEXT, (column(data, room - piece_room + len(_MARK)), MUTED)
        if index in control:
            ink, tail = _CONTROL, (_MARK, _CONTROL)
        lines.append(Line((numbers, (column(name, piece_room), ink), tail)))
    return lines


def piece_flow(tokenized: Tokenized, width: int, *, ids: bool) -> list[Line]:
    """Render the pieces one after the other, each in another ink than the one before it, with `ids` each before its id. A line
    ends between pieces, and where one of the text does."""
    control, gap = set(tokenized.control), "  " if ids else ""
    lines: list[Line] = []
    pieces: list[list[Run]] = []
    for index, (token_id, shown) in enumerate(zip(tokenized.ids, tokenized.show_tokens(), strict=True)):
        ink = _CONTROL if index in control else _PIECES[index % 2]
        *parts, last = _LINES.findall(shown) or [shown]
        for part, tail in (*((part, "") for part in parts), (last, f" {token_id}" if ids else "")):
            *chunks, end = chop_cells(part, max(width, 2)) or [""]
            pieces += [*([(chunk, ink)] for chunk in chunks), [(end, ink), (tail, MUTED)]]
            if end.endswith("⏎"):
                lines += flowing(pieces, width, gap)
                pieces = []
    lines += flowing(pieces, width, gap)
    return [Line(tuple(run for run in line.runs if run[0])) for line in lines]


def pieces_title(tokenized: Tokenized, text: str | None = None) -> str:
    """Count the tokens and the control tokens among them; say how long the text is, by default that of the tokens."""
    count, data = len(tokenized.ids), b"".join(tokenized.pieces) if text is None else text.encode("utf-8", "replace")
    control = f" ({len(tokenized.control)} control)" if tokenized.control else ""
    return f"{count:,} token{'' if count == 1 else 's'}{control}, {extent(data)}"


class PiecesDialog(ReadDialog):
    """The tokens of a text. They are shown when they come."""

    HINTS = (("pieces-view", "ids and bytes"), ("list-up", "line"), ("list-page-up", "page"), ("close", "closes"))
    KEYS = "TOKENS OF A TEXT"

    def __init__(self, palette: Palette, title: str) -> None:
        super().__init__(palette)
        self._title = title
        self._pieces: Pieces | None = None
        self._failed = False
        self._view = 0

    def hear(self, questions: Questions) -> None:
        pieces, failed = questions.tokenized, questions.failed or ""
        if pieces is None and not failed:
            return
        self._pieces, self._failed = pieces, pieces is None  # without an answer, the old one is of another text
        if self.is_mounted:
            self.say(failed if pieces is None else "")
            self.lay_out()

    def action_next_view(self) -> None:
        self._view = (self._view + 1) % 3
        self.lay_out()

    def title_line(self) -> str:
        title = sanitize(self._title, keep="")
        if (pieces := self._pieces) is not None:
            title += f": {pieces_title(pieces.tokenized, pieces.text if pieces.node is None else None)}"
        return title

    def render_text(self, width: int) -> list[Line]:
        if self._pieces is None:
            return [] if self._failed else [Line((("tokenizing …", MUTED),))]
        tokenized = self._pieces.tokenized
        return piece_lines(tokenized, width) if self._view == 2 else piece_flow(tokenized, width, ids=self._view == 1)


class TokenizerDialog(PiecesDialog):
    r"""The same for any text, as it is typed or pasted; `\n` and the like are read as such. `ask` is called with each text."""

    HINT = "Type or paste any text: \\n is a line break."

    def __init__(self, palette: Palette, text: str, ask: Callable[[str], None]) -> None:
        super().__init__(palette, "Tokens")
        self._text, self._ask = text, ask

    def inputs(self) -> Iterable[Widget]:
        yield _AnyText(escape(self._text), select_on_focus=False, max_length=MOST_TYPED)

    def on_mount(self) -> None:
        super().on_mount()
        if not self._text:  # else the field says that it has a text
            self._ask("")

    def on_input_changed(self, event: Input.Changed) -> None:
        self._ask(unescape(event.value))


class _AnyText(Field):
    """A field that takes all of a paste, its line breaks as escapes."""

    def on_paste(self, event: Paste) -> None:
        event.prevent_default()
        event.stop()
        text = escape(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        self.replace(text[: MOST_TYPED - len(self.value)], *sorted(self.selection))
