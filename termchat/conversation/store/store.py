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
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar, Unpack

import msgspec

from termchat.conversation.session import ModelRef, Session, SessionChanges, SessionSummary
from termchat.conversation.store import codec, database, deleting, derived, load, repair, store_files, unsent_rows
from termchat.conversation.store import search as finding
from termchat.conversation.store.claims import Claims
from termchat.conversation.store.database import StoreError, StoreNotice
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
    MESSAGES,
    PACK_REPLY,
    RENAME,
    TRIM_HISTORY,
    UPDATE_NODE,
    UPDATE_SESSION,
)
from termchat.conversation.store.writer import Operation, Writer
from termchat.conversation.tree import Conversation, Node, Role
from termchat.conversation.unsent import Unsent
from termchat.decoding.escapes import well_formed
from termchat.decoding.records import Failed, Finished, Ranking, Record, Start, Token
from termchat.decoding.samplers import Tuning

__all__ = ["ModelRef", "SessionSummary", "Store", "StoreError", "StoreNotice"]


HISTORY = 2_000
"""Messages of the history at most."""

PREVIEWED = 40
"""Turns of a preview at most."""

REPAIR = "Run termchat again: it repairs the file when it opens it."

READ_WAIT_S = 1.0
"""How long a reader waits for what is queued to be written first."""

PATIENCE_S = 5.0
"""How long a reader waits for a damaged file to be repaired, which is done when it is opened."""

_T = TypeVar("_T")


class Store:
    """The saved chats and the message history; a writer makes the changes, in the order in which they were asked for. Several
    processes may use one file. Any thread may read, and change a chat that no other thread is changing.

    Damage that a question meets is not repaired: the file is marked, and repaired when it is next opened.
    """

    def __init__(self, path: Path, patience: float = PATIENCE_S) -> None:
        self.path, self._patience = path, patience
        self._live: weakref.WeakValueDictionary[str, Conversation] = weakref.WeakValueDictionary()
        """The chats that are in memory, by id."""
        self._claims = Claims(path)
        self._told_problem: str | None = None
        self._writer = Writer(path, self._claims)

    @classmethod
    def open(cls, path: Path, patience: float = PATIENCE_S) -> Store:
        """Open the store at `path`; make file and folder if necessary. `problem` reports trouble with the disk. A damaged
        file is repaired in the background: a reader waits up to `patience` seconds for that.

        Raises:
            StoreError: the file is of another version of termchat or of another program, or not a regular file; it stays
                as it is.
        """
        with contextlib.suppress(sqlite3.Error, OSError):
            database.connect_to_read(path).close()
        return cls(path, patience)

    # --- questions, each on a connection of its own: an answer contains what was queued for writing before ---------------

    def sessions(
        self, limit: int = 100, search: str = "", offset: int = 0, deleted: bool = False, lessons: bool = False
    ) -> list[SessionSummary]:
        """List chats that have a turn, the last used first; or those that contain all words of `search`, the best match
        first. `deleted` chooses deleted chats instead, `lessons` those of lessons.

        Raises:
            StoreError: the file cannot be read; so too the other methods that read.
        """

        def question(db: sqlite3.Connection) -> list[SessionSummary]:
            which = {"limit": limit, "offset": offset, "deleted": deleted, "lessons": lessons}
            found = finding.list_matching(db, search, which) if search.strip() else finding.list_newest(db, which)
            return derived.with_unfinished(db, found)

        return self._read_settled(question, listed=True) or []

    def of_lesson(self, lesson: str) -> str | None:
        """Find the chat of a lesson that was last used."""
        return self._read_settled(lambda db: finding.of_lesson(db, lesson))

    def preview(self, session: str) -> list[tuple[Role, str]]:
        """Read roles and texts of the last turns of a chat, at most `PREVIEWED`; none for an unknown chat."""
        session = self.current(session)
        found = self._read_settled(lambda db: load.load(db, session, 8 * PREVIEWED))
        return list(found.conversation.list_turns())[-PREVIEWED:] if found is not None else []

    def find(self, word: str) -> str:
        """Find the chat that a person means: by its id, by a beginning of it that no other has, or by `last`.

        Raises:
            StoreError: there is none, or more than one.
        """
        found = self._read_settled(lambda db: finding.find_ids(db, well_formed(word))) or []
        if word == "last":
            found = [latest] if (latest := self.latest()) is not None else []
        if len(found) == 1:
            return found[0]
        if not found:
            problem = f"no saved chat {word}" if word.strip() else "no saved chat was named"
            raise StoreError(problem, "Run termchat sessions list to see them all, or termchat sessions search WORDS.")
        raise StoreError(f"more than one saved chat id starts with {word}", "Give more of: " + ", ".join(found[:5]))

    def latest(self) -> str | None:
        """Find the chat that was last used."""
        return next((summary.id for summary in self.sessions(1)), None)

    def current(self, session: str) -> str:
        """Return the id of a chat of this process: a new one once another process has continued the same chat."""
        return self._writer.moved.get(session, session)

    def load(self, id: str) -> Session:
        """Load a chat, with its settings and records; what follows in it is saved here. One that another process is writing at
        this moment is not to be written here (`Session.read_to`).

        Raises:
            StoreError: there is no such chat, or it cannot be read.
        """
        id = self.current(id)
        elsewhere = self._claims.is_elsewhere(id)
        session, read_to = self._read_settled(lambda db: (load.load(db, id), load.read_to(db, id))) or (None, None)
        if session is None:
            raise StoreError(f"no saved chat {id} in {self.path}", "List the saved chats and choose one.")
        session.store = self
        self._live.setdefault(id, session.conversation)
        # A reply may end, or begin, while it is read.
        if session.growing and (elsewhere or self._claims.is_elsewhere(id)):
            session.read_to = read_to
            session.conversation.unsent = Unsent()  # the other's draft and queue are its own
        return session

    def records(self, session: str, number: int) -> Iterator[Record]:
        """Read the records of a reply in order, unwritten ones included, up to a damaged one."""
        moved = self.current(session)
        with self._writer.between_writes() as operations:
            queued = _select_operations(operations, session, number)
            # While the node itself is not written, a node of its number is another process's.
            is_written = not any(op.does is ADD_NODE for op in queued)
            rows = self._read(lambda db: list(load.load_records(db, moved, number))) if is_written else None
        waiting = ((0, bool(op.values[1]), op.values[2]) for op in queued if op.does is ADD_RECORD)
        for _, on_path, blob in (*(rows or ()), *waiting):
            try:
                record = codec.to_record(blob)
            except StoreError:
                return  # damaged: as if it and what came after it were lost
            if on_path and isinstance(record, Start):
                conversation = self._live.get(session) or self.load(session).conversation
                record = msgspec.structs.replace(record, prompt_ids=conversation.ids_before(number))
            yield record

    def token(self, session: str, number: int, index: int) -> Token | None:
        """Read token `index` of the reply in node `number`, with its candidates.

        It reads a few records, however many the reply has, and never waits for one that is being written.
        """
        # In this order: what leaves the queue is in the file before, and `moved` says in which chat.
        queue = _select_operations(self._writer.list_queued(), session, number)
        moved = self.current(session)
        waiting = [op.values[2] for op in queue if op.does is ADD_RECORD]

        def queued(place: int) -> Iterator[tuple[int, bool, bytes]]:
            return ((at, False, waiting[at]) for at in range(place, len(waiting)))

        def find(*sources: load.Rows) -> Token | None:
            first = next(filter(None, map(load.first_token, sources)), None)
            if first is None or index < 0:
                return None
            return next(filter(None, (load.token_of_step(rows, first[1].step + index) for rows in sources)), None)

        if any(op.does is ADD_NODE for op in queue):
            return find(queued)
        return self._read(lambda db: find(partial(load.load_records, db, moved, number), queued))

    def messages(self) -> list[str]:
        """Read the message history, the oldest message first."""
        return self._read_settled(lambda db: [text for (text,) in db.execute(MESSAGES)]) or []

    def opening(self) -> bool:
        """Return whether the file is still being opened, which takes long where it has to be repaired."""
        return not self._writer.wait_opened(0)

    def read_through(self, session: str) -> None:
        """Read all records of a chat once, so that damage is noticed before any of them is returned."""
        session = self.current(session)
        statement = "SELECT record FROM records WHERE session = ? ORDER BY node, seq"
        self._read_settled(lambda db: deque(db.execute(statement, (session,)), maxlen=0))

    def _read_settled(self, question: Callable[[sqlite3.Connection], _T], listed: bool = False) -> _T | None:
        """Answer a question after all queued writes are done; `listed`: and the index of texts, too."""
        if not self._writer.wait_opened(self._patience):
            raise StoreError("the file of saved chats is still being repaired", "Try again in a moment.")
        self._writer.flush(READ_WAIT_S, tidy=listed)
        answer = self._read(question)
        if repair.list_unread(store_files.resolve_link(self.path)):
            raise StoreError(f"the file of saved chats is damaged ({self.path})", REPAIR)
        return answer

    def _read(self, question: Callable[[sqlite3.Connection], _T]) -> _T | None:
        """Answer a question; None where there is no file yet."""
        try:
            self.path.stat()
        except FileNotFoundError:
            if self.path.is_symlink():
                missing = f"{self.path} is a broken link to {store_files.resolve_link(self.path)}"
                raise StoreError(f"saved chats cannot be read: {missing}", "Restore it, or remove the link.") from None
            return None
        except OSError as error:
            reason = database.explain_error(error, self.path)
            raise StoreError(f"saved chats cannot be read: {reason}", "Check the folder they are stored in.") from error
        asked = store_files.identify_file(self.path)
        try:
            with contextlib.closing(database.connect_to_read(self.path)) as db:
                db.execute("BEGIN")  # all of the answer from one moment: others write meanwhile
                (version,) = db.execute("PRAGMA user_version").fetchone()
                return question(db) if version else None  # without tables, where nobody could write to it
        except (sqlite3.Error, OSError) as error:
            problem = f"saved chats cannot be read: {database.explain_error(error, self.path)}"
            if not database.is_damage(error):
                raise StoreError(problem, "Try again in a moment.") from error
            store_files.mark_broken(store_files.resolve_link(self.path), asked)
            if self._writer.problem is not None:
                problem += f", and cannot be repaired: {self._writer.problem}"
            raise StoreError(problem, REPAIR) from error

    # --- changes ---------------------------------------------------------------------------------------------------------

    def begin(self, conversation: Conversation, *, tuning: Tuning | None = None, model: ModelRef | None = None) -> str:
        """Begin a chat; return its id. Its nodes follow with `add_node`; before the first it is not listed."""
        now = time.time()
        session = _make_id(now)
        self._live[session] = conversation
        title, system = well_formed(conversation.title), well_formed(conversation.first_system)
        settings = codec.from_settings(model or ModelRef()), codec.from_settings(tuning or Tuning())
        values = (title, now, system, int(conversation.raw), *settings)
        self._writer.put_operations(Operation(ADD_SESSION, session, values, urgent=True, indexed=True))
        return session

    def update(self, session: str, **changes: Unpack[SessionChanges]) -> None:
        """Change settings of a chat."""
        named = (changes.get(name) for name in ("tuning", "model", "breakpoints", "view"))
        settings = (None if value is None else codec.from_settings(value) for value in named)
        self._writer.put_operations(
            Operation(UPDATE_SESSION, session, (time.time(), changes.get("leaf"), *settings), urgent=True)
        )

    def add_node(self, session: str, node: Node) -> None:
        """Add a node, the leaf from now on; of a user's the prompt ids are known. Records come with `add_record`.

        A chat that was deleted comes back with it; of one that was purged nothing more is kept, which is told by `notices`.
        """
        omitted = "" if node.omitted is None else codec.from_settings(node.omitted)
        values = (
            node.number, node.parent, node.at, node.role, well_formed(node.written), node.prompt_ids.tobytes(),
            int(node.whole), well_formed(node.name), int(node.deleted), omitted,
        )  # fmt: skip
        claims = True if node.role == "assistant" else None
        operations = [
            Operation(ADD_NODE, session, values, urgent=True, claims=claims, claimed=node.number, indexed=True),
            _build_touch(session, leaf=node.number),
            Operation(HIDE, session, (None,)),
        ]
        if node.system is not None:
            operations.append(Operation(ADD_PROMPT, session, (node.number, well_formed(node.system))))
        self._writer.put_operations(*operations)

    def update_node(self, session: str, number: int, *, name: str | None = None, deleted: bool | None = None) -> None:
        """Change the name of a branch, or whether it is deleted; None leaves it as it is."""
        text = None if name is None else well_formed(name)
        values = (number, text, None if deleted is None else int(deleted))
        self._writer.put_operations(
            Operation(UPDATE_NODE, session, values, urgent=True, indexed=True), _build_touch(session)
        )

    def add_record(self, session: str, number: int, record: Record) -> None:
        """Save the next record of the reply in node `number`; a reply that has ended also as it is in memory, again where a
        ranking comes behind its end."""
        conversation = self._live.get(session)
        node = conversation.nodes.get(number) if conversation is not None else None
        on_path = False
        if isinstance(record, Start) and conversation is not None and node is not None:
            # To compare the long prompt of each of several replies takes time: what the tree has found already counts.
            is_known = record.prompt_ids and node.start is not None and not node.start.prompt_ids
            on_path = bool(is_known) or conversation.stands_on_path(number, record.prompt_ids)
            if on_path:
                record = msgspec.structs.replace(record, prompt_ids=[])
        ends = isinstance(record, (Finished, Failed))
        values = number, int(on_path), codec.from_record(record)
        if ends:
            ending = Operation(ADD_RECORD, session, values, urgent=True, claims=False, claimed=number)
            self._writer.put_operations(
                ending, _build_touch(session), Operation(derived.DROP_TEXT, session, (number,), indexed=True)
            )
        else:
            self._writer.put_operations(Operation(ADD_RECORD, session, values, urgent=isinstance(record, Ranking)))
        if not (ends or isinstance(record, Ranking)) or node is None or not node.done:
            return
        if (packed := codec.from_reply(node)) is not None:
            self._writer.put_operations(Operation(PACK_REPLY, session, (number, packed)))

    def rename(self, session: str, title: str) -> None:
        """Give a chat another title, which does not count as use of it."""
        title = well_formed(" ".join(title.split()))
        self._writer.put_operations(Operation(RENAME, session, (title,), urgent=True, indexed=True))

    def duplicate(
        self, session: str, conversation: Conversation | None = None, read_to: tuple[int, int] | None = None
    ) -> str:
        """Copy a chat as it is now, or up to the node and record in `read_to`; return the id of the copy. With a
        conversation, which continues in the copy, only its nodes are copied.
        """
        copy, source = _make_id(time.time()), self.current(session)
        newest, seq = deleting.ALL - 1, deleting.ALL
        if conversation is not None:
            self._live[copy] = conversation
            newest = max(conversation.nodes, default=0)
        if read_to is not None:
            newest, seq = read_to
        copied = Operation(deleting.copy_session, copy, (source, newest + 1, seq), urgent=True, indexed=True)
        self._writer.put_operations(copied, _build_touch(copy))
        return copy

    def date(self, session: str, created: float, updated: float) -> None:
        """Set when an imported chat was begun and last changed, in seconds since the epoch, UTC."""
        self._writer.put_operations(Operation(DATE, session, (created, updated), urgent=True))

    def delete(self, session: str) -> None:
        """Hide a chat; `restore` brings it back, and so does the next turn in it. A week later it is purged."""
        self._writer.put_operations(Operation(HIDE, session, (time.time(),), urgent=True))

    def restore(self, session: str) -> None:
        self._writer.put_operations(Operation(HIDE, session, (None,), urgent=True))

    def purge(self, session: str) -> None:
        """Remove a chat for good, unlike `delete`."""
        self._writer.put_operations(Operation(deleting.purge_session, session, (), urgent=True))

    def add_message(self, text: str) -> None:
        """Add the newest message of the history, where each text is once; one of more than 64,000 characters is not kept."""
        if len(text) <= LONGEST_KEPT:
            added = Operation(ADD_MESSAGE, "", (well_formed(text),))
            self._writer.put_operations(added, Operation(TRIM_HISTORY, "", (HISTORY,)))

    def keep_unsent(self, session: str, draft: str, queue: Sequence[str]) -> None:
        """Save the draft and the queue of a chat; "" means this process's chat without a message."""
        key = session or unsent_rows.OWN
        if draft or queue:
            values = well_formed(draft), codec.from_settings([well_formed(text) for text in queue])
            kept = Operation(KEEP_UNSENT, key, values, urgent=bool(queue))
        else:
            kept = Operation(DROP_UNSENT, key, ())
        self._writer.put_operations(kept if session else kept._replace(claims=kept.does is KEEP_UNSENT))

    def abandoned(self) -> str:
        """Take over the newest draft of a chat without a message whose process has ended."""
        try:
            rows = self._read_settled(lambda db: unsent_rows.read(db, "session LIKE ?", "new %")) or []
        except StoreError:  # it is looked for again the next time
            return ""
        others = (row for row in rows if row.session != unsent_rows.OWN)
        left = next((row for row in others if not self._claims.is_elsewhere(row.session)), None)
        if left is None:
            return ""
        text = "\n".join([*left.queue, *filter(None, [left.text])])
        self.keep_unsent("", text, ())
        self._writer.put_operations(Operation(DROP_UNSENT, left.session, ()))
        return text

    def problem(self) -> str | None:
        """Return why chats are not being saved at the moment, or None. Unsaved changes are kept and tried again."""
        return self._writer.problem

    def notices(self) -> list[StoreNotice]:
        """Take the notices for a person, each once."""
        return self._writer.take_notices()

    def take_notices(self) -> list[StoreNotice]:
        """Take the notices, with one when saving begins to fail and one when it works again."""
        notices, problem = self.notices(), self.problem()
        hint = "the chat continues in memory and is saved as soon as possible"
        if (problem is None) != (self._told_problem is None):
            notices.append(
                StoreNotice(f"not saved: {problem}", hint) if problem else StoreNotice("the chat is saved again")
            )
        self._told_problem = problem
        return notices

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Call `listener`, on the thread that writes, when `problem` or `notices` have something new."""
        self._writer.listener = listener

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait up to `timeout` seconds until all is written, or a try failed; return whether all is written."""
        return self._writer.flush(timeout)

    def close(self, timeout: float = 5.0) -> bool:
        """Write all queued changes and end the thread; return whether all is written."""
        written = self._writer.close(timeout)
        self._claims.close()
        return written


def _select_operations(operations: Iterable[Operation], session: str, number: int) -> list[Operation]:
    """Select the operations that add a node, or records of it."""
    added = [op for op in operations if op.session == session and op.does in (ADD_NODE, ADD_RECORD)]
    return [op for op in added if op.values[0] == number]


def _make_id(now: float) -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{secrets.token_hex(4)}"


def _build_touch(session: str, leaf: int | None = None) -> Operation:
    return Operation(UPDATE_SESSION, session, (time.time(), leaf, None, None, None, None))
