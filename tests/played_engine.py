"""An engine that plays replies from their records, whatever it is asked for."""

from __future__ import annotations

from typing import TypeVar

from termchat.decoding.records import Record
from termchat.engine.port import (
    ALL_FEATURES,
    Command,
    Event,
    Generate,
    Load,
    Loaded,
    Render,
    Rendered,
    Tokenize,
    Tokenized,
    WalksFinished,
)
from tests.tui.fake_engine import INFO

_C = TypeVar("_C", bound=Command)


class PlayedEngine:
    """Plays one list of records after the other, the last one again and again. `commands` are those it got."""

    offers = ALL_FEATURES
    alive = True

    def __init__(self, *replies: list[Record]) -> None:
        self._replies = list(replies)
        self._number = 0
        self._events: list[tuple[int, Event]] = []
        self.commands: list[Command] = []

    def start(self) -> None:
        """Is there already."""

    def send(self, command: Command) -> int:
        self.commands.append(command)
        self._number += 1
        events: list[Event] = []
        if isinstance(command, Load):
            events = [Loaded(INFO)]
        elif isinstance(command, Render):
            events = [Rendered([1, 2, 3], whole=True)]
        elif isinstance(command, Tokenize):
            events = [Tokenized([7, 8], [b"x", b"x"], ["x", "x"], [])]
        elif isinstance(command, Generate):
            records = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
            events = list(records)  # type: ignore[arg-type]
            if command.group is not None:
                events.append(WalksFinished(0, 0, 0.0, None))
        self._events += [(self._number, event) for event in events]
        return self._number

    def receive(self, timeout: float | None = 0.0) -> list[tuple[int, Event]]:
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """Nothing to end."""

    def asked(self, kind: type[_C]) -> list[_C]:
        """The commands of a kind."""
        return [command for command in self.commands if isinstance(command, kind)]
