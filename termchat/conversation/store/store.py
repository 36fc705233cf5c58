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
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from termchat.conversation.session import Breakpoint, ModelRef, Session, SessionSummary, View
from termchat.conversation.store import codec, database, deleting, derived, unsent_rows
from termchat.conversation.store.claims import Claims
from termchat.conversation.store.database import StoreError, StoreNotice
from termchat.conversation.store.reading import PATIENCE_S, StoreReader
from termchat.conversation.store.schema import (
    ADD_MESSAGE,
    ADD_NODE,
    ADD_PROMPT,
    ADD_RECORD,
    ADD_SESSION,
    DATE,
    DROP_UNSENT,
    HIDE,
    KEEP_UNSENT,
    LONGEST_KEPT,
    PACK_REPLY,
    RENAME,
    TRIM_HISTORY,
    UPDATE_NODE,
    UPDATE_SESSION,
)
from termchat.conversation.store.writer import Operation, Writer
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.escapes import well_formed
from termchat.decoding.records import Failed, Finished, Ranking, Record, Start
from termchat.decoding.samplers import Tuning

__all__ = ["ModelRef", "SessionSummary", "Store", "StoreError", "StoreNotice"]


HISTORY = 2_000
"""Messages of the history at most."""


class Store:
    """The saved chats and the message history: a reader answers questions (see `StoreReader`), a writer makes the changes, in
    the order in which they were asked for. Several processes may use one file. Any thread may read, and change a chat that no
    other thread is changing.
    """

    def __init__(self, path: Path, patience: float = PATIENCE_S) -> None:
        self.path = path
        self._live: weakref.WeakValueDictionary[str, Conversation] = weakref.WeakValueDictionary()
        self._claims = Claims(path)
        self._told_problem: str | None = None
        self._writer = Writer(path, self._claims, branching=ADD_NODE, branch=_branch, tidy=_tidy)
        reader = StoreReader(path, self._writer, self._claims, patience, self._live)
        self.sessions, self.preview, self.find, self.latest = (
            reader.sessions,
            reader.preview,
            reader.find,
            reader.latest,
        )
        self.of_lesson = reader.of_lesson
        self._read_session, self.records, self.token, self.current = (
            reader.load,
            reader.records,
            reader.token,
            reader.current,
        )
        self.messages, self.read_through, self.opening = reader.messages, reader.read_through, reader.opening
        self._of_others = reader.unsent_of_others

    @classmethod
    def open(cls, path: Path, patience: float = PATIENCE_S) -> Store:
        """The store at `path`; file and folder are made if need be. `problem` tells of trouble with the disk. A damaged file is
        repaired now, in the background: whoever reads waits up to `patience` seconds for that.

        Raises:
            StoreError: the file is of another version of termchat or of another program, or not a regular file; it stays
                as it is.
        """
        with contextlib.suppress(sqlite3.Error, OSError):
            database.connect_to_read(path).close()
        return cls(path, patience)

    def load(self, id: str) -> Session:
        """Load a chat, with its settings and records; what follows in it is saved here, see `StoreReader.load`."""
        session = self._read_session(id)
        session.store = self
        return session

    def begin(self, conversation: Conversation, *, tuning: Tuning | None = None, model: ModelRef | None = None) -> str:
        """A new chat; returns its id. Its nodes come with `add_node`; until there is one it is not listed."""
        now = time.time()
        session = _new_id(now)
        self._live[session] = conversation
        title, system = well_formed(conversation.title), well_formed(conversation.first_system)
        settings = codec.from_settings(model or ModelRef()), codec.from_settings(tuning or Tuning())
        values = (title, now, system, int(conversation.raw), *settings)
        self._writer.put(Operation(ADD_SESSION, session, values, urgent=True), Operation(derived.begin, session, ()))
        return session

    def update(
        self,
        session: str,
        *,
        title: str | None = None,
        leaf: int | None = None,
        tuning: Tuning | None = None,
        model: ModelRef | None = None,
        breakpoints: tuple[Breakpoint, ...] | None = None,
        view: View | None = None,
    ) -> None:
        """Changes of a chat beside its nodes; None leaves a thing as it is."""
        text = None if title is None else well_formed(title)
        settings = (None if s is None else codec.from_settings(s) for s in (tuning, model, breakpoints, view))
        values = (time.time(), text, leaf, *settings)
        self._writer.put(Operation(UPDATE_SESSION, session, values, urgent=True))
        if title is not None:
            self._writer.put(Operation(derived.retitle, session, ()))

    def add_node(self, session: str, node: Node) -> None:
        """A new node, the leaf from now on; of a user's the prompt ids are known. Records come with `add_record`.

        A chat that was deleted comes back with it; of one that was purged nothing more is kept, which is told by `notices`.
        """
        text, ids = well_formed(node.written), codec.from_ids(node.prompt_ids)
        place = (node.number, node.parent, node.at, node.role)
        named = well_formed(node.name), int(node.deleted), codec.from_omission(node.omitted)
        values = (*place, text, ids, int(node.whole), *named)
        claims = True if node.role == "assistant" else None
        operations = [
            Operation(ADD_NODE, session, values, urgent=True, claims=claims, claimed=node.number),
            _touch(session, leaf=node.number),
        ]
        if node.system is not None:
            operations.append(Operation(ADD_PROMPT, session, (node.number, well_formed(node.system))))
        if node.parent is not None:
            operations.append(Operation(derived.add_if_missing, session, (node.parent,)))
        if node.role == "user":
            operations.append(Operation(derived.add, session, (node.number,)))
        self._writer.put(*operations, Operation(HIDE, session, (None,)))

    def update_node(self, session: str, number: int, *, name: str | None = None, deleted: bool | None = None) -> None:
        """Another name of a branch, or whether it is deleted; None leaves a thing as it is."""
        text = None if name is None else well_formed(name)
        values = (number, text, None if deleted is None else int(deleted))
        self._writer.put(Operation(UPDATE_NODE, session, values, urgent=True), _touch(session))
        if deleted is not None:
            self._writer.put(Operation(derived.refresh, session, ()))

    def add_record(self, session: str, number: int, record: Record) -> None:
        """The next record of the reply in node `number`."""
        on_path = False
        if isinstance(record, Start):
            on_path = self._stands_on_path(session, number, record)
            if on_path:
                record = msgspec.structs.replace(record, prompt_ids=[])
        ends = isinstance(record, (Finished, Failed))
        values = number, int(on_path), codec.from_record(record)
        if ends:
            ending = Operation(ADD_RECORD, session, values, urgent=True, claims=False, claimed=number)
            self._writer.put(ending, _touch(session), Operation(derived.add, session, (number,)))
        else:
            self._writer.put(Operation(ADD_RECORD, session, values, urgent=isinstance(record, Ranking)))
        if ends or isinstance(record, Ranking):
            self._pack(session, number)

    def _stands_on_path(self, session: str, number: int, start: Start) -> bool:
        """Whether its prompt is the ids of the path. Of several replies with a long one each would take its time to compare, so
        what the tree has found already counts."""
        conversation = self._live.get(session)
        node = conversation.nodes.get(number) if conversation is not None else None
        if conversation is None or node is None:
            return False
        if start.prompt_ids and node.start is not None and not node.start.prompt_ids:
            return True
        return conversation.stands_on_path(number, start.prompt_ids)

    def _pack(self, session: str, number: int) -> None:
        """Keeps a reply that has ended as it is in memory, too; anew, where a ranking came behind its end."""
        conversation = self._live.get(session)
        node = conversation.nodes.get(number) if conversation is not None else None
        packed = codec.from_reply(node) if node is not None and node.done else None
        if packed is not None:
            self._writer.put(Operation(PACK_REPLY, session, (number, packed)))

    def rename(self, session: str, title: str) -> None:
        """It does not count as use of the chat."""
        title = well_formed(" ".join(title.split()))
        self._writer.put(Operation(RENAME, session, (title,), urgent=True), Operation(derived.retitle, session, ()))

    def duplicate(
        self, session: str, conversation: Conversation | None = None, read_to: tuple[int, int] | None = None
    ) -> str:
        """Copy a chat as it is now, or up to the node and record in `read_to`; return the id of the copy. With a conversation,
        which goes on in the copy, it has the nodes of that and no other.
        """
        copy, source = _new_id(time.time()), self._writer.moved.get(session, session)
        newest, seq = deleting.ALL - 1, deleting.ALL
        if conversation is not None:
            self._live[copy] = conversation
            newest = max(conversation.nodes, default=0)
        if read_to is not None:
            newest, seq = read_to
        self._writer.put(Operation(deleting.copy, copy, (source, newest + 1, seq), urgent=True), _touch(copy))
        return copy

    def date(self, session: str, created: float, updated: float) -> None:
        """When a chat was begun and last changed, for one that comes from elsewhere; seconds since the epoch, UTC."""
        self._writer.put(Operation(DATE, session, (created, updated), urgent=True))

    def delete(self, session: str) -> None:
        """Hides a chat; `restore` brings it back, and so does the next turn in it. A week later it is gone for good."""
        self._writer.put(Operation(HIDE, session, (time.time(),), urgent=True))

    def restore(self, session: str) -> None:
        self._writer.put(Operation(HIDE, session, (None,), urgent=True))

    def purge(self, session: str) -> None:
        """For good, unlike `delete`."""
        self._writer.put(Operation(deleting.purge, session, (), urgent=True))

    def add_message(self, text: str) -> None:
        """The newest message of the history, where each text is once; one of more than 64,000 characters is not kept."""
        if len(text) <= LONGEST_KEPT:
            added = Operation(ADD_MESSAGE, "", (well_formed(text),))
            self._writer.put(added, Operation(TRIM_HISTORY, "", (HISTORY,)))

    def keep_unsent(self, session: str, draft: str, queue: Sequence[str]) -> None:
        """What was written in a chat and not sent; of "", in this process's chat without a message."""
        key = session or unsent_rows.OWN
        if draft or queue:
            values = well_formed(draft), codec.from_settings([well_formed(text) for text in queue])
            kept = Operation(KEEP_UNSENT, key, values, urgent=bool(queue))
        else:
            kept = Operation(DROP_UNSENT, key, ())
        self._writer.put(kept if session else kept._replace(claims=kept.does is KEEP_UNSENT))

    def abandoned(self) -> str:
        """What was last written in a chat without a message by a process that has ended; it becomes this process's own."""
        left: unsent_rows.UnsentRow | None = None
        with contextlib.suppress(StoreError):  # it is looked for again the next time
            left = next((row for row in self._of_others() if not self._claims.is_elsewhere(row.session)), None)
        if left is None:
            return ""
        text = "\n".join([*left.queue, *filter(None, [left.text])])
        self.keep_unsent("", text, ())
        self._writer.put(Operation(DROP_UNSENT, left.session, ()))
        return text

    def problem(self) -> str | None:
        """Why chats are not being saved at the moment, or None. What is not saved is kept and tried again."""
        return self._writer.problem

    def notices(self) -> list[StoreNotice]:
        """What a person should be told, each once."""
        return self._writer.notices()

    def take_notices(self) -> list[StoreNotice]:
        """Take `notices`, and that saving fails, or works again, once each."""
        notices, problem = self.notices(), self.problem()
        if problem is None and self._told_problem is not None:
            notices.append(StoreNotice("the chat is saved again"))
        elif problem is not None and self._told_problem is None:
            hint = "the chat continues in memory and is saved as soon as possible"
            notices.append(StoreNotice(f"not saved: {problem}", hint))
        self._told_problem = problem
        return notices

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Has `listener` called, on the thread that writes, when `problem` or `notices` have something new."""
        self._writer.listener = listener

    def flush(self, timeout: float = 5.0) -> bool:
        """Waits up to `timeout` seconds until all is written, or a try failed; whether all is written."""
        return self._writer.flush(timeout)

    def close(self, timeout: float = 5.0) -> bool:
        """Writes what is queued and ends the thread; whether all is written."""
        written = self._writer.close(timeout)
        self._claims.close()
        return written


def _new_id(now: float) -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{secrets.token_hex(4)}"


def _branch(db: sqlite3.Connection, operation: Operation) -> str:
    copy = f"{operation.session}-{secrets.token_hex(2)}"
    deleting.copy(db, copy, operation.session, operation.values[0])
    return copy


def _tidy(db: sqlite3.Connection, seconds: float) -> bool:
    deleting.purge_expired(db)
    return derived.complete(db, seconds)


def _touch(session: str, leaf: int | None = None) -> Operation:
    return Operation(UPDATE_SESSION, session, (time.time(), None, leaf, None, None, None, None))
