"""Where a life takes place, and what has to stay in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from tests.stalls import Stalls
from tests.torture.known import LIMIT_S, Known, Loss, sound
from tests.torture.traces import MARK, no_orphans
from tests.whole.terminal import environment

ROOT = Path(__file__).parents[2]


class Home:
    """A folder with all that termchat keeps, and what has to be in its store.

    `mark` tells its processes from others'; `turns` are the finished ones that its store had when it was looked at last;
    `stalls` watches the machine.
    """

    def __init__(self, folder: Path, mark: str, stalls: Stalls) -> None:
        self.folder, self.mark, self.stalls = folder, mark, stalls
        self.known = Known()
        self.turns = 0
        self.store = folder / "data/termchat/sessions.db"

    @property
    def environment(self) -> dict[str, str]:
        """For processes of this home."""
        more = {"HOME": str(self.folder), "PYTHONPATH": str(ROOT), MARK: self.mark}
        kept = environment(self.folder, more)
        return {
            name: value for name, value in kept.items() if not name.startswith("HF_") and "proxy" not in name.lower()
        }

    def start(self, *args: str, **how: int | IO[bytes]) -> subprocess.Popen[bytes]:
        """A Python process of this home; its stderr goes to a file there."""
        with (self.folder / "stderr").open("ab") as errors:
            return subprocess.Popen([sys.executable, *args], env=self.environment, cwd=ROOT, stderr=errors, **how)  # type: ignore[call-overload,no-any-return]

    def check(self, ended: float | None) -> Loss:
        """Looks at everything once all processes are gone; `ended` is when the app was killed, None where it was not.

        Raises:
            Fault: something is lost, damaged, locked or left over.
        """
        no_orphans(self.mark)
        found = sound(self.store)
        self.turns = sum(kept.finished for kept in found.values())
        return self.known.check(found, ended, self.limit(ended))

    def limit(self, ended: float | None) -> float:
        """Seconds before the end from which things may be gone."""
        return LIMIT_S + (self.stalls.longest(ended - 2 * LIMIT_S) if ended is not None else 0.0)

    def latest(self) -> Conversation | None:
        """The chat used last."""
        store = Store.open(self.store)
        try:
            session = store.latest()
            return store.load(session).conversation if session is not None else None
        finally:
            store.close(30)

    def said(self) -> str:
        """The end of what its processes complained of."""
        path = self.folder / "stderr"
        return path.read_text(errors="replace")[-1500:] if path.exists() else ""
