"""The writer thread: owns the connection that writes, so that nobody who streams tokens ever waits for a disk."""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from termchat.conversation.store import database, deleting, derived
from termchat.conversation.store.claims import Claims
from termchat.conversation.store.connection import OpenFile
from termchat.conversation.store.database import StoreNotice
from termchat.conversation.store.schema import ADD_NODE

PERIOD_S = 0.25
"""While tokens stream there is one transaction in this time; with a write of its own this bounds what a kill can lose."""

RETRY_S = 2.0
"""Pause before the next try after a write that failed."""

REFUSED = (
    sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError, ValueError, OverflowError
)  # fmt: skip
"""What SQLite raises for a change that no retry will make good."""


Work = Callable[..., None]
"""What takes more than a statement: it is given the connection, the session and the values."""


class Operation(NamedTuple):
    """One statement to run. Its parameter ?1 is the session, the others follow; `urgent` ones are on the disk at once.
    `claims`: this process writes the reply in the node `claimed` of the session from now on (True), or until this is written
    (False); node 0 is no reply."""

    does: str | Work
    session: str
    values: tuple[Any, ...]
    urgent: bool = False
    claims: bool | None = None
    claimed: int = 0


TIDY_S, REST_S = 0.08, 0.05
"""Seconds for what lists and searches lack, and the pause behind them: what is to be written, here or by another process, waits
for about 0.1 s at most."""


class Writer:
    """A queue of operations and the thread that writes them, in order, in batches, each in one transaction.

    A batch that fails stays in memory and is tried again. A session goes on as a copy where a node that is to be added is there
    already: another process has taken it further.
    """

    def __init__(self, path: Path, claims: Claims) -> None:
        self._path, self._claims = path, claims
        self.moved: dict[str, str] = {}
        """Sessions that go on as a copy, and the copy's id; replaced, never changed."""
        self._lost: set[str] = set()
        self._notices: deque[StoreNotice] = deque()
        self.listener: Callable[[], None] | None = None
        """Called on the thread when there is something new to tell: a problem, its end, or a notice."""
        self._file = OpenFile(path, self._notices.append)
        self._pending: deque[Operation] = deque()
        self._problem: str | None = None
        self._urgent = self._hurry = self._closing = False
        self._attempts, self._last, self._tidied = 0, 0.0, 0.0
        self._wake = threading.Condition()
        self._commit = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="termchat-store", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str | None:
        """Why nothing can be written at the moment, or None."""
        return self._problem

    def put_operations(self, *operations: Operation) -> None:
        """Queue operations and return at once; any thread."""
        with self._wake:
            idle = not self._pending
            self._pending.extend(operations)
            urgent = any(operation.urgent for operation in operations)
            if (urgent and not self._urgent) or idle:
                self._wake.notify_all()
            self._urgent |= urgent

    def take_notices(self) -> list[StoreNotice]:
        """Take the notices, each once."""
        return [self._notices.popleft() for _ in range(len(self._notices))]

    def flush(self, timeout: float, *, tidy: bool = False) -> bool:
        """Wait up to `timeout` seconds, or until a try failed; return whether all queued operations are written.

        With `tidy` it also waits until lists and searches lack nothing.
        """
        with self._wake:
            seen = self._attempts
            if self._pending:
                self._hurry = True
                self._wake.notify_all()
            self._wake.wait_for(lambda: self._settled_since(seen, tidy), timeout)
            return not self._pending

    def wait_opened(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until it was tried to open the file, and repair it if need be; return whether it was."""
        with self._wake:
            self._wake.wait_for(lambda: self._attempts, timeout)
            return bool(self._attempts)

    def close(self, timeout: float) -> bool:
        """Try once more to write the queue, then end the thread; return whether all is written."""
        end = time.monotonic() + timeout
        self.flush(timeout)
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join(max(end - time.monotonic(), 0.1))
        return not self._pending

    def list_queued(self) -> tuple[Operation, ...]:
        """Return the operations that are not in the file yet."""
        with self._wake:
            return tuple(self._pending)

    @contextlib.contextmanager
    def between_writes(self) -> Iterator[tuple[Operation, ...]]:
        """Pause writing: the queue and the file do not change in between."""
        with self._commit:
            yield tuple(self._pending)

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._wait_due():
            self._try_write()
            self._go_on_tidying()
        self._file.close()

    def _settled_since(self, seen: int, tidy: bool) -> bool:
        if self._attempts == 0:
            return False
        if self._problem is not None:
            return not self._pending or self._attempts > seen
        return not self._pending and not (tidy and self._file.incomplete)

    def _wait_due(self) -> bool:
        """Wait until the next write is due; return False after the last one."""
        with self._wake:
            while not self._hurry and self._attempts:
                if self._closing:
                    return False
                times = []
                if self._pending or self._problem:
                    times.append(self._last + (RETRY_S if self._problem else 0.0 if self._urgent else PERIOD_S))
                if self._file.incomplete and self._problem is None:
                    times.append(self._tidied + REST_S)
                left = min(times) - time.monotonic() if times else None
                if left is not None and left <= 0:
                    break
                self._wake.wait(left)
            self._hurry = False
            return True

    def _try_write(self) -> None:
        with self._commit:
            with self._wake:
                batch, durable = tuple(self._pending), self._urgent
                self._urgent = False
            problem: str | None = None
            try:
                self._write(batch, durable)
            except Exception as error:  # noqa: BLE001 (whatever it is, the thread that saves goes on, and it is told)
                problem = database.explain_error(error, self._path)
                self._file.close(error)
            with self._wake:
                news = problem != self._problem or bool(self._notices)
                if problem is None:
                    for _ in batch:
                        self._pending.popleft()
                else:
                    self._urgent |= durable
                self._problem = problem
                self._attempts += 1
                self._last = time.monotonic()
                self._wake.notify_all()
        listener = self.listener
        if news and listener is not None:
            listener()

    def _go_on_tidying(self) -> None:
        """Complete the index for a moment; where that fails, it is done when the file is next opened."""
        db = self._file.db
        if not self._file.incomplete or db is None or time.monotonic() < self._tidied + REST_S:
            return
        try:
            deleting.purge_expired(db)
            left = derived.complete_index(db, TIDY_S)
        except Exception as error:  # noqa: BLE001 (as above; nothing that a person said depends on it)
            self._file.close(error)
            left = False
        with self._wake:
            self._file.incomplete = left
            self._tidied = time.monotonic()
            self._wake.notify_all()

    def _write(self, batch: tuple[Operation, ...], durable: bool) -> None:
        try:
            self._write_batch(batch, durable)
        except sqlite3.DatabaseError as error:
            if not database.is_damage(error):
                raise
            self._file.close(error)
            self._write_batch(batch, durable)  # it is opened again, and repaired then

    def _write_batch(self, batch: tuple[Operation, ...], durable: bool) -> None:
        db = self._file.connection()
        if not batch:
            return
        moved, notices = dict(self.moved), list[StoreNotice]()
        db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        db.execute("BEGIN IMMEDIATE")
        for operation in batch:
            self._apply_operation(db, operation, moved, notices)
        db.execute("COMMIT")
        self._file.committed(moved.get(operation.session, operation.session) for operation in batch)
        for operation in batch:  # whoever finds no claim finds all that was written under it
            if operation.claims is False:
                self._claims.let_go(moved.get(operation.session, operation.session), operation.claimed)
        self.moved = moved
        self._notices.extend(notices)

    def _apply_operation(
        self, db: sqlite3.Connection, operation: Operation, moved: dict[str, str], notices: list[StoreNotice]
    ) -> None:
        try:
            try:
                self._run_operation(db, operation, moved, notices)
            except sqlite3.IntegrityError:
                if operation.does is not ADD_NODE:
                    raise
                taken = moved.get(operation.session, operation.session)
                copy = f"{taken}-{secrets.token_hex(2)}"
                deleting.copy_session(db, copy, taken, operation.values[0])
                moved[operation.session] = copy
                notices.append(
                    StoreNotice(
                        "Another running termchat has continued this chat.",
                        "From here on, this one is saved as a copy.",
                    )
                )
                self._run_operation(db, operation, moved, notices)
        except REFUSED as error:
            notices.append(StoreNotice(f"Part of the chat could not be saved: {error}"))

    def _run_operation(
        self, db: sqlite3.Connection, operation: Operation, moved: dict[str, str], notices: list[StoreNotice]
    ) -> None:
        session = moved.get(operation.session, operation.session)
        if not isinstance(operation.does, str):
            operation.does(db, session, *operation.values)
        elif (
            db.execute(operation.does, (session, *operation.values)).rowcount == 0
            and operation.does is ADD_NODE
            and operation.session not in self._lost
        ):
            self._lost.add(operation.session)
            notices.append(
                StoreNotice("The saved chat was removed; new messages are not being saved.", "Save it to a file.")
            )
        if operation.claims:
            self._claims.hold_claim(session, operation.claimed)
