"""The same work again and again on an engine, with so many threads: how fast a prompt is read and a reply is drawn.

Measured as in a chat: every step observed and recorded, the records taken in at the screen's pace, with as much work beside
it as the screen makes. Threads spin while they wait for each other, so a core that the screen needs costs more than itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter, sleep

import msgspec

from termchat.decoding.records import Failed, Finished, Prefill
from termchat.decoding.samplers import Tuning
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


class Run(msgspec.Struct, frozen=True):
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

    def run(self, threads: int, prompt: int, reply: int) -> Run:
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
        return Run((prefill.tokens - prefill.reused) / (prefill.ms / 1e3), finished.tokens_per_second)

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
