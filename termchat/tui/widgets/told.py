"""Notices: what a person should read, and the question whether to quit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from termchat.chat.changes import Notice
from termchat.tui.draw.ink import Line
from termchat.tui.draw.lines_view import Slip

_GLANCE = 6.0
"""Seconds that a notice stays which asks for nothing."""
_MOST_TOLD = 3
"""Notices shown at once."""
_QUIT_WITHIN = 3.0
"""Seconds in which whoever was asked whether to quit can say so."""


def in_short(mistakes: Sequence[Notice], beside: int = 0) -> list[Notice]:
    """What is wrong with the configuration, as far as there is room for it besides so many other notices."""
    room = max(_MOST_TOLD - beside, 1)
    shown = list(mistakes if len(mistakes) <= room else mistakes[: room - 1])
    if len(shown) < len(mistakes):
        more = f"{len(mistakes) - len(shown)} {'more ' if shown else ''}mistakes in the configuration"
        shown.append(Notice(more, "termchat config check lists them all", "warning"))
    return shown


class Told(Slip):
    """The newest notices, as `draw` makes lines of them; one that asks for nothing goes by itself."""

    def __init__(self, draw: Callable[[Sequence[Notice]], list[Line]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._draw = draw
        self._told: list[Notice] = []
        self._asking: tuple[Notice, float] | None = None

    def __bool__(self) -> bool:
        return bool(self._told)

    def tell(self, notice: Notice) -> None:
        """Shows a notice, or what was told already once more as the newest."""
        others = [told for told in self._told if told != notice]
        self._told = [*others[1 - _MOST_TOLD :], notice]
        if notice.severity == "information":
            self.set_timer(_GLANCE, lambda: self.forget([told for told in self._told if told is not notice]))
        self.draw()

    def forget(self, kept: Sequence[Notice] = ()) -> None:
        """Takes all but these away."""
        self._told = list(kept)
        self.draw()

    def go_on(self) -> None:
        """Someone wrote the next thing: warnings were about what was before, errors stay until they are closed."""
        self.forget([told for told in self._told if told.severity != "warning"])

    def drop(self, at: int) -> None:
        """Takes one away, counted from the oldest."""
        self.forget([told for place, told in enumerate(self._told) if place != at])

    def draw(self) -> None:
        """Draws them anew, for another width or state."""
        self.show_lines(self._draw(self._told))

    def ask_to_quit(self, notice: Notice) -> bool:
        """Asks with this notice; True when that was asked a moment ago."""
        if self._asking is not None and monotonic() - self._asking[1] < _QUIT_WITHIN:
            return True
        self.answer()
        self._asking = notice, monotonic()
        self.tell(notice)
        return False

    def answer(self) -> None:
        """Whoever was asked goes on."""
        if self._asking is not None:
            asked, self._asking = self._asking[0], None
            self.forget([told for told in self._told if told is not asked])
