"""Going to other places of the chat than a scroll bar leads to: to a character, to a turn, and back."""

from __future__ import annotations

from collections.abc import Callable

from termchat.tui.terminal.compositor import touch
from termchat.tui.transcript.document import Anchor
from termchat.tui.transcript.scroll import DocumentView
from termchat.tui.transcript.source import Part
from termchat.tui.transcript.tokens import TokenRef, TurnTokens


class MovingView(DocumentView):
    """A view that can be told where to go. Where there is a token cursor it is left where it is."""

    def follow(self) -> None:
        """Goes to the end, and stays there while the transcript grows."""
        self.following = True
        self._place(lambda: self._top)

    @property
    def place(self) -> tuple[Anchor, bool]:
        """The character that begins the first line in view, and whether the end is followed: for `return_to`."""
        return self._document.anchor(self._top), self.following

    def return_to(self, place: tuple[Anchor, bool]) -> None:
        """Shows again what was shown."""
        anchor, following = place
        if following:
            self.follow()
        else:
            self._go(lambda: self._document.reach(anchor, self._rows))

    def bring(self, anchor: Anchor) -> None:
        """Brings the line of a character into view, with as much before it as behind it if it was not there."""
        top, before, height = self._top, self._document.anchor(self._top), self._document.height
        y = self._document.reach(anchor, 1)
        if self._document.height != height:  # by what was laid out on the way
            top = self._document.reach(before, self._rows)
            y = self._document.reach(anchor, 1)
        if top <= y < top + self._rows:
            self._go(lambda: top)
        else:
            self._go(lambda: self._document.settle(max(y - self._rows // 2, 0), self._rows))

    def row_of(self, turn: int) -> int:
        """The row of the view that the head of a turn is on; the first one where it is not in view."""
        row = self._head(turn) - self._top
        return row if 0 <= row < self._rows else 0

    def hold(self, turn: int, row: int) -> None:
        """Brings the head of a turn to a row of the view, as far as there are lines enough."""

        def reach() -> int:
            self._document.reach(Anchor(turn, -1), self._rows)
            return self._document.settle(max(self._head(turn) - row, 0), self._rows)

        self._go(reach)

    def _head(self, turn: int) -> int:
        return self._document.heights.top(turn) + (turn > 0)  # an empty line parts it from the turn before

    def jump(self, turns: int) -> None:
        """Brings the begin of a turn to the top: of the one there, or so many further on; behind the last one is the end."""
        document = self._document
        if not document.turns:
            return
        index = document.heights.at(self._top)
        if turns > 0 or self._top == document.reach(Anchor(index, -1), self._rows):
            index += turns
        if index >= len(document.turns):
            self.follow()
        else:
            self._go(lambda: document.reach(Anchor(max(index, 0), -1), self._rows))

    def token_of(self, anchor: Anchor) -> TokenRef | None:
        """The token that a character of a reply belongs to; None where it is no reply's, or the path does not reach it."""
        parts = self._document.turns[anchor.turn].parts
        if parts[0].node.role == "user":
            return None
        tokens = TurnTokens(parts)
        number = tokens.at(anchor.offset)
        ref = tokens.ref(number) if number >= 0 else None
        return ref if ref is not None and ref in self._document.track else None

    def parts(self) -> list[tuple[Part, ...]]:
        """What each turn is made of."""
        return [turn.parts for turn in self._document.turns]

    def found(self) -> None:
        """Something else is found, or looked at: draws that."""
        touch(self, self.size.region)

    def _go(self, reach: Callable[[], int]) -> None:
        self.following = False
        self._place(reach)
        self.following = self._cursor.ref is None and self._is_at_end
        touch(self, self.size.region)
