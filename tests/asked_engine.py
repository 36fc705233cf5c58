"""A real engine that is asked one thing after the other."""

from __future__ import annotations

from termchat.decoding.records import Failed, Finished
from termchat.engine.local import LocalEngine
from termchat.engine.port import Command, DraftLoaded, Event, Loaded


def answers(engine: LocalEngine, command: Command) -> list[Event]:
    """All events up to the model that is loaded, to chat or to draft, or to the end of the reply."""
    number = engine.send(command)
    found: list[Event] = []
    while not found or not isinstance(found[-1], (Loaded, DraftLoaded, Finished, Failed)):
        found += [event for answered, event in engine.receive(None) if answered == number]
    assert not isinstance(found[-1], Failed), found[-1]
    return found
