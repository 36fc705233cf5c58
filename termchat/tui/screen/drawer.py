"""Whether the panels are shown: beside the chat on a wide screen, as a drawer on a narrow one."""

from __future__ import annotations

from textual.screen import Screen

_BESIDE = 100
"""From so many columns on the panels stand beside the chat unasked; under it they are a drawer."""
_WIDE = 150
ALONE = 80
"""Under so many columns an open drawer takes the chat's place."""


class Drawer:
    """Wide and narrow screens each remember whether their panels are shown. `beside` says which of them this one is.

    The style sheet of the screen does the rest, by the classes `-panels`, `-wide` and `-alone`.
    """

    def __init__(self, screen: Screen[None]) -> None:
        self.beside = True
        self._screen = screen
        self._open = {True: True, False: False}
        self._unasked = False

    @property
    def shown(self) -> bool:
        return self._open[self.beside]

    def fit(self, width: int) -> None:
        self.beside = width >= _BESIDE
        self._screen.set_class(width >= _WIDE, "-wide")
        self._screen.set_class(width < ALONE, "-alone")
        self._apply()

    def toggle(self) -> None:
        self._open[self.beside] = not self.shown
        self._unasked = False
        self._apply()

    def need(self) -> None:
        """Shows the panels for as long as something needs them."""
        if not self.shown:
            self._unasked = not self.beside
            self._open[self.beside] = True
            self._apply()

    def release(self) -> None:
        """Hides the panels again unless a person had asked for them."""
        if self._unasked:
            self._unasked = self._open[False] = False
            self._apply()

    def _apply(self) -> None:
        self._screen.set_class(self.shown, "-panels")
