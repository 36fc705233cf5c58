"""The line to the engine: who waits for which answer."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

from termchat.decoding.records import Failed
from termchat.engine.port import Command, Engine, Event, is_last

_T = TypeVar("_T")
Inquiry = Generator[Command, Event, _T]
"""Commands one after the other, each made knowing the last event that answered the one before, and what comes of it. May raise
`Unanswerable`."""


class Unanswerable(Exception):
    """This cannot be asked of the engine; the message says why."""


class Requests:
    """One engine, and the hearer of every command that is still to be answered.

    An answer goes to who asked, so it belongs to what was asked, whatever is shown by then.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._hearers: dict[int, Callable[[Event], None]] = {}

    @property
    def waits(self) -> bool:
        """Whether anybody waits for an answer."""
        return bool(self._hearers)

    def ask(self, command: Command, hear: Callable[[Event], None]) -> int:
        """Sends a command and returns its number; `hear` gets all that answers it, in order, the last of it one that
        `is_last`.

        Raises:
            EngineError: the engine's process cannot be started.
        """
        number = self.engine.send(command)
        self._hearers[number] = hear
        return number

    def tell(self, command: Command) -> None:
        """Sends a command that has no answer of its own."""
        self.engine.send(command)

    def deliver(self, number: int, event: Event) -> bool:
        """Passes an event to who waits for it; False if nobody does."""
        hear = self._hearers.pop(number, None) if is_last(event) else self._hearers.get(number)
        if hear is not None:
            hear(event)
        return hear is not None

    def broken(self, failure: Failed) -> None:
        """The engine is dead: everybody who waits gets this as the answer."""
        hearers, self._hearers = self._hearers, {}
        for hear in hearers.values():
            hear(failure)


class Newest(Generic[_T]):
    """Makes one inquiry at a time; of those that come meanwhile only the newest is made, and what it waits for is cut short.

    A question that the engine gave up for other work is asked once more: it goes on where it stopped.
    """

    def __init__(self, line: Requests) -> None:
        self._line = line
        self._open = False
        self._next: tuple[Inquiry[_T], Callable[[_T | Failed], None]] | None = None

    def ask(self, inquiry: Inquiry[_T], hear: Callable[[_T | Failed], None]) -> None:
        """Begins now, or as soon as the question that is open is answered; `hear` gets what came of it, or why nothing did."""
        if self._open:
            self._next = inquiry, hear
        else:
            self._step(inquiry, hear, None)

    def _step(self, inquiry: Inquiry[_T], hear: Callable[[_T | Failed], None], answer: Event | None) -> None:
        """Gives an inquiry its answer, and sends the next command."""
        try:
            command = next(inquiry) if answer is None else inquiry.send(answer)
        except StopIteration as result:
            hear(result.value)
        except Unanswerable as error:
            hear(Failed("question", str(error)))
        else:
            self._send(command, inquiry, hear)

    def _send(self, command: Command, inquiry: Inquiry[_T], hear: Callable[[_T | Failed], None]) -> None:
        self._open = True
        self._line.ask(command, lambda event: self._hear(command, inquiry, hear, event))

    def _hear(self, command: Command, inquiry: Inquiry[_T], hear: Callable[[_T | Failed], None], event: Event) -> None:
        if not is_last(event):
            return
        self._open = False
        following, self._next = self._next, None
        if isinstance(event, Failed) and event.kind == "busy":
            if following is None:
                self._send(command, inquiry, hear)
        elif isinstance(event, Failed):
            hear(event)
            if event.kind == "engine":
                return
        else:
            self._step(inquiry, hear, event)
        if following is not None:
            self.ask(*following)
