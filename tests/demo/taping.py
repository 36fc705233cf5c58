"""Records what an engine is asked, and what it answers when."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import msgspec

from termchat.decoding.records import Failed, Token
from termchat.engine.local import LocalEngine
from termchat.engine.port import (
    Adjust,
    Cancel,
    Command,
    EndThinking,
    Event,
    Force,
    Generate,
    Join,
    Load,
    Loaded,
    Pause,
    Progress,
    Resume,
    Step,
)
from termchat.tui.demo.tape import Exchange, Recorded, Steered, Tape, identify, identify_way

_PAUSING = (Pause, Resume, Step)
_STEERING = (Adjust, Force, EndThinking, Cancel, Join, *_PAUSING)
_PASSING = (Progress,)
"""What nobody misses."""


class Taping(LocalEngine):
    """The real engine; what it is asked and answers is kept. `fresh` tells whether seeds are drawn anew each time."""

    def __init__(self, log: Path, fresh: Callable[[], bool] = lambda: False) -> None:
        super().__init__(log)
        self.fresh = fresh
        self._taped: dict[int, tuple[str, float, Recorded]] = {}
        self._reply: tuple[int, Generate] | None = None
        self._way = ""

    def send(self, command: Command) -> int:
        began, number = monotonic(), super().send(command)
        if isinstance(command, _STEERING):
            self._steer(command)
            return number
        if isinstance(command, Load):
            self._way = identify_way(command)
        way = "" if isinstance(command, Load) else self._way
        self._taped[number] = identify(command, seeded=not self.fresh()) + way, began, []
        if isinstance(command, Generate):
            self._reply = number, command
        return number

    def _steer(self, command: Command) -> None:
        """Of one reply, pauses are not kept: they can be made of any recording."""
        if self._reply is None or (isinstance(command, _PAUSING) and self._reply[1].group is None):
            return
        _, began, kept = self._taped[self._reply[0]]
        kept.append((round(monotonic() - began, 3), Steered(identify(command))))

    def receive(self, timeout: float | None = 0.0) -> list[tuple[int, Event]]:
        events = super().receive(timeout)
        for number, event in events:
            if number in self._taped and not isinstance(event, _PASSING):
                _, began, kept = self._taped[number]
                kept.append((round(monotonic() - began, 3), nameless(event)))
        return events

    @property
    def tape(self) -> Tape:
        """All that was answered; the same answer to the same question once."""
        kept: dict[tuple[str, bytes], Exchange] = {}
        for what, _, events in self._taped.values():
            if not events or isinstance(events[-1][1], Failed):
                continue
            answers = [event for _, event in events]
            key = what, msgspec.msgpack.encode(answers, enc_hook=repr)
            kept.setdefault(key, Exchange(what, paced(settled(events))))
        return Tape(list(kept.values()))


def settled(events: Recorded) -> Recorded:
    """Where a reply was steered is where that held from, and not when it was sent: tokens were on their way by then."""
    made = list(events)
    for at in reversed([at for at, (_, event) in enumerate(made) if isinstance(event, Steered)]):
        to = at
        while to + 1 < len(made) and is_on_its_way(made[to + 1][1]):
            to += 1
        made.insert(to, (made[to][0], made.pop(at)[1]))
    return made


def is_on_its_way(event: Event | Steered) -> bool:
    return isinstance(event, Token) and not event.forced and event.walk is None


def paced(events: Recorded) -> Recorded:
    """Events that were fetched together, each at the time when it happened: a token takes as long as it says."""
    made: Recorded = []
    following = math.inf
    for seconds, event in reversed(events):
        at = min(seconds, following)
        made.append((at, event))
        alone = isinstance(event, Token) and event.walk is None
        following = at - (event.decode_us + event.sample_us) / 1e6 if alone else at
    paced, before = Recorded(), 0.0
    for at, event in reversed(made):
        before = max(at, before)
        paced.append((round(before, 3), event))
    return paced


def nameless(event: Event) -> Event:
    """The event without the folder of this machine; the model says that it is a recording."""
    if not isinstance(event, Loaded):
        return event
    info = msgspec.structs.replace(event.info, name=f"demo: a recording of {event.info.name}", path="", remarks=[])
    return Loaded(info)
