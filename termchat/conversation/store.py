"""The store of chats: one SQLite file that keeps every record of every reply, as it streams.

Writing never blocks and never raises for a disk: it queues, and a thread writes (see `writer`). A process that is killed
loses about the last half second of tokens and never a finished turn. Reading sees what was queued before.

A Start record holds all ids before its reply; kept for every turn that would grow with the square of the chat. It is
stored without them where they are the ids of the path before its node, and gets them back when it is read.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
import sys
import time
import weakref
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from termchat.conversation import database
from termchat.conversation.database import StoreError
from termchat.conversation.session import ModelRef, SessionInfo, SessionSummary, StoredSession
from termchat.conversation.tree import Conversation, Node
from termchat.conversation.writer import Operation, StoreNotice, Writer
from termchat.decoding.records import Failed, Finished, Record, Start
from termchat.decoding.samplers import Tuning

__all__ = ["ModelRef", "SessionInfo", "SessionSummary", "Store", "StoreError", "StoreNotice", "StoredSession"]

READ_WAIT_S = 1.0
"""How long a reader waits for what is queued to be written first."""

ADD_SESSION = "INSERT INTO sessions VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, ?7, NULL)"
UPDATE_SESSION = """UPDATE sessions SET updated = ?2, title = coalesce(?3, title), leaf = coalesce(?4, leaf),
    tuning = coalesce(?5, tuning), model = coalesce(?6, model) WHERE id = ?1"""
ADD_NODE = "INSERT INTO nodes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
ADD_RECORD = "INSERT INTO records (session, node, on_path, record) VALUES (?1, ?2, ?3, ?4)"

BRANCH = (
    """INSERT INTO sessions SELECT :copy, title, created, updated, system, raw, model, tuning, leaf
        FROM sessions WHERE id = :session""",
    """INSERT INTO nodes SELECT :copy, number, parent, at, role, text, prompt_ids, whole
        FROM nodes WHERE session = :session AND number < :number""",
    """INSERT INTO records (session, node, on_path, record) SELECT :copy, node, on_path, record
        FROM records WHERE session = :session AND node < :number ORDER BY seq""",
)
"""A copy of a chat as it was before node :number."""

LIST = """SELECT id, title, updated, (SELECT count(*) FROM nodes WHERE session = id AND role = 'user'), model
    FROM sessions WHERE EXISTS (SELECT 1 FROM nodes WHERE session = id) ORDER BY updated DESC LIMIT ?"""

_decode_record = msgspec.msgpack.Decoder(Record).decode
_T = TypeVar("_T")


class Store:
    """The saved chats. Several processes may use one file; the methods are for one thread each process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._live: weakref.WeakValueDictionary[str, Conversation] = weakref.WeakValueDictionary()
        self._writer = Writer(path, branching=ADD_NODE, branch=_branch)

    @classmethod
    def open(cls, path: Path) -> Store:
        """The store at `path`; file and folder are made if need be. Any trouble with the disk is told by `problem`.

        Raises:
            StoreError: the file is of a newer termchat or of another program; it is left as it is.
        """
        with contextlib.suppress(sqlite3.Error, OSError):
            database.connect_to_read(path).close()
        return cls(path)

    # --- writing -----------------------------------------------------------------------------------------------------

    def begin(self, conversation: Conversation, *, tuning: Tuning | None = None, model: ModelRef | None = None) -> str:
        """A new chat; returns its id. Its nodes come with `add_node`; until there is one it is not listed."""
        now = time.time()
        session = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{secrets.token_hex(4)}"
        self._live[session] = conversation
        title, system = _text(conversation.title), _text(conversation.system)
        values = (title, now, system, int(conversation.raw), _json(model or ModelRef()), _json(tuning or Tuning()))
        self._writer.put(Operation(ADD_SESSION, session, values, urgent=True))
        return session

    def update(
        self,
        session: str,
        *,
        title: str | None = None,
        leaf: int | None = None,
        tuning: Tuning | None = None,
        model: ModelRef | None = None,
    ) -> None:
        """Changes of a chat beside its nodes; None leaves a thing as it is."""
        values = (
            time.time(),
            None if title is None else _text(title),
            leaf,
            None if tuning is None else _json(tuning),
            None if model is None else _json(model),
        )
        self._writer.put(Operation(UPDATE_SESSION, session, values, urgent=True))

    def add_node(self, session: str, node: Node) -> None:
        """A new node, the leaf from now on; of a user's the prompt ids are known. Records come with `add_record`."""
        text, ids = _text(node.written), _pack(node.prompt_ids)
        values = (node.number, node.parent, node.at, node.role, text, ids, int(node.whole))
        self._writer.put(
            Operation(ADD_NODE, session, values, urgent=True),
            Operation(UPDATE_SESSION, session, (time.time(), None, node.number, None, None)),
        )

    def add_record(self, session: str, number: int, record: Record) -> None:
        """The next record of the reply in node `number`."""
        on_path = False
        if isinstance(record, Start):
            conversation = self._live.get(session)
            on_path = (
                conversation is not None
                and number in conversation.nodes
                and conversation.ids_before(number) == record.prompt_ids
            )
            if on_path:
                record = msgspec.structs.replace(record, prompt_ids=[])
        ends = isinstance(record, (Finished, Failed))
        operation = Operation(ADD_RECORD, session, (number, int(on_path), _encode(record)), urgent=ends)
        if not ends:
            self._writer.put(operation)
        else:
            self._writer.put(operation, Operation(UPDATE_SESSION, session, (time.time(), None, None, None, None)))

    def problem(self) -> str | None:
        """Why chats are not being saved at the moment, or None. What is not saved is kept and tried again."""
        return self._writer.problem

    def notices(self) -> list[StoreNotice]:
        """What a person should be told, each once."""
        return self._writer.notices()

    def flush(self, timeout: float = 5.0) -> bool:
        """Waits up to `timeout` seconds until all is written, or a try failed; whether all is written."""
        return self._writer.flush(timeout)

    def close(self, timeout: float = 5.0) -> bool:
        """Writes what is queued and ends the thread; whether all is written."""
        return self._writer.close(timeout)

    # --- reading -----------------------------------------------------------------------------------------------------

    def sessions(self, limit: int = 100) -> list[SessionSummary]:
        """The chats that have a turn, the last used first.

        Raises:
            StoreError: the file cannot be read; so too the other methods that read.
        """
        found = self._settled(lambda db: db.execute(LIST, (limit,)).fetchall())
        return [
            SessionSummary(session, title, updated, turns, _model(model).name)
            for session, title, updated, turns, model in found or ()
        ]

    def latest(self) -> str | None:
        """The id of the chat used last."""
        return next((summary.id for summary in self.sessions(1)), None)

    def load(self, session: str) -> StoredSession:
        """A chat as it was.

        Raises:
            StoreError: there is no such chat, or it cannot be read.
        """
        session = self._writer.moved.get(session, session)
        stored = self._settled(lambda db: _load(db, session))
        if stored is None:
            raise StoreError(f"there is no saved chat {session} in {self.path}", "List the saved chats and choose one.")
        self._live.setdefault(session, stored.conversation)
        return stored

    def records(self, session: str, number: int) -> Iterator[Record]:
        """The records of a reply, in order, those that could not be written yet among them."""
        moved = self._writer.moved.get(session, session)
        with self._writer.between_writes() as every:
            queued = [op for op in every if op.session == session and op.values[0] == number]
            # While the node itself is not written, a node of its number is another process's.
            ours = not any(op.sql is ADD_NODE for op in queued)
            found = self._ask(lambda db: list(_records(db, moved, number))) if ours else None
        found = (found or []) + [(bool(op.values[1]), op.values[2]) for op in queued if op.sql is ADD_RECORD]
        for on_path, blob in found:
            record = _decode(blob)
            if on_path and isinstance(record, Start):
                conversation = self._live.get(session) or self.load(session).conversation
                record = msgspec.structs.replace(record, prompt_ids=conversation.ids_before(number))
            yield record

    def _settled(self, question: Callable[[sqlite3.Connection], _T]) -> _T | None:
        self.flush(READ_WAIT_S)
        return self._ask(question)

    def _ask(self, question: Callable[[sqlite3.Connection], _T]) -> _T | None:
        if not self.path.exists():
            return None
        try:
            with contextlib.closing(database.connect_to_read(self.path)) as db:
                return question(db)
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, sqlite3.Error) and database.is_damage(error):
                self._writer.mend()
            raise StoreError(
                f"saved chats cannot be read: {database.explain(error, self.path)}", "Try again in a moment."
            ) from error


def _branch(db: sqlite3.Connection, operation: Operation) -> str:
    copy = f"{operation.session}-{secrets.token_hex(2)}"
    for statement in BRANCH:
        db.execute(statement, {"session": operation.session, "copy": copy, "number": operation.values[0]})
    return copy


def _load(db: sqlite3.Connection, session: str) -> StoredSession | None:
    row = db.execute(
        "SELECT title, created, updated, system, raw, model, tuning, leaf FROM sessions WHERE id = ?", (session,)
    ).fetchone()
    if row is None:
        return None
    title, created, updated, system, raw, model, tuning, leaf = row
    conversation = Conversation(system, raw=bool(raw))
    conversation.title = title
    nodes = conversation.nodes
    found = db.execute(
        "SELECT number, parent, at, role, text, prompt_ids, whole FROM nodes WHERE session = ? ORDER BY number",
        (session,),
    )
    for number, parent, at, role, text, prompt_ids, whole in found.fetchall():
        if parent is not None and (parent not in nodes or at > len(nodes[parent].ids)):
            continue  # what it grew from was lost with a damaged file
        node = conversation.attach(Node(number, parent, at, role, text=text))
        node.prompt_ids, node.whole = _unpack(prompt_ids), bool(whole)
        for on_path, blob in _records(db, session, number):
            record = _decode(blob)
            if on_path and isinstance(record, Start):
                record = msgspec.structs.replace(record, prompt_ids=conversation.ids_before(number))
            node.add(record)
    conversation.leaf = leaf if leaf in nodes else max(nodes, default=None)
    info = SessionInfo(session, created, updated, _model(model), _tuning(tuning))
    return StoredSession(info, conversation, tuple(number for number, node in nodes.items() if not node.done))


def _records(db: sqlite3.Connection, session: str, number: int) -> Iterator[tuple[bool, bytes]]:
    statement = "SELECT on_path, record FROM records WHERE session = ? AND node = ? ORDER BY seq"
    for on_path, blob in db.execute(statement, (session, number)):
        yield bool(on_path), blob


def _decode(blob: bytes) -> Record:
    try:
        record: Record = _decode_record(blob)
    except msgspec.MsgspecError as error:
        raise StoreError(f"a record of the chat cannot be read: {error}", "Its file may be damaged.") from error
    return record


def _encode(record: Record) -> bytes:
    try:
        return msgspec.msgpack.encode(record)
    except UnicodeEncodeError:  # a file name that is no UTF-8, in a message
        names = record.__struct_fields__
        texts = {name: _text(value) for name in names if isinstance(value := getattr(record, name), str)}
        return msgspec.msgpack.encode(msgspec.structs.replace(record, **texts))


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _json(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode("utf-8")


def _model(text: str) -> ModelRef:
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(text, type=ModelRef)
    return ModelRef()


def _tuning(text: str) -> Tuning:
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(text, type=Tuning)
    return Tuning()


def _pack(ids: array[int]) -> bytes:
    packed = array("i", ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _unpack(blob: bytes) -> array[int]:
    ids = array("i")
    ids.frombytes(blob)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids
