"""The reader: lists, searches, previews, chats, records, the message history.

An answer contains what was queued for writing before. Damage is not repaired here: the file is marked, and repaired when it is
next opened.
"""

from __future__ import annotations

import contextlib
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec

from termchat.conversation.session import Session, SessionSummary
from termchat.conversation.store import codec, database, derived, load, repair, store_files, unsent_rows
from termchat.conversation.store import search as finding
from termchat.conversation.store.claims import Claims
from termchat.conversation.store.database import StoreError
from termchat.conversation.store.schema import ADD_NODE, ADD_RECORD, MESSAGES
from termchat.conversation.store.writer import Writer
from termchat.conversation.tree import Conversation, Role
from termchat.conversation.unsent import Unsent
from termchat.decoding.escapes import well_formed
from termchat.decoding.records import Record, Start, Token

REPAIR = "Run termchat again: it repairs the file when it opens it."

READ_WAIT_S = 1.0
"""How long a reader waits for what is queued to be written first."""

PATIENCE_S = 5.0
"""How long a reader waits for a damaged file to be repaired, which is done when it is opened."""

_T = TypeVar("_T")


class StoreReader:
    """Answers questions to the store, each on a connection of its own. `live` has the chats that are in memory, by id."""

    def __init__(
        self,
        path: Path,
        writer: Writer,
        claims: Claims,
        patience: float,
        live: weakref.WeakValueDictionary[str, Conversation],
    ) -> None:
        self.path, self._patience = path, patience
        self._writer, self._claims, self._live = writer, claims, live

    def sessions(
        self, limit: int = 100, search: str = "", offset: int = 0, deleted: bool = False, lessons: bool = False
    ) -> list[SessionSummary]:
        """The chats that have a turn, the last used first; or those that contain all words of `search`, the best match first.
        `deleted` chooses those that were deleted instead of those that were not, `lessons` those of lessons likewise.

        Raises:
            StoreError: the file cannot be read; so too the other methods that read.
        """
        if search.strip():
            question = partial(
                finding.matching, search=search, limit=limit, offset=offset, deleted=deleted, lessons=lessons
            )
        else:
            question = partial(finding.newest, limit=limit, offset=offset, deleted=deleted, lessons=lessons)
        return self._settled(lambda db: derived.with_unfinished(db, question(db)), listed=True) or []

    def of_lesson(self, lesson: str) -> str | None:
        """The id of the chat of a lesson that was last used, None where there is none."""
        return self._settled(lambda db: finding.of_lesson(db, lesson))

    def preview(self, session: str, limit: int = 40) -> list[tuple[Role, str]]:
        """Roles and texts of the last turns of the chat as it is shown, at most `limit`; empty where there is no such chat."""
        session = self._writer.moved.get(session, session)
        turns = self._settled(lambda db: load.last_texts(db, session, limit))
        return turns if turns is not None else list(self.load(session).conversation.turns())[-limit:]

    def find(self, word: str) -> str:
        """The id of the chat that a person means: by its id, by a beginning of it that no other has, or by `last`.

        Raises:
            StoreError: there is none, or more than one.
        """
        found = self._settled(lambda db: finding.ids(db, well_formed(word))) or []
        if word == "last":
            found = [latest] if (latest := self.latest()) is not None else []
        if len(found) == 1:
            return found[0]
        if not found:
            problem = f"no saved chat {word}" if word.strip() else "no saved chat was named"
            raise StoreError(problem, "Run termchat sessions list to see them all, or termchat sessions search WORDS.")
        raise StoreError(f"more than one saved chat id starts with {word}", "Give more of: " + ", ".join(found[:5]))

    def latest(self) -> str | None:
        """By its last use."""
        return next((summary.id for summary in self.sessions(1)), None)

    def current(self, session: str) -> str:
        """The id that a chat of this process goes by: another one, once another process has taken the same chat further."""
        return self._writer.moved.get(session, session)

    def load(self, session: str) -> Session:
        """Load a chat; one that another process is writing at this moment is not to be written here (`Session.read_to`).

        Raises:
            StoreError: there is no such chat, or it cannot be read.
        """
        session = self._writer.moved.get(session, session)
        elsewhere = self._claims.is_elsewhere(session)
        stored, read_to = self._settled(lambda db: (load.load(db, session), load.read_to(db, session))) or (None, None)
        if stored is None:
            raise StoreError(f"no saved chat {session} in {self.path}", "List the saved chats and choose one.")
        self._live.setdefault(session, stored.conversation)
        # A reply may end, or begin, while it is read.
        if stored.growing and (elsewhere or self._claims.is_elsewhere(session)):
            stored.read_to = read_to
            stored.conversation.unsent = Unsent()  # the other's draft and queue are its own
        return stored

    def records(self, session: str, number: int) -> Iterator[Record]:
        """The records of a reply, in order, those that could not be written yet among them; up to a damaged one."""
        for on_path, blob in self._record_rows(session, number):
            try:
                record = codec.to_record(blob)
            except StoreError:
                return  # damaged: as if it and what came after it were lost
            if on_path and isinstance(record, Start):
                conversation = self._live.get(session) or self.load(session).conversation
                record = msgspec.structs.replace(record, prompt_ids=conversation.ids_before(number))
            yield record

    def _record_rows(self, session: str, number: int) -> list[tuple[bool, bytes]]:
        """What `load.records` gives, and what is not written yet."""
        moved = self._writer.moved.get(session, session)
        with self._writer.between_writes() as every:
            queued = [op for op in every if op.session == session and op.does in (ADD_NODE, ADD_RECORD)]
            queued = [op for op in queued if op.values[0] == number]
            # While the node itself is not written, a node of its number is another process's.
            ours = not any(op.does is ADD_NODE for op in queued)
            found = self._ask(lambda db: list(load.records(db, moved, number))) if ours else None
        return (found or []) + [(bool(op.values[1]), op.values[2]) for op in queued if op.does is ADD_RECORD]

    def token(self, session: str, number: int, index: int) -> Token | None:
        """Token `index` of the reply in node `number`, with its candidates; None where there is none.

        It reads a few records, however many the reply has, and never waits for one that is being written.
        """
        # In this order: what leaves the queue is in the file before, and `moved` says in which chat.
        queue = [op for op in self._writer.queued() if op.session == session and op.does in (ADD_NODE, ADD_RECORD)]
        queue = [op for op in queue if op.values[0] == number]
        moved = self._writer.moved.get(session, session)
        waiting = [op.values[2] for op in queue if op.does is ADD_RECORD]

        def queued(place: int) -> Iterator[tuple[int, bytes]]:
            return islice(enumerate(waiting), place, None)

        def find(sources: Sequence[load.Rows]) -> Token | None:
            firsts = (found for rows in sources if (found := load.first_token(rows)) is not None)
            first = next(firsts, None)
            if first is None or index < 0:
                return None
            step = first[1].step + index
            tokens = (token for rows in sources if (token := load.token_of_step(rows, step)) is not None)
            return next(tokens, None)

        if any(op.does is ADD_NODE for op in queue) or not self._is_there():
            return find([queued])
        return self._ask(lambda db: find([load.rows(db, moved, number), queued]))

    def messages(self) -> list[str]:
        """Those of the history, the oldest first."""
        return self._settled(lambda db: [text for (text,) in db.execute(MESSAGES)]) or []

    def unsent_of_others(self) -> list[unsent_rows.UnsentRow]:
        """What was written in other processes' chats without a message, the newest first."""
        return self._settled(unsent_rows.of_others) or []

    def opening(self) -> bool:
        """Whether the file is still being opened, which takes long where it has to be repaired."""
        return not self._writer.opened(0)

    def read_through(self, session: str) -> None:
        """Reads all records of a chat once, so that damage is found before any of them is given out."""
        session = self._writer.moved.get(session, session)
        self._settled(lambda db: load.read_through(db, session))

    def _settled(self, question: Callable[[sqlite3.Connection], _T], listed: bool = False) -> _T | None:
        """An answer from what was queued before; `listed`: from what is derived from it, too."""
        if not self._writer.opened(self._patience):
            raise StoreError("the file of saved chats is still being repaired", "Try again in a moment.")
        self._writer.flush(READ_WAIT_S, tidy=listed)
        answer = self._ask(question)
        if repair.unread(store_files.real(self.path)):
            raise StoreError(f"the file of saved chats is damaged ({self.path})", REPAIR)
        return answer

    def _is_there(self) -> bool:
        """Whether there is a file. Raises StoreError where that cannot be known, or a link leads to nothing."""
        try:
            self.path.stat()
        except FileNotFoundError:
            if self.path.is_symlink():
                missing = f"{self.path} is a broken link to {store_files.real(self.path)}"
                raise StoreError(f"saved chats cannot be read: {missing}", "Restore it, or remove the link.") from None
            return False
        except OSError as error:
            reason = database.explain(error, self.path)
            raise StoreError(f"saved chats cannot be read: {reason}", "Check the folder they are stored in.") from error
        return True

    def _ask(self, question: Callable[[sqlite3.Connection], _T]) -> _T | None:
        if not self._is_there():
            return None
        asked = store_files.identity(self.path)
        try:
            with contextlib.closing(database.connect_to_read(self.path)) as db:
                db.execute("BEGIN")  # all of the answer from one moment: others write meanwhile
                return question(db) if database.is_made(db) else None
        except (sqlite3.Error, OSError) as error:
            problem = f"saved chats cannot be read: {database.explain(error, self.path)}"
            if not database.is_damage(error):
                raise StoreError(problem, "Try again in a moment.") from error
            store_files.mark_broken(store_files.real(self.path), asked)
            if self._writer.problem is not None:
                problem += f", and cannot be repaired: {self._writer.problem}"
            raise StoreError(problem, REPAIR) from error
