"""Helpers to drive the engine, in this process and as a child."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic, perf_counter

import pytest

from termchat.decoding.records import Failed, Finished, Record, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.cache import Cache
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.scheduler import Scheduler
from termchat.engine.llama.softmax import Row
from termchat.engine.llama.source import CacheSource
from termchat.engine.llama.speculation import Learned
from termchat.engine.llama.thread_tuner import ThreadTuner
from termchat.engine.local import LocalEngine
from termchat.engine.port import (
    Command,
    Event,
    FirstToken,
    Generate,
    Load,
    Loaded,
    Measurement,
    Message,
    ModelSpec,
    Paused,
    Prefilling,
    Render,
    Rendered,
    Steer,
)
from tests.asking import ask_for, events_of


def request(ids: list[int], tuning: Tuning, seed: int = 7, **more: object) -> Generate:
    """A `Generate` for these knobs."""
    return ask_for(ids, tuning.samplers(), tuning.conditions(), seed, **more)  # type: ignore[arg-type]


def prompt(session: ModelSession, text: str) -> list[int]:
    """Prompt ids of one user message."""
    return session.render(Render([Message("user", text)])).ids


def know_rows(session: ModelSession, rows_alike: int = 63) -> ModelSession:
    """The same, which knows how many rows of a batch have the bits of a row alone."""
    cache = session.cache
    cache.measured = Measurement(cache.how, cache.loaded[0], rows_alike=rows_alike)
    return session


def lasting(session: ModelSession, text: str, tuning: Tuning, seed: int = 7) -> list[int]:
    """Prompt ids of a message whose reply is as long as it may be: other processors draw others, and one may end sooner.

    The cache is empty then.
    """
    for more in ("", " Please.", " Go on.", " I listen.", " Take your time.", " Leave nothing out."):
        ids = prompt(session, text + more)
        reply = tokens(records(session, request(ids, tuning, seed)))
        session.cache.rewind_to(0)
        if len(reply) == tuning.max_tokens:
            return ids
    raise AssertionError("every reply ends sooner")


def records(session: ModelSession, command: Generate, poll: Callable[[], Steer | None] = lambda: None) -> list[Record]:
    """The whole record stream of one reply."""
    made = events_of(session, command, poll, perf_counter())
    return [record for record in made if not isinstance(record, (Prefilling, FirstToken, Paused))]


def tokens(stream: list[Record] | list[Event]) -> list[Token]:
    """Only the tokens."""
    return [record for record in stream if isinstance(record, Token)]


def reply_from(
    cache: Cache, tuner: ThreadTuner, command: Generate, row: Callable[[], Row] | None = None
) -> Iterator[Event]:
    """The events of a reply that a cache makes at this tuner."""
    source = CacheSource(cache, tuner, command, Learned(), row)
    for events in Scheduler(source, command, perf_counter()).records(lambda: None, lambda: None):
        yield from events


class Driver:
    """A worker process, driven one question after the other."""

    def __init__(self, spec: ModelSpec | None) -> None:
        self.engine = LocalEngine()
        self.spec = spec or ModelSpec("", "")
        if spec is not None:
            self.ask(Load(spec), Loaded)

    def ask(self, command: Command, answer: type[Event] = Finished) -> list[Event]:
        """All events up to the answer, or a failure."""
        return self.until(self.engine.send(command), answer)

    def until(self, number: int, answer: type[Event], limit: float = 240.0) -> list[Event]:
        """All events of a command up to its answer, or a failure."""
        found: list[Event] = []
        end = monotonic() + limit
        while monotonic() < end:
            for of, event in self.engine.receive(0.5):
                if of == number:
                    found.append(event)
                    if isinstance(event, (answer, Failed)):
                        return found
        raise AssertionError(f"no {answer.__name__} within {limit} s; got {found[-3:]}")

    def prompt(self, text: str) -> list[int]:
        """Prompt ids of one user message."""
        rendered = self.ask(Render([Message("user", text)]), Rendered)[-1]
        assert isinstance(rendered, Rendered)
        return rendered.ids


@pytest.fixture
def driver(spec: ModelSpec) -> Iterator[Driver]:
    """A worker with the model loaded."""
    made = Driver(spec)
    yield made
    made.engine.close()
