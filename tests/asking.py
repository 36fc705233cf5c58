"""Requests as tests write them: the fields of a reply and of its request side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, Protocol

import msgspec

from termchat.decoding.conditions import Condition
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.port import Event, Generate, ReplyRequest, Steer

Poll = Callable[[], Steer | None]


class Generating(Protocol):
    """A session of any engine."""

    def generate(
        self, command: Generate, poll: Poll, wait: Callable[[], None], arrived: float
    ) -> Iterator[list[Event]]: ...


def ask_for(
    ids: list[int],
    samplers: SamplerSettings,
    conditions: tuple[Condition, ...],
    seed: int,
    origin: dict[str, str] | None = None,
    **more: Any,
) -> Generate:
    """Return the request for one reply."""
    return change(Generate([ReplyRequest(ids, samplers, conditions, seed, origin=origin or {})]), **more)


def change(command: Generate, **more: Any) -> Generate:
    """Return a request with other fields, those of a reply in each of its replies."""
    own = {name: more.pop(name) for name in list(more) if name in ReplyRequest.__struct_fields__}
    replies = [msgspec.structs.replace(reply, **own) for reply in command.replies]
    return msgspec.structs.replace(command, replies=replies, **more)


def only(command: Generate) -> ReplyRequest:
    """Return the request of the only reply, or of the first."""
    return command.replies[0]


def events_of(
    session: Generating, command: Generate, poll: Poll = lambda: None, arrived: float | None = None
) -> Iterator[Event]:
    """Yield what a session answers, one event after the other."""
    begun = perf_counter() if arrived is None else arrived
    for events in session.generate(command, poll, lambda: None, begun):
        yield from events
