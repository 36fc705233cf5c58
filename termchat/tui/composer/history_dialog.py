"""Two lists of messages: those written earlier, to use one again, and those in the queue, to edit or reorder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.service import Chat
from termchat.text import one_line
from termchat.tui.composer.history import matches
from termchat.tui.dialogs.base import ARROWS, ListDialog
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Line
from termchat.tui.draw.marks import MUTED, STRONG, TEXT
from termchat.tui.keys.dialogs import QUEUE
from termchat.tui.themes.theme_file import Palette

_LOOKED_AT = 2_000
"""Characters of a message that are drawn, at most."""


_LOOK_AGAIN = 0.2
"""Seconds between looks at whether one has gone out."""


class HistoryDialog(ListDialog[str]):
    """The newest first; the result is the one to write again.

    Args:
        typed: what is searched for at first.
    """

    DEFAULT_CSS = "HistoryDialog Input { margin-bottom: 0; }"
    TITLE = "Message history"
    HINTS = (("history-enter", "puts it back into the composer"), ("close", "closes"))
    KEYS = "MESSAGE HISTORY"
    BINDINGS = [*ARROWS]  # noqa: RUF012

    def __init__(self, palette: Palette, texts: Sequence[str], typed: str) -> None:
        super().__init__(palette)
        self._texts, self._found = texts, texts
        self._typed = typed if "\n" not in typed else ""

    def inputs(self) -> Iterable[Widget]:
        yield Field(self._typed, placeholder="search", select_on_focus=False)

    def on_mount(self) -> None:
        super().on_mount()
        self._search(self._typed)

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        if not self._found:
            return [Line((("no message matches" if self._texts else "no messages yet", MUTED),))]
        return [
            Line(((one_line(text[:_LOOKED_AT], width), STRONG if row == chosen else TEXT),), "panel" * (row == chosen))
            for row, text in zip(rows, self._found[rows.start : rows.stop], strict=True)
        ]

    def on_input_changed(self, event: Input.Changed) -> None:
        self._search(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._found:
            self.dismiss(self._found[self.picker.chosen])

    def _search(self, typed: str) -> None:
        self._found = [text for text in self._texts if matches(text, typed)] if typed else self._texts
        self.picker.show(len(self._found), 0)


class QueueDialog(ListDialog[int]):
    """The next to go out first; the result is the number of the one to edit. One that goes out meanwhile leaves the list."""

    DEFAULT_CSS = "QueueDialog > Vertical { max-height: 20; }"
    TITLE = "Queued messages"
    HINTS = (
        ("queue-edit", "edits it"), ("queue-remove", "removes it"), ("queue-earlier", "moves it"), ("close", "closes"),
    )  # fmt: skip
    KEYS = "QUEUE"
    BINDINGS = [*ARROWS, *(key.binding for key in QUEUE)]  # noqa: RUF012

    def __init__(self, palette: Palette, chat: Chat, do: Callable[[Callable[[], object]], None]) -> None:
        super().__init__(palette)
        self._chat, self._do = chat, do
        self._shown: list[str] = []

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(_LOOK_AGAIN, self._look)
        self._look()

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        if not self._shown:
            return [Line((("the queue is empty", MUTED),))]
        return [
            Line(
                (
                    (f"{row + 1:>2}  ", MUTED),
                    (one_line(text[:_LOOKED_AT], width - 4), STRONG if row == chosen else TEXT),
                ),
                "panel" * (row == chosen),
            )
            for row, text in zip(rows, self._shown[rows.start : rows.stop], strict=True)
        ]

    def action_edit(self) -> None:
        if self._is_now():
            self.dismiss(self.picker.chosen)

    def action_drop(self) -> None:
        if self._is_now():
            self._do(lambda: self._chat.turns.take_back(self.picker.chosen))
        self._look()

    def action_shift(self, rows: int) -> None:
        to = self.picker.chosen + rows
        if self._is_now() and 0 <= to < len(self._shown):
            self._do(lambda: self._chat.turns.move_queued(self.picker.chosen, to))
            self._shown = list(self._chat.turns.queue)
            self.picker.show(len(self._shown), to)

    def _is_now(self) -> bool:
        """Whether the list still shows the queue; otherwise it is drawn anew."""
        now = bool(self._shown) and self._shown == list(self._chat.turns.queue)
        self._look()
        return now

    def _look(self) -> None:
        """Shows the queue as it is now; the selection stays on its message while that waits."""
        before, self._shown = self._shown, list(self._chat.turns.queue)
        chosen = self.picker.chosen
        if before != self._shown and chosen < len(before) and before[chosen] in self._shown:
            chosen = self._shown.index(before[chosen])
        self.picker.show(len(self._shown), chosen)
