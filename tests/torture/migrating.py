"""Rounds of a store of an older schema, killed while it is brought to today's: `python -m tests.torture.migrating PATH`."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic, sleep

from termchat.conversation.store.database import VERSION
from termchat.conversation.store.store import Store
from tests.conversation.older_stores import TABLES
from tests.torture.home import Home
from tests.torture.known import Loss
from tests.torture.old import CHATS, Old, old
from tests.torture.plan import Round
from tests.torture.traces import PATIENCE_S, Fault, no_lock, no_orphans

FOUND = "👍 สวย"
"""A search that finds every chat, once its index is today's."""


def run(home: Home, what: Round) -> Loss:
    """One round. Raises a Fault."""
    older = [version for version in TABLES if version < VERSION]
    version = older[what.seed % len(older)]
    before = old(version, home.folder.parent)
    path = home.folder / f"old-{what.number}" / "sessions.db"
    path.parent.mkdir(mode=0o700)
    path.write_bytes(before.data)
    process = home.start("-m", "tests.torture.migrating", str(path), stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
        sleep(what.delay)
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    no_orphans(home.mark)
    no_lock(path)
    if _version(path) not in (version, VERSION):
        raise Fault("corrupt store", f"schema {_version(path)} is neither {version} nor {VERSION}")
    _same(path, before)
    if _version(path) != VERSION:
        raise Fault("start", "the next start did not bring the store up to date")
    kept = path.with_name(f"{path.name}.schema-{version}")
    if not kept.exists() or _version(kept) != version:
        raise Fault("corrupt store", f"what {kept} keeps is not the store as it was")
    left = sorted(found.name for found in path.parent.iterdir() if found not in (path, kept))
    if left:
        raise Fault("left over", f"{left} in {path.parent}")
    path.write_bytes(kept.read_bytes())  # what was kept is whole, too
    _same(path, before)
    return Loss()


def _version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        if db.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            raise Fault("corrupt store", str(path))
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def _same(path: Path, before: Old) -> None:
    """Starts on it and compares every record."""
    store = Store.open(path)
    try:
        if not store.flush(PATIENCE_S):
            raise Fault("start", f"the next start fails: {store.problem()}")
        for (session, number), records in before.records.items():
            if list(store.records(session, number)) != records:
                raise Fault("finished turn lost", f"node {number} of {session} is not what it was")
        if len(store.sessions(1000)) != len({session for session, _ in before.records}):
            raise Fault("finished turn lost", "a chat is gone")
        end = monotonic() + PATIENCE_S
        while len(store.sessions(1000, search=FOUND)) != CHATS:
            if monotonic() > end:
                raise Fault("finished turn lost", f"not all chats are found by {FOUND}")
    finally:
        store.close(30)


if __name__ == "__main__":
    sys.stdout.write("now\n")
    sys.stdout.flush()
    opened = Store.open(Path(sys.argv[1]))
    opened.flush(60)
    opened.close()
