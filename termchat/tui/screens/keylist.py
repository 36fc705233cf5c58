"""All keys there are."""

from __future__ import annotations

from collections.abc import Mapping

from termchat.text import one_line
from termchat.tui import keys
from termchat.tui.screens.listing import ReadListing
from termchat.tui.themes import Palette
from termchat.tui.transcript.ink import BLANK, Line
from termchat.tui.views.marks import ACCENT, TEXT, TITLE, column

_TABLES = (
    ("TOKEN MODE", keys.TOKENS),
    ("CHAT", (*keys.COMPOSER, *keys.CHAT, *keys.APP)),
    ("SAVED CHATS", keys.SESSIONS),
)
_KEY = 14


class KeyList(ReadListing):
    """The keys of token mode, then those of the chat and of the list of saved ones."""

    TITLE = "Keys"

    def __init__(self, palette: Palette, keymap: Mapping[str, str]) -> None:
        super().__init__(palette)
        self._keymap = keymap

    def made(self, width: int) -> list[Line]:
        """A line a key."""
        lines: list[Line] = []
        for title, table in _TABLES:
            lines += [BLANK] * bool(lines) + [Line(((title, TITLE),))]
            for key in table:
                if key.help:
                    name = column(keys.displayed(key, self._keymap), _KEY)
                    lines.append(Line(((name, ACCENT), (one_line(key.help, width - _KEY), TEXT))))
        return lines
