"""Records what an engine is asked, and what it answers when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic

import msgspec

from termchat.decoding.records import Failed
from termchat.engine.local import LocalEngine
from termchat.engine.port import (
    Adjust,
    Cancel,
    Command,
    EndThinking,
    Event,
    Force,
    Generate,
    GenerateWalks,
    Join,
    Loaded,
    Pause,
    Progress,
    Resume,
    SearchBeams,
    Step,
    ToWalk,
)
from termchat.tui.demo.tape import Exchange, Recorded, Steered, Tape, asked

_REPLIES = (Generate, GenerateWalks, SearchBeams)
_PAUSING = (Pause, Resume, Step)
_STEERING = (Adjust, Force, EndThinking, Cancel, ToWalk, Join, *_PAUSING)
_PASSING = (Progress,)
"""What nobody misses."""


class Taping(LocalEngine):
    """The real engine; what it is asked and answers is kept. `fresh` tells whether seeds are drawn anew each time."""

    def __init__(self, log: Path, fresh: Callable[[], bool] = lambda: False) -> None:
        super().__init__(log)
        self.fresh = fresh
        self._taped: dict[int, tuple[str, float, Recorded]] = {}
        self._reply: tuple[int, Command] | None = None

    def rewind(self) -> None:
        """What was recorded so far is forgotten."""
        self._taped.clear()

    def send(self, command: Command) -> int:
        began, number = monotonic(), super().send(command)
        if isinstance(command, _STEERING):
            self._steer(command)
            return number
        self._taped[number] = asked(command, seeded=not self.fresh()), began, []
        if isinstance(command, _REPLIES):
            self._reply = number, command
        return number

    def _steer(self, command: Command) -> None:
        """Of one reply, pauses are not kept: they can be made of any recording."""
        if self._reply is None or (isinstance(command, _PAUSING) and isinstance(self._reply[1], Generate)):
            return
        _, began, kept = self._taped[self._reply[0]]
        kept.append((round(monotonic() - began, 3), Steered(asked(command))))

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
            kept.setdefault(key, Exchange(what, events))
        return Tape(list(kept.values()))


def nameless(event: Event) -> Event:
    """The event without the folder of this machine; the model says that it is a recording."""
    if not isinstance(event, Loaded):
        return event
    info = msgspec.structs.replace(event.info, name=f"demo: a recording of {event.info.name}", path="", remarks=[])
    return Loaded(info)
