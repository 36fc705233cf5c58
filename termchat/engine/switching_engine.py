"""One engine for the whole program, whichever machine the model is on."""

from __future__ import annotations

from collections.abc import Callable

from termchat.engine.address import HERE, EngineAddress
from termchat.engine.port import Command, Engine, Event, Feature, Load


class SwitchingEngine:
    """The engine where the model is that was loaded last, at first the one that is `here`. It changes with `Load`."""

    def __init__(self, here: Engine, make: Callable[[EngineAddress], Engine]) -> None:
        self._make, self._engine, self._address = make, here, HERE

    @property
    def offers(self) -> frozenset[Feature]:
        return self._engine.offers

    @property
    def alive(self) -> bool:
        return self._engine.alive

    def fileno(self) -> int:
        return self._engine.fileno()

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
