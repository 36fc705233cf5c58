"""What a server has read, seen as `Cells`: rows of logits made of the candidates that it tells.

A prompt is read in pieces of at most `EXACT_BATCH` tokens, the last one alone, as the cache of this machine does it: so the
server's numbers are those, as far as its kernels are, there is progress, and a cancel takes effect after a piece at most.

Logits are log-probabilities: a constant is missing that the server does not tell and no stage but the repetition penalty can
see, which divides a logit if it is positive and multiplies it otherwise. Where that is on, the server's own penalty stage is
asked for the same row, and what it takes from a token tells the constant. That is a second pass for each token.

Tokens that are not listed share the mass that is left, each the same. So the log-probabilities of the listed ones are right;
the entropy of such a row is the most that it can be.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.samplers import SamplerSettings
from termchat.engine.llama.cache import EXACT_BATCH
from termchat.engine.llama.softmax import Row
from termchat.engine.port import EngineError
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.llama_server import LlamaServer, Timings
from termchat.engine.remote.proof import USUAL, Shortlist
from termchat.engine.remote.server_vocabulary import ServerVocabulary

_RAISED, _MOST, _CERTAIN, _LISTED = (40.0, 5.0), 60.0, 12.0, 30
"""How far a logit is raised to be positive, how large one may be, how far beyond that one to be drawn for certain, and how many
tokens are then listed. Too far, and the others are too unlikely to be listed."""
_FORGETFUL, _LONG = 3, 64
"""So many requests in a row for which the server read most of what it had read, and so many ids at least, once more: there are
several servers, and each is asked for the first time."""


class _Switch:
    """Cancels the request that is under way."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    def set(self) -> None:
        self._client.stop()

    def clear(self) -> None:
        self._client.go_on()


class ServerCells:
    """The ids that a slot of the server has read last for us; others may have taken it since.

    `known` are the candidates after `ids`, of which `row` is made, and `tail` the mass of all others: 0.0 where there are none.
    `usual` is how many are asked for with the next token; where those are all, `slowed_by` says what needs them. `lifted`: the
    logits are absolute.
    """

    exact = False
    largest_change: float | None = None
    kv_type = ""
    threads_batch = 0
    batch_size = EXACT_BATCH

    def __init__(self, server: LlamaServer, model: ServerVocabulary, capacity: int) -> None:
        self.server, self.model, self.capacity = server, model, capacity
        self.abort = _Switch(server.client)
        self.ids: list[int] = []
        self.current = self.lifted = False
        self.known = Shortlist(np.empty(0, np.int32), np.empty(0), model.n_vocab)
        self.row: Row = np.empty(0, np.float32)
        self.tail = 0.0
        self.usual, self.slowed_by = USUAL, ""
        self.aside: tuple[int, SamplerSettings | None] = (0, None)
        self._there: list[int] = []
        self._forgotten = 0

    def beside(self) -> ServerCells:
        """Cells for other ids of the same model."""
        return ServerCells(self.server, self.model, self.capacity)

    def take_of(self, other: ServerCells) -> None:
        """What is known of the ids of other cells holds for these."""
        self.ids, self.known, self.row, self.tail = other.ids, other.known, other.row, other.tail
        self.lifted, self.current, self.usual = other.lifted, other.current, other.usual
        self._there = self.ids

    def trust(self, ids: list[int]) -> None:
        """The server has read these ids for us, in whatever slot."""
        self._there = list(ids)

    def read_logits(self) -> Row:
        return self.row

    def read(self, ids: list[int]) -> Iterator[Timings]:
        """Has the server read ids, a piece at a time; the logits are then those after the last.

        Raises:
            Aborted, ContextFull, EngineError: it was stopped, there is no room, or the server failed or reads everything
                again each time.
        """
        self.current = False
        yield from self._read_pieces(ids)
        new = self.to_read(ids)
        timings = self._ask(ids, self.usual)
        self._heed(timings, new)
        yield timings

    @property
    def reached(self) -> int:
        """How many ids the server has read for us."""
        return len(self._there)

    def to_read(self, ids: list[int]) -> int:
        """How many of the ids the server has to read."""
        return len(ids) - self._common(ids)

    def next(self, ids: list[int]) -> None:
        """Has the server read the last of the ids, and what it had to forget for a question meanwhile.

        Raises:
            Aborted, ContextFull, EngineError: as `read`.
        """
        for _ in self.read(ids):
            pass

    def take(self, ids: list[int], known: Shortlist) -> None:
        """Take the candidates after ids that the server has read."""
        self.known, self.lifted = known, False
        self.row, self.ids, self.current = self._row_of(self.known), list(ids), True
        self._there = self.ids
        self.tail = self.known.tail

    def ask_for(self, count: int) -> None:
        """Has more candidates for the row at hand."""
        self._ask(self.ids, count)

    def lift(self, samplers: SamplerSettings) -> None:
        """Makes the logits at hand absolute, for penalties that need it."""
        if not self.lifted:
            self.row = self._row_of(self.known, self._constant(self.ids, self.known, samplers) or 0.0)
            self.lifted = True

    def peek_logits(self, ids: list[int]) -> Row:
        for _ in self.reading_aside(ids):
            pass
        return self.row_aside(ids)

    def reading_aside(self, ids: list[int]) -> Iterator[None]:
        """Has the server read all but the last of other ids, a piece at a time: `row_aside` is then soon there."""
        for _ in self._read_pieces(ids):
            yield

    def row_aside(self, ids: list[int]) -> Row:
        """The row after other ids: of as many candidates as `aside` says, 0 for all, and absolute if it names penalties that
        need it."""
        count, samplers = self.aside
        known = self.server.candidates(ids, count or self.model.n_vocab)
        self._there = list(ids)
        constant = None if samplers is None else self._constant(ids, known, samplers)
        return self._row_of(known, constant or 0.0)

    def rows_after(self, ids: list[int], row: int) -> Generator[NDArray[np.float32], None, None]:
        for at in range(row + 1, len(ids)):
            yield self.peek_logits(ids[:at])[None]

    def _read_pieces(self, ids: list[int]) -> Iterator[Timings]:
        """Has the server read all but the last id."""
        at = self._common(ids)
        while at < len(ids) - 1:
            begin, at = at, min(at + self.batch_size, len(ids) - 1)
            timings = self.server.read(ids[:at])
            self._there = ids[:at]
            self._heed(timings, at - begin)
            yield timings

    def _heed(self, timings: Timings, new: int) -> None:
        """Counts how often the server has forgotten what it read, where only so many ids were new."""
        forgot = timings.prompt_n > max(new + _LONG, timings.cache_n)
        self._forgotten = self._forgotten + 1 if forgot else 0
        if self._forgotten >= _FORGETFUL:
            self._forgotten = 0
            raise EngineError(
                "server",
                f"{self.server.client.shown} reads the whole text again for each token",
                "are there several servers behind this address? Have a chat stay with one of them; or does it not cache "
                "prompts?",
            )

    def _common(self, ids: list[int]) -> int:
        there = self._there
        limit = min(len(there), len(ids) - 1)
        if there[:limit] == ids[:limit]:
            return limit
        return next(i for i in range(limit) if there[i] != ids[i])

    def _ask(self, ids: list[int], count: int) -> Timings:
        ((known, timings),) = self.server.candidates_of([ids], min(count, self.model.n_vocab))
        self.take(ids, known)
        return timings

    def _row_of(self, known: Shortlist, constant: float = 0.0) -> Row:
        """Logits, shape (n_vocab,): the hidden ones share what mass is left."""
        hidden = known.n_vocab - len(known.ids)
        logprobs = known.logprobs
        rest = max(1.0 - float(np.exp(logprobs).sum()), 1e-12)
        fill = min(math.log(rest / hidden), float(logprobs[-1])) if hidden else 0.0
        row = np.full(known.n_vocab, fill + constant, np.float32)
        row[known.ids] = logprobs + constant
        return row

    def _constant(self, ids: list[int], known: Shortlist, samplers: SamplerSettings) -> float | None:
        """What log-probabilities lack of being logits; None where no token that is listed is penalised: nothing depends on it
        then.

        The server penalises one of them, whose logit l was raised so far that it is positive: l / r is what becomes of it. The
        tokens that are not penalised tell what is common to all.
        """
        penalty, recent = samplers.repeat_penalty, set(ids[-samplers.repeat_last_n :])
        own = dict(zip(known.ids.tolist(), known.logprobs.tolist(), strict=True))
        moved = next((i for i in own if i in recent and math.isfinite(own[i])), None)
        # What the server draws must be whole characters, else it tells nothing.
        drawn = next((i for i in own if i not in recent and is_text(self.model.piece(i))), None)
        if moved is None or drawn is None:
            return None
        for raised in _RAISED:
            above = raised * max(1.0, 1 / penalty) + _MOST * abs(1 - 1 / penalty) + _CERTAIN
            biases = {moved: raised - own[moved], drawn: above - own[drawn]}
            found = self.server.penalised(ids, _LISTED, samplers.repeat_last_n, penalty, biases)
            common = [log - own[i] for i, log in found.items() if i in own and i not in recent and i != drawn]
            if moved in found and common:
                left = found[moved] - float(np.median(common))
                return (left - raised / penalty) / (1 / penalty - 1)
        raise EngineError(
            "settings",
            f"repeat_penalty {penalty:g} is too far from 1 for a model on a server",
            "use 0.7 to 2, or turn it off",
        )


def is_text(piece: bytes) -> bool:
    """Whether it is characters, and not a part of one."""
    try:
        return bool(piece.decode())
    except UnicodeDecodeError:
        return False
