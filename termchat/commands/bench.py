"""Measures how fast a model processes a prompt and generates a reply with different threads and batch sizes.

`measure` sweeps the settings and chooses the fastest; `Bench` runs one prompt and one reply, the same work each time. It is
measured as in a chat: every step is observed and recorded, and records are read at the screen's pace beside as much work as
the screen makes. Threads spin while they wait for each other, so a core that the screen needs costs more than itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median, quantiles
from time import monotonic, perf_counter, sleep, time

import msgspec

from termchat.config import per_model
from termchat.decoding.drafting import MOST_DRAFTED, BatchTimes, breaks_even
from termchat.decoding.records import Failed, Finished, Prefill
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.thread_tuner import all_threads, default_threads
from termchat.engine.port import (
    BatchesMeasured,
    Engine,
    EngineError,
    Event,
    Generate,
    Load,
    Loaded,
    MeasureBatches,
    Measurement,
    ModelInfo,
    ModelSpec,
    ReplyRequest,
    Scripted,
    Tokenize,
    Tokenized,
)

FRAME_S, DRAWING_S = 1 / 16, 0.0035
"""The screen's work while a reply streams: seconds from one frame to the next, and seconds of work for each."""

_TEXT = (
    "Once upon a time, in a village far away from the sea, there lived an old woman who had never seen a ship. "
    "One morning a traveller came down from the hills with a bundle of letters, a lantern and 3 copper coins. "
)
_SETTINGS = Tuning(temperature=0.8)

GAIN = 1.03
"""How many times as fast as the default a value must be: less is noise on most machines, and not felt."""
EXACT, FAST = 63, 512
BATCHES = (32, EXACT, FAST)
_REPLY, _SHORT_REPLY = 24, 8
"""Tokens of a reply, and of one where there is little time."""
_ROUNDS, _MOST_ROUNDS = 3, 9
"""Rounds that are meant to fit, and the most."""
_FIRST = 16
"""Tokens of a prompt that is not measured: the first one of a model that was just loaded takes longer."""
_THREADS_SHARE = 0.45
_LONGEST_BATCHES = 6.0
"""Seconds in which batches are measured at most."""
_CONTEXT = 2048
_SHORTEST = 2 * EXACT + 1
_CELLS = 320
"""Tokens before batches that are measured again: from cell 256 on llama.cpp may split the work of a row among the threads."""
_ROWS = 200
"""About as many tokens as batches cost to measure."""


class BenchRun(msgspec.Struct, frozen=True):
    """One prompt and one reply, in tokens per second; `decode` counts the steps after the first."""

    prefill: float
    decode: float


class Bench:
    """A model on an engine. The reply's tokens are forced, so that every run is the same work and none ends early.

    Raises:
        EngineError: the model cannot be loaded, or a run fails.
    """

    def __init__(self, engine: Engine, spec: ModelSpec) -> None:
        self._engine = engine
        self.model = self.load(spec)
        self._runs = 0

    def load(self, spec: ModelSpec) -> ModelInfo:
        """Loads the model so; `loading` is how many seconds that took."""
        begun = monotonic()
        for event in self._events(self._engine.send(Load(spec))):
            if isinstance(event, Loaded):
                self.model = event.info
                break
        for event in self._events(self._engine.send(Tokenize(_TEXT))):
            if isinstance(event, Tokenized):
                self._ids = event.ids
                break
        self.loading = monotonic() - begun
        return self.model

    def run(self, threads: int, prompt: int, reply: int) -> BenchRun:
        """Processes a prompt and generates a reply of these many tokens; no prompt starts like the one before."""
        self._runs += 1
        shift = self._runs % len(self._ids)
        story = (self._ids[shift:] + self._ids[:shift]) * ((prompt + reply) // len(self._ids) + 1)
        script = [Scripted(step, story[prompt + step], threads=threads if not step else 0) for step in range(reply)]
        conditions = msgspec.structs.replace(_SETTINGS, max_tokens=reply).conditions()
        asked = ReplyRequest(story[:prompt], _SETTINGS.samplers(), conditions, seed=1, script=tuple(script))
        command = Generate([asked], raw=True, keep_logits=False)
        prefill, finished = None, None
        for event in self._events(self._engine.send(command)):
            if isinstance(event, Prefill):
                prefill = event
            elif isinstance(event, Finished):
                finished = event
                break
        if prefill is None or finished is None or finished.tokens_per_second is None:
            raise EngineError("measure", "the engine returned no measurements", "")
        return BenchRun((prefill.tokens - prefill.reused) / (prefill.ms / 1e3), finished.tokens_per_second)

    def batches(self, seconds: float, cells: int = 0) -> Measurement:
        """What batches cost and change; see `MeasureBatches`."""
        for event in self._events(self._engine.send(MeasureBatches(seconds, cells, needed=True))):
            if isinstance(event, BatchesMeasured):
                return event.measured
        raise AssertionError  # the events end with an answer or an error

    def _events(self, number: int) -> Iterator[Event]:
        """The answers to a command, read at the screen's pace.

        Raises:
            EngineError: the command failed.
        """
        while True:
            sleep(FRAME_S)
            for of, event in self._engine.receive(0.0):
                if isinstance(event, Failed):
                    raise EngineError(event.kind, event.message, event.hint)
                if of == number:
                    yield event
            _draw()


def _draw() -> None:
    """As much work as drawing a frame."""
    end = perf_counter() + DRAWING_S
    while perf_counter() < end:
        pass


class Series(msgspec.Struct, frozen=True):
    """The rates of one value of a setting in tokens per second, one for each round."""

    value: int
    rates: list[float]

    @property
    def median(self) -> float:
        return median(self.rates)

    @property
    def spread(self) -> tuple[float, float]:
        """The lower and upper quartile."""
        if len(self.rates) < 2:
            return self.median, self.median
        low, _, high = quantiles(self.rates, n=4, method="inclusive")
        return low, high

    def beats(self, other: Series) -> bool:
        """It is faster by more than noise: by the median ratio of several rounds, and in three rounds of four."""
        ratios = [mine / theirs for mine, theirs in zip(self.rates, other.rates, strict=True)]
        return len(ratios) > 1 and median(ratios) >= GAIN and Series(0, ratios).spread[0] > 1.0


class Result(msgspec.Struct, frozen=True):
    """A setting, its measurements, and the value chosen: the default if no other value beat it.

    `fastest` is a value that is faster still but must not be chosen, since it is not exact; 0 if there is none.
    """

    setting: str
    default: int
    chosen: int
    series: list[Series]
    fastest: int = 0

    def of(self, value: int) -> Series:
        return next(series for series in self.series if series.value == value)


class VerifyCosts(msgspec.Struct, frozen=True):
    """What drafts can gain with so many `threads`: `batches` are T(n), what a batch of n rows costs in units of one row.
    `break_even` is the least acceptance from which drafts pay, 1.0 where they never do; `ceiling` how many times as fast it is
    if all of a draft of `tokens` is accepted, the best there is."""

    threads: int
    batches: dict[int, float]
    break_even: float
    ceiling: float
    tokens: int

    @classmethod
    def of(cls, measured: Measurement) -> VerifyCosts | None:
        """From what was measured; None where times were not."""
        costs = {rows: cost for rows, cost in sorted(measured.batch_times.items()) if rows > 1}
        if not costs:
            return None
        rows = max(costs, key=lambda rows: rows / costs[rows])
        even = breaks_even(BatchTimes(costs).read_cost, MOST_DRAFTED)
        return cls(measured.threads, costs, even, rows / costs[rows], rows - 1)


class TuneReport(msgspec.Struct, frozen=True):
    """All measurements. The rates are those of the chosen values. `measured` is of batches, None if the model cannot take back
    tokens. All but the threads are left out where there was no time.
    """

    model: str
    machine: str
    device: str
    results: list[Result]
    decode: float
    prefill: float
    measured: Measurement | None = None

    @property
    def speculation(self) -> VerifyCosts | None:
        """What drafts can gain; None where the times of batches were not measured."""
        return VerifyCosts.of(self.measured) if self.measured is not None else None

    @property
    def settings(self) -> dict[str, int]:
        """The values that differ from their defaults."""
        return {result.setting: result.chosen for result in self.results if result.chosen != result.default}


# --- what to try, and what to choose ---------------------------------------------------------------------------------


def thread_counts(cores: int, threads: int) -> list[int]:
    """The thread counts to try: all of them up to 6 hardware threads, otherwise the likely ones."""
    if threads <= 6:
        return list(range(1, threads + 1))
    likely = {1, 2, cores // 4, cores // 2, cores * 3 // 4, cores - 2, cores - 1, cores, threads}
    return sorted(count for count in likely if 1 <= count <= threads)


def choose(setting: str, default: int, series: list[Series], most: int = 1 << 30) -> Result:
    """The fastest value up to `most` that beats the default, or the default."""
    standard = next(s for s in series if s.value == default)
    better = sorted((s for s in series if s.beats(standard)), key=lambda s: s.median)
    allowed = [s.value for s in better if s.value <= most]
    beyond = better[-1].value if better and better[-1].value > most else 0
    return Result(setting, default, allowed[-1] if allowed else default, series, beyond)


# --- the measuring ---------------------------------------------------------------------------------------------------


def measure(engine: Engine, spec: ModelSpec, seconds: float, tell: Callable[[str], None]) -> TuneReport:
    """Measures for about `seconds`, in rounds in which every value has its turn; `tell` receives a line for each round. What
    does not fit into that time is left out.

    Raises:
        EngineError: the model cannot be loaded, or the engine fails.
    """
    cores, threads = default_threads(), all_threads()
    counts = thread_counts(cores, threads)
    context = min(spec.context or _CONTEXT, _CONTEXT)
    spec = msgspec.structs.replace(
        spec, context=context, threads=threads, threads_batch=threads, prefill_batch=EXACT, fast_prefill=False
    )
    clock = _Clock(seconds, tell)
    bench = Bench(engine, spec)
    tell(f"{bench.model.name} on {bench.model.device}; {per_model.machine()}")
    warm = bench.run(cores, _SHORTEST, 4)
    each = clock.share(_THREADS_SHARE) / (_ROUNDS * len(counts)) / 2
    prompt, reply = _prompt(warm.prefill, context, each), max(min(int(each * warm.decode), _REPLY), _SHORT_REPLY)

    drawn = {count: Series(count, []) for count in counts}
    read = {count: Series(count, []) for count in counts}

    def threads_round(number: int) -> str:
        for count in _turned(counts, number):
            run = bench.run(count, prompt, reply)
            drawn[count].rates.append(run.decode)
            read[count].rates.append(run.prefill)
        return ", ".join(f"{count}: {drawn[count].rates[-1]:.1f} / {read[count].rates[-1]:.0f}" for count in counts)

    tell("threads: decode / prompt, tokens per second")
    clock.rounds(threads_round, _THREADS_SHARE)
    decoding = choose("threads", cores, list(drawn.values()))
    reading = choose("threads_batch", cores, list(read.values()))
    decode, prefill = decoding.of(decoding.chosen).median, reading.of(reading.chosen).median

    def cost(prompt: int, reply: int) -> float:
        """Seconds that it takes to load the model and to run that once."""
        return bench.loading + prompt / prefill + reply / decode

    batches = {size: Series(size, []) for size in BATCHES}

    def batch_round(number: int) -> str:
        for size in _turned(list(BATCHES), number):
            bench.load(msgspec.structs.replace(spec, prefill_batch=size))
            bench.run(reading.chosen, _FIRST, 2)
            batches[size].rates.append(bench.run(reading.chosen, prompt, 2).prefill)
        return ", ".join(f"{size}: {series.rates[-1]:.0f}" for size, series in batches.items())

    results = [decoding, reading]
    if clock.begin("prompt batch: prompt, tokens per second", len(BATCHES) * cost(_FIRST + prompt, 4)):
        clock.rounds(batch_round, 1 / 2)
        batch = choose("prefill_batch", EXACT, list(batches.values()), EXACT)
        results.append(batch)
        prefill = batch.of(batch.chosen).median
    report = TuneReport(bench.model.name, per_model.machine(), bench.model.device, results, decode, prefill)
    measured = _measure_batches(bench, spec, report, clock, cost(_CELLS, _ROWS))
    return msgspec.structs.replace(report, measured=measured)


class _Clock:
    """The `seconds` that measuring may take, from now on. What does not fit into the rest of them is left out, and told."""

    def __init__(self, seconds: float, tell: Callable[[str], None]) -> None:
        self._end, self.tell = monotonic() + seconds, tell

    def share(self, of_rest: float) -> float:
        """Seconds that a share of the rest is."""
        return max(self._end - monotonic(), 0.0) * of_rest

    def begin(self, what: str, seconds: float) -> bool:
        """Tells what is measured next, and takes so many seconds at least; False if there is no time left for it."""
        left = self.share(1)
        fits = seconds <= left
        self.tell(what if fits else f"{what}: left out, it takes {seconds:.0f} s and {left:.0f} s are left (--seconds)")
        return fits

    def rounds(self, one: Callable[[int], str], of_rest: float) -> None:
        """Makes rounds in a share of the rest; one at least."""
        begun, seconds = monotonic(), self.share(of_rest)
        for number in range(_MOST_ROUNDS):
            self.tell(f"  round {number + 1}  {one(number)}")
            if (monotonic() - begun) * (number + 2) / (number + 1) > seconds:
                break


def _measure_batches(
    bench: Bench, spec: ModelSpec, report: TuneReport, clock: _Clock, seconds: float
) -> Measurement | None:
    """Measure batches on both sides of the cell from which llama.cpp may split the attention of a row."""
    if not bench.model.can_rewind or not clock.begin("batches: cost in tokens, and changes of logits", seconds):
        return None
    chosen = {name: report.settings.get(name, 0) for name in ("threads", "threads_batch", "prefill_batch")}
    bench.load(msgspec.structs.replace(spec, **chosen))  # as it will be loaded
    share = min(clock.share(1 / 4), _LONGEST_BATCHES) / 2
    measured = bench.batches(share).join_with(bench.batches(share, _CELLS))
    clock.tell(f"  {', '.join(f'{rows}: {cost:.2f}' for rows, cost in measured.batch_times.items())}")
    return measured


def keep(report: TuneReport, spec: ModelSpec) -> str:
    """Saves the settings for later chats, and what was measured before where it was left out now; returns the path of the file.

    Raises:
        OSError: it cannot be written.
    """
    before = per_model.find(spec.sha256)
    rows = before.rows if before is not None else ()
    tuned = per_model.Tuned(
        spec.sha256, report.model, report.machine, report.settings, report.decode, report.prefill, time(), rows
    )
    place = per_model.keep_measured(tuned)
    return str(place if report.measured is None else per_model.keep_rows(report.measured, spec.sha256, report.model))


def _prompt(rate: float, context: int, seconds: float) -> int:
    """The length of a prompt that takes at most about a second, or so many: whole exact batches, and the last token."""
    wanted = int(rate * min(seconds, 1.0)) // EXACT
    batches = min(max(wanted, 2), 2 * FAST // EXACT, (context - _REPLY) // EXACT - 1)
    return batches * EXACT + 1


def _turned(values: list[int], number: int) -> list[int]:
    """Each round starts with another value, so that none is always the first."""
    at = number % len(values)
    return values[at:] + values[:at]
