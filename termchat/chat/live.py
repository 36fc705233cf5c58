"""The newest step, and a short memory of timing: what the panels draw."""

from __future__ import annotations

from collections import deque
from itertools import dropwhile

from termchat.conversation.tree import Conversation
from termchat.decoding.draft_figures import DraftedStep
from termchat.decoding.records import UNKNOWN, Failed, Finished, Prefill, Record, SettingsRecord, Token


class Live:
    """What the panels show. All times are the engine's own; a field is None until it is known.

    `token` is the newest step, `pending` the one that a paused reply would take next. `preview` is the newest step under the
    knobs as they stand while nothing runs (None when they are the ones it was drawn with). `threads` are those of the running
    or last reply, 0 if there was none. `decode_us` and `sample_us` hold the last steps of that reply; the first token of a
    round of drafting has the whole round's, drafting included, the others 0. `row_us` are the same steps to compare them, see
    `TokenColumns.row_us`.
    """

    MEMORY = 240

    def __init__(self) -> None:
        self.token: Token | None = None
        self.pending: Token | None = None
        self.preview: Token | None = None
        self.preview_recomputed = False
        self.prefill: Prefill | None = None
        self.finished: Finished | None = None
        self.ttft_ms: float | None = None
        self.prefill_done = 0
        self.prefill_total = 0
        self.threads = 0
        self.decode_us: deque[int] = deque(maxlen=self.MEMORY)
        self.sample_us: deque[int] = deque(maxlen=self.MEMORY)
        self.row_us: deque[int] = deque(maxlen=self.MEMORY)

    @classmethod
    def restore_from(cls, conversation: Conversation, newest: Token | None) -> Live:
        """Make the state at the end of a stored conversation; `newest` is its last token."""
        live = cls()
        live.token = newest
        for span in [span for span in conversation.find_reply() if len(span.node.tokens)][-1:]:
            node = span.node
            live.prefill, live.finished = node.prefill, node.finished
            live.ttft_ms = node.finished.ttft_ms if node.finished else None
            for index in range(max(len(node.tokens) - cls.MEMORY, 0), len(node.tokens)):
                live._remember_token(node.tokens[index])
        return live

    @property
    def shown(self) -> Token | None:
        """The step to draw: the pending one, else the preview, else the newest."""
        return self.pending or self.preview or self.token

    @property
    def tokens_per_second(self) -> float | None:
        """Decode rate over the remembered steps after the first, sampling and drafting included. If they begin inside a
        round of drafting, whose time is unknown, the rate counts from the next round. Where a step may be several tokens,
        the engine's own rate after the reply ends.
        """
        if self.token is not None and self.token.id == UNKNOWN:
            return self.finished.tokens_per_second if self.finished is not None else None
        steps = list(zip(self.decode_us, self.sample_us, strict=True))[1:]
        if any(self.decode_us):
            steps = list(dropwhile(lambda step: not step[0], steps))
        total = sum(map(sum, steps))
        return len(steps) / (total / 1e6) if total else None

    @property
    def prefill_per_second(self) -> float | None:
        """New prompt tokens per second."""
        if self.prefill is None or not self.prefill.ms > 0 or self.prefill.reused < 0:
            return None
        new = self.prefill.tokens - self.prefill.reused
        return new / (self.prefill.ms / 1e3) if new > 1 else None

    @property
    def sampling_share(self) -> float | None:
        """Part of a step's time spent on sampling and observing, 0 to 1, over the remembered steps; None where a server
        samples.
        """
        sampling = sum(self.sample_us)
        return sampling / (sum(self.decode_us) + sampling) if sampling else None

    def take_record(self, record: Record) -> None:
        """Take the next record of the reply that is shown."""
        if isinstance(record, Token):
            self.token, self.preview, self.pending = record, None, None
            self._remember_token(record)
        elif isinstance(record, Prefill):
            self.prefill = record
        elif isinstance(record, SettingsRecord):
            self.threads = record.threads
        elif isinstance(record, (Finished, Failed)):
            self.pending = None
            self.finished = record if isinstance(record, Finished) else self.finished

    def _remember_token(self, token: DraftedStep) -> None:
        drafted, drafting_us = (len(token.draft.tokens), token.draft.us) if token.draft is not None else (0, 0)
        of_round = self.row_us[-1] if self.row_us and not token.decode_us else 0
        self.row_us.append(of_round or token.decode_us // (1 + drafted))
        self.decode_us.append(token.decode_us + drafting_us)
        self.sample_us.append(token.sample_us)
