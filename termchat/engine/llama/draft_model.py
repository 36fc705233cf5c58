"""A second model beside the one that replies are drawn from: it drafts what the other one is likely to take.

It throws the same dice through a chain of the same samplers, which has seen the same ids, under the same constraint. So it
mostly takes the same token, however unlikely that was: SmolLM2 without one of its thirty blocks is right for 78 % of the tokens
that the whole model draws at temperature 1.2, where the likeliest one by the whole model's own logits is right for 54 %.

Its cells are those of the ids it decoded last; what of them the reply did not take is cut off before it drafts again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from statistics import median
from time import perf_counter, process_time
from typing import Protocol

import msgspec

from termchat.decoding.drafting import (
    WORTH,
    BatchTimes,
    Counts,
    Judge,
    Times,
    Verified,
    compute_gains,
    explain_cost,
    gain_at_best,
    how_many,
)
from termchat.decoding.records import Candidate, Shape, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stages import STAGES, needs_all
from termchat.engine.llama.cache import FAST_BATCH, Cache
from termchat.engine.llama.chain import Chain, NothingFits, Observer
from termchat.engine.llama.grammars import Follower
from termchat.engine.llama.model import Model
from termchat.engine.llama.model_loading import open_model
from termchat.engine.llama.native import LIB
from termchat.engine.port import DraftInfo, EngineError, ModelSpec

PADDING = 128
"""By how many tokens the vocabularies may differ in size: makers fill them up for their machines. As llama.cpp allows."""
_CANDIDATES = 20
"""Tokens among which the one is looked for that came next in the throw."""
_PROBES, _PATIENCE = 8, 512
"""Rows of each to measure the cost, and tokens until it is measured again."""
_BUSY = 0.9
"""Share of the time of all threads that the process has to have had for the cost to say something: threads that wait spin."""
_RECENT = 9
_FEW = 256
"""Likeliest ids that a draft is drawn from where the chain would have to see the whole vocabulary."""
_WINDOW = 64
"""Ids that it reads for a trial after a rest: to read all that was said meanwhile costs more than the trial."""
_LOOKS = 4
"""Steps that are judged together where it only looked."""
_USUAL = 2
"""Ids that it lacks where all that it drafted was taken: the last one of them, and the one that came after it."""

LEADS = (1.0, 2.0, 3.0, 4.0, 6.0)
LEAD_PRIORS = ((1.3, 1.7), (2.1, 0.9), (2.4, 0.6), (2.7, 0.3), (2.8, 0.2), (2.9, 0.1))
"""Leads that are counted apart (see `Counts`); the priors are those of SmolLM2 without two of its thirty blocks."""
LEAD_DECAY = 0.97

_CANNOT_CUT = "cannot take back what was drafted: its state is recurrent"


_SHARE, _STAKE, _USUALLY, _MOST_CREDIT = 0.01, 64, 0.8, 30.0
"""What trials of a model may cost where `auto` has the choice: so much of a row for each token of replies; what drafts gain in
so many tokens if so many of them are right; and at most so many rows, once they gained more."""
_READING = 0.5
"""What an id that is read in a batch costs until that is known, of one that is drafted."""
_REST, _LONGEST_REST = 128, 4096
"""Trials cost more than those of n-grams, which read nothing."""


class DraftedReply(Protocol):
    """The reply whose tokens are drafted: the settings that draw its next token."""

    samplers: SamplerSettings

    @property
    def forced(self) -> int | None:
        """Id forced for the next step."""

    @property
    def state(self) -> Mapping[str, float]:
        """Memory of mirostat and adaptive_p."""

    def fork_constraint(self) -> Follower | None:
        """Return a constraint that goes another way from here on."""


class DraftModel:
    """Owns a model and a context as large as that of the `target`. It drafts with the dice of the reply until it is too
    unsure. The quality and the cost of its drafts are remembered while it is loaded.

    At every step in which it does not rest it drafts one token at least, to look how sure it is. Where the context is long and
    new to it, it reads a batch of it at each step, and drafts once it has all of it. After a rest it begins with the last few
    ids, and reads all of them only if its drafts pay then. If it is not the only one that may draft, so that nobody asked for
    it, it is `limited`: it does neither where that could cost more than its drafts have gained, and a small share of the reply.

    Raises:
        EngineError: of kind "draft": it cannot be loaded, or cannot draft for this model.
    """

    def __init__(self, spec: ModelSpec, target: Cache, progress: Callable[[float], None]) -> None:
        self.target, self._target, self.by = target.model, target, spec.name
        if not target.model.can_rewind:
            raise EngineError("draft", f"this model {_CANNOT_CUT}", "load another model")
        threads, threads_batch = target.loaded
        fitting = msgspec.structs.replace(
            spec,
            context=target.capacity,
            threads=spec.threads or threads,
            threads_batch=spec.threads_batch or threads_batch,
            prefill_batch=spec.prefill_batch or (FAST_BATCH if target.model.gpu_layers else 0),
        )
        try:
            self.model, self.cache, _ = open_model(fitting, progress, self._check_model)
        except EngineError as error:
            hint = error.hint if error.kind == "draft" else "choose another draft model, or a smaller context"
            raise EngineError("draft", error.message, hint) from None
        self._follows_threads = not spec.threads or spec.proposed_threads
        self.n_vocab = min(self.model.n_vocab, self.target.n_vocab)
        self.leads, self.judge = Counts(LEADS, LEAD_PRIORS, LEAD_DECAY), Judge(_REST, _LONGEST_REST)
        self.credit: float | None = None
        """What drafts and trials may lose, in rows of the target; None before the first."""
        self.idle = 0
        """Tokens that came while its drafts seemed to cost too much."""
        self._costs: deque[float] = deque(maxlen=_RECENT)
        self.rows_us: deque[float] = deque(maxlen=_RECENT)
        self._readings: deque[float] = deque(maxlen=_RECENT)
        self.always = self.limited = False
        ends = [i for i in self.target.end_ids if i < self.n_vocab]
        self._ends = frozenset(ends)
        self._observer = Observer(self.n_vocab, ends, self.target.names, _CANDIDATES)
        self._chain: Chain | None = None
        self._drafted: list[tuple[int, float]] = []
        self._looks: list[tuple[bool, float]] = []
        self.cost = 0.0
        self.measured = False
        """Whether the cost is known: a busy machine does not tell."""
        try:
            self.measure_cost(target)
        except EngineError as error:
            self.close()
            raise EngineError("draft", error.message, "choose another draft model") from None

    def _check_model(self, model: Model) -> None:
        """Refuse a model that cannot draft, before it gets a context."""
        if not model.can_rewind:
            raise EngineError("draft", f"{self.by} {_CANNOT_CUT}", "choose another draft model")
        if why := describe_difference(self.target, model):
            raise EngineError("draft", f"{self.by} has another vocabulary: {why}", "choose another draft model")

    def close(self) -> None:
        self.end_reply()
        self.cache.close()
        self.model.close()

    def build_info(self, times: BatchTimes) -> DraftInfo:
        model, spec = self.model, self.model.spec
        return DraftInfo(
            name=self.by,
            path=spec.path,
            sha256=spec.sha256,
            size=int(LIB.llama_model_size(model.pointer)),
            parameters=int(LIB.llama_model_n_params(model.pointer)),
            layers=model.layers,
            gpu_layers=model.gpu_layers,
            cost=self.cost,
            why_not=self.why_not(times),
        )

    # --- what it costs -----------------------------------------------------------------------------------------------

    def why_not(self, times: BatchTimes) -> str:
        """Say why it cannot pay, whatever is accepted; "" if it can, or if that is unknown."""
        known = times.measured and self.measured
        return (
            explain_cost(self.by, self.each, times.read_cost)
            if known and gain_at_best(times.read_cost, self.each) < WORTH
            else ""
        )

    @property
    def each(self) -> float:
        """What a drafted token costs of late, in rows of the target."""
        return median(self._costs) / median(self.rows_us) if self._costs and self.rows_us else self.cost

    def measure_cost(self, target: Cache) -> None:
        """Set `cost` to the cost of a row in rows of the target: the best of a few of each, in turns.

        Raises:
            EngineError: llama.cpp failed.
        """
        best = [inf, inf]
        begun, cpu = perf_counter(), process_time()
        for _ in range(_PROBES):
            for number, cache in enumerate((self.cache, target)):
                since = perf_counter()
                cache.peek_logits([0])
                best[number] = min(best[number], perf_counter() - since)
        had, wanted = process_time() - cpu, (perf_counter() - begun) * min(target.threads, self.cache.threads)
        self.measured = had > _BUSY * wanted or bool(target.model.gpu_layers or self.model.gpu_layers)
        self.cost = best[0] / best[1]
        self._costs.clear()
        self.idle = 0

    def add_cost(self, us: float) -> None:
        """Count the microseconds of a drafted token, with the draw."""
        self._costs.append(us)

    def cost_reading(self, ids: list[int]) -> float:
        """Estimate the cost of reading the missing `ids`, beyond those that each draft reads."""
        missing = len(ids) - self.cache.count_common(ids) - _USUAL
        each = (
            median(self._readings) / median(self.rows_us) if self._readings and self.rows_us else _READING * self.each
        )
        return max(missing, 0) * each

    # --- its drafts for one reply ----------------------------------------------------------------------------------------

    def begin_reply(self, reply: DraftedReply, seed: int, begin: int, ids: list[int]) -> None:
        """Draft for another reply from now on; it begins at `begin` among its `ids`."""
        self.end_reply()
        self._reply, self._seed, self._begin, self._ids = reply, seed, begin, ids
        self._at = self._seen = len(ids)
        self._drafted.clear()
        self._looks.clear()
        self._spent = self._read = 0.0
        self._never = ""
        self._rested, self._first, self._tried = self.judge.rests, 0, 0

    def end_reply(self) -> None:
        """Free the chain of the reply."""
        if self._chain is not None:
            self._chain.close()
            self._chain = None

    @property
    def why(self) -> str:
        return self._never or self.judge.why

    def learn_round(self, ids: list[int], last: Verified, most: int, times: BatchTimes) -> None:
        """Count the outcome of the last decode: its cost, and which drafted tokens were right."""
        judge, since, cost = self.judge, len(ids) - self._seen, times.read_cost(last.rows)
        if last.rows == 1 or times.measured:
            self.rows_us.append(last.us / cost)
        if self._never:
            self.idle += since
            if self.idle >= _PATIENCE:  # other programs may have disturbed the last measurement
                self.measure_cost(self._target)

        def even() -> float | None:
            return times.breaks_even(most, self.each) if self.measured else None

        (spent, self._spent), (read, self._read) = (self._spent, 0.0), (self._read, 0.0)
        if self.credit is not None:
            lost = spent + read - (1 + last.accepted - cost if last.drafted else 0.0)
            self.credit = min(self.credit - lost + _SHARE * since, max(_MOST_CREDIT, self.credit))
        drafted, self._drafted, self._seen = self._drafted, [], len(ids)
        right: list[bool] = []
        for (token, lead), taken in zip(drafted, ids[self._at :], strict=False):
            right.append(token == taken)
            self.leads.add(lead, right=right[-1])
            if not right[-1]:
                break
        if last.drafted:
            judge.count_round(last.drafted, last.accepted, cost + spent, even)
        elif right:
            self._looks.append((right[0], spent))
            if len(self._looks) == _LOOKS:  # it only looked how sure it is: a round that cost its tokens and the looks
                rights, costs = map(sum, zip(*self._looks, strict=True))
                judge.count_round(_LOOKS, int(rights), 1 + rights + costs, even)
                self._looks.clear()
        else:
            for _ in range(since):
                judge.count_plain(even)

    def expect_speedup(self, most: int, times: BatchTimes) -> float:
        """Return the speedup that a draft of up to `most` tokens has at best; 0.0 if none pays."""
        each = self.each
        why_not = "" if self.always else self.why_not(times)
        self._never = why_not and (self._never or why_not)
        rests = self.judge.rests and not self.always
        self._rested = self._rested or rests
        if self._never or rests:
            return 0.0
        if self.credit is None:
            self.credit = max(_STAKE * (1 - 1 / max(compute_gains([_USUALLY] * most, times.read_cost, each))), 0.0)
        reading = self.cost_reading(self._ids[self._first :])
        self._rested = self._rested or reading + each > self._risk
        if self._rested and self.cost_reading(self._ids[-_WINDOW:]) + each > self._risk:
            return 0.0
        return max(compute_gains([self.leads.mean] * most, lambda rows: times.read_cost(rows) + reading, each))

    @property
    def _risk(self) -> float:
        """The rows that it may lose."""
        return self.credit or 0.0 if self.limited and not self.always else inf

    def propose_ids(self, ids: list[int], most: int, times: BatchTimes) -> list[int]:
        """Return the ids to decode ahead of the last one: up to `most`, as many as pay."""
        cache = self.cache
        if self._rested:
            self._tried = 0
            self._first = len(ids) - _WINDOW if len(ids) - cache.count_common(ids) > _WINDOW else 0
        elif self._tried > Judge.TOKENS and self.cost_reading(ids) <= self._risk:
            self._first = 0
        self._rested = False
        self._tried += 1
        path = ids[self._first :]
        begun, self._read = perf_counter(), self.cost_reading(path)
        missing = self.read(path, self._target.threads)
        if missing > cache.batch_size:
            self._read *= cache.batch_size / missing
            return []
        chain, constraint = self._chain_after(ids), self._reply.fork_constraint()
        drafted: list[tuple[int, float]] = []
        rates: list[float] = []
        while (drawn := self._draw(chain, constraint, len(ids) + len(drafted))) is not None:
            now = perf_counter()
            if drafted or missing <= _USUAL:
                self.add_cost((now - begun) * 1e6)
            begun = now
            drafted.append((drawn.id, compute_lead(drawn.id, drawn.candidates)))
            rates.append(self.leads.read_rate(drafted[-1][1]))
            if drawn.id in self._ends or len(drafted) == most:
                break
            if not self.always and not should_go_on(rates, self.leads.mean, most, times.read_cost, self.each):
                break
            if len(drafted) * self.each >= self._risk:
                break
            chain.take_token(drawn, forced=False)
            if constraint is not None:
                constraint.take_token(drawn.id)
            path.append(drawn.id)
            cache.read(path, Shape(1))
        self._drafted, self._at = drafted, len(ids)
        self._spent = self.each * (min(missing, _USUAL) + len(drafted) - 1)
        return [
            token for token, _ in drafted[: most if self.always else how_many(rates, times.read_cost, risk=self._risk)]
        ]

    def _draw(self, chain: Chain, constraint: Follower | None, length: int) -> Token | None:
        """Draw the token behind so many ids; None if the constraint allows none."""
        row = self.cache.read_logits()
        row = row if len(row) == self.n_vocab else row[: self.n_vocab]
        mask = constraint.wait_mask() if constraint is not None else None
        try:
            return self._observer.draw(row, chain, self._seed, length - self._begin, mask=mask)
        except NothingFits:
            return None

    def _chain_after(self, ids: list[int]) -> Chain:
        """Return a chain like the reply's, drawing from few ids."""
        samplers, target, chain = draw_from_few(self._reply.samplers), self.target, self._chain
        if chain is not None and chain.settings == samplers:
            chain.restart_memory(ids, self._reply.state)
            return chain
        self.end_reply()
        bias = {i: value for i, value in target.bias(samplers.logit_bias).items() if i < self.n_vocab}
        self._chain = Chain(samplers, self.n_vocab, ids, state=self._reply.state, breakers=target.breakers, bias=bias)
        return self._chain

    # --- its cells ---------------------------------------------------------------------------------------------------

    def read(self, ids: list[int], threads: int) -> int:
        """Decode the missing `ids`, but no more than one batch of them; return how many were missing.

        Raises:
            Aborted, ContextFull, EngineError: see `Cache.read`.
        """
        cache = self.cache
        if self._follows_threads:
            cache.set_threads(threads)
        missing = len(ids) - cache.rewind_to(cache.count_common(ids))
        count, begun = min(missing, cache.batch_size), perf_counter()
        cache.read(ids, Shape(count))
        if missing > _USUAL:
            self._readings.append((perf_counter() - begun) * 1e6 / count)
        return missing


def describe_difference(target: Model, other: Model) -> str:
    """Say how the vocabularies of two models differ; "" if both mean the same by every id. Which ids end a reply may differ:
    those of the target do."""
    kinds = [int(LIB.llama_vocab_type(model.vocab)) for model in (target, other)]
    if kinds[0] != kinds[1]:
        return "it has another kind of tokenizer"
    if abs(target.n_vocab - other.n_vocab) > PADDING:
        return f"it has {other.n_vocab} tokens, and this model {target.n_vocab}"
    text = LIB.llama_vocab_get_text
    for token in range(min(target.n_vocab, other.n_vocab)):
        if text(target.vocab, token) != text(other.vocab, token):
            return f"token {token} is {target.name(token)!r} here and {other.name(token)!r} there"
    return ""


def draw_from_few(samplers: SamplerSettings) -> SamplerSettings:
    """Return settings whose chain draws from the likeliest ids alone, where it would have to see the whole vocabulary: a tenth
    of the time, and the same token if that is among them, but for cuts by the mass of all."""
    if needs_all(samplers) in ("", "mirostat"):
        return samplers
    order = [name for name in samplers.order if name != "top_k"]
    at = next((number for number, name in enumerate(order) if not STAGES[name].sparse), len(order))
    return msgspec.structs.replace(samplers, top_k=_FEW, order=(*order[:at], "top_k", *order[at:]))


def compute_lead(chosen: int, candidates: Iterable[Candidate]) -> float:
    """Return by how much the token that was drawn leads the next one, in nats: in the logarithm of the probability plus the
    noise of the dice; in its logit if the chain left only one.

    By the lead a draft is judged: the draft model throws the same dice, so that both models take the same token unless a
    difference between them turns the throw. On 2,700 drawn tokens of models with one to four blocks left out it ranked right
    before wrong ones in 76 % of pairs, the probability of the token only in 65 %.
    """
    thrown, rest, own, others = math.inf, -math.inf, 0.0, -math.inf
    for each in candidates:
        score = math.log(each.probability) + each.noise if each.probability > 0 else -math.inf
        if each.id == chosen:
            thrown, own = score, each.logit
        else:
            rest, others = max(rest, score), max(others, each.logit)
    return thrown - rest if rest > -math.inf else own - others


def should_go_on(rates: Sequence[float], mean: float, most: int, times: Times, each: float) -> bool:
    """Return whether to draft another token after those with these `rates`, if the next ones are as good as the `mean`. What
    was spent on drafting is spent, whatever comes of it."""

    def cost(rows: int) -> float:
        return times(rows) + max(rows - 1, len(rates)) * each

    speedups = [1 / cost(1), *compute_gains([*rates, *[mean] * (most - len(rates))], cost)]
    return speedups.index(max(speedups)) > len(rates)
