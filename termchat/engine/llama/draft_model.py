"""A second model beside the one that replies are drawn from: it drafts what the other one is likely to take.

It throws the same dice through a chain of the same samplers, which has seen the same ids, under the same constraint. So it
mostly takes the same token, however unlikely that was: SmolLM2 without one of its thirty blocks is right for 78 % of the tokens
that the whole model draws at temperature 1.2, where the likeliest one by the whole model's own logits is right for 54 %.

Its cells are those of the ids it decoded last; what of them the reply did not take is cut off before it drafts again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    explain_cost,
    gain,
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
from termchat.engine.llama.native import LIB
from termchat.engine.llama.opening_model import open_model
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


class _RareTrials(Judge):
    """Trials cost more than those of n-grams, which read nothing."""

    REST, LONGEST = 128, 4096


class DraftModel:
    """Owns a model and a context for as many tokens as that of the `target`. What its drafts were worth, and what they cost, is
    kept as long as it is loaded.

    Raises:
        EngineError: of kind "draft": it cannot be loaded, or cannot draft for this model.
    """

    def __init__(self, spec: ModelSpec, target: Cache, progress: Callable[[float], None]) -> None:
        self.target = target.model
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
            self.model, self.cache, _ = open_model(fitting, progress, self._refuse)
        except EngineError as error:
            hint = error.hint if error.kind == "draft" else "choose another draft model, or a smaller context"
            raise EngineError("draft", error.message, hint) from None
        self._follows_threads = not spec.threads or spec.proposed_threads
        self.n_vocab = min(self.model.n_vocab, self.target.n_vocab)
        self.leads, self.judge = Counts(LEADS, LEAD_PRIORS, LEAD_DECAY), _RareTrials()
        self.credit: float | None = None
        """What drafts and trials may lose, in rows of the target; None before the first."""
        self._idle = 0
        self._costs: deque[float] = deque(maxlen=_RECENT)
        self._rows: deque[float] = deque(maxlen=_RECENT)
        self._readings: deque[float] = deque(maxlen=_RECENT)
        self.cost = 0.0
        self.measured = False
        """Whether the cost is known: a busy machine does not tell."""
        try:
            self.measure(target)
        except EngineError as error:
            self.close()
            raise EngineError("draft", error.message, "choose another draft model") from None

    def close(self) -> None:
        self.cache.close()
        self.model.close()

    def info(self, times: BatchTimes) -> DraftInfo:
        model, spec = self.model, self.model.spec
        return DraftInfo(
            name=self.name,
            path=spec.path,
            sha256=spec.sha256,
            size=int(LIB.llama_model_size(model.pointer)),
            parameters=int(LIB.llama_model_n_params(model.pointer)),
            layers=model.layers,
            gpu_layers=model.gpu_layers,
            cost=self.cost,
            why_not=self.why_not(times),
        )

    @property
    def name(self) -> str:
        return self.model.spec.name

    def _refuse(self, model: Model) -> None:
        if not model.can_rewind:
            raise EngineError("draft", f"{model.spec.name} {_CANNOT_CUT}", "choose another draft model")
        if why := describe_difference(self.target, model):
            raise EngineError("draft", f"{model.spec.name} has another vocabulary: {why}", "choose another draft model")

    # --- what it costs -----------------------------------------------------------------------------------------------

    def why_not(self, times: BatchTimes) -> str:
        """Say why it cannot pay, whatever is accepted; "" if it can, or if that is unknown."""
        known = times.measured and self.measured
        return (
            explain_cost(self.name, self.each, times.of) if known and gain_at_best(times.of, self.each) < WORTH else ""
        )

    @property
    def each(self) -> float:
        """What a drafted token costs of late, in rows of the target."""
        return median(self._costs) / median(self._rows) if self._costs and self._rows else self.cost

    def measure(self, target: Cache) -> None:
        """Set `cost` to the cost of a row in rows of the target: the best of a few of each, in turns.

        Raises:
            EngineError: llama.cpp failed.
        """
        best = [inf, inf]
        begun, cpu = perf_counter(), process_time()
        for _ in range(_PROBES):
            for number, cache in enumerate((self.cache, target)):
                since = perf_counter()
                cache.peek([0])
                best[number] = min(best[number], perf_counter() - since)
        had, wanted = process_time() - cpu, (perf_counter() - begun) * min(target.threads, self.cache.threads)
        self.measured = had > _BUSY * wanted or bool(target.model.gpu_layers or self.model.gpu_layers)
        self.cost = best[0] / best[1]
        self._costs.clear()
        self._idle = 0

    def idle(self, tokens: int, target: Cache) -> None:
        """Count tokens that came while its drafts seemed to cost too much. After some of these measure again: other programs
        may have disturbed the last measurement."""
        self._idle += tokens
        if self._idle >= _PATIENCE:
            self.measure(target)

    def add_cost(self, us: float) -> None:
        """Count the microseconds of a drafted token, with the draw."""
        self._costs.append(us)

    def add_row(self, us: float) -> None:
        """Count the microseconds of a row of the target."""
        self._rows.append(us)

    def in_rows(self, us: float) -> float:
        """Convert microseconds to rows of the target."""
        return us / median(self._rows) if self._rows else 0.0

    def reading(self, ids: list[int]) -> float:
        """Return the cost of reading the missing `ids`, beyond those that each draft reads."""
        missing = len(ids) - self.cache.common(ids) - _USUAL
        each = self.in_rows(median(self._readings)) if self._readings and self._rows else _READING * self.each
        return max(missing, 0) * each

    def spend(self, rows: float, tokens: int) -> None:
        """Charge the rows that drafts cost more than they gave, in so many tokens of a reply."""
        if self.credit is not None:
            self.credit = min(self.credit - rows + _SHARE * tokens, max(_MOST_CREDIT, self.credit))

    # --- its cells ---------------------------------------------------------------------------------------------------

    def read(self, ids: list[int], threads: int) -> int:
        """Decode the missing `ids`, but no more than one batch of them; return how many were missing.

        Raises:
            Aborted, ContextFull, EngineError: see `Cache.read`.
        """
        cache = self.cache
        if self._follows_threads:
            cache.set_threads(threads)
        missing = len(ids) - cache.rewind(cache.common(ids))
        count, begun = min(missing, cache.batch_size), perf_counter()
        cache.read(ids, Shape(count))
        cache.logits()  # waits for a device that computes on its own
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


class Drawing(Protocol):
    """The reply whose tokens are drafted: what it draws its next token with."""

    samplers: SamplerSettings

    @property
    def forced(self) -> int | None:
        """The id that is taken next, whatever the dice say."""

    @property
    def state(self) -> Mapping[str, float]:
        """The memory of mirostat and adaptive_p."""

    def fork_constraint(self) -> Follower | None:
        """Return a constraint that goes another way from here on."""


class ByModel:
    """Drafts what the model takes with the dice of the reply, until it is too unsure. `begin` is where the reply begins among
    its `ids`.

    At every step in which it does not rest it drafts one token at least, to look how sure it is. Where the context is long and
    new to it, it reads a batch of it at each step, and drafts once it has all of it. After a rest it begins with the last few
    ids, and reads all of them only if its drafts pay then. If it is not the only one that may draft, so that nobody asked for
    it, it is `limited`: it does neither where that could cost more than its drafts have gained, and a small share of the reply.
    """

    def __init__(self, model: DraftModel, reply: Drawing, seed: int, begin: int, target: Cache, ids: list[int]) -> None:
        self.model, self.by = model, model.name
        self.always = self.limited = False
        self._reply, self._seed, self._begin, self._target = reply, seed, begin, target
        self._chain: Chain | None = None
        ends = [i for i in model.target.end_ids if i < model.n_vocab]
        self._ends = frozenset(ends)
        self._observer = Observer(model.n_vocab, ends, model.target.names, _CANDIDATES)
        self._drafted: list[tuple[int, float]] = []
        self._looks: list[tuple[bool, float]] = []
        self._ids, self._at, self._seen = ids, len(ids), len(ids)
        self._spent = self._read = 0.0
        self._never = ""
        self._rested, self._first, self._tried = model.judge.rests, 0, 0

    def close(self) -> None:
        """Frees the chain."""
        if self._chain is not None:
            self._chain.close()
            self._chain = None

    @property
    def why(self) -> str:
        return self._never or self.model.judge.why

    def learn(self, ids: list[int], last: Verified, most: int, times: BatchTimes) -> None:
        model, judge = self.model, self.model.judge
        if last.rows == 1 or times.measured:
            model.add_row(last.us / times.of(last.rows))
        if self._never:
            model.idle(len(ids) - self._seen, self._target)

        def even() -> float | None:
            return times.breaks_even(most, model.each) if model.measured else None

        since, cost = len(ids) - self._seen, times.of(last.rows)
        (spent, self._spent), (read, self._read) = (self._spent, 0.0), (self._read, 0.0)
        model.spend(spent + read - (1 + last.accepted - cost if last.drafted else 0.0), since)
        right, self._seen = list(self._compare_draft(ids)), len(ids)
        if last.drafted:
            judge.round(last.drafted, last.accepted, cost + spent, even)
        elif right:
            self._judge_look(right[0], spent, even)
        else:
            for _ in range(since):
                judge.plain(even)

    def _judge_look(self, right: bool, spent: float, even: Callable[[], float | None]) -> None:
        """Judge some looks together, in which it only drafted to see how sure it is and gained nothing: as a round that cost
        its tokens and the looks."""
        self._looks.append((right, spent))
        if len(self._looks) == _LOOKS:
            rights, costs = map(sum, zip(*self._looks, strict=True))
            self.model.judge.round(_LOOKS, int(rights), 1 + rights + costs, even)
            self._looks.clear()

    def _compare_draft(self, ids: list[int]) -> Iterator[bool]:
        """Yield whether each token of the last draft was right, up to the first that was not or is not known yet."""
        drafted, self._drafted = self._drafted, []
        for (token, lead_of), taken in zip(drafted, ids[self._at :], strict=False):
            self.model.leads.add(lead_of, right=token == taken)
            yield token == taken
            if token != taken:
                return

    def expects(self, most: int, times: BatchTimes) -> float:
        model, each = self.model, self.model.each
        why_not = "" if self.always else model.why_not(times)
        self._never = why_not and (self._never or why_not)
        rests = model.judge.rests and not self.always
        self._rested = self._rested or rests
        if self._never or most <= 0 or rests:
            return 0.0
        rates = [model.leads.mean] * most
        if model.credit is None:
            model.credit = max(_STAKE * (1 - 1 / max(gain([_USUALLY] * most, times.of, each))), 0.0)
        if not self._can_afford(each):
            return 0.0
        reading = model.reading(self._ids[self._first :])
        return max(gain(rates, lambda rows: times.of(rows) + reading, each))

    @property
    def _risk(self) -> float:
        """The rows that it may lose."""
        return self.model.credit or 0.0 if self.limited and not self.always else inf

    def _can_afford(self, each: float) -> bool:
        """Return whether it has the credit to read the missing ids, all or the last ones, and to draft a token."""
        if self.model.reading(self._ids[self._first :]) + each > self._risk:
            self._rested = True
        return not self._rested or self.model.reading(self._ids[-_WINDOW:]) + each <= self._risk

    def _choose_ids(self, ids: list[int]) -> list[int]:
        """Return the ids to read: all, or for a trial the last ones."""
        model = self.model
        if self._rested:
            self._tried = 0
            self._first = len(ids) - _WINDOW if len(ids) - model.cache.common(ids) > _WINDOW else 0
        elif self._tried > Judge.TOKENS and model.reading(ids) <= self._risk:
            self._first = 0
        self._rested = False
        self._tried += 1
        return ids[self._first :]

    def propose(self, ids: list[int], most: int, times: BatchTimes) -> list[int]:
        model, cache, path = self.model, self.model.cache, self._choose_ids(ids)
        begun, self._read = perf_counter(), model.reading(path)
        missing = model.read(path, self._target.threads)
        if missing > cache.batch_size:
            self._read *= cache.batch_size / missing
            return []
        chain, constraint = self._chain_after(ids), self._reply.fork_constraint()
        drafted: list[tuple[int, float]] = []
        rates: list[float] = []
        while (drawn := self._draw(chain, constraint, len(ids) + len(drafted))) is not None:
            now = perf_counter()
            if drafted or missing <= _USUAL:
                model.add_cost((now - begun) * 1e6)
            begun = now
            drafted.append((drawn.id, compute_lead(drawn.id, drawn.candidates)))
            rates.append(model.leads.rate(drafted[-1][1]))
            if drawn.id in self._ends or len(drafted) == most:
                break
            if not self.always and not should_go_on(rates, model.leads.mean, most, times.of, model.each):
                break
            if len(drafted) * model.each >= self._risk:
                break
            chain.take(drawn, forced=False)
            if constraint is not None:
                constraint.take(drawn.id)
            path.append(drawn.id)
            cache.read(path, Shape(1))
        self._drafted, self._at = drafted, len(ids)
        self._spent = model.each * (min(missing, _USUAL) + len(drafted) - 1)
        return [token for token, _ in drafted[: most if self.always else how_many(rates, times.of, risk=self._risk)]]

    def _draw(self, chain: Chain, constraint: Follower | None, length: int) -> Token | None:
        """Draw the token behind so many ids; None if the constraint allows none."""
        row = self.model.cache.logits()
        row = row if len(row) == self.model.n_vocab else row[: self.model.n_vocab]
        mask = constraint.mask() if constraint is not None else None
        try:
            return self._observer.draw(row, chain, self._seed, length - self._begin, mask=mask)
        except NothingFits:
            return None

    def _chain_after(self, ids: list[int]) -> Chain:
        """Return a chain like the reply's, drawing from few ids."""
        samplers, target, chain = draw_from_few(self._reply.samplers), self.model.target, self._chain
        if chain is not None and chain.settings == samplers:
            chain.restart(ids, self._reply.state)
            return chain
        self.close()
        bias = {i: value for i, value in target.bias(samplers.logit_bias).items() if i < self.model.n_vocab}
        self._chain = Chain(
            samplers, self.model.n_vocab, ids, state=self._reply.state, breakers=target.breakers, bias=bias
        )
        return self._chain


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
    tokens = likely = 1.0
    best, wanted = 0.0, 0
    for count in range(most + 1):
        if count:
            likely *= rates[count - 1] if count <= len(rates) else mean
            tokens += likely
        value = tokens / (times(count + 1) + max(count, len(rates)) * each)
        if value > best:
            best, wanted = value, count
    return wanted > len(rates)
