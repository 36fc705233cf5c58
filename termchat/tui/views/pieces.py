"""The tokenizer's view of a text: every token with its id, piece and bytes."""

from __future__ import annotations

from termchat.engine.port import Tokenized
from termchat.text import show_piece
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.marks import MUTED, TEXT, column

_NUMBER, _ID = 6, 8
_CONTROL = Ink("stamp", bold=True)
_MOST_BYTES = 8
_MARK = " control"


def piece_lines(tokenized: Tokenized, width: int) -> list[Line]:
    """A line a token: its number, id, piece and bytes; control tokens are marked."""
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
    """How many tokens, and how many of them steer."""
    total, control = len(tokenized.ids), len(tokenized.control)
    return f"{total} token{'s' if total != 1 else ''}" + (f", {control} control" if control else "")
