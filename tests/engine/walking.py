"""Many replies at once, and what of each is to be equal to it alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from typing import NamedTuple

import msgspec

from termchat.decoding.group import Group
from termchat.decoding.records import Failed, Finished, Prefill, Record, SettingsRecord, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import Session
from termchat.engine.llama.requests import Generate, GenerateWalks, Join, Steer, Walk
from termchat.engine.port import Event, FirstToken, Paused
from tests.engine.conftest import records

TIMES = {
    Token: ("decode_us", "sample_us"),
    Finished: ("ttft_ms", "prefill_ms", "decode_ms", "tokens_per_second"),
    SettingsRecord: ("constraint_ms",),
    Prefill: ("ms",),
}


class Fork(NamedTuple):
    """A walk that joins behind the first tokens of another one, in the reply's step `at`."""

    walk: Walk
    base: int
    at: int


def walk(number: int, tuning: Tuning, seed: int = 7, **more: object) -> Walk:
    return Walk(number, tuning.samplers(), tuning.conditions(), seed, **more)  # type: ignore[arg-type]


def ask(ids: list[int], walks: Sequence[Walk], **more: object) -> GenerateWalks:
    return GenerateWalks(ids, list(walks), Group(123, "walks", len(walks)), **more)  # type: ignore[arg-type]


def walked(
    session: Session,
    command: GenerateWalks,
    at: Mapping[tuple[int, int], Sequence[Steer | Fork]] | None = None,
    when_paused: Iterable[Steer] = (),
) -> list[Event]:
    """All that the walks say. Commands are given once a walk has so many tokens, and one whenever all are paused."""
    left, planned, waiting = dict(at or {}), iter(when_paused), deque[Steer]()
    stream: list[Event] = []

    def wait() -> None:
        waiting.append(next(planned))

    for events in session.generate_walks(command, lambda: waiting.popleft() if waiting else None, wait, perf_counter()):
        stream += events
        for event in events:
            if isinstance(event, Token) and event.walk is not None:
                deeds = left.pop((event.walk, event.step + 1), [])
                waiting.extend(_join(command, stream, deed) if isinstance(deed, Fork) else deed for deed in deeds)
    assert not left, "some commands were never given"
    return stream


def _join(command: GenerateWalks, stream: Iterable[Event], fork: Fork) -> Join:
    own = of(stream, fork.base)
    start = own[0]
    assert isinstance(start, Start)
    drawn = [record.id for record in own if isinstance(record, Token)]
    ids = [*start.prompt_ids, *drawn][: len(command.ids) + fork.at]
    return Join(msgspec.structs.replace(fork.walk, ids=ids))


def of(stream: Iterable[Event], number: int) -> list[Record]:
    """The records of one walk."""
    return [
        event for event in stream
        if isinstance(event, Start | SettingsRecord | Prefill | Token | Finished | Failed) and event.walk == number
    ]  # fmt: skip


def end(stream: Iterable[Event], number: int) -> Finished:
    last = of(stream, number)[-1]
    assert isinstance(last, Finished)
    return last


def paused(stream: Iterable[Event], number: int) -> list[Paused]:
    return [event for event in stream if isinstance(event, Paused) and event.walk == number]


def plain(stream: Iterable[Record]) -> list[Record]:
    """Records without their times, and without the walk they are of."""
    found = []
    for record in stream:
        more = dict.fromkeys(TIMES.get(type(record), ()), 0) | {"walk": None}
        if isinstance(record, Start):
            more["group"] = None
        found.append(msgspec.structs.replace(record, **more))
    return found


def alone(session: Session, command: GenerateWalks, one: Walk, **more: object) -> list[Record]:
    """The same reply by itself, from an empty cache."""
    session.cache.rewind(0)
    asked = Generate(
        command.ids, one.samplers, one.conditions, one.seed, one.origin, script=one.script,
        constraint=one.constraint, state=one.state, done=command.done,
    )  # fmt: skip
    return plain(records(session, msgspec.structs.replace(asked, **more)))


def firsts(stream: Iterable[Event]) -> list[FirstToken]:
    return [event for event in stream if isinstance(event, FirstToken)]
