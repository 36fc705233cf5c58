"""Two lists of messages: those written earlier, to use one again, and those in the queue, to edit or reorder."""

from __future__ import annotations

from collections.abc import Sequence

from termchat.chat.service import Chat
from termchat.text import one_line
from termchat.tui.composer.chat_composer import matches
from termchat.tui.draw.ink import Line
from termchat.tui.draw.list_dialog import ListDialog
from termchat.tui.draw.marks import MUTED, STRONG, TEXT
from termchat.tui.themes.theme_file import Palette

_MOST_DRAWN = 2_000
"""Characters of a message that are drawn."""
_INTERVAL = 0.2
"""Seconds between looks at the queue."""


class HistoryDialog(ListDialog[str, str]):
    """Earlier messages, the newest first; the result is the one to write again. `typed` is searched for at first."""

    DEFAULT_CSS = "HistoryDialog Input { margin-bottom: 0; }"
    TITLE = "Message history"
    FIELD = "search"
    HINTS = (("history-enter", "puts it back into the composer"), ("close", "closes"))
    KEYS = "MESSAGE HISTORY"

    def __init__(self, palette: Palette, texts: Sequence[str], typed: str) -> None:
        typed = typed if "\n" not in typed else ""
        super().__init__(palette, text=typed)
        self._texts = texts
        self.search(typed)

    def search(self, text: str) -> None:
        self.set_rows([one for one in self._texts if matches(one, text)] if text else self._texts, 0)

    def line(self, row: str, width: int, *, chosen: bool) -> Line:
        return Line(((one_line(row[:_MOST_DRAWN], width), STRONG if chosen else TEXT),))

    def empty_lines(self, width: int) -> list[Line]:
        return [Line((("no message matches" if self._texts else "no messages yet", MUTED),))]

    def enter(self, text: str) -> None:
        if self.row is not None:
            self.dismiss(self.row)


class QueueDialog(ListDialog[tuple[int, str], int]):
    """Numbered messages, the next to be sent first; the result is the index of the one to edit. A message that is sent leaves
    the list."""

    DEFAULT_CSS = "QueueDialog > Vertical { max-height: 20; }"
    TITLE = "Queued messages"
    EMPTY = "the queue is empty"
    HINTS = (
        ("queue-edit", "edits it"), ("queue-remove", "removes it"), ("queue-earlier", "moves it"), ("close", "closes"),
    )  # fmt: skip
    KEYS = "QUEUE"

    def __init__(self, palette: Palette, chat: Chat) -> None:
        super().__init__(palette)
        self._chat = chat

    def on_mount(self) -> None:
        self.set_interval(_INTERVAL, self._refresh)
        self._refresh()

    def line(self, row: tuple[int, str], width: int, *, chosen: bool) -> Line:
        number, text = row
        return Line(((f"{number:>2}  ", MUTED), (one_line(text[:_MOST_DRAWN], width - 4), STRONG if chosen else TEXT)))

    def action_edit(self) -> None:
        if self._is_current():
            self.dismiss(self.picker.chosen)

    def action_drop(self) -> None:
        if self._is_current():
            self._chat.turns.take_back(self.picker.chosen)
        self._refresh()

    def action_shift(self, rows: int) -> None:
        to = self.picker.chosen + rows
        if self._is_current() and 0 <= to < len(self.rows):
            self._chat.turns.move_queued(self.picker.chosen, to)
            self.set_rows(self._read(), to)

    def _read(self) -> list[tuple[int, str]]:
        return list(enumerate(self._chat.turns.queue, 1))

    def _is_current(self) -> bool:
        """Return whether the list shows the queue as it is; else draw it again."""
        current = bool(self.rows) and list(self.rows) == self._read()
        self._refresh()
        return current

    def _refresh(self) -> None:
        """Show the queue as it is; the highlight stays on its message while that waits."""
        before, rows = self.row, self._read()
        texts = [text for _, text in rows]
        follows = rows != list(self.rows) and before is not None and before[1] in texts
        self.set_rows(rows, texts.index(before[1]) if follows and before is not None else None)
