"""The message history: what was written before, and the walk through it with the arrows.

It holds what was typed: commands, paths that stand for files, messages that were taken back or edited away. So it is a table of
its own in the store, and not a question about the saved chats.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

from termchat.conversation.session import SessionStore
from termchat.conversation.store.store import HISTORY, StoreError
from termchat.tui.draw.background import BackgroundTask


class History:
    """The oldest first, each text once. With a `store` they are kept between sessions; a thread reads them from it."""

    def __init__(self, store: SessionStore | None = None) -> None:
        self._store = store
        self._texts: dict[str, None] = {}
        self._reading: BackgroundTask[str] | None = None

    def begin(self) -> None:
        if self._store is not None and self._reading is None:
            store = self._store
            self._reading = BackgroundTask(lambda: _read(store))

    def add(self, text: str) -> None:
        self._take_read()
        if not text.strip():
            return
        again = next(reversed(self._texts), None) == text
        self._put([text])
        if self._store is not None and not again:
            self._store.add_message(text)

    @property
    def texts(self) -> list[str]:
        """The newest first."""
        self._take_read()
        return list(reversed(self._texts))

    def walk(self, typed: str) -> Recall:
        return Recall(self.texts, typed)

    def _take_read(self) -> None:
        """Puts what was read before what was written since."""
        if self._reading is None:
            return
        self._reading.join(0.05)  # it is read long before anybody asks
        if not self._reading.running:
            newer, self._texts = self._texts, {}
            self._put([*self._reading.take(), *newer])
            self._reading = None

    def _put(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._texts.pop(text, None)
            self._texts[text] = None
        while len(self._texts) > HISTORY:
            del self._texts[next(iter(self._texts))]


def _read(store: SessionStore) -> Iterator[str]:
    with contextlib.suppress(StoreError):  # without a history the chat is the same
        yield from store.messages()


class Recall:
    """A place among the messages that contain `typed`, case aside unless it has capitals; `typed` itself is the newest."""

    def __init__(self, texts: Sequence[str], typed: str) -> None:
        self.typed = typed
        self._found = [typed, *(text for text in texts if text != typed and matches(text, typed))]
        self._at = 0

    @property
    def text(self) -> str:
        return self._found[self._at]

    @property
    def is_back(self) -> bool:
        """Whether it stands at `typed`."""
        return self._at == 0

    def move(self, older: bool) -> bool:
        """False where there is no older or newer message."""
        at = self._at + (1 if older else -1)
        if not 0 <= at < len(self._found):
            return False
        self._at = at
        return True


def matches(text: str, typed: str) -> bool:
    """Whether a message contains what is typed; small letters stand for capitals, too."""
    return typed in text or (typed.islower() and typed in text.lower())
