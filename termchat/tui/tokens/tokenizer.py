"""How the model reads a text: its pieces in line, with their ids on demand, or one per line; control tokens marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from rich.cells import cell_len, chop_cells
from textual.events import Paste
from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.questions import Pieces
from termchat.decoding.escapes import escape, unescape
from termchat.engine.port import Tokenized
from termchat.text import show_piece
from termchat.tui.dialogs.base import ReadListing
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import MUTED, TEXT, column
from termchat.tui.keys import dialogs
from termchat.tui.themes.theme_file import Palette

MOST_TYPED = 5000
"""Characters in the field; a longer text can only be read."""

_NUMBER, _ID = 6, 8
_CONTROL = Ink("stamp", bold=True)
_PIECES = Ink("accent"), Ink("user", underline=True)
"""Every second piece is underlined, so that their borders are seen without colours, too."""
_MOST_BYTES = 8
_MARK = " control"
_GAP = "  "


def piece_lines(tokenized: Tokenized, width: int) -> list[Line]:
    """One line per token: its number, id, piece and bytes; control tokens are marked."""
    control = set(tokenized.control)
    room = max(width - _NUMBER - _ID - len(_MARK), 8)
    piece_room = min(room, max(room * 3 // 5, 8))
    lines = []
    for index, (token_id, name, piece) in enumerate(
        zip(tokenized.ids, _names(tokenized), tokenized.pieces, strict=True)
    ):
        steers = index in control
        shown = column(name, piece_room)
        data = piece[:_MOST_BYTES].hex(" ") + (" …" if len(piece) > _MOST_BYTES else "")
        numbers = f"{index:>{_NUMBER - 1}} {token_id:>{_ID - 2}}  "
        tail = (_MARK, _CONTROL) if steers else (column(data, room - piece_room + len(_MARK)), MUTED)
        lines.append(Line(((numbers, MUTED), (shown, _CONTROL if steers else TEXT), tail)))
    return lines


def piece_flow(tokenized: Tokenized, width: int, *, ids: bool) -> list[Line]:
    """The pieces one after the other, each in another ink than the one before it, with `ids` each before its id. Lines break
    between pieces, and after one that ends a line."""
    control = set(tokenized.control)
    lines: list[list[Run]] = [[]]
    used = 0
    for index, (token_id, name) in enumerate(zip(tokenized.ids, _names(tokenized), strict=True)):
        ink = _CONTROL if index in control else _PIECES[index % 2]
        tail = f" {token_id}{_GAP}" if ids else ""
        size = cell_len(name) + len(tail)
        if used and used + size - (len(_GAP) if ids else 0) > width:
            lines.append([])
            used = 0
        *parts, name = chop_cells(name, max(width, 2)) if size > width else [name]
        lines[-1:] = [*([(part, ink)] for part in parts), [*lines[-1], (name, ink)]]
        if ids:
            lines[-1].append((tail, MUTED))
        used += size
        if name.endswith("⏎"):
            lines.append([])
            used = 0
    return [Line(tuple(runs)) for runs in lines if runs]


def _names(tokenized: Tokenized) -> Iterator[str]:
    """What is shown of each token: a part of a character by its bytes, as <F0><9F>."""
    names = tokenized.names or [piece.decode("utf-8", "replace") for piece in tokenized.pieces]
    for name, piece in zip(names, tokenized.pieces, strict=True):
        partial = "\ufffd" in name and piece.decode("utf-8", "ignore").encode() != piece
        yield "".join(f"<{byte:02X}>" for byte in piece) if partial else show_piece(name)


def pieces_title(tokenized: Tokenized, text: str | None = None) -> str:
    """How many tokens (and how many of them are control tokens), characters, letters and bytes; a text that is not given is
    that of the tokens."""
    data = b"".join(tokenized.pieces) if text is None else text.encode("utf-8", "replace")
    text = data.decode("utf-8", "replace")
    control = f" ({len(tokenized.control)} control)" if tokenized.control else ""
    letters = sum(map(str.isalpha, text))
    return ", ".join((
        _count(len(tokenized.ids), "token") + control, f"{_count(len(text), 'character')} ({_count(letters, 'letter')})",
        _count(len(data), "byte"),
    ))  # fmt: skip


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class PiecesDialog(ReadListing):
    """The tokens of a text. They are shown when they come: `take` gets them, `refuse` what went wrong."""

    BINDINGS = [key.binding for key in dialogs.PIECES]  # noqa: RUF012
    HINTS = (("pieces-view", "ids and bytes"), ("list-up", "line"), ("list-page-up", "page"), ("close", "closes"))
    KEYS = "TOKENS OF A TEXT"

    def __init__(self, palette: Palette, title: str) -> None:
        super().__init__(palette)
        self._title = title
        self._pieces: Pieces | None = None
        self._view = 0

    def take(self, pieces: Pieces) -> None:
        self._pieces = pieces
        if self.is_mounted:
            self.say("")
            self.lay_out()

    def refuse(self, problem: str) -> None:
        self.say(problem)

    def action_next_view(self) -> None:
        self._view = (self._view + 1) % 3
        self.lay_out()

    def lay_out(self) -> None:
        super().lay_out()
        title = self._title
        if (found := self._pieces) is not None:
            title += f": {pieces_title(found.tokenized, found.text if found.node is None else None)}"
        self.retitle(title)

    def made(self, width: int) -> list[Line]:
        if self._pieces is None:
            return [Line((("tokenizing …", MUTED),))]
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

    def on_input_changed(self, event: Input.Changed) -> None:
        self._ask(unescape(event.value))


class _AnyText(Field):
    """A field that takes all of a paste, its line breaks as escapes."""

    def on_paste(self, event: Paste) -> None:
        event.prevent_default()
        event.stop()
        text = escape(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        self.replace(text[: MOST_TYPED - len(self.value)], *sorted(self.selection))
