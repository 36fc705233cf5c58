"""One reply that is drawn here from what a server tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter

from termchat.decoding.records import TAIL, Prefill
from termchat.decoding.rules import Rules
from termchat.engine.llama.chain import Chain
from termchat.engine.llama.drafts import NoDrafts
from termchat.engine.llama.observe import Drawn, Mask
from termchat.engine.llama.running_reply import Pending, RunningReply
from termchat.engine.llama.softmax import Row
from termchat.engine.port import Prefilling
from termchat.engine.remote import proof
from termchat.engine.remote.server_cells import ServerCells


class ServerDecoder:
    """Has the tokens of one reply read by the server; `row` gives the logits that the cells have at hand, or a copy of them."""

    exact = False
    threads = 0

    def __init__(self, cells: ServerCells, row: Callable[[], Row]) -> None:
        self.cache, self.row = cells, row
        self.model, self.capacity = cells.model, cells.capacity
        self.decode_us = 0
        self.prefill_ms = 0.0
        self.drafts = NoDrafts()

    def set_threads(self, threads: int) -> None:
        """They are the server's own affair."""

    def prepare(self, ids: list[int]) -> None:
        """What the server still has of them it says itself."""

    def prefill(self, ids: list[int]) -> Iterable[Prefilling | Prefill | Pending]:
        now = perf_counter()
        for said in read_prompt(self.cache, ids):
            before, now = now, perf_counter()
            self.decode_us = int((now - before) * 1e6)
            if isinstance(said, Prefill):
                self.prefill_ms = said.ms
            yield said

    def decode(self, ids: list[int]) -> Iterable[Pending]:
        begun = perf_counter()
        self.cache.next(ids)
        self.decode_us = int((perf_counter() - begun) * 1e6)
        return ()


def read_prompt(cells: ServerCells, ids: list[int]) -> Iterator[Prefilling | Prefill]:
    """Has the server read what it lacks of the ids. In the end there is the record.

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


class ServerReply(RunningReply):
    """Asks for more candidates wherever those at hand do not prove what is drawn."""

    decoder: ServerDecoder

    def _row(self, chain: Chain) -> Row:
        suffice(self.decoder.cache, chain, self.steering.rules, self.mask, self.steering.forced)
        return super()._row(chain)

    def _observed(self, drawn: Drawn) -> Drawn:
        return as_bounds(drawn, self.decoder.cache)


def suffice(
    cells: ServerCells, chain: Chain, rules: Rules, mask: Mask | None = None, forced: int | None = None
) -> None:
    """Has candidates that prove what the chain draws and which rules are met, and absolute logits if it needs them.

    Raises:
        Aborted, EngineError: as `ServerCells.read`.
    """
    samplers, moving = chain.settings, set(chain.moving)
    lifted = proof.is_lifting(samplers) or any(value > 0 for value in chain.biases.values())
    allowed = None if mask is None else mask.allowed(cells.model.n_vocab)
    while count := proof.more_than(cells.known, samplers, moving, lifted, allowed, forced):
        cells.ask_for(count)
    cells.usual = proof.next_guess(cells.known, samplers, moving, lifted, allowed)
    cells.slowed_by = proof.why_all(samplers, lifted, allowed is not None) if cells.usual == cells.model.n_vocab else ""
    looks = forced is None and cells.tail > 0 and rules.measures
    if looks and rules.are_open(proof.bounds(cells.known, cells.model.end_ids).measures):
        cells.ask_for(cells.model.n_vocab)
    if moving and proof.is_absolute(samplers):
        cells.lift(samplers)


def as_bounds(drawn: Drawn, cells: ServerCells) -> Drawn:
    """The same where not all tokens are listed: `p_end` is then the most that it can be, and the state says what is missing."""
    if not cells.tail:
        return drawn
    found = proof.bounds(cells.known, cells.model.end_ids)
    return drawn._replace(p_end=found.p_end[1], state={**drawn.state, TAIL: cells.tail}, least=found.least)
