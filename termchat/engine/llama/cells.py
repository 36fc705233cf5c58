"""What holds the ids that a model has read: a context of llama.cpp in this process (`cache`), or a slot of a server.

A reply is drawn, and a past position is asked about, by these alone; how cells are made and reused is their own affair.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from termchat.engine.llama.softmax import Row
from termchat.engine.llama.vocabulary import Vocabulary


class Aborted(Exception):
    """A decode was stopped by the abort flag; only whole batches were read."""


class ContextFull(Exception):
    """No cell is left for the next token."""


class AbortSwitch(Protocol):
    """Ends a computation."""

    def set(self) -> None:
        """End it; may be called from any thread."""

    def clear(self) -> None: ...


class Cells(Protocol):
    """`ids` have been read, of at most `capacity`; prompts are read in batches of `batch_size`. `exact`: bits do not depend
    on how a prompt was cut into batches. `current`: the logits belong to `ids`.
    """

    @property
    def model(self) -> Vocabulary: ...
    @property
    def abort(self) -> AbortSwitch: ...

    capacity: int
    batch_size: int
    threads_batch: int
    exact: bool
    ids: list[int]
    current: bool

    def read_logits(self) -> Row:
        """Return the logits after `ids`, shape (n_vocab,)."""

    def peek_logits(self, ids: list[int]) -> Row:
        """Return a copy of the logits after other `ids`, shape (n_vocab,); `read_logits` stay as they are.

        Raises:
            Aborted, ContextFull, EngineError: there is no room, or it failed.
        """

    def rows_after(self, ids: list[int], row: int) -> Generator[NDArray[np.float32], None, None]:
        """Yield the logits after `ids[row]` and each later id but the last, some at a time: views of shape (n, n_vocab).

        Raises:
            Aborted, ContextFull, EngineError: as `peek_logits`.
        """
