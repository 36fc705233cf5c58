"""A beam search: many beginnings of a reply at once, of which the best go on. `decoding.beam_search` has the rules.

Each running beam is a sequence of the cache, which shares the cells of the prompt, and of what it has in common with others.
A step decodes a row for each, and looks for its best tokens. The first beam that goes on from another stays in its sequence,
all further ones begin as copies of it, and a sequence from which none goes on is dropped. Where there is room for all tokens
that the search can take, cells that nobody needs any more stay until its end, so that each row has the bits that it has alone
(`Cache.drop_sequence`). Else they are freed: what is decoded then fills them, attention sums in the order of the cells, and
so the numbers depend on the course of the search. The same search gives the same then, too, but `Start` says that it is not
exact.

Which beams are among the best is known in the end. So each token is observed when its beam takes it, while its logits are at
hand, and is kept on the paths of the beams that go on from it, until the replies are told.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from time import perf_counter
from typing import NamedTuple

import msgspec
import numpy as np

from termchat.decoding.beam_search import (
    BeamStep,
    Continuation,
    Scored,
    Search,
    choose_step,
    count_needed,
    find_problem,
)
from termchat.decoding.conditions import Length, Stop
from termchat.decoding.constraint import GRAMMAR, INCOMPLETE, NOT_YET
from termchat.decoding.records import Beam, Beams, Reason, Record, SettingsRecord, Token
from termchat.engine.llama.cells import Aborted, ContextFull
from termchat.engine.llama.chain import Chain, NothingFits, Observer, find_top
from termchat.engine.llama.grammars import Follower
from termchat.engine.llama.lane import CacheLane
from termchat.engine.llama.reply import Lane, Running, Wait, build_finished, complete_record
from termchat.engine.llama.reply_controls import Cancelled, ReplyControls
from termchat.engine.llama.softmax import Exponentials, Row
from termchat.engine.port import (
    Cancel,
    EngineError,
    Event,
    FirstToken,
    Generate,
    Noted,
    Pause,
    Paused,
    ReplyRequest,
    Resume,
    WalksFinished,
)
from termchat.engine.port import Step as StepOn

Ending = tuple[Reason, str]


class _Ended(NamedTuple):
    """A beam that runs no longer, and why. Its sequence lacks the last token: that was not decoded."""

    path: tuple[Token, ...]
    ending: Ending
    sequence: int | None = None


class _Running(NamedTuple):
    """A beam, its sequence, and the `path` of tokens that it took. `total` is the sum of its logprobs, `tail` the bytes in
    which a stop sequence may have begun."""

    sequence: int
    total: float
    path: tuple[Token, ...]
    chain: Chain
    tail: bytes
    grammar: Follower | None


class BeamSearch(Running):
    """A policy of how the rows of a step go on as sequences: the best tokens after all beams are the next beams.

    Its running beams all have `length` tokens, and `lane.wanted` are their rows to decode.

    Raises:
        EngineError: the settings, the prompt or the constraint cannot be used.
    """

    lane: CacheLane

    def __init__(self, request: ReplyRequest, command: Generate, lane: Lane, asked_at: float) -> None:
        assert command.group is not None
        assert command.group.beams is not None
        how = command.group.beams
        if wrong := find_problem(how):
            raise EngineError("settings", wrong, "change the settings of the search")
        conditions = tuple(c for c in request.conditions if isinstance(c, Length | Stop))
        request = msgspec.structs.replace(request, conditions=conditions)
        super().__init__(request, command, lane, asked_at)
        self.how, self.width = how, how.width
        self.cells = self.lane.cells
        if self.controls.constraint_begun == NOT_YET:
            raise EngineError(
                "constraint",
                "a beam search cannot keep to a constraint that begins behind thoughts",
                "turn thinking off, or remove the constraint",
            )
        self.stops = [c.text.encode() for c in conditions if isinstance(c, Stop)]
        self.open_tail = max(map(len, self.stops), default=1) - 1
        self.search = Search[_Ended](self.how)
        self.running: list[_Running] = []
        self.chains: list[Chain] = []
        self.kept: dict[int, tuple[int, list[int]]] = {}
        self.length = 0
        self.chosen_at: list[float] = []
        self.first = 0
        self.endings: dict[Continuation, Ending] = {}
        self.followers: dict[Continuation, Follower] = {}
        model = self.model
        self.observer = Observer(model.n_vocab, model.end_ids, model.names, command.candidates)
        self.exponentials = Exponentials(model.n_vocab)
        self.enough = count_needed(self.how.width, len(model.end_ids))

    def free_memory(self) -> None:
        for chain in self.chains:
            chain.close()
        self.controls.close()

    @property
    def left(self) -> int:
        """How many tokens its beams may have yet."""
        limit = self.controls.limit
        room = self.lane.capacity - len(self.ids) - self.length
        return max(room if limit is None else min(room, limit - self.request.done - self.length), 0)

    def has_room(self) -> bool:
        """Return whether the cells suffice for each token that the beams can take; the last of each is not decoded."""
        limit = self.controls.limit
        left = self.lane.capacity - len(self.request.ids)
        return limit is not None and self.how.width * (limit - self.request.done - 1) <= left

    def records(self) -> Generator[Event | Wait, None, None]:
        """Yield what answers the request, and what the search waits for in between."""
        capacity = self.lane.capacity
        yield self._make_start()
        yield self.controls.record_settings()
        ending: Ending | None
        try:
            yield from self.wait_prefill()
            ending = yield from self._run_search()
        except (Cancelled, Aborted):
            ending = "user", "" if self.running else "during prefill"
        except ContextFull:
            ending = "context", f"{capacity} of {capacity}"
        best = [_Ended((), ending or ("user", ""))]
        if self.length:
            running = [(self._break_off(beam, ending), beam.total) for beam in self.running] if ending else []
            best = [one.beam for one in self.search.n_best(running, self.length)]
        for walk, ended in enumerate(best):
            if ended.sequence is not None:
                self.kept[walk] = ended.sequence, self.cells.sequences[ended.sequence]
        for walk, ended in enumerate(best):
            yield from self._tell_reply(walk, ended)
        decoding = self.chosen_at[-1] - self.chosen_at[0] if self.chosen_at else 0.0
        rate = (self.tokens - self.first) / decoding if decoding else None
        yield WalksFinished(self.tokens, len(self.chosen_at), decoding * 1e3, rate)

    # --- its course --------------------------------------------------------------------------------------------------

    def read_commands(self) -> Iterator[SettingsRecord | Noted]:
        while self.commands:
            command = self.commands.popleft()
            if isinstance(command, Cancel | Pause | Resume | StepOn):
                yield from self.controls.obey_command(command)

    def _run_search(self) -> Generator[Event | Wait, None, Ending | None]:
        """Search; return why the beams that still run were broken off, None where they were beaten."""
        limit, lane = self.controls.limit, self.lane
        self.running = [self._make_root()]
        while True:
            yield from self.read_commands()
            begun, rows = self._read_clock(), lane.rows
            self.endings, self.followers = {}, {}
            best = [self._find_best_tokens(beam, row) for beam, row in zip(self.running, rows, strict=True)]
            chosen = choose_step([beam.total for beam in self.running], best, self.how.width, self._check_finished)
            going = [*chosen.running, *chosen.finished]
            if not going:
                return "rule", f"no token fits ({GRAMMAR})"
            drawn = [self._observe_token(one, rows[one.parent]) for one in going]
            sample_us = int((self._read_clock() - begun) * 1e6)
            times = {"decode_us": lane.decode_us, "sample_us": sample_us}
            paths = [
                (*self.running[one.parent].path, msgspec.structs.replace(each, **times))
                for one, each in zip(going, drawn, strict=True)
            ]
            yield from self._wait_for_step(drawn[0])
            self.chosen_at.append(self._read_clock())
            if len(self.chosen_at) == 1:
                self.first = len(going)
                yield FirstToken((self.chosen_at[0] - self.asked_at) * 1e3, 0)
            self.tokens += len(going)
            yield self._record_step(chosen)
            for one, path in zip(chosen.finished, paths[len(chosen.running) :], strict=True):
                self._finish_beam(one, path)
            self._advance_beams(chosen.running, paths)
            if self.search.is_over(self.running[0].total if self.running else None, self.length):
                return None
            if limit is not None and self.request.done + self.length >= limit:
                return "length", f"max_tokens {limit}"
            lane.wanted = [(beam.sequence, beam.path[-1].id) for beam in self.running]
            yield Wait.TOKEN

    def _wait_for_step(self, drawn: Token) -> Iterator[Event]:
        """Wait while the search is paused, with the token that the best beam would take."""
        controls = self.controls
        while controls.waiting:
            since = perf_counter()
            position = len(self.request.ids) + self.length
            yield Paused(
                complete_record(drawn, self.model, position, settings=0, decode_us=self.lane.decode_us, walk=0), walk=0
            )
            yield from self.read_commands()
            self.waited += perf_counter() - since
        if controls.steps:
            controls.steps.popleft()
            controls.waiting = not controls.steps

    # --- its beams ---------------------------------------------------------------------------------------------------

    def _make_root(self) -> _Running:
        """Return the beam that all others begin with."""
        controls, model = self.controls, self.model
        own = self.request.ids[len(self.request.ids) - self.request.done :]
        tail = self._cut_tail(b"".join(map(model.piece, own)))
        grammar = None if controls.dropped else controls.grammar
        return _Running(self.lane.sequence, 0.0, (), self._make_chain(()), tail, grammar)

    def _cut_tail(self, data: bytes) -> bytes:
        return data[len(data) - min(self.open_tail, len(data)) :]

    def _make_chain(self, path: tuple[Token, ...]) -> Chain:
        """Return a chain that has seen the prompt and the path of a beam."""
        request, model = self.request, self.model
        past = [*request.ids, *(taken.id for taken in path)]
        self.chains.append(model.make_chain(request.samplers, past, request.state))
        return self.chains[-1]

    def _find_best_tokens(self, beam: _Running, row: Row) -> list[Scored]:
        """Return the best tokens after a beam, with their logprobs."""
        mask = beam.grammar.wait_mask() if beam.grammar is not None else None
        if beam.grammar is not None and mask is None:
            return []
        if self.how.after_chain:
            try:
                left = beam.chain.run(row, self.request.seed, self.request.done + self.length, mask)
            except NothingFits:
                return []
            ids, logits = left.ids, left.logits.astype(np.float64)
            highest = float(logits.max())
            mass = float(np.exp(logits - highest).sum())
        else:
            suppressed = self.model.suppressed
            allowed = row if mask is None else np.where(mask.unpack_allowed(len(row)), row, np.float32(-np.inf))
            ids = find_top(allowed, self.enough + len(suppressed))
            ids = ids[np.isfinite(allowed[ids]) & ~np.isin(ids, suppressed)]
            logits = row[ids].astype(np.float64)
            highest = float(row.max())
            mass = self.exponentials.compute_sum(row, highest)
        order = np.lexsort((ids, -logits))[: self.enough]
        logprobs = logits[order] - (highest + math.log(mass))
        return list(zip(ids[order].tolist(), logprobs.tolist(), strict=True))

    def _check_finished(self, one: Continuation) -> bool:
        """Return whether a token finishes the beam: an end token, one that completes a stop sequence, or the last that a
        constraint allows."""
        beam, model = self.running[one.parent], self.model
        if one.id in model.end_ids:
            self.endings[one] = "end", model.name(one.id)
            return True
        if self.stops and model.is_control(one.id) and (name := model.name(one.id)).encode() in self.stops:
            self.endings[one] = "stop", name
            return True
        piece = model.piece(one.id)
        text = beam.tail + piece
        for stop in self.stops:
            if text.find(stop, max(len(beam.tail) - len(stop) + 1, 0)) >= 0:
                self.endings[one] = "stop", stop.decode()
                return True
        if beam.grammar is not None:
            follower = self.followers[one] = beam.grammar.fork_follower()
            follower.take_token(one.id)
            if follower.complete:
                self.endings[one] = "end", f"nothing can follow ({GRAMMAR})"
                return True
        return False

    def _observe_token(self, one: Continuation, row: Row) -> Token:
        """Observe a token under the settings; the search chose it, and not the dice."""
        beam = self.running[one.parent]
        mask = beam.grammar.wait_mask() if beam.grammar is not None else None
        step = self.request.done + self.length
        return self.observer.draw(row, beam.chain, self.request.seed, step, one.id, mask)

    def _record_step(self, chosen: BeamStep) -> Beams:
        running, kept = len(chosen.running), len(chosen.running) + len(chosen.finished)
        beams = [
            Beam(
                place, one.parent, one.id, self.model.name(one.id), one.logprob,
                self.search.score_beam(one.total, self.length + 1), running <= place < kept,
            )
            for place, one in enumerate([*chosen.running, *chosen.finished, *chosen.dropped])
        ]  # fmt: skip
        return Beams(self.request.done + self.length, beams[:kept], beams[kept:])

    def _advance_beams(self, chosen: list[Continuation], paths: list[tuple[Token, ...]]) -> None:
        """Go on with these beams, each in a sequence of its own."""
        before, after = self.running, list[_Running]()
        parents = {one.parent for one in chosen}
        for place, beam in enumerate(before):
            if place not in parents:
                self.cells.drop_sequence(beam.sequence, free=not self.lane.rows_alone)
                if beam.chain.remembers:
                    self.chains.remove(beam.chain)
                    beam.chain.close()
        staying = set[int]()
        for one, path in zip(chosen, paths[: len(chosen)], strict=True):
            parent = before[one.parent]
            stays = one.parent not in staying
            staying.add(one.parent)
            sequence = parent.sequence if stays else self.cells.begin_sequence(parent.sequence)
            if not parent.chain.remembers:
                chain = parent.chain
            elif stays:
                chain = parent.chain
                chain.accept_token(one.id)
            else:
                chain = self._make_chain(path)
            tail = self._cut_tail(parent.tail + self.model.piece(one.id))
            after.append(_Running(sequence, one.total, path, chain, tail, self.followers.get(one)))
        self.running, self.length = after, self.length + 1

    def _finish_beam(self, one: Continuation, path: tuple[Token, ...]) -> None:
        """End a beam; its cells stay as long as it is one of the best."""
        sequence = self.cells.begin_sequence(self.running[one.parent].sequence)
        worst = self.search.finish_beam(_Ended(path, self.endings[one], sequence), one.total, self.length + 1)
        if worst is not None and worst.sequence is not None:
            self.cells.drop_sequence(worst.sequence, free=not self.lane.rows_alone)

    def _break_off(self, beam: _Running, ending: Ending) -> _Ended:
        reason, detail = ending
        if beam.grammar is not None and not beam.grammar.accepting:
            detail = f"{detail}; {INCOMPLETE}" if detail else INCOMPLETE
        return _Ended(beam.path, (reason, detail), beam.sequence)

    # --- what it tells -----------------------------------------------------------------------------------------------

    def _tell_reply(self, walk: int, ended: _Ended) -> Iterator[Record]:
        """Yield the records of one of the best beams; those of the first one's beginning were sent before the search."""
        controls = ReplyControls(self.request, self.lane, list(self.request.ids), walk)
        model = self.model
        if walk and self.lane.prefill is not None:
            yield msgspec.structs.replace(self._make_start(), walk=walk)
            yield controls.record_settings()
            yield msgspec.structs.replace(self.lane.prefill, walk=walk)
        (reason, detail), path, gate = ended.ending, ended.path, controls.gate
        for step, taken in enumerate(path):
            text = gate.push_bytes(model.piece(taken.id))
            if step + 1 == len(path) and reason not in ("end", "stop", "user"):
                text += gate.release_text()
            phase = controls.thoughts.push_piece(model.spell_token(taken.id))
            position = len(self.request.ids) + step
            yield complete_record(taken, model, position, text=text, settings=0, phase=phase, walk=walk)
        yield build_finished(
            reason, detail, gate, self.chosen_at[: len(path)], self.asked_at, self.lane.prefill_ms, walk
        )
