"""Keys that come faster than they are taken in, as over a slow line, are taken in one after the other.

Textual hands a key to the widget that has the keyboard when it comes. What that leaves goes up, through the queue of each
widget around it, to the app, which looks up what the key is bound to: behind the keys that came meanwhile, which may be in the
text already, or in one that is not to have them any more. So "ab", Backspace, "c" would end as "ab".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby

from textual import events
from textual.dom import DOMNode
from textual.message import Message
from textual.message_pump import MessagePump
from textual.timer import Timer

PATIENCE_S = 1.0
"""After so long a key no longer waits for the one before it: whoever has that takes its time."""

_ROUNDS = 2
"""Times that all queues on the way up must have been gone through: once for the key, once for the messages it led to."""


class TypeAhead:
    """Has keys and pastes taken by `take`, each once the one before it has been; none before `begin`, when somebody is there to
    take them.

    `take` returns who was given it; None where what comes next need not wait: a letter that a text takes leads nowhere else.
    """

    def __init__(self, app: MessagePump, take: Callable[[events.Event], Awaitable[MessagePump | None]]) -> None:
        self._app, self._take = app, take
        self.waiting: deque[events.Event] = deque()
        """Those whose turn has not come."""
        self._turn = 0
        self._begun = False
        self._way: list[MessagePump] = []
        self._patience: Timer | None = None

    @property
    def busy(self) -> bool:
        """Whether a key is still on its way."""
        return bool(self.waiting or self._way)

    async def begin(self) -> None:
        self._begun = True
        await self._done(self._turn)

    async def add(self, event: events.Event) -> None:
        if self._begun and not self._way:
            await self._hand_over(event)
            return
        self.waiting.append(event)
        if self._begun:
            self._be_patient()

    async def _hand_over(self, event: events.Event) -> None:
        while (taker := await self._take(event)) is None:
            if not self.waiting:
                return
            event = self.waiting.popleft()
        self._turn += 1
        self._way = [*_around(taker, self._app), self._app]
        if self.waiting:
            self._be_patient()
        await self._climb(self._way * _ROUNDS, self._turn)

    async def _climb(self, way: Sequence[MessagePump], turn: int) -> None:
        """Follows the key through the queues of all that it goes through."""
        for at, pump in enumerate(way, 1):
            if pump.call_later(self._climb, way[at:], turn):
                return  # else it is closed: nothing waits there
        await self._done(turn)

    def _be_patient(self) -> None:
        if self._patience is None:
            self._patience = self._app.set_timer(PATIENCE_S, partial(self._done, self._turn))

    async def _done(self, turn: int) -> None:
        if turn != self._turn:
            return
        if self._patience is not None:
            self._patience.stop()
            self._patience = None
        self._way = []
        if self.waiting:
            await self._hand_over(self.waiting.popleft())


def mark_bursts(keys: Iterable[Message]) -> Iterator[Message]:
    """Mark the letters that the terminal brought at once: nobody presses keys that fast, so they are text.

    One letter again and again is a key that is held down.
    """
    for is_letter, events_ in groupby(keys, _is_letter):
        burst = list(events_)
        text = "".join(event.character or "" for event in burst if isinstance(event, events.Key)) if is_letter else ""
        for event in burst:
            if len(set(text)) > 1:
                setattr(event, _BURST, text)
            yield event


def burst_of(event: events.Event) -> str:
    """The text that a key came at once with, its own letter included; "" for a key that came alone."""
    text: str = getattr(event, _BURST, "")
    return text


_BURST = "_burst"


def _is_letter(event: Message) -> bool:
    return isinstance(event, events.Key) and event.is_printable and "+" not in event.key


def _around(given: MessagePump, app: MessagePump) -> Iterator[MessagePump]:
    """It and all around it, within the app; what was taken away since has nothing around it."""
    pump: MessagePump | None = given
    while pump is not None and pump is not app:
        yield pump
        pump = pump.parent if isinstance(pump, DOMNode) else None
