"""What drafts did for a reply, read as far as the reply has come."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from termchat.chat.service import Chat
from termchat.conversation.tree import Node, Span
from termchat.decoding.draft_figures import DraftFigures, Round
from termchat.decoding.drafting import BatchTimes

_NEWEST = 9
"""Steps decoded alone whose median is what a row alone takes."""


class Machine(NamedTuple):
    """What is known of what batches cost before a reply tells: how many threads compute, and T(n) as it was measured."""

    threads: int
    batch_times: dict[int, float]

    @classmethod
    def of(cls, chat: Chat) -> Machine:
        measured = chat.model.measured if chat.model is not None else None
        threads = chat.live.threads or (chat.model.threads if chat.model is not None else 1)
        alike = measured is not None and measured.threads == threads
        return cls(threads, measured.batch_times if measured is not None and alike else {})


class ReplyDrafts:
    """Follows one reply, of one piece or several. What came already is not read again."""

    def __init__(self) -> None:
        self._begin(Machine(1, {}))

    def _begin(self, machine: Machine) -> None:
        self.machine = machine
        self.figures = DraftFigures()
        self.times = BatchTimes(machine.batch_times)
        """What batches cost, as far as it is known or the reply has measured it."""
        self.newest: Round | None = None
        """The newest round."""
        self._nodes: list[Node] = []
        self._taken = 0
        self._alone: deque[int] = deque(maxlen=_NEWEST)

    @property
    def row_us(self) -> float | None:
        """Microseconds that decoding one row alone takes now; None where none was."""
        return median(self._alone) if self._alone else None

    def knows(self, reply: Sequence[Span]) -> bool:
        """Whether this is the reply that was followed last."""
        return self._nodes[:1] == [span.node for span in reply[:1]]

    def follow(self, chat: Chat, reply: Sequence[Span]) -> None:
        """Takes in what came since the last time; another reply, or one that was cut, is read from its begin."""
        machine = Machine.of(chat)
        known = [span.node for span in reply[: len(self._nodes)]]
        cut = bool(known) and known == self._nodes and reply[len(known) - 1].count < self._taken
        if known != self._nodes or cut or machine != self.machine:
            self._begin(machine)
        for span in reply[max(len(self._nodes) - 1, 0) :]:
            if not self._nodes or self._nodes[-1] is not span.node:
                self._nodes.append(span.node)
                self._taken = 0
            self._read(span)

    def _read(self, span: Span) -> None:
        tokens, figures = span.node.tokens, self.figures
        count = min(span.count, len(tokens))
        for at in range(self._taken, count):
            before, step = figures.round, tokens[at]
            figures.add(step)
            made = figures.round
            self.newest = made or self.newest
            if not at:
                continue  # it was drawn from the last decode of the prompt
            if made is None:
                self._alone.append(step.decode_us)
                self.times.add(1, step.decode_us)
            elif before is None or before.begin != made.begin:
                self.times.add(made.rows, made.decode_us)
        self._taken = count
        if span.node.done:
            figures.end_run()
