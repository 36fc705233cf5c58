"""Transcripts on their way to the disk: that of a long chat takes seconds, and the screen goes on meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

from termchat.conversation.store.database import StoreError
from termchat.conversation.transcripts.transcript import TranscriptError

Save = Callable[[Path], Callable[[], object]]
"""Makes what writes a transcript of the chat as it is now to a path, in any thread."""


def write(
    save: Callable[[], object],
    hear: Callable[[str], object],
    deliver: Callable[[Callable[[], object]], object],
) -> None:
    """Writes a transcript in a thread; the program does not end before it is written.

    Args:
        hear: gets why it could not be written, "" if it is; in the event loop.
        deliver: takes, in the thread, what is to be called in the event loop.
    """

    def work() -> None:
        try:
            save()
            problem = ""
        except (TranscriptError, StoreError) as error:
            problem = f"{error.message}. {error.hint}".strip()
        except Exception as mistake:  # noqa: BLE001 (the chat goes on, and a person reads what it was)
            problem = str(mistake) or repr(mistake)
        with suppress(RuntimeError):  # the app has ended meanwhile
            deliver(lambda: hear(problem))

    Thread(target=work, name="saving").start()
