"""What a reply has of the cache while it runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from termchat.engine.llama.cache import MAIN, Cache
from termchat.engine.llama.chain import Chain
from termchat.engine.llama.model import Model
from termchat.engine.llama.reply import Lane, Reply
from termchat.engine.llama.reply_controls import ReplyControls
from termchat.engine.llama.softmax import Row
from termchat.engine.llama.speculation import Speculation


class CacheLane(Lane):
    """What a reply has of the cache: its drafts, its newest rows, and in a group its `sequence`; `own` is the cache's list of
    the ids of that, of which the first `shared` are those of others, too. `rows_alone`: its rows have the bits that they have
    alone.

    `wanted` are rows of several sequences to be decoded in place of the reply's newest token: those of a beam search.
    """

    model: Model
    drafts: Speculation
    cells: Cache

    def __init__(self, cache: Cache, drafts: Speculation, main: Callable[[], Row] | None) -> None:
        self.cells = self._cache = cache
        self.model, self.capacity, self.drafts = cache.model, cache.capacity, drafts
        self.sequence = MAIN
        self.rows_alone = True
        self.own: list[int] | None = None
        self.shared = 0
        self.wanted: list[tuple[int, int]] = []
        self.rows: NDArray[np.float32] = np.empty((0, 0), np.float32)
        self._main, self._decodes = main, 0
        self._row: Row = np.empty(0, np.float32)

    @property
    def threads(self) -> int:
        """The threads of the next decode; the bits of batches are those of one, whatever computes them."""
        return self._cache.threads if self._main is not None else 1

    def set_threads(self, threads: int) -> bool:
        if self._main is not None:
            self._cache.set_threads(threads)
        return self._main is not None

    def find_row(self, reply: Reply, chain: Chain) -> Row:
        return self._row if self._main is None else self._main()

    def begin_sequence(self, source: int, count: int) -> None:
        """Take a sequence that shares the first cells of another one."""
        self.sequence, self.shared = self._cache.begin_sequence(source, count), count
        self.own = self._cache.sequences[self.sequence]

    def take_rows(self, rows: NDArray[np.float32], decode_us: int) -> None:
        """Store the row after the newest token, and those after its drafts: views, valid until the next decode."""
        self.rows, self._row, self.decode_us = rows, rows[0], decode_us
        self._decodes = self._cache.decodes

    def accept_token(self, token: int) -> bool:
        """Return whether the token was drafted, so that the row after it is at hand."""
        drafts, cache = self.drafts, self._cache
        if not drafts.begun or (self._main is None and self._decodes != cache.decodes):
            return False
        if self._main is not None and not cache.advance_ahead(token):
            return False
        if (ahead := drafts.advance_row(token)) is None:
            return False
        if self._main is None:
            self._row = self.rows[ahead]
        self.decode_us = 0
        return True

    def hold_row(self, controls: ReplyControls) -> None:
        if self._main is None:
            self.drafts.cut_ahead()
            self._row = self._row.copy()

    def settle_drafts(self, count: int) -> None:
        """Take back the cells of drafts that were not drawn: all but those of the first `count` ids."""
        if self.own is not None and self._cache.sequences.get(self.sequence) is self.own and not self.wanted:
            self._cache.retract_tokens(self.sequence, max(count, self.shared))

    def close(self, count: int) -> None:
        self.settle_drafts(count - 1)
        self.drafts.end_reply()
        if self._main is not None and self.drafts.begun:
            self._cache.cut_ahead()
        self._row, self.rows = np.empty(0, np.float32), np.empty((0, 0), np.float32)
