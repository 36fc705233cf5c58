"""The writer thread: owns the connection that writes, so that nobody who streams tokens ever waits for a disk. The file is
repaired when it is opened, and followed where it is replaced."""

from __future__ import annotations

import contextlib
import math
import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from termchat.conversation.store import database, deleting, derived, repair, schema, store_files
from termchat.conversation.store.claims import Claims
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
    (False); node 0 is no reply. `indexed`: refresh the chat's texts at the end of the batch."""

    does: str | Work
    session: str
    values: tuple[Any, ...]
    urgent: bool = False
    claims: bool | None = None
    claimed: int = 0
    indexed: bool = False


TIDY_S, REST_S = 0.08, 0.05
"""Seconds for what lists and searches lack, and the pause behind them: what is to be written, here or by another process, waits
for about 0.1 s at most."""


class Writer:
    """A queue of operations and the thread that writes them, in order, in batches, each in one transaction.

    A batch that fails stays in memory and is tried again. A session goes on as a copy where a node that is to be added is there
    already: another process has taken it further. `problem` says why nothing can be written at the moment.
    """

    def __init__(self, path: Path, claims: Claims) -> None:
        self._path, self._claims = path, claims
        self.moved: dict[str, str] = {}
        """Sessions that go on as a copy, and the copy's id; replaced, never changed."""
        self.problem: str | None = None
        self.listener: Callable[[], None] | None = None
        """Called on the thread when there is something new to tell: a problem, its end, or a notice."""
        self._lost: set[str] = set()
        self._notices: deque[StoreNotice] = deque()
        self._db: sqlite3.Connection | None = None
        self._real = path
        """The open file itself; where it may be a link it is `_path`."""
        self._incomplete = False
        """Lists and searches may lack chats, see `derived.complete`."""
        self._identity: tuple[int, int] | None = None
        self._log: tuple[int, int] | None = None
        self._written: set[str] = set()
        self._rescued: dict[str, list[tuple[object, ...]]] = {}
        self._pending: deque[Operation] = deque()
        self._closing = False
        self._attempts, self._due, self._last, self._tidied = 0, 0.0, 0.0, 0.0
        self._wake = threading.Condition()
        self._commit = threading.Lock()
        self._thread = threading.Thread(target=self._write_batches, name="termchat-store", daemon=True)
        self._thread.start()

    def put_operations(self, *operations: Operation) -> None:
        """Queue operations and return at once; any thread."""
        with self._wake:
            self._pending.extend(operations)
            if self.problem is None:
                self._schedule(self._last + (0.0 if _is_durable(operations) else PERIOD_S))

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
                self._schedule(0.0)
            self._wake.wait_for(lambda: self._settled_since(seen, tidy), timeout)
            return not self._pending

    def wait_opened(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until it was tried to open the file, and repair it if need be; return whether it was."""
        with self._wake:
            return self._wake.wait_for(lambda: self._attempts > 0, timeout)

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

    def _write_batches(self) -> None:
        while self._wait_until_due():
            self._attempt_batch()
            self._complete_index()
        self._disconnect()

    def _schedule(self, due: float) -> None:
        """Have the thread write at this moment, if not before."""
        if due < self._due:
            self._due = due
            self._wake.notify_all()

    def _settled_since(self, seen: int, tidy: bool) -> bool:
        if self._attempts == 0:
            return False
        if self.problem is not None:
            return not self._pending or self._attempts > seen
        return not self._pending and not (tidy and self._incomplete)

    def _wait_until_due(self) -> bool:
        """Wait until it is time to write; return False when there is nothing more to do, ever."""
        with self._wake:
            while (left := self._due - time.monotonic()) > 0:
                if self._closing:
                    return False
                self._wake.wait(min(left, threading.TIMEOUT_MAX))
            self._due = math.inf
            return True

    def _attempt_batch(self) -> None:
        with self._commit:
            batch = self.list_queued()
            problem: str | None = None
            try:
                try:
                    self._write_batch(batch)
                except sqlite3.DatabaseError as error:
                    if not database.is_damage(error):
                        raise
                    self._disconnect(error)
                    self._write_batch(batch)  # it is opened again, and repaired then
            except Exception as error:  # noqa: BLE001 (whatever it is, the thread that saves goes on, and it is told)
                problem = database.explain_error(error, self._path)
                self._disconnect(error)
            with self._wake:
                news = problem != self.problem or bool(self._notices)
                if problem is None:
                    for _ in batch:
                        self._pending.popleft()
                self.problem = problem
                self._attempts += 1
                self._last = time.monotonic()
                if self._due:  # nobody waits in `flush`
                    pause = RETRY_S if problem else 0.0 if _is_durable(self._pending) else PERIOD_S
                    self._due = self._last + pause if problem or self._pending else math.inf
                self._wake.notify_all()
        listener = self.listener
        if news and listener is not None:
            listener()

    def _complete_index(self) -> None:
        """Complete the index for a moment; where that fails, it is done when the file is next opened."""
        db = self._db
        if not self._incomplete or db is None:
            return
        left = True
        if time.monotonic() >= self._tidied + REST_S:
            try:
                deleting.purge_expired(db)
                left = derived.complete_index(db, TIDY_S)
            except Exception as error:  # noqa: BLE001 (as above; nothing that a person said depends on it)
                self._disconnect(error)
                left = False
            self._tidied = time.monotonic()
        with self._wake:
            self._incomplete = left
            if left:
                self._schedule(self._tidied + REST_S)
            self._wake.notify_all()

    def _write_batch(self, batch: tuple[Operation, ...]) -> None:
        db = self._connect()
        if not batch:
            return
        moved, notices = dict(self.moved), list[StoreNotice]()
        changed: dict[str, None] = {}  # a chat that goes on as a copy within the batch, and the copy
        db.execute(f"PRAGMA synchronous={'FULL' if _is_durable(batch) else 'NORMAL'}")
        db.execute("BEGIN IMMEDIATE")
        for operation in batch:
            self._apply_operation(db, operation, moved, notices)
            if operation.indexed:
                changed[moved.get(operation.session, operation.session)] = None
        for session in changed:
            self._apply_operation(db, Operation(derived.refresh, session, ()), {}, notices)
        db.execute("COMMIT")
        self._log = store_files.identify_file(self._real.with_name(self._real.name + "-wal"))
        self._written.update(moved.get(operation.session, operation.session) for operation in batch)
        for operation in batch:  # whoever finds no claim finds all that was written under it
            if operation.claims is False:
                self._claims.let_go(moved.get(operation.session, operation.session), operation.claimed)
        self.moved = moved
        self._notices.extend(notices)

    def _apply_operation(
        self, db: sqlite3.Connection, operation: Operation, moved: dict[str, str], notices: list[StoreNotice]
    ) -> None:
        session = moved.get(operation.session, operation.session)
        try:
            if not isinstance(operation.does, str):
                operation.does(db, session, *operation.values)
            else:
                is_lost = db.execute(operation.does, (session, *operation.values)).rowcount == 0
                if is_lost and operation.does is ADD_NODE and operation.session not in self._lost:
                    self._lost.add(operation.session)
                    removed = "The saved chat was removed; new messages are not being saved."
                    notices.append(StoreNotice(removed, "Save it to a file."))
        except REFUSED as error:
            if operation.does is not ADD_NODE or not isinstance(error, sqlite3.IntegrityError):
                notices.append(StoreNotice(f"Part of the chat could not be saved: {error}"))
                return
            copy = f"{session}-{secrets.token_hex(2)}"
            deleting.copy_session(db, copy, session, operation.values[0])
            moved[operation.session] = copy
            taken = "Another running termchat has continued this chat."
            notices.append(StoreNotice(taken, "From here on, this one is saved as a copy."))
            self._apply_operation(db, operation, moved, notices)
            return
        if operation.claims:
            self._claims.hold_claim(session, operation.claimed)

    # --- the file ----------------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        """Return the open connection to the file that is at the path now."""
        if self._db is not None and store_files.identify_file(self._path) != self._identity:
            # Somebody removed or replaced the file: what this process wrote goes along to the one that is there now.
            self._rescued = {table: list(schema.read(self._db, table, self._written)) for table in schema.OF_CHATS}
            self._disconnect()
        if self._db is None:
            self._open_file()
        assert self._db is not None
        self._restore_rescued(self._db)
        return self._db

    def _disconnect(self, error: BaseException | None = None) -> None:
        """Close the connection, after an error perhaps; the next `_connect` opens another one."""
        if error is not None and database.is_damage(error):
            store_files.mark_broken(self._real, self._identity)
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                db.close()
            if store_files.identify_file(self._real) != self._identity:
                store_files.drop_log(self._real, self._log)

    def _open_file(self) -> None:
        """Open the file. A damaged one is set aside first, and a new one gets the chats that can be read from it."""
        self._real = store_files.resolve_link(self._path)
        if store_files.is_emptied(self._real) or store_files.is_broken(self._real):
            store_files.set_aside(self._real)
        try:
            db = database.connect_file(self._path)
        except sqlite3.DatabaseError as error:
            if not database.is_damage(error):
                raise
            store_files.set_aside(self._real)
            db = database.connect_file(self._path)
        self._identity = store_files.identify_file(self._real)
        try:
            # Perhaps a process that set them aside was ended before it copied their chats.
            for aside in repair.list_unread(self._real):
                if (count := repair.rescue_rows(aside, db)) is not None:
                    message = f"The file of saved chats was damaged. It is now {aside}; a new one was started."
                    chats = "1 chat" if count == 1 else f"{count:,} chats"
                    hint = f"{chats} could be recovered." if count else "Nothing could be recovered."
                    self._notices.append(StoreNotice(message, hint))
        except BaseException:
            db.close()
            raise
        self._db, self._incomplete = db, True

    def _restore_rescued(self, db: sqlite3.Connection) -> None:
        if not any(self._rescued.values()):
            return
        with db:
            db.execute("BEGIN IMMEDIATE")
            there = set(db.execute("SELECT DISTINCT session, node FROM records"))  # salvaged by another process
            for table, rows in self._rescued.items():
                for row in rows:
                    if table != "records":
                        schema.insert_row(db, table, row)
                    elif row[1:3] not in there:
                        schema.insert_row(db, table, (None, *row[1:]))
        self._rescued = {}
        self._notices.append(
            StoreNotice(f"The file of saved chats was removed: {self._real}", "This chat was saved again.")
        )


def _is_durable(operations: Iterable[Operation]) -> bool:
    return any(operation.urgent for operation in operations)
