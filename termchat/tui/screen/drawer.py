"""Whether the panels are shown: beside the chat on a wide screen, as a drawer on a narrow one."""

from __future__ import annotations

from textual.screen import Screen

_BESIDE = 100
"""From so many columns on the panels stand beside the chat unasked; under it they are a drawer."""
_WIDE, _WIDTH = 150, 60
"""Columns from which they are wider, and how wide they are then."""
ALONE = 80
"""Under so many columns an open drawer takes the chat's place."""


class Drawer:
    """Wide and narrow screens each remember whether their panels are shown. `beside` says which of them this one is.

    With `asked` neither has them until they are asked for. The style sheet of the screen does the rest, by the classes
    `-panels`, `-wide` and `-alone`.
    """

    def __init__(self, screen: Screen[None], *, asked: bool = False) -> None:
        self.beside = True
        self._needed = self._width = 0
        self._screen = screen
        self._open = {True: not asked, False: False}
        self._unasked, self._asked = False, asked
        self._needs: set[str] = set()

    @property
    def shown(self) -> bool:
        return self._open[self.beside]

    def leave(self, columns: int) -> None:
        """What stands where the chat was needs so many columns, before the panels have any unasked; 0: the chat is there."""
        if columns != self._needed:
            self._needed = columns
            self.fit(self._width)

    def fit(self, width: int) -> None:
        self._width = width
        self.beside = width >= max(_BESIDE, self._needed + _WIDTH if self._needed else 0)
        self._screen.set_class(width >= _WIDE, "-wide")
        self._screen.set_class(width < ALONE, "-alone")
        self._apply()

    def open_like(self, other: Drawer) -> None:
        """Show the panels where a person has asked for those of another screen."""
        self._open = dict(other._open)
        if other._unasked:
            self._open[False] = False
            self._open[True] = self._open[True] and not other._asked
        self.fit(other._width)

    def toggle(self) -> None:
        self._open[self.beside] = not self.shown
        self._unasked = False
        self._apply()

    def need(self, who: str) -> None:
        """Shows the panels for as long as somebody needs them."""
        self._needs.add(who)
        if not self.shown:
            self._unasked = self._asked or not self.beside
            self._open[self.beside] = True
            self._apply()

    def release(self, who: str) -> None:
        """Hides the panels again unless somebody else needs them, or a person had asked for them."""
        self._needs.discard(who)
        if self._unasked and not self._needs:
            self._unasked = self._open[False] = False
            if self._asked:
                self._open[True] = False
            self._apply()

    def _apply(self) -> None:
        self._screen.set_class(self.shown, "-panels")
