"""The store as commands open it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from termchat.cli.said import complain

if TYPE_CHECKING:
    from termchat.conversation.store import Store

MOST = 1_000_000
"""Chats in a list, at most."""

_PATIENCE_S = 600.0
"""How long a command waits for a damaged file to be mended, or for its own changes to be written."""


@contextmanager
def opened() -> Iterator[Store]:
    """The store of saved chats. What goes wrong with it is said, and ends the command with 1."""
    from termchat import paths
    from termchat.conversation.store import Store, StoreError

    try:
        store = Store.open(paths.store_file(), _PATIENCE_S)
        try:
            yield store
        finally:
            written = store.close(_PATIENCE_S)
            for notice in store.notices():
                complain(notice.message, notice.hint)
        if not written:
            raise StoreError(f"not saved: {store.problem() or 'it takes too long'}", "See to that, and try again.")
    except StoreError as error:
        complain(error.message, error.hint)
        sys.exit(1)
