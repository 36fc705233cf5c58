"""The store as commands open it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from termchat.cli.output import complain

if TYPE_CHECKING:
    from termchat.conversation.store.store import Store

MOST = 1_000_000
"""Chats in a list, at most."""

_PATIENCE_S = 600.0
"""How long a command waits for a damaged file to be repaired, or for its own changes to be written."""

_SILENT_S = 2.0
"""How long a file may be repaired without a word."""


@contextmanager
def opened() -> Iterator[Store]:
    """The store of saved chats. What goes wrong with it is said, and ends the command with 1."""
    from termchat import paths
    from termchat.conversation.store.store import Store, StoreError

    try:
        store = Store.open(paths.store_file(), _PATIENCE_S)
        patience, over = _PATIENCE_S, threading.Event()
        threading.Thread(target=_tell_of_repair, args=(store, over), daemon=True).start()
        try:
            yield store
        except KeyboardInterrupt:
            patience = 0.0  # what is not repaired now is repaired by the next one who opens the file
            raise
        finally:
            written = store.close(patience)
            over.set()
            for notice in store.notices():
                complain(notice.message, notice.hint)
        if not written:
            raise StoreError(f"not saved: {store.problem() or 'it takes too long'}", "Fix that and try again.")
    except StoreError as error:
        complain(error.message, error.hint)
        sys.exit(1)


def _tell_of_repair(store: Store, over: threading.Event) -> None:
    while not over.wait(_SILENT_S):
        if store.opening():
            complain("the file of saved chats is damaged and being repaired", "Give it a minute.")
            return
