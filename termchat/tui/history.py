"""Messages that were written before, and the walk through them with the arrows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from termchat.tui.aside import Aside

ENTRIES = 2_000
"""The most messages that are kept."""
_LARGEST = 4_000_000
"""Characters of the largest message that is kept while the app runs."""


class History:
    """The oldest first, each text once. With a `file` they are kept between sessions.

    The file is read in a thread that `begin` starts, and written in another; the event loop touches no disk.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._texts: dict[str, None] = {}
        self._reading: Aside[Sequence[str]] | None = None

    def begin(self) -> None:
        """Reads what was kept."""
        if self._file is not None and self._reading is None:
            file = self._file
            self._reading = Aside(lambda: _read(file))

    def add(self, text: str) -> None:
        """The newest message."""
        self._take_read()
        if not text.strip() or len(text) > _LARGEST:
            return
        again = next(reversed(self._texts), None) == text
        self._put([text])
        if self._file is not None and not again:
            from termchat.tui.historyfile import append  # not needed before the first message

            append(self._file, text)

    @property
    def texts(self) -> list[str]:
        """All, the newest first."""
        self._take_read()
        return list(reversed(self._texts))

    def walk(self, typed: str) -> Walk:
        """The way back through all that contain what is typed."""
        return Walk(self.texts, typed)

    def _take_read(self) -> None:
        """Puts what was read before what was written since."""
        if self._reading is None:
            return
        self._reading.join(0.05)  # it is read long before anybody asks
        if not self._reading.running:
            for read in self._reading.take():
                newer, self._texts = self._texts, {}
                self._put([*read, *newer])

    def _put(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._texts.pop(text, None)
            self._texts[text] = None
        while len(self._texts) > ENTRIES:
            del self._texts[next(iter(self._texts))]


class Walk:
    """A place among the messages that contain `typed`, case aside unless it has capitals; `typed` itself is the newest."""

    def __init__(self, texts: Sequence[str], typed: str) -> None:
        self.typed = typed
        self._found = [typed, *(text for text in texts if text != typed and matches(text, typed))]
        self._at = 0

    @property
    def text(self) -> str:
        """The message it stands at."""
        return self._found[self._at]

    @property
    def is_back(self) -> bool:
        """Whether it is back at what was typed."""
        return self._at == 0

    def move(self, older: bool) -> bool:
        """To the next older message, or the next newer; False where there is none."""
        at = self._at + (1 if older else -1)
        if not 0 <= at < len(self._found):
            return False
        self._at = at
        return True


def matches(text: str, typed: str) -> bool:
    """Whether a message contains what is typed; small letters stand for capitals, too."""
    return typed in text or (typed.islower() and typed in text.lower())


def _read(file: Path) -> Iterable[Sequence[str]]:
    from termchat.tui.historyfile import read

    yield read(file)
