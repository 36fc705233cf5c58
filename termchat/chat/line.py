"""The line to the engine: who waits for which answer."""

from __future__ import annotations

from collections.abc import Callable

from termchat.decoding.records import Failed, Finished
from termchat.engine.port import (
    Command,
    Engine,
    Event,
    Explained,
    Inspected,
    Loaded,
    Rendered,
    Scored,
    Tokenized,
)

Hearer = Callable[[Event], None]
"""Takes the events that answer one command, in order; the last one is of `LAST`."""

LAST = (Loaded, Rendered, Tokenized, Inspected, Explained, Scored, Finished, Failed)
"""What ends an answer."""


class Line:
    """One engine, and the hearer of every command that is still to be answered.

    An answer goes to who asked, so it belongs to what was asked, whatever is shown by then.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._hearers: dict[int, Hearer] = {}

    def ask(self, command: Command, hear: Hearer) -> None:
        """Sends a command; `hear` gets all that answers it.

        Raises:
            EngineError: the engine's process cannot be started.
        """
        self._hearers[self.engine.send(command)] = hear

    def tell(self, command: Command) -> None:
        """Sends a command that has no answer of its own."""
        self.engine.send(command)

    def deliver(self, number: int, event: Event) -> bool:
        """Takes an event to who waits for it; whether there was somebody."""
        hear = self._hearers.pop(number, None) if isinstance(event, LAST) else self._hearers.get(number)
        if hear is not None:
            hear(event)
        return hear is not None

    def broken(self, failure: Failed) -> None:
        """The engine is dead: everybody who waits gets this for an answer."""
        hearers, self._hearers = self._hearers, {}
        for hear in hearers.values():
            hear(failure)


class Newest:
    """Asks one question at a time; of those that come meanwhile only the newest is asked."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._open = False
        self._next: tuple[Command, Hearer] | None = None

    def ask(self, command: Command, hear: Hearer) -> None:
        """Asks now, or as soon as the question that is open is answered."""
        if self._open:
            self._next = command, hear
            return
        self._open = True
        self._line.ask(command, lambda event: self._hear(event, hear))

    def drop(self) -> None:
        """Forgets the question that waits."""
        self._next = None

    def _hear(self, event: Event, hear: Hearer) -> None:
        if not isinstance(event, LAST):
            hear(event)
            return
        self._open = False
        following, self._next = self._next, None
        dead = isinstance(event, Failed) and event.kind == "engine"
        if following is not None and not dead:
            self.ask(*following)
        hear(event)
