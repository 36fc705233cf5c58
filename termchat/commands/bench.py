"""The same work again and again on an engine, with so many threads: how fast a prompt is read and a reply is drawn.

Measured as in a chat: every step observed and recorded, the records taken in at the screen's pace, with as much work beside
it as the screen makes. Threads spin while they wait for each other, so a core that the screen needs costs more than itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median, quantiles
from time import monotonic, perf_counter, sleep, time

import msgspec

from termchat.config import per_model
from termchat.decoding.records import Failed, Finished, Prefill
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.threads import all_threads, default_threads
from termchat.engine.port import (
    Compare,
    Compared,
    Engine,
    EngineError,
    Event,
    Generate,
    Load,
    Loaded,
    ModelInfo,
    ModelSpec,
    Scripted,
    Tokenize,
    Tokenized,
)

FRAME_S, DRAWING_S = 1 / 16, 0.0035
"""What the screen does while a reply streams: every so many seconds, so many of work."""

_TEXT = (
    "Once upon a time, in a village far away from the sea, there lived an old woman who had never seen a ship. "
    "One morning a traveller came down from the hills with a bundle of letters, a lantern and 3 copper coins. "
)
_SETTINGS = Tuning(temperature=0.8)


class BenchRun(msgspec.Struct, frozen=True):
    """One prompt and one reply, in tokens a second; `decode` is of the steps after the first."""

    prefill: float
    decode: float


class Bench:
    """A model on an engine. The reply's tokens are forced, so that each run is the same work and none ends early.

    Raises:
        EngineError: the model cannot be loaded, or a run fails.
    """

    def __init__(self, engine: Engine, spec: ModelSpec) -> None:
        self._engine = engine
        self.model = self.load(spec)
        self._runs = 0

    def load(self, spec: ModelSpec) -> ModelInfo:
        """The model anew, in another way."""
        for event in self._events(self._engine.send(Load(spec))):
            if isinstance(event, Loaded):
                self.model = event.info
                break
        for event in self._events(self._engine.send(Tokenize(_TEXT))):
            if isinstance(event, Tokenized):
                self._ids = event.ids
                break
        return self.model

    def run(self, threads: int, prompt: int, reply: int) -> BenchRun:
        """Reads a prompt of so many tokens, other ones than the last time, and draws a reply of so many."""
        self._runs += 1
        shift = self._runs % len(self._ids)
        story = (self._ids[shift:] + self._ids[:shift]) * ((prompt + reply) // len(self._ids) + 1)
        script = [Scripted(step, story[prompt + step], threads=threads if not step else 0) for step in range(reply)]
        command = Generate(
            story[:prompt],
            _SETTINGS.samplers(),
            msgspec.structs.replace(_SETTINGS, max_tokens=reply).conditions(),
            seed=1,
            raw=True,
            script=tuple(script),
            keep_logits=False,
        )
        prefill, finished = None, None
        for event in self._events(self._engine.send(command)):
            if isinstance(event, Prefill):
                prefill = event
            elif isinstance(event, Finished):
                finished = event
                break
        if prefill is None or finished is None or finished.tokens_per_second is None:
            raise EngineError("measure", "the engine measured nothing", "")
        return BenchRun((prefill.tokens - prefill.reused) / (prefill.ms / 1e3), finished.tokens_per_second)

    def compare(self, at: int, count: int) -> float:
        """How far apart the model's distributions are, one token at a time and in one batch, for so many tokens after `at`."""
        story = self._ids * ((at + count) // len(self._ids) + 1)
        for event in self._events(self._engine.send(Compare(story[: at + count], at))):
            if isinstance(event, Compared):
                return event.difference
        raise AssertionError  # the events end with an answer or an error

    def _events(self, number: int) -> Iterator[Event]:
        """All that answers a command, while the screen would draw.

        Raises:
            EngineError: it failed.
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
    """As much work as a frame."""
    end = perf_counter() + DRAWING_S
    while perf_counter() < end:
        pass


GAIN = 1.03
"""How much faster than the default something must be: less is noise on most machines, and nobody feels it."""
EXACT, FAST = 63, 512
BATCHES = (32, EXACT, FAST)
_REPLY = 24
_ROUNDS = (3, 9)
_CONTEXT = 2048
_SHORTEST = 2 * EXACT + 1
_PLACES, _COMPARED = (64, 576), 32
"""After how many tokens batches are compared with single tokens: llama.cpp goes another way from cell 512 on."""


class Series(msgspec.Struct, frozen=True):
    """The rates of one value of a setting, in tokens a second, one a round."""

    value: int
    rates: list[float]

    @property
    def median(self) -> float:
        """The middle one."""
        return median(self.rates)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles."""
        if len(self.rates) < 2:
            return self.median, self.median
        low, _, high = quantiles(self.rates, n=4, method="inclusive")
        return low, high

    def beats(self, other: Series) -> bool:
        """Whether it is faster by more than noise: in three rounds of four, and by the median ratio of the rounds."""
        ratios = [mine / theirs for mine, theirs in zip(self.rates, other.rates, strict=True)]
        return median(ratios) >= GAIN and Series(0, ratios).spread[0] > 1.0


class Result(msgspec.Struct, frozen=True):
    """A setting, what was measured, and what comes of it: `chosen` is the default where nothing beat it.

    `fastest` beat it too, but may not be chosen; 0 if there is none.
    """

    setting: str
    default: int
    chosen: int
    series: list[Series]
    fastest: int = 0

    def of(self, value: int) -> Series:
        """The series of a value."""
        return next(series for series in self.series if series.value == value)


class TuneReport(msgspec.Struct, frozen=True):
    """All that was measured. Rates are those with what was chosen; `differences` as in `tuned.Tuned`."""

    model: str
    machine: str
    device: str
    results: list[Result]
    decode: float
    prefill: float
    differences: dict[int, float] = {}

    @property
    def settings(self) -> dict[str, int]:
        """What is better than its default."""
        return {result.setting: result.chosen for result in self.results if result.chosen != result.default}


# --- what to try, and what to choose ---------------------------------------------------------------------------------


def thread_counts(cores: int, threads: int) -> list[int]:
    """What to try on a machine of so many cores that run so many threads: all of a few, else what is likely."""
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
    """Measures for about so many seconds, in rounds in which every value has its turn, and tells each round.

    Raises:
        EngineError: the model cannot be loaded, or the engine fails.
    """
    cores, threads = default_threads(), all_threads()
    counts = thread_counts(cores, threads)
    context = min(spec.context or _CONTEXT, _CONTEXT)
    spec = msgspec.structs.replace(
        spec, context=context, threads=threads, threads_batch=threads, prefill_batch=EXACT, fast_prefill=False
    )
    bench = Bench(engine, spec)
    tell(f"{bench.model.name} on {bench.model.device}; {per_model.machine()}")
    warm = bench.run(cores, _SHORTEST, 4)
    prompt = _prompt(warm.prefill, context)

    drawn = {count: Series(count, []) for count in counts}
    read = {count: Series(count, []) for count in counts}

    def threads_round(number: int) -> str:
        for count in _turned(counts, number):
            run = bench.run(count, prompt, _REPLY)
            drawn[count].rates.append(run.decode)
            read[count].rates.append(run.prefill)
        return ", ".join(f"{count}: {drawn[count].rates[-1]:.1f} / {read[count].rates[-1]:.0f}" for count in counts)

    tell("threads: decode / prompt, tokens a second")
    _rounds(threads_round, seconds * 2 / 3, tell)
    decoding = choose("threads", cores, list(drawn.values()))
    reading = choose("threads_batch", cores, list(read.values()))

    batches = {size: Series(size, []) for size in BATCHES}

    def batch_round(number: int) -> str:
        for size in _turned(list(BATCHES), number):
            bench.load(msgspec.structs.replace(spec, prefill_batch=size))
            bench.run(reading.chosen, _SHORTEST, 2)
            batches[size].rates.append(bench.run(reading.chosen, prompt, 2).prefill)
        return ", ".join(f"{size}: {series.rates[-1]:.0f}" for size, series in batches.items())

    tell("prompt batch: prompt, tokens a second")
    _rounds(batch_round, seconds / 3, tell)
    batch = choose("prefill_batch", EXACT, list(batches.values()), EXACT)
    return TuneReport(
        model=bench.model.name,
        machine=per_model.machine(),
        device=bench.model.device,
        results=[decoding, reading, batch],
        decode=decoding.of(decoding.chosen).median,
        prefill=batch.of(batch.chosen).median,
        differences=_differences(bench, spec),
    )


def _differences(bench: Bench, spec: ModelSpec) -> dict[int, float]:
    model = bench.load(spec)
    if not model.can_rewind:
        return {}
    return {at: bench.compare(at, _COMPARED) for at in _PLACES if at + _COMPARED < model.context}


def keep(report: TuneReport, spec: ModelSpec) -> str:
    """Has the settings used from now on; returns where they are kept.

    Raises:
        OSError: they cannot be written.
    """
    found = per_model.Tuned(
        spec.sha256,
        report.model,
        report.machine,
        report.settings,
        report.decode,
        report.prefill,
        time(),
        report.differences,
    )
    return str(per_model.keep_measured(found))


def _prompt(rate: float, context: int) -> int:
    """The length of a prompt that takes about a second: whole exact batches and the last token."""
    batches = min(max(int(rate) // EXACT, 2), 2 * FAST // EXACT, (context - _REPLY) // EXACT - 1)
    return batches * EXACT + 1


def _turned(values: list[int], number: int) -> list[int]:
    """Each round begins with another one, so that none is always the first."""
    at = number % len(values)
    return values[at:] + values[:at]


def _rounds(one: Callable[[int], str], seconds: float, tell: Callable[[str], None]) -> None:
    begun = monotonic()
    for number in range(_ROUNDS[1]):
        tell(f"  round {number + 1}  {one(number)}")
        if number + 1 >= _ROUNDS[0] and (monotonic() - begun) * (number + 2) / (number + 1) > seconds:
            break
