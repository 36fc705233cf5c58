"""The tokens of the path: which can be reached, in which order, and where their text is in a turn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from termchat.conversation.tree import Node
from termchat.tui.transcript.turn_source import Part, rest_of


class TokenRef(NamedTuple):
    """A token of the chat: the number of its node, and its place among the node's own tokens."""

    node: int
    index: int  # type: ignore[assignment]  # hides a method of tuples


class Stretch(NamedTuple):
    """A part of a reply: the turn and the part of it, its node, how many of its tokens the path takes at most (None: all
    there are), and the part before it in the same turn."""

    turn: int
    part: int
    node: Node
    reach: int | None
    before: Stretch | None

    @property
    def reached(self) -> int:
        there = len(self.node.tokens)
        return there if self.reach is None else min(self.reach, there)


class Track:
    def __init__(self, turns: Sequence[Sequence[Part]]) -> None:
        self._stretches: list[Stretch] = []
        for turn, parts in enumerate(turns):
            before: Stretch | None = None
            for index, part in enumerate(parts):
                if part.node.role == "assistant":
                    before = Stretch(turn, index, part.node, part.reach, before)
                    self._stretches.append(before)
        self._places = {stretch.node.number: place for place, stretch in enumerate(self._stretches)}

    def __contains__(self, ref: TokenRef) -> bool:
        place = self._places.get(ref.node)
        return place is not None and 0 <= ref.index < self._stretches[place].reached

    def stretch(self, node: int) -> Stretch:
        return self._stretches[self._places[node]]

    def first(self) -> TokenRef | None:
        return self._end(iter(self._stretches), last=False)

    def last(self) -> TokenRef | None:
        return self._end(reversed(self._stretches), last=True)

    def next(self, ref: TokenRef) -> TokenRef | None:
        """The token after it, in whichever reply."""
        if ref.index + 1 < self.stretch(ref.node).reached:
            return ref._replace(index=ref.index + 1)
        return self._end(iter(self._stretches[self._places[ref.node] + 1 :]), last=False)

    def previous(self, ref: TokenRef) -> TokenRef | None:
        if ref.index > 0:
            return ref._replace(index=ref.index - 1)
        return self._end(reversed(self._stretches[: self._places[ref.node]]), last=True)

    def turn_up(self, ref: TokenRef) -> TokenRef | None:
        """The first token of its reply; from there, of the reply before."""
        begin = self._begin_of(self.stretch(ref.node).turn)
        if begin != ref or begin is None:
            return begin
        before = self.previous(begin)
        return self._begin_of(self.stretch(before.node).turn) if before is not None else None

    def turn_down(self, ref: TokenRef) -> TokenRef | None:
        """The first token of the reply after its own."""
        turn = self.stretch(ref.node).turn
        return self._end((stretch for stretch in self._stretches if stretch.turn > turn), last=False)

    def ranges(self, ref: TokenRef, *, back: bool) -> Iterator[tuple[Stretch, range]]:
        """The indexes after a token, or before it from the nearest on, part by part."""
        place = self._places[ref.node]
        here = self._stretches[place]
        if back:
            yield here, range(ref.index - 1, -1, -1)
            yield from ((stretch, range(stretch.reached - 1, -1, -1)) for stretch in reversed(self._stretches[:place]))
        else:
            yield here, range(ref.index + 1, here.reached)
            yield from ((stretch, range(stretch.reached)) for stretch in self._stretches[place + 1 :])

    def turn_of(self, ref: TokenRef) -> list[Stretch]:
        """All parts of the reply that a token belongs to."""
        turn = self.stretch(ref.node).turn
        return [stretch for stretch in self._stretches if stretch.turn == turn]

    def nearest(self, ref: TokenRef) -> TokenRef | None:
        """The token itself; where the path does not reach it, the last one of its node, or else of the chat."""
        if ref in self:
            return ref
        if ref.node in self._places and (count := self.stretch(ref.node).reached):
            return ref._replace(index=min(max(ref.index, 0), count - 1))
        return self.last()

    def _begin_of(self, turn: int) -> TokenRef | None:
        return self._end((stretch for stretch in self._stretches if stretch.turn == turn), last=False)

    def _end(self, stretches: Iterator[Stretch], *, last: bool) -> TokenRef | None:
        """The first or last token of the first of them that has any."""
        found = next(((stretch, stretch.reached) for stretch in stretches if stretch.reached), None)
        return TokenRef(found[0].node.number, found[1] - 1 if last else 0) if found is not None else None


class TurnTokens:
    """The tokens of one turn, numbered through all its parts, and where their text is in the turn's."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts  # only the last one may still grow
        self._texts = [part.node.tokens.texts for part in parts]
        counts = [part.shown for part in parts[:-1]]
        self._firsts = list(accumulate(counts, initial=0))
        ends = [texts.start(n) + len(rest_of(part)) for part, texts, n in zip(parts, self._texts, counts, strict=False)]
        self._begins = list(accumulate(ends, initial=0))

    def span(self, number: int) -> tuple[int, int]:
        """The characters of a token in the turn's text."""
        part = bisect_right(self._firsts, number) - 1
        texts, begin, index = self._texts[part], self._begins[part], number - self._firsts[part]
        return begin + texts.start(index), begin + texts.start(index + 1)

    def at(self, offset: int) -> int:
        """The number of the token that a character belongs to; -1 behind the last one's text."""
        part = bisect_right(self._begins, offset) - 1
        texts, place = self._texts[part], offset - self._begins[part]
        last = self._parts[part].shown
        return self._firsts[part] + texts.find_text(place) if place < texts.start(last) else -1

    def among(self, begin: int, end: int) -> Iterator[int]:
        """The numbers of the tokens that have some of these characters, in order."""
        for first, before, texts, part in zip(self._firsts, self._begins, self._texts, self._parts, strict=True):
            at, stop = max(begin - before, 0), min(end - before, texts.start(part.shown))
            if at < stop:
                index, last = texts.find_text(at), texts.find_text(stop - 1)
                yield from (first + at for at, size in enumerate(map(len, texts[index : last + 1]), index) if size)

    def number(self, part: int, index: int) -> int:
        return self._firsts[part] + index

    def ref(self, number: int) -> TokenRef:
        part = bisect_right(self._firsts, number) - 1
        return TokenRef(self._parts[part].node.number, number - self._firsts[part])
