"""The tokens of the path: which can be reached, in which order, and where their text is in a turn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from termchat.conversation.tree import Node
from termchat.tui.transcript.turn_source import Part, read_rest


class TokenRef(NamedTuple):
    """A token of the chat: the number of its node, and its place among the node's own tokens."""

    node: int
    index: int  # type: ignore[assignment]  # hides a method of tuples


class Stretch(NamedTuple):
    """A part of a reply: the number of its turn, where its text begins in that of the turn, and the part before it."""

    turn: int
    part: Part
    begin: int
    before: Stretch | None

    @property
    def node(self) -> Node:
        return self.part.node

    @property
    def reached(self) -> int:
        """How many of its tokens the path takes."""
        count = len(self.node.tokens)
        return count if self.part.reach is None else min(self.part.reach, count)


class Track:
    """All tokens of the path. Only the last part may still grow."""

    def __init__(self, turns: Sequence[Sequence[Part]]) -> None:
        self._stretches: list[Stretch] = []
        for turn, parts in enumerate(turns):
            before: Stretch | None = None
            begin = 0
            for part in parts:
                if part.node.role == "assistant":
                    before = Stretch(turn, part, begin, before)
                    self._stretches.append(before)
                    begin += part.node.tokens.texts.start(part.shown) + len(read_rest(part))
        self._places = {stretch.node.number: place for place, stretch in enumerate(self._stretches)}

    def __contains__(self, ref: TokenRef) -> bool:
        place = self._places.get(ref.node)
        return place is not None and 0 <= ref.index < self._stretches[place].reached

    def stretch(self, node: int) -> Stretch:
        return self._stretches[self._places[node]]

    def span(self, ref: TokenRef) -> tuple[int, int]:
        """Return the characters of a token in the text of its turn."""
        stretch = self.stretch(ref.node)
        texts = stretch.node.tokens.texts
        return stretch.begin + texts.start(ref.index), stretch.begin + texts.start(ref.index + 1)

    def find_token(self, turn: int, offset: int) -> TokenRef | None:
        """Return the token that a character of a turn belongs to, if the path reaches it."""
        place = bisect_right(self._stretches, (turn, offset), key=lambda stretch: (stretch.turn, stretch.begin)) - 1
        stretch = self._stretches[place] if place >= 0 else None
        if stretch is None or stretch.turn != turn:
            return None
        texts, offset = stretch.node.tokens.texts, offset - stretch.begin
        if offset >= texts.start(stretch.part.shown):
            return None
        ref = TokenRef(stretch.node.number, texts.find_text(offset))
        return ref if ref.index < stretch.reached else None

    def first(self) -> TokenRef | None:
        return self._end(iter(self._stretches), last=False)

    def last(self) -> TokenRef | None:
        return self._end(reversed(self._stretches), last=True)

    def next(self, ref: TokenRef) -> TokenRef | None:
        """Return the token after another, also in another reply."""
        if ref.index + 1 < self.stretch(ref.node).reached:
            return ref._replace(index=ref.index + 1)
        return self._end(iter(self._stretches[self._places[ref.node] + 1 :]), last=False)

    def previous(self, ref: TokenRef) -> TokenRef | None:
        if ref.index > 0:
            return ref._replace(index=ref.index - 1)
        return self._end(reversed(self._stretches[: self._places[ref.node]]), last=True)

    def turn_up(self, ref: TokenRef) -> TokenRef | None:
        """Return the first token of its reply; from there, of the reply before."""
        begin = self._begin_of(self.stretch(ref.node).turn)
        if begin != ref or begin is None:
            return begin
        before = self.previous(begin)
        return self._begin_of(self.stretch(before.node).turn) if before is not None else None

    def turn_down(self, ref: TokenRef) -> TokenRef | None:
        """Return the first token of the reply after its own."""
        turn = self.stretch(ref.node).turn
        return self._end((stretch for stretch in self._stretches if stretch.turn > turn), last=False)

    def ranges(self, ref: TokenRef, *, back: bool) -> Iterator[tuple[Stretch, range]]:
        """Yield the indexes after a token, or before it from the nearest on, part by part."""
        place = self._places[ref.node]
        here = self._stretches[place]
        if back:
            yield here, range(ref.index - 1, -1, -1)
            yield from ((stretch, range(stretch.reached - 1, -1, -1)) for stretch in reversed(self._stretches[:place]))
        else:
            yield here, range(ref.index + 1, here.reached)
            yield from ((stretch, range(stretch.reached)) for stretch in self._stretches[place + 1 :])

    def turn_of(self, ref: TokenRef) -> list[Stretch]:
        """List the parts of the reply that a token belongs to."""
        turn = self.stretch(ref.node).turn
        return [stretch for stretch in self._stretches if stretch.turn == turn]

    def nearest(self, ref: TokenRef) -> TokenRef | None:
        """Return the token; where the path does not reach it, the last one of its node, or else of the chat."""
        if ref in self:
            return ref
        if ref.node in self._places and (count := self.stretch(ref.node).reached):
            return ref._replace(index=min(max(ref.index, 0), count - 1))
        return self.last()

    def _begin_of(self, turn: int) -> TokenRef | None:
        return self._end((stretch for stretch in self._stretches if stretch.turn == turn), last=False)

    def _end(self, stretches: Iterator[Stretch], *, last: bool) -> TokenRef | None:
        """Return the first or last token of the first of them with tokens."""
        found = next(((stretch, stretch.reached) for stretch in stretches if stretch.reached), None)
        return TokenRef(found[0].node.number, found[1] - 1 if last else 0) if found is not None else None
