"""When the panels stand beside the chat, when they are a drawer, and whether it is open."""

from __future__ import annotations

BESIDE = 100
"""From so many columns on the panels stand beside the chat unasked; under it they are a drawer."""


class Drawer:
    """Wide and narrow screens each remember whether their panels are shown. `beside` says which of them this one is."""

    def __init__(self) -> None:
        self.beside = True
        self._open = {True: True, False: False}
        self._unasked = False

    @property
    def shown(self) -> bool:
        """Whether the panels are."""
        return self._open[self.beside]

    def toggle(self) -> None:
        """A person shows or hides them."""
        self._open[self.beside] = not self.shown
        self._unasked = False

    def need(self) -> None:
        """Shows them for as long as something needs them."""
        if not self.shown:
            self._unasked = not self.beside
            self._open[self.beside] = True

    def release(self) -> None:
        """Hides them again, if nobody had asked for them."""
        if self._unasked:
            self._unasked = self._open[False] = False
