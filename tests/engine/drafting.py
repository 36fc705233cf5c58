"""Replies with drafts against the same ones without: what is tried, and what has to be equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from time import perf_counter

import msgspec

from termchat.decoding.constraint import Constraint
from termchat.decoding.drafting import BatchTimes, DraftSettings
from termchat.decoding.records import Finished, Record, SettingsRecord, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import (
    Adjust,
    Cancel,
    Force,
    Generate,
    Measurement,
    ModelSpec,
    Pause,
    Paused,
    Resume,
    Steer,
    Step,
)
from tests.asking import events_of
from tests.engine.conftest import know_rows
from tests.engine.walking import plain

LENGTH = 24
COSTS = {2: 1.82, 3: 2.08, 4: 2.37, 8: 4.18, 16: 7.62}
"""T(n) of a small model."""
SETTINGS = {
    "greedy": Tuning(temperature=0),
    "warm": Tuning(temperature=0.8),
    "hot": Tuning(temperature=1.6, top_k=0, top_p=1.0, min_p=0.0),
    "penalties": Tuning(temperature=0.8, repeat_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.2),
    "dry": Tuning(temperature=0.7, dry_multiplier=0.8, dry_allowed_length=1),
    "xtc": Tuning(temperature=1.0, xtc_probability=0.6, xtc_threshold=0.05),
    "mirostat": Tuning(mirostat=2, mirostat_tau=4.0),
}
SCHEMA = Constraint("json_schema", '{"type": "array", "items": {"type": "integer"}, "minItems": 4}')
TEXT = "The ship sailed on over the wide, quiet water; nobody said a word. " * 40


class Knowing:
    """Drafts what the reply is going to say, with faults; or whatever else is to be tried."""

    by, why = "ngram", ""
    said: Sequence[int] = ()
    begin = 0
    faults = 0.3
    instead: Callable[[list[int], int], list[int]] | None = None

    def __init__(self, ids: list[int], _judge: object) -> None:
        self._random = Random(len(ids))

    def learn_round(self, *_: object) -> None:
        pass

    def expect_speedup(self, *_: object) -> float:
        return 2.0

    def propose_ids(self, ids: list[int], most: int, _times: BatchTimes) -> list[int]:
        if self.instead is not None:
            return self.instead(ids, most)
        known = list(self.said[len(ids) - self.begin :])[: self._random.randint(1, most)]
        return [i if self._random.random() > self.faults else (i + 1) % 1000 for i in known]


def session_of(path: Path, **more: object) -> ModelSession:
    """A session in which it was measured what batches cost, and that their rows are alike."""
    spec = ModelSpec(str(path), "small", context=1024, threads=1)
    made = know_rows(ModelSession(msgspec.structs.replace(spec, **more), lambda _: None))
    know_costs(made)
    return made


def know_costs(session: ModelSession) -> None:
    """Begin anew with what batches cost, whatever replies told since."""
    session._learned.learn_measured(Measurement(session.cache.how, session.cache.loaded[0], COSTS))


def ids_of(session: ModelSession, count: int) -> list[int]:
    return session.model.tokenize(TEXT, special=False)[:count]


def same(stream: Iterable[Record]) -> list[Record]:
    """Records without their times, and without what is told of drafts."""
    found: list[Record] = []
    for record in plain(stream):
        if isinstance(record, Token):
            record = msgspec.structs.replace(record, draft=None, settings=0)
        elif isinstance(record, Finished):
            record = msgspec.structs.replace(record, drafted=None, accepted=None, rounds=None, not_drafted="")
        elif isinstance(record, SettingsRecord):
            record = msgspec.structs.replace(record, draft=None, drafting="", number=0)
            if record in found:
                continue
        found.append(record)
    return found


def end(stream: Iterable[object]) -> Finished:
    *_, last = stream
    assert isinstance(last, Finished)
    return last


def steered(
    session: ModelSession, command: Generate, at: int, deeds: Sequence[Steer], when_paused: Sequence[Steer] = ()
) -> list[Record | Paused]:
    """A reply from an empty cache, to which this is done once it has `at` tokens, and one thing whenever it is paused."""
    session.cache.rewind_to(0)
    waiting: list[Steer] = []
    planned = iter(when_paused)
    found: list[Record | Paused] = []
    made = events_of(session, command, lambda: waiting.pop(0) if waiting else None, perf_counter())
    for said in made:
        if isinstance(said, Record | Paused):
            found.append(said)
        if isinstance(said, Token) and said.step + 1 == at:
            waiting += deeds
        elif isinstance(said, Paused):
            waiting.append(next(planned))
    return found


def taken(stream: Iterable[Record | Paused]) -> list[tuple[int, float, bool]]:
    """The tokens that were taken, and those that would have been where it paused."""
    each = (said.token if isinstance(said, Paused) else said for said in stream)
    return [(t.id, t.probability, t.forced) for t in each if isinstance(t, Token)]


HOT = Tuning(temperature=1.4, max_tokens=LENGTH)
DEEDS: dict[str, tuple[Sequence[Steer], Sequence[Steer]]] = {
    "pause": ([Pause()], [Resume()]),
    "step": ([Pause()], [Step(), Step(), Step("token"), Resume()]),
    "force": ([Force([300, 301])], []),
    "pause and force": ([Pause()], [Force([300]), Resume()]),
    "adjust": ([Adjust(HOT.samplers(), HOT.conditions())], []),
    "drafts off": (
        [Adjust(Tuning(max_tokens=LENGTH).samplers(), HOT.conditions(), draft=DraftSettings("off"))],
        [],
    ),
    "shorter": ([Adjust(Tuning(max_tokens=LENGTH).samplers(), Tuning(max_tokens=12).conditions())], []),
    "cancel": ([Cancel()], []),
}
