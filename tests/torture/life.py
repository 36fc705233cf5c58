"""Lives: a few rounds on one home, and what they add up to."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from tests.stalls import Stalls
from tests.torture import plan, pulling, screen, talking
from tests.torture.home import Home
from tests.torture.known import Loss
from tests.torture.plan import Round
from tests.torture.traces import Fault

RUNNERS: dict[str, Callable[[Home, Round], Loss]] = {"pulling": pulling.run} | {
    name: screen.run for name in plan.KINDS if name.endswith("on a screen")
}
"""All other kinds are rounds of the chat without a screen."""


class Tally:
    """What all lives add up to; they run in threads."""

    def __init__(self) -> None:
        self.rounds: Counter[str] = Counter()
        self.faults: list[str] = []
        self.turns = 0
        self.loss = Loss()
        self.seconds = 0.0
        self._lock = threading.Lock()
        self._begun = monotonic()

    def add(self, kind: str, loss: Loss) -> None:
        """A round that went well."""
        with self._lock:
            self.rounds[kind] += 1
            self.loss = max(self.loss, loss)

    def fault(self, kind: str, message: str) -> None:
        """A round that did not; says it at once."""
        with self._lock:
            self.rounds["failed"] += 1
            self.faults.append(kind)
            print(message, flush=True)

    def keep(self, turns: int) -> None:
        """Finished turns that a life had to keep."""
        with self._lock:
            self.turns += turns

    def __str__(self) -> str:
        count = Counter(self.faults)
        parts = [
            f"{self.rounds.total()} kills: {count['finished turn lost']} finished turns lost of {self.turns}",
            f"at most {self.loss.seconds:.2f} s of tokens lost",
            *(f"{count[kind]} {name}" for kind, name in NAMES.items()),
            f"{monotonic() - self._begun:.0f} s",
        ]
        return ", ".join(parts)


NAMES = {
    "tokens lost": "with more lost",
    "corrupt store": "corrupt stores",
    "orphan": "orphans",
    "lock": "locks left",
    "terminal": "terminals left broken",
    "left over": "files left over",
    "start": "other failures",
}


def live(seed: int, number: int, folder: Path, tally: Tally, rounds: int = plan.ROUNDS) -> None:
    """Runs a life in a folder that is to be made; it stays where there was a fault."""
    folder.mkdir(mode=0o700)
    with Stalls(folder) as stalls:
        home = Home(folder, f"{seed}-{number}-{folder.parent.name}", stalls)
        for what in plan.life(seed, number)[:rounds]:
            try:
                loss = RUNNERS.get(what.kind, talking.run)(home, what)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other lives go on, and this one says how to live it again
                kind = error.kind if isinstance(error, Fault) else "start"
                again = f"python -m tests.torture --seed {seed} --life {number}"
                tally.fault(kind, f"{what}: {error!r}\n  again: {again}\n  kept: {folder}\n{home.said()}")
                return
            tally.add(what.kind, loss)
    tally.keep(home.turns)
    shutil.rmtree(folder)
