"""Replies that are drawn here from what a llama-server tells.

One reply has a slot of the server read its tokens. What several replies wait for is asked for in one request: the server gives
each a slot, and decodes them in one batch. All slots read the prompt, at once, in pieces that are so small that a batch of them
has the bits of one token after the other.

More replies than the server has slots take turns: the next one goes on when one of those in front is over or paused, since
replies that share a slot would have it read their tokens again and again. So all do where idle slots lose what they hold, as
those of a server do whose slots share one cache: there, one reply comes after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from time import perf_counter

import msgspec

from termchat.decoding.records import TAIL, Prefill, Token
from termchat.decoding.rules import Rules
from termchat.engine.llama.cells import Aborted, ContextFull
from termchat.engine.llama.chain import Chain
from termchat.engine.llama.observe import Mask
from termchat.engine.llama.reply import Lane, Reply, Running, Wait
from termchat.engine.llama.scheduler import Failure, Source
from termchat.engine.llama.softmax import Row
from termchat.engine.port import Cancel, Event, Generate, Noted, Prefilling, Remark, ReplyRequest
from termchat.engine.remote import proof
from termchat.engine.remote.llama_server import Timings
from termchat.engine.remote.proof import Shortlist
from termchat.engine.remote.server_cells import ServerCells

_SLACK = 8
"""Tokens that a slot may read again."""


class ServerLane(Lane):
    """What a reply has of a server's cells; `take_row` gives the logits that they have at hand, or a copy of them."""

    cells: ServerCells

    def __init__(self, cells: ServerCells, take_row: Callable[[], Row], *, alone: bool) -> None:
        self.cells, self._take_row, self._alone = cells, take_row, alone
        self.model, self.capacity = cells.model, cells.capacity

    def set_threads(self, threads: int) -> bool:
        """Do nothing: they are the server's own affair."""
        return self._alone

    def draw(self, reply: Reply) -> Generator[Event | Wait, None, Token]:
        """Draw the next token; where not all tokens are listed its `p_end` is the most that it can be."""
        drawn, cells = (yield from super().draw(reply)), self.cells
        self.least = {}
        if not cells.tail:
            return drawn
        known = proof.bounds(cells.known, cells.model.end_ids)
        self.least = known.least
        return msgspec.structs.replace(drawn, p_end=known.p_end[1], state=drawn.state | {TAIL: cells.tail})

    def find_row(self, reply: Reply, chain: Chain) -> Row:
        """Return the row, with as many candidates as prove what is drawn."""
        suffice(self.cells, chain, reply.controls.rules, reply.mask, reply.controls.forced)
        return self._take_row()

    def take_rows(self, ids: list[int], known: Shortlist, timings: Timings, seconds: float) -> None:
        """Take what the server told of these ids."""
        self.cells.take(ids, known)
        self.decode_us = int(seconds * 1e6)
        if self.prefill is None:
            self.take_prompt(Prefill(len(ids), timings.cache_n, [timings.prompt_n], seconds * 1e3))

    def take_prompt(self, record: Prefill) -> None:
        self.prefill, self.prefill_ms = record, record.ms


class ServerSource(Source):
    """Has a server decode for the replies of one request; see `Source`."""

    def __init__(self, cells: ServerCells, command: Generate, take_row: Callable[[], Row]) -> None:
        self.room = self._cells = cells
        self._take_row, self._alone = take_row, command.group is None
        self._slots = 1 if self._alone else max(cells.server.props().total_slots, 1)
        self._ids = command.replies[0].ids if command.replies else []
        self._prompt: Prefill | None = None
        self.steps = 0

    def open(self, request: ReplyRequest) -> ServerLane:
        if self._alone:
            return ServerLane(self._cells, self._take_row, alone=True)
        cells = self._cells.beside()
        return ServerLane(cells, cells.read_logits, alone=False)

    def plan_prompts(self, runs: Sequence[Running]) -> None:
        self._ids = list(runs[0].request.ids)

    def prefill_prompts(self, runs: Collection[Running]) -> Iterator[Event | Failure]:
        cells, begun = self._cells, perf_counter()
        shapes = [] if self._alone else (yield from self._read_in_slots(len(runs)))
        now = perf_counter()
        for event in read_prompt(cells, self._ids):
            before, now = now, perf_counter()
            if isinstance(event, Prefill):
                reused = 0 if shapes else event.reused
                ms = event.ms if self._alone else (now - begun) * 1e3
                self._prompt = Prefill(event.tokens, reused, [*shapes, *event.shapes], ms)
            else:
                yield event
        assert self._prompt is not None
        for run in list(runs):
            lane = _lane_of(run)
            if run.over or (len(run.request.ids) > len(self._ids) and run.request.ids[: len(self._ids)] == self._ids):
                continue  # what joined is read with the others
            if self._alone:
                lane.decode_us = int((now - before) * 1e6)
                lane.take_prompt(self._prompt)
            elif run.request.ids == self._ids:
                self._share(lane)
            else:
                try:
                    for event in read_prompt(lane.cells, run.request.ids):
                        if isinstance(event, Prefill):
                            lane.take_prompt(event)
                        else:
                            yield event
                except (Aborted, ContextFull) as error:
                    yield Failure([run], error)

    def _share(self, lane: ServerLane) -> None:
        assert self._prompt is not None
        lane.take_prompt(self._prompt)
        lane.cells.take_of(self._cells)

    def _read_in_slots(self, count: int) -> Generator[Event, None, list[int]]:
        """Have as many slots as replies can run at once read all but the last token of the prompt; return how many tokens at a
        time, [] where the prompt is read in one slot."""
        slots, ids, shapes = min(self._slots, count), self._ids[:-1], list[int]()
        if slots == 1:
            return shapes
        while len(ids) > sum(shapes):
            at = sum(shapes)
            shapes.append(min(max(self._cells.batch_size // slots, 1), len(ids) - at))
            read = self._cells.server.read_in_slots(ids[: at + shapes[-1]], slots)
            if at and self._forgot(timings.prompt_n - shapes[-1] for timings in read):
                self._cells.trust([])
                yield self._note_turns()
                return []
            yield Prefilling(sum(shapes), len(ids) + 1)
        self._cells.trust(ids)
        return shapes

    def _forgot(self, again: Iterable[int]) -> bool:
        """Return whether slots read so many tokens once more that replies have to come one after the other from now on."""
        if max(again, default=0) > _SLACK:
            self._slots = 1
        return self._slots == 1

    def _note_turns(self) -> Noted:
        what = f"{self._cells.server.client.shown} does not keep what its idle slots hold: the walks come one after the other"
        return Noted(Remark(what, "start the server with a --parallel of its own to have them run together"))

    def join_run(self, run: Running) -> None:
        if self._prompt is not None and len(run.request.ids) <= len(self._ids):
            self._share(_lane_of(run))

    def decode(self, runs: Sequence[Running], running: Sequence[Running]) -> Iterator[Failure | Event]:
        if self._alone:
            yield from self._decode_alone(runs[0])
            return
        for run in runs:  # those that wait for a slot end at once, too
            if any(isinstance(command, Cancel) for command in run.commands):
                yield Failure([run], Aborted())
        turns: dict[int, list[Running]] = {}
        for run in [run for run in runs if not run.over][: self._slots]:
            turns.setdefault(_lane_of(run).cells.usual, []).append(run)
        for count, turn in turns.items():
            begun = perf_counter()
            ids = [run.ids.copy() for run in turn]
            try:
                answers = self._cells.server.candidates_of(ids, count)
            except (Aborted, ContextFull) as error:
                yield Failure(turn, error)
                continue
            self.steps += 1
            seconds = perf_counter() - begun
            again = []
            for run, own, (known, timings) in zip(turn, ids, answers, strict=True):
                lane = _lane_of(run)
                again.append(timings.prompt_n - lane.cells.to_read(own))
                lane.take_rows(own, known, timings, seconds)
                run.waits = None
            if len(turn) > 1 and self._forgot(again):
                yield self._note_turns()

    def _decode_alone(self, run: Running) -> Iterator[Failure]:
        begun = perf_counter()
        try:
            self._cells.next(run.ids)
        except (Aborted, ContextFull) as error:
            yield Failure([run], error)
            return
        _lane_of(run).decode_us = int((perf_counter() - begun) * 1e6)
        run.waits = None


def _lane_of(run: Running) -> ServerLane:
    assert isinstance(run.lane, ServerLane)
    return run.lane


def read_prompt(cells: ServerCells, ids: list[int]) -> Iterator[Prefilling | Prefill]:
    """Have the server read what it lacks of the ids; yield progress, then the record.

    Raises:
        Aborted, ContextFull, EngineError: as `ServerCells.read`.
    """
    begun = perf_counter()
    total, start = cells.to_read(ids), len(ids) - cells.to_read(ids)
    reused: int | None = None
    shapes: list[int] = []
    for timings in cells.read(ids):
        reused = timings.cache_n if reused is None else reused
        shapes.append(timings.prompt_n)
        if cells.reached < len(ids):
            yield Prefilling(cells.reached - start, total)
    yield Prefill(len(ids), reused or 0, shapes, (perf_counter() - begun) * 1e3)


def suffice(
    cells: ServerCells, chain: Chain, rules: Rules, mask: Mask | None = None, forced: int | None = None
) -> None:
    """Ask for candidates that prove what the chain draws and which rules are met, and absolute logits if it needs them.

    Raises:
        Aborted, EngineError: as `ServerCells.read`.
    """
    samplers, moving = chain.settings, set(chain.moving)
    lifted = proof.is_lifting(samplers) or any(value > 0 for value in chain.biases.values())
    allowed = None if mask is None else mask.unpack_allowed(cells.model.n_vocab)
    while count := proof.more_than(cells.known, samplers, moving, lifted, allowed, forced):
        cells.ask_for(count)
    cells.usual = proof.next_guess(cells.known, samplers, moving, lifted, allowed)
    cells.slowed_by = proof.why_all(samplers, lifted, allowed is not None) if cells.usual == cells.model.n_vocab else ""
    looks = forced is None and cells.tail > 0 and rules.measures
    if looks and rules.are_open(proof.bounds(cells.known, cells.model.end_ids).measures):
        cells.ask_for(cells.model.n_vocab)
    if moving and proof.is_absolute(samplers):
        cells.lift(samplers)
