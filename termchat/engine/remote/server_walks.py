"""Many replies to one prompt that are drawn here from what a llama-server tells.

What all walks wait for is asked for in one request: the server gives each a slot, and decodes them in one batch. All slots read
the prompt, at once, in pieces that are so small that a batch of them has the bits of one token after the other.

More walks than the server has slots take turns: the next one goes on when one of those in front is over or paused, since walks
that share a slot would have it read their tokens again and again. So all do where idle slots lose what they hold, as those of a
server do whose slots share one cache: there, one walk comes after the other.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from time import perf_counter
from typing import ClassVar

from termchat.decoding.records import Prefill
from termchat.engine.abilities import LLAMA_SERVER
from termchat.engine.llama.cells import Aborted, ContextFull
from termchat.engine.llama.requests import Generate, GenerateWalks, Walk
from termchat.engine.llama.running_reply import Pending, RunningReply
from termchat.engine.llama.running_walks import Poll, RunningGroup, RunningWalk
from termchat.engine.port import Cancel, Event, Noted, Prefilling, Remark
from termchat.engine.remote.llama_server import Candidates
from termchat.engine.remote.server_cells import ServerCells
from termchat.engine.remote.server_reply import ServerDecoder, ServerReply, read_prompt

_SLACK = 8
"""Tokens that a slot may read again."""


class _OneOfMany(ServerDecoder):
    """Has the tokens of one walk read by the server, with those of others. It is `forked` behind a token of another walk."""

    def __init__(self, cells: ServerCells, walk: int, *, forked: bool) -> None:
        super().__init__(cells, cells.logits)
        self.prefilled: Prefill | None = None
        self._walk, self._forked = walk, forked

    def prefill(self, ids: list[int]) -> Iterator[Prefill | Pending]:
        yield Pending.TOKEN if self._forked else Pending.PROMPT
        assert self.prefilled is not None
        said, self.prefill_ms = self.prefilled, self.prefilled.ms
        yield Prefill(len(ids), said.reused, said.shapes, said.ms, walk=self._walk)

    def decode(self, ids: list[int]) -> Iterator[Pending]:
        yield Pending.TOKEN

    def hold(self) -> None:
        """Its row stays."""

    def take(self, ids: list[int], found: Candidates, seconds: float) -> None:
        self.cache.take(ids, found)
        self.decode_us = int(seconds * 1e6)
        if self.prefilled is None:
            timings = found.timings
            self.prefilled = Prefill(len(ids), timings.cache_n, [timings.prompt_n], seconds * 1e3)


class _Walk(RunningWalk[_OneOfMany]):
    reply_kind: ClassVar[type[RunningReply]] = ServerReply


class ServerWalks(RunningGroup[_Walk]):
    """See `RunningGroup`."""

    larger_context = LLAMA_SERVER.larger_context

    def __init__(self, cells: ServerCells, request: GenerateWalks, asked_at: float) -> None:
        super().__init__(cells, request, asked_at)
        self._cells = cells
        self._prefilled: Prefill | None = None
        self._slots = max(cells.server.props().total_slots, 1)

    def taken(self, number: int) -> list[int] | None:
        """The ids of a walk; None where there is none."""
        walk = self._walks.get(number)
        return None if walk is None else walk.taken

    def _prepare(self) -> None:
        """Each walk has what it needs as soon as it is made."""

    @property
    def _has_prompt(self) -> bool:
        return self._prefilled is not None

    def _of(self, walk: Walk, request: Generate, asked_at: float) -> _Walk:
        forked = len(request.ids) > len(self._request.ids)
        decoder = _OneOfMany(self._cells.beside(), walk.number, forked=forked)
        return _Walk(walk, request, self._request, decoder, asked_at)

    def _prefill(self, poll: Poll) -> Iterator[list[Event]]:
        cells, ids = self._cells, self._request.ids
        begun = perf_counter()
        yield [*self._obey(poll)]
        try:
            shapes = yield from self._in_slots(poll)
            for said in read_prompt(cells, ids):
                if isinstance(said, Prefill):
                    ms = (perf_counter() - begun) * 1e3
                    reused = 0 if shapes else said.reused
                    self._prefilled = Prefill(said.tokens, reused, [*shapes, *said.shapes], ms)
                else:
                    yield [said, *self._obey(poll)]
        except (Aborted, ContextFull) as failure:
            yield self._fail(self._running, failure)
            return
        for walk in self._running:
            self._begin(walk)

    def _in_slots(self, poll: Poll) -> Generator[list[Event], None, list[int]]:
        """Has as many slots as walks can run at once read all but the last token of the prompt: how many tokens at a time; []
        where the prompt is read in one slot."""
        slots, ids, shapes = min(self._slots, len(self._running)), self._request.ids[:-1], list[int]()
        if slots == 1:
            return shapes
        while len(ids) > sum(shapes):
            at = sum(shapes)
            shapes.append(min(max(self._cells.batch_size // slots, 1), len(ids) - at))
            read = self._cells.server.read_in_slots(ids[: at + shapes[-1]], slots)
            if at and self._forgot(timings.prompt_n - shapes[-1] for timings in read):
                self._cells.trust([])
                yield self._told()
                return []
            yield [Prefilling(sum(shapes), len(ids) + 1), *self._obey(poll)]
        self._cells.trust(ids)
        return shapes

    def _forgot(self, again: Iterable[int]) -> bool:
        """Whether slots read so many tokens once more that walks have to come one after the other from now on."""
        if max(again, default=0) > _SLACK:
            self._slots = 1
        return self._slots == 1

    def _told(self) -> list[Event]:
        what = f"{self._cells.server.client.shown} does not keep what its idle slots hold: the walks come one after the other"
        return [Noted(Remark(what, "start the server with a --parallel of its own to have them run together"))]

    def _take_prompt(self, walk: _Walk) -> None:
        walk.decoder.prefilled = self._prefilled
        walk.decoder.cache.take_of(self._cells)

    def _decode(self, pending: list[_Walk]) -> list[Event]:
        events: list[Event] = []
        for walk in pending:  # those that wait for a slot end at once, too
            if any(isinstance(command, Cancel) for command in walk.commands):
                events += walk.advance(Aborted())
        turns: dict[int, list[_Walk]] = {}
        for walk in [walk for walk in pending if not walk.over][: self._slots]:
            turns.setdefault(walk.decoder.cache.usual, []).append(walk)
        for count, walks in turns.items():
            begun = perf_counter()
            ids = [walk.taken.copy() for walk in walks]
            try:
                found = self._cells.server.candidates_of(ids, count)
            except (Aborted, ContextFull) as failure:
                events += self._fail(walks, failure)
                continue
            self._steps += 1
            seconds = perf_counter() - begun
            again = []
            for walk, own, one in zip(walks, ids, found, strict=True):
                again.append(one.timings.prompt_n - walk.decoder.cache.to_read(own))
                walk.decoder.take(own, one, seconds)
                walk.state = None
            if len(walks) > 1 and self._forgot(again):
                events += self._told()
        return events
