"""A reply drawn again with its own past: what the dice would take at each of its tokens under other settings.

The logits that a reply was drawn from are kept while it streams, as far as `STREAMED_BYTES` go: those are its own, to the
bit. All others come from one pass in batches on the spare sequence. Where the main sequence holds the reply, each batch
looks back at those very cells and gives its own up again: a batch of cells is all the room that takes. Rows that were
computed are kept too, so that another turn of a knob only runs the chain again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing

import numpy as np

from termchat.decoding.draw import draw
from termchat.engine.llama.cells import Aborted, Cells
from termchat.engine.llama.chain import NothingFits
from termchat.engine.llama.softmax import Row
from termchat.engine.port import EngineError, Score, Scored

STREAMED_BYTES = 128 << 20
"""The most memory for the rows of the newest reply, which are kept in case it is asked about."""
ASKED_BYTES = 512 << 20
"""The most memory for the rows of the last reply that was asked about; rows beyond it are computed again each time."""

_BLOCK = 64


class Rows:
    """The logits before each token of a reply, from its first on, up to a number of `bytes`.

    Room for copies is allocated many rows at a time: fresh pages cost more than the copy.
    """

    def __init__(self, size: int, n_vocab: int) -> None:
        self._limit, self._n_vocab = size // (4 * n_vocab), n_vocab
        self.ids: list[int] = []
        self._first = 0
        self._rows: list[Row] = []
        self._room = np.empty((0, n_vocab), np.float32)

    def find_rows(self, ids: list[int], first: int) -> list[Row]:
        """Return the rows that hold for the reply `ids[first:]` too: up to and including the first token that differs."""
        known = self.ids
        same = next((i for i, (a, b) in enumerate(zip(ids, known, strict=False)) if a != b), min(len(ids), len(known)))
        return self._rows[: same - first + 1] if first == self._first and same >= first else []

    def begin_reply(self, ids: list[int], first: int, rows: list[Row]) -> None:
        """Replace the rows by those of the reply `ids[first:]`."""
        self.ids, self._first, self._rows = ids, first, rows[: self._limit]

    @property
    def full(self) -> bool:
        return len(self._rows) >= self._limit

    def write(self, row: Row) -> Row:
        """Return a copy of a row, shape (n_vocab,), which the next call overwrites unless `keep` is called before."""
        if not len(self._room):
            self._room = np.empty((_BLOCK, self._n_vocab), np.float32)
        copy: Row = self._room[0]
        copy[:] = row
        return copy

    def keep_last(self) -> None:
        """Append the last copy."""
        self._rows.append(self._room[0])
        self._room = self._room[1:]


class Scorer:
    """Answers `Score`."""

    def __init__(self, cells: Cells, *, streamed_bytes: int = STREAMED_BYTES, asked_bytes: int = ASKED_BYTES) -> None:
        self._cache = cells
        self._n_vocab = cells.model.n_vocab
        self._streamed, self._asked = Rows(streamed_bytes, self._n_vocab), Rows(asked_bytes, self._n_vocab)
        self._follows = False

    def follow_reply(self, ids: list[int], done: int, *, keep: bool = True) -> None:
        """Begin to keep the rows of a reply: `ids`, of which the last `done` are its own so far; without `keep`, none."""
        first = len(ids) - done
        rows = self._streamed.find_rows(ids, first)
        self._follows = keep and len(rows) >= done  # else the rows of its beginning are not at hand
        self._streamed.begin_reply(list(ids), first, rows[:done] if self._follows else [])

    def read_row(self) -> Row:
        """Return the logits to draw the next token from, shape (n_vocab,): a copy if they are kept, else the cache's own.

        The copy comes first, so that all that looks at them finds them near.
        """
        logits = self._cache.read_logits()
        return self._streamed.write(logits) if self._follows and not self._streamed.full else logits

    def keep_row(self, token: int) -> None:
        """Keep the row that the streaming reply drew this token from."""
        if self._follows:
            if not self._streamed.full:
                self._streamed.keep_last()
            self._streamed.ids.append(token)

    def score_reply(self, command: Score, progress: Callable[[int, int], None], wanted: Callable[[], bool]) -> Scored:
        """Draw the reply's tokens again. `progress` is called with the number of tokens that have their logits, and of all.

        Once something else is `wanted` it is given up between two batches; what was computed stays for the next time.

        Raises:
            Aborted: it was given up, or the abort flag was set.
            ContextFull: the spare sequence does not fit.
            EngineError: no such reply, the model cannot be asked, or llama.cpp failed.
        """
        ids, first = command.ids, len(command.ids) - command.count
        if not 0 < first < len(ids) or not all(0 <= i < self._n_vocab for i in ids):
            raise EngineError("prompt", "no such reply", "")
        model = self._cache.model
        chain = model.make_chain(command.samplers, ids[:first])
        drawn: list[int] = []
        probabilities: list[float] = []
        own = self._streamed.find_rows(ids, first)
        kept = own + self._asked.find_rows(ids, first)[len(own) :]
        self._asked.begin_reply(ids, first, kept)
        grammar = None
        if command.constraint is not None:
            begun = first + command.constraint_begun - command.done
            grammar = model.grammars.follow_ids(command.constraint, ids[begun:first])
        try:
            with closing(self._read_logits(command, kept, progress, wanted)) as rows:
                for at, row in enumerate(rows):
                    token, step = ids[first + at], command.done + at
                    mask = None if grammar is None or first + at < begun else grammar.wait_mask()
                    try:
                        left = chain.run(row, command.seed, step, mask)
                    except NothingFits:
                        grammar = None
                        left = chain.run(row, command.seed, step)
                    thrown = draw(left.ids, left.logits, command.seed, step, (token,))
                    probability = thrown.probability[token]
                    chain.remember_draw(thrown.id == token, probability, float(left.before[left.ids == token].sum()))
                    drawn.append(thrown.id)
                    probabilities.append(probability)
                    chain.accept_token(token)
                    if grammar is not None and first + at + 1 > begun:
                        grammar.take_token(token)
        finally:
            chain.close()
        texts = [model.name(i) for i in drawn]
        return Scored(drawn, texts, probabilities, recomputed=len(own) < command.count)

    def _read_logits(
        self, command: Score, kept: list[Row], progress: Callable[[int, int], None], wanted: Callable[[], bool]
    ) -> Generator[Row, None, None]:
        """Yield the rows before each of the last `count` ids: the kept ones, then those of a pass."""
        ids, count, done = command.ids, command.count, len(kept)
        yield from kept[:count]
        if done >= count:
            return
        with closing(self._cache.rows_after(ids, len(ids) - count - 1 + done)) as batches:
            for batch in batches:
                for row in batch:
                    if not self._asked.full:
                        self._asked.write(row)
                        self._asked.keep_last()
                done += len(batch)
                progress(done, count)
                yield from batch
                if done < count and wanted():
                    raise Aborted
