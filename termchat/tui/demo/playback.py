"""A recorded reply, played: at its recorded pace, held where it was steered, paused and stepped as the viewer likes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import msgspec

from termchat.decoding.records import Finished, Start, Token
from termchat.decoding.units import ends_sentence
from termchat.engine.port import (
    Command,
    Event,
    FirstToken,
    Generate,
    Pause,
    Paused,
    Resume,
    Step,
    Unit,
    WalksFinished,
)
from termchat.tui.demo.tape import Recorded, Steered, asked

_PAUSING = (Pause, Resume, Step)


class Playback:
    """The answer to the command of this `number`.

    Where the recorded reply was steered, it waits until it is steered in the same way (see `steer`). Pauses need no recording:
    what would be drawn is the token that comes next. A group of walks pauses only where it did then.
    """

    def __init__(
        self,
        number: int,
        command: Command,
        events: Recorded,
        clock: Callable[[], float],
    ) -> None:
        self.number = number
        self._events, self._at, self._clock = events, 0, clock
        self._began = clock()
        self._held: float | None = None
        self._group = command.group if isinstance(command, Generate) else None
        self._alone = isinstance(command, Generate) and self._group is None
        self._paused = isinstance(command, Generate) and self._alone and command.replies[0].paused
        self._told = False
        """Whether it was told what would be drawn now."""
        self._units: list[Unit] = []
        """The steps that were asked for."""
        self._said = ""
        """What came since the first of them began."""
        self._granted: list[str] = []
        self._passed: Paused | None = None
        """The pause before the next token, told or only recorded."""

    @property
    def over(self) -> bool:
        return self._at == len(self._events)

    # --- what a person does --------------------------------------------------------------------------------------------

    def steer(self, command: Command) -> bool:
        """The viewer steers; returns whether the recording has an answer to that."""
        if self._alone and isinstance(command, _PAUSING):
            return self._pause(command)
        wanted = asked(command)
        if self._granted or wanted != self._awaited:
            return False
        self._granted.append(wanted)
        return True

    def cancelled(self) -> list[Event]:
        """What ends it now: a reply, or all walks that run, and their group."""
        came, coming = self._events[: self._at], self._events[self._at :]
        tokens = Counter(event.walk for _, event in came if isinstance(event, Token))
        if self._group is None:
            return [_cancelled(tokens[None], None)]
        running = [event.walk for _, event in coming if isinstance(event, Finished)]
        over = WalksFinished(tokens.total(), 0, math.nan, None)
        return [*(_cancelled(tokens[walk], walk) for walk in running), over]

    @property
    def _awaited(self) -> str | None:
        """How it was steered next."""
        return next((event.asked for _, event in self._events[self._at :] if isinstance(event, Steered)), None)

    def _pause(self, command: Command) -> bool:
        if self._held is not None and self._passed is not None and isinstance(self._events[self._at][1], Steered):
            self._paused, self._units, self._told = True, [], False  # it goes on only as it was steered here
            return isinstance(command, Pause)
        if isinstance(command, Step) and self._paused:
            self._units.append(command.unit)
            self._said = ""
        else:
            self._paused, self._units = not isinstance(command, Resume), []
        self._told = self._told and self._paused
        return True

    # --- what is answered ----------------------------------------------------------------------------------------------

    def due(self, *, held: bool) -> list[tuple[int, Event]]:
        """The events due by now; with `held`, not beyond what somebody else would have to do."""
        now, found = self._clock(), list[Event]()
        while not self.over:
            seconds, event = self._events[self._at]
            early = self._began + seconds > now and not self._granted
            if early or (paused := self._stops(event, found, held=held)):
                if not early and paused:
                    self._held = self._held or now
                break
            if self._held is not None or self._granted:
                self._began, self._held = now - seconds, None
            self._at += 1
            self._take(event, found)
        return [(self.number, event) for event in found]

    def _stops(self, event: Event | Steered, found: list[Event], *, held: bool) -> bool:
        """Whether it goes no further than to this event now; a pause is told once."""
        if isinstance(event, Steered):
            if event.asked in self._granted or not held:
                return False
            if self._passed is not None and not self._told:  # it was paused where this was done
                self._paused = True
                self._tell(self._passed, found)
            return True
        if not self._paused or self._units or self._granted or not isinstance(event, FirstToken | Token):
            return False
        token = self._next
        if token is None or token.forced:
            return False
        if not self._told:
            self._tell(Paused(token), found)
        return True

    def _tell(self, paused: Paused, found: list[Event]) -> None:
        self._told, self._passed = True, paused
        found.append(paused)

    @property
    def _next(self) -> Token | None:
        """The next token, if nobody steers before it."""
        coming = (event for _, event in self._events[self._at :] if isinstance(event, Token | Steered))
        token = next(coming, None)
        return token if isinstance(token, Token) else None

    def _take(self, event: Event | Steered, found: list[Event]) -> None:
        if isinstance(event, Steered):
            if self._granted:
                self._granted.pop(0)
            return
        if isinstance(event, Paused) and self._alone:
            if event.why or self._paused:
                self._paused, self._units = True, []
                self._tell(event, found)
            else:
                self._passed = event
            return
        if isinstance(event, Token):
            self._told, self._passed = False, None
            self._stepped(event)
        if isinstance(event, Start) and self._group is not None:  # whose number is another one this time
            event = msgspec.structs.replace(event, group=self._group)
        found.append(event)

    def _stepped(self, token: Token) -> None:
        """Whether the step that was asked for ends with this token."""
        if not self._units or token.forced:
            return
        self._said += token.text
        if _ENDS[self._units[0]](self._said, self._next.text if self._next is not None else ""):
            self._units.pop(0)
            self._said = ""


def _cancelled(tokens: int, walk: int | None) -> Finished:
    return Finished("user", "", "", tokens, None, math.nan, math.nan, None, walk)


_ENDS: dict[Unit, Callable[[str, str], bool]] = {
    "token": lambda _said, _following: True,
    "line": lambda said, _following: "\n" in said,
    "sentence": ends_sentence,
}
"""Whether a step is complete with what was said since it began, given the text of the next token."""
