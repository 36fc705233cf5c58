"""The tokens of several replies to one prompt as a trie: what they begin with together stands there once.

A node is a `TokenRun`: tokens that the same walks took. Where these part, and where one of them has no more tokens, runs follow
it. The trie is the same in whatever order the tokens of different walks came.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple


class TokenRun:
    """Tokens `begin` to `end` (counted from the prompt, the last not included) of the `walks`, in order of their numbers.

    `children` go on from it, ordered by their first walks; a walk that is in none of them has no further token.
    """

    __slots__ = ("begin", "children", "end", "parent", "walks")

    def __init__(self, begin: int, end: int, walks: list[int], parent: TokenRun | None) -> None:
        self.begin, self.end, self.walks, self.parent = begin, end, walks, parent
        self.children: list[TokenRun] = []

    @property
    def first(self) -> int:
        return self.walks[0]


class TrieStretch(NamedTuple):
    """A run as it is drawn, after the one that it follows: `level` is the number of runs before it, `ids` are its tokens, and
    `begin` says how many stand before them. `last` says whether no other run follows the same one after it. The `over` of its
    `walks` have no further token."""

    level: int
    begin: int
    ids: Sequence[int]
    walks: tuple[int, ...]
    last: bool
    over: tuple[int, ...]


class TokenTrie:
    """Replies as a tree of tokens. Adding a token takes at most time in proportion to the number of replies, however many
    tokens they have.
    """

    def __init__(self) -> None:
        self._root = TokenRun(0, 0, [], None)
        self._ids: dict[int, array[int]] = {}
        self._places: dict[int, TokenRun] = {}
        self.first_parted: int | None = None
        """How many tokens all have in common before the first two differ; None while no two do."""

    def list_ids(self, walk: int) -> Sequence[int]:
        """Return all tokens of a walk; () of one that is not there."""
        return self._ids.get(walk, ())

    def add(self, walk: int) -> None:
        """A walk that has no tokens yet; one that is there already stays as it is."""
        if walk not in self._ids:
            self._ids[walk] = array("i")
            self._places[walk] = self._root
            insort(self._root.walks, walk)

    def append_token(self, walk: int, id: int) -> None:
        """The next token of a walk, which is added where it is not there yet."""
        self.add(walk)
        self._ids[walk].append(id)
        run = self._places[walk]
        if run.walks == [walk] and run.parent is not None:
            run.end += 1
            return
        child = next((child for child in run.children if self._ids[child.first][child.begin] == id), None)
        if child is None:
            child = TokenRun(run.end, run.end + 1, [walk], run)
            run.children.append(child)
            if len(run.children) > 1:
                self.first_parted = run.end if self.first_parted is None else min(run.end, self.first_parted)
        else:
            child = self._cut_run(child)
            insort(child.walks, walk)
        run.children.sort(key=attrgetter("first"))
        self._places[walk] = child
        if child.walks == run.walks and run.parent is not None:
            self._join_child(run, child)

    def list_stretches(self) -> Iterator[TrieStretch]:
        """Yield every run before those that follow it, in order: the drawing, line by line."""
        open_ = _list_following(self._root, 0)
        while open_:
            run, level, last = open_.pop()
            ids = self._ids[run.first][run.begin : run.end]
            going = {walk for child in run.children for walk in child.walks}
            over = tuple(walk for walk in run.walks if walk not in going)
            yield TrieStretch(level, run.begin, ids, tuple(run.walks), last, over)
            open_ += _list_following(run, level + 1)

    def count_shared(self, a: int, b: int) -> int | None:
        """Return how many tokens two walks begin with together, if they differ after these; None while one begins as the
        other is.
        """
        one, other = self._places[a], self._places[b]
        ancestors = set()
        run: TokenRun | None = one
        while run is not None:
            ancestors.add(id(run))
            run = run.parent
        while id(other) not in ancestors:
            assert other.parent is not None
            other = other.parent
        together = other.end
        return together if together < min(len(self._ids[a]), len(self._ids[b])) else None

    @property
    def different(self) -> int:
        """Number of different replies: equal ones count once."""
        return len({id(place) for place in self._places.values()})

    @property
    def shared(self) -> float | None:
        """Share of all tokens in a beginning common to several replies; None without tokens."""
        tokens = sum(map(len, self._ids.values()))
        alone, waiting = 0, [self._root]
        while waiting:
            run = waiting.pop()
            alone += (run.end - run.begin) * (len(run.walks) == 1)
            waiting += run.children
        return 1 - alone / tokens if tokens else None

    def _cut_run(self, run: TokenRun) -> TokenRun:
        """Leave a run its later tokens, and has the first one stand before it in a run of its own, which this returns."""
        if run.end == run.begin + 1:
            return run
        parent = run.parent
        assert parent is not None
        head = TokenRun(run.begin, run.begin + 1, list(run.walks), parent)
        head.children = [run]
        parent.children[parent.children.index(run)] = head
        run.begin, run.parent = head.end, head
        return head

    def _join_child(self, run: TokenRun, child: TokenRun) -> None:
        """The only child of a run, which all its walks went on to, becomes a part of it."""
        run.end, run.children = child.end, child.children
        for one in run.children:
            one.parent = run
        for walk in run.walks:
            if self._places[walk] is child:
                self._places[walk] = run


def _list_following(run: TokenRun, level: int) -> list[tuple[TokenRun, int, bool]]:
    """Return the children of a run, the last one first."""
    return [(child, level, at == 0) for at, child in enumerate(reversed(run.children))]
