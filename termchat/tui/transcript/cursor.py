"""The token cursor: which token it is on, where that is, and where each move takes it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

from termchat.tui.transcript.blocks import Block
from termchat.tui.transcript.document import Document
from termchat.tui.transcript.jumps import Test, is_changed, is_fork, is_surprise, is_uncertain, jump
from termchat.tui.transcript.places import Spot, main_of
from termchat.tui.transcript.pointer import BEHIND, Pointer
from termchat.tui.transcript.tokens import TokenRef, Track

Move = Literal[
    "left", "right", "up", "down", "turn_up", "turn_down", "line_start", "line_end", "first", "last",
    "entropy_next", "entropy_prev", "surprise_next", "surprise_prev", "change_next", "change_prev", "fork_next", "fork_prev",
]  # fmt: skip


class Cursor:
    """A cursor on a token of a document in a token look. `forks` gives the tokens, as numbers of nodes and indexes, in whose
    place another branch goes on."""

    def __init__(self, document: Document, forks: Callable[[], Collection[tuple[int, int]]]) -> None:
        self._document = document
        self.forks = forks
        self.pointer = Pointer(document)
        self.column = 0
        self.ref: TokenRef | None = None
        self.spots: list[Spot] = []

    @property
    def track(self) -> Track:
        """All tokens that it can go to."""
        return self._document.track

    def put(self, ref: TokenRef | None) -> None:
        """Puts it on a token, or on none."""
        self.ref = ref
        self.find()
        if self.spots:
            self.column = main_of(self.spots).begin

    def find(self) -> None:
        """Finds its token again after something was laid out anew."""
        self._document.pointed = self.track.stretch(self.ref.node).turn if self.ref is not None else None
        self.spots = self.pointer.spots(self.ref) if self.ref is not None else []

    def move(self, how: Move) -> None:
        """Moves it; where there is nothing that way it stays. Up and down it keeps to its column."""
        to = MOVES[how](self, self.ref) if self.ref is not None else None
        if to is not None:
            column = self.column
            self.put(to)
            self.column = column if how in ("up", "down") else self.column

    def rows(self) -> list[int]:
        """The lines of the document that it is on."""
        return [self.pointer.line(self.ref, spot) for spot in self.spots] if self.ref is not None else []

    def on(self, block: Block, row: int) -> list[Spot]:
        """Its cells on a line of a block."""
        return [spot for spot in self.spots if spot.block is block and block.row(spot.line) == row]

    def newest(self, top: int, bottom: int) -> TokenRef | None:
        """The last token on these lines, with those after it that have no cells of their own; else the newest of the chat."""
        lines = range(bottom - 1, top - 1, -1)
        ref = next((found for y in lines if (found := self.pointer.at(y, BEHIND)) is not None), None)
        if ref is None:
            return self.track.last()
        while (after := self.track.next(ref)) is not None and not self.pointer.spots(after)[0].own:
            ref = after
        return ref


_Way = Callable[[Cursor, TokenRef], TokenRef | None]


def _jumps(test: Test | None, *, back: bool) -> _Way:
    """A jump by a test; without one, by the forks that the cursor knows of."""
    return lambda cursor, ref: jump(cursor.track, ref, test or is_fork(cursor.forks()), back=back)


MOVES: dict[Move, _Way] = {
    "left": lambda cursor, ref: cursor.track.previous(ref),
    "right": lambda cursor, ref: cursor.track.next(ref),
    "up": lambda cursor, ref: cursor.pointer.beyond(ref, cursor.column, down=False),
    "down": lambda cursor, ref: cursor.pointer.beyond(ref, cursor.column, down=True),
    "turn_up": lambda cursor, ref: cursor.track.turn_up(ref),
    "turn_down": lambda cursor, ref: cursor.track.turn_down(ref),
    "line_start": lambda cursor, ref: cursor.pointer.edge(ref, end=False),
    "line_end": lambda cursor, ref: cursor.pointer.edge(ref, end=True),
    "first": lambda cursor, _: cursor.track.first(),
    "last": lambda cursor, _: cursor.track.last(),
    "entropy_next": _jumps(is_uncertain, back=False),
    "entropy_prev": _jumps(is_uncertain, back=True),
    "surprise_next": _jumps(is_surprise, back=False),
    "surprise_prev": _jumps(is_surprise, back=True),
    "change_next": _jumps(is_changed, back=False),
    "change_prev": _jumps(is_changed, back=True),
    "fork_next": _jumps(None, back=False),
    "fork_prev": _jumps(None, back=True),
}
