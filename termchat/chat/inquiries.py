"""Questions to the engine that take several commands, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Generic, TypeVar

from termchat.decoding.records import Failed
from termchat.engine.port import Command, Event, is_last

if TYPE_CHECKING:
    from termchat.chat.host import Host

_T = TypeVar("_T")
Inquiry = Generator[Command, Event, _T]
"""Commands one after the other, each made knowing the last event that answered the one before, and what comes of it. May raise
`Unanswerable`."""


class Unanswerable(Exception):
    """This cannot be asked of the engine; the message says why."""


def send_request(command: Command, answer: type[_T]) -> Inquiry[_T]:
    """Send a command of an inquiry; return the event that answers it."""
    event = yield command
    assert isinstance(event, answer)
    return event


class Newest(Generic[_T]):
    """Makes one inquiry at a time; a newer one replaces those still waiting and cuts the current wait short.

    A question that the engine gave up for other work is asked once more: it goes on where it stopped.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._open = False
        self._next: tuple[Inquiry[_T], Callable[[_T | Failed], None]] | None = None

    def ask_next(self, inquiry: Inquiry[_T], hear: Callable[[_T | Failed], None]) -> None:
        """Begin now, or as soon as the open question is answered; `hear` gets the result, or why there is none."""
        if self._open:
            self._next = inquiry, hear
        else:
            self._step(inquiry, hear, None)

    def _step(self, inquiry: Inquiry[_T], hear: Callable[[_T | Failed], None], answer: Event | None) -> None:
        """Pass an answer to an inquiry, and send its next command."""
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
        self._host.send_command(command, lambda event: self._hear_answer(command, inquiry, hear, event))

    def _hear_answer(
        self, command: Command, inquiry: Inquiry[_T], hear: Callable[[_T | Failed], None], event: Event
    ) -> None:
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
            self.ask_next(*following)
