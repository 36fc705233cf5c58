"""The messages that wait: edit one, remove one, put them in another order."""

from __future__ import annotations

from collections.abc import Callable

from termchat.chat.service import Chat
from termchat.text import one_line
from termchat.tui.draw.ink import Line
from termchat.tui.draw.marks import MUTED, STRONG, TEXT
from termchat.tui.keys.dialogs import QUEUE
from termchat.tui.screens.listing import ARROWS, Listing
from termchat.tui.themes.theme_file import Palette

_LOOKED_AT = 2_000
"""Characters of a message that are drawn, at most."""
_LOOK_AGAIN = 0.2
"""Seconds between looks at whether one has gone out."""


class QueueDialog(Listing[int]):
    """The next to go out first; the result is the number of the one to edit. One that goes out meanwhile leaves the list."""

    DEFAULT_CSS = "QueueDialog > Vertical { max-height: 20; }"
    TITLE = "Messages that wait"
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
        """Shows what there is, as long as it waits."""
        super().on_mount()
        self.set_interval(_LOOK_AGAIN, self._look)
        self._look()

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        """A line a message."""
        if not self._shown:
            return [Line((("nothing waits", MUTED),))]
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
        """Puts it back into the composer."""
        if self._is_now():
            self.dismiss(self.picker.chosen)

    def action_drop(self) -> None:
        """Removes it."""
        if self._is_now():
            self._do(lambda: self._chat.take_back(self.picker.chosen))
        self._look()

    def action_shift(self, rows: int) -> None:
        """Has it go out earlier or later."""
        to = self.picker.chosen + rows
        if self._is_now() and 0 <= to < len(self._shown):
            self._do(lambda: self._chat.put_off(self.picker.chosen, to))
            self._shown = list(self._chat.queue)
            self.picker.show(len(self._shown), to)

    def _is_now(self) -> bool:
        """Whether the list is the queue, and has something; else it is shown anew."""
        now = bool(self._shown) and self._shown == list(self._chat.queue)
        self._look()
        return now

    def _look(self) -> None:
        """Shows the queue as it is; the chosen message stays the chosen one as long as it waits."""
        before, self._shown = self._shown, list(self._chat.queue)
        chosen = self.picker.chosen
        if before != self._shown and chosen < len(before) and before[chosen] in self._shown:
            chosen = self._shown.index(before[chosen])
        self.picker.show(len(self._shown), chosen)
