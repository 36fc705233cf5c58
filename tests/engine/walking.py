"""Many replies at once, and what of each is to be equal to it alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import msgspec

from termchat.decoding.group import Group
from termchat.decoding.records import Failed, Finished, Prefill, Record, SettingsRecord, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Event, FirstToken, Generate, Join, Paused, ReplyRequest, Steer, SteerReply
from tests.asking import change
from tests.engine.conftest import records

TIMES = {
    Token: ("decode_us", "sample_us"),
    Finished: ("ttft_ms", "prefill_ms", "decode_ms", "tokens_per_second"),
    SettingsRecord: ("constraint_ms",),
    Prefill: ("ms",),
}


class Fork(NamedTuple):
    """A walk that joins behind the first tokens of another one, in the reply's step `at`."""

    walk: ReplyRequest
    base: int
    at: int


def walk(number: int, tuning: Tuning, seed: int = 7, **more: object) -> ReplyRequest:
    """Return the request of a reply, whose ids are those of the group it is asked for in."""
    ids: list[int] = more.pop("ids", [])  # type: ignore[assignment]
    return ReplyRequest(ids, tuning.samplers(), tuning.conditions(), seed, number, **more)  # type: ignore[arg-type]


def to(number: int, command: SteerReply) -> SteerReply:
    """Return a command for one reply."""
    return msgspec.structs.replace(command, reply=number)


def joining(command: Generate, one: ReplyRequest) -> Join:
    """Return the command that adds a reply to a group, behind the ids of that if it has none of its own."""
    return Join(_behind(one, one.ids or command.replies[0].ids, command))


def _behind(one: ReplyRequest, ids: list[int], command: Generate) -> ReplyRequest:
    prompt = command.replies[0]
    return msgspec.structs.replace(one, ids=ids, done=prompt.done + len(ids) - len(prompt.ids))


def ask(ids: list[int], walks: Sequence[ReplyRequest], **more: Any) -> Generate:
    """Return the request for many replies to one prompt."""
    return change(Generate(list(walks), Group(123, "walks", len(walks))), ids=ids, **more)


def walked(
    session: ModelSession,
    command: Generate,
    at: Mapping[tuple[int, int], Sequence[Steer | Fork]] | None = None,
    when_paused: Iterable[Steer] = (),
) -> list[Event]:
    """All that the walks say. Commands are given once a walk has so many tokens, and one whenever all are paused."""
    left, planned, waiting = dict(at or {}), iter(when_paused), deque[Steer]()
    stream: list[Event] = []

    def wait() -> None:
        waiting.append(next(planned))

    for events in session.generate(command, lambda: waiting.popleft() if waiting else None, wait, perf_counter()):
        stream += events
        for event in events:
            if isinstance(event, Token) and event.walk is not None:
                deeds = left.pop((event.walk, event.step + 1), [])
                waiting.extend(_join(command, stream, deed) if isinstance(deed, Fork) else deed for deed in deeds)
    assert not left, "some commands were never given"
    return stream


def _join(command: Generate, stream: Iterable[Event], fork: Fork) -> Join:
    own = of(stream, fork.base)
    start = own[0]
    assert isinstance(start, Start)
    drawn = [record.id for record in own if isinstance(record, Token)]
    ids = [*start.prompt_ids, *drawn][: len(command.replies[0].ids) + fork.at]
    return Join(_behind(fork.walk, ids, command))


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


def alone(session: ModelSession, command: Generate, one: ReplyRequest, **more: object) -> list[Record]:
    """The same reply by itself, from an empty cache."""
    session.cache.rewind_to(0)
    prompt = command.replies[0] if command.replies else one
    own = msgspec.structs.replace(one, ids=one.ids or prompt.ids, number=0, paused=False)
    asked = Generate([own], candidates=command.candidates)
    return plain(records(session, change(asked, **more)))


def firsts(stream: Iterable[Event]) -> list[FirstToken]:
    return [event for event in stream if isinstance(event, FirstToken)]
