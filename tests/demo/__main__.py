"""Records the demo with the real model, by its own script: `python -m tests.demo [FILE]`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from time import monotonic

import msgspec

from termchat.chat.opening import find_model
from termchat.config import settings
from termchat.decoding.records import Failed
from termchat.engine.local import LocalEngine
from termchat.engine.port import Command, Event, Loaded
from termchat.tui.demo import tape
from termchat.tui.demo.player import build
from termchat.tui.demo.tape import Exchange, Tape, asked


class Taping(LocalEngine):
    """The real engine; what it is asked and answers is kept."""

    def __init__(self, log: Path) -> None:
        super().__init__(log)
        self._taped: dict[int, tuple[str, float, list[tuple[float, Event]]]] = {}

    def send(self, command: Command) -> int:
        began, number = monotonic(), super().send(command)
        if (what := asked(command)) is not None:
            self._taped[number] = what, began, []
        return number

    def receive(self, timeout: float | None = 0.0) -> list[tuple[int, Event]]:
        events = super().receive(timeout)
        for number, event in events:
            if number in self._taped:
                _, began, kept = self._taped[number]
                kept.append((round(monotonic() - began, 3), nameless(event)))
        return events

    @property
    def tape(self) -> Tape:
        """All that was answered."""
        kept = {
            what: events for what, _, events in self._taped.values() if events and not isinstance(events[-1][1], Failed)
        }
        return Tape([Exchange(what, events) for what, events in kept.items()])


def nameless(event: Event) -> Event:
    """The event without the folder of this machine; the model says that it is a recording."""
    if not isinstance(event, Loaded):
        return event
    info = msgspec.structs.replace(event.info, name=f"demo: a recording of {event.info.name}", path="", remarks=[])
    return Loaded(info)


async def main(path: Path) -> None:
    """Runs the script to its end."""
    config = settings.load({"threads": "1"}, environ={})
    config, spec = find_model(config)
    with tempfile.TemporaryDirectory() as folder:
        engine = Taping(Path(folder) / "log")
        app = build(config, engine, Path(folder), spec=spec)
        async with app.run_test(size=(120, 36)) as pilot:
            while not app.is_over:
                await pilot.pause(0.2)
        tape.save(engine.tape, path)
    print(
        path, path.stat().st_size, [(exchange.asked[:40], len(exchange.events)) for exchange in engine.tape.exchanges]
    )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else tape.FILE))
