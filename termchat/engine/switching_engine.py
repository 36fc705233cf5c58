"""One engine for the whole program, whichever machine the model is on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from termchat.engine.address import HERE, EngineAddress
from termchat.engine.port import Command, Engine, EngineError, Event, Feature, Load


class SwitchingEngine:
    """The engine where the model is that was loaded last; this machine's at first. It changes with `Load`."""

    def __init__(self, make: Callable[[EngineAddress], Engine]) -> None:
        self._make = make
        self._address = HERE
        self._engine = make(HERE)

    @property
    def address(self) -> EngineAddress:
        return self._address

    @property
    def offers(self) -> frozenset[Feature]:
        return self._engine.offers

    @property
    def alive(self) -> bool:
        return self._engine.alive

    def fileno(self) -> int:
        return self._engine.fileno()

    def start(self) -> None:
        """Starts the process of this machine's engine, as far as it can be; the first command tells of a failure."""
        start = getattr(self._engine, "start", None)
        with suppress(EngineError):
            if start is not None:
                start()

    def send(self, command: Command) -> int:
        if isinstance(command, Load) and command.spec.engine != self._address:
            self._engine.close()
            self._engine = self._make(command.spec.engine)
            self._address = command.spec.engine
        return self._engine.send(command)

    def receive(self, timeout: float | None = 0.0) -> list[tuple[int, Event]]:
        return self._engine.receive(timeout)

    def close(self) -> None:
        self._engine.close()
