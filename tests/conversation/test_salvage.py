"""What a store still gives whose file lost its beginning, or all of it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from termchat.conversation.store import database, repair, store_files
from termchat.conversation.store.store import Store, StoreError
from termchat.conversation.store.writer import Writer
from termchat.conversation.tree import Conversation
from tests.conversation.stored import NOT_ROOT, ONE_CHAT, child, eventually, output, reopened, say

PAGE = 4096


def filled(path: Path, *, closed: bool = True) -> tuple[Store, dict[str, list[tuple[str, str]]]]:
    """A store with chats, and what was said in each."""
    store = Store.open(path)
    said = {}
    for number in range(4):
        chat = Conversation("be brief")
        session = store.begin(chat)
        for turn in range(2):
            say(store, session, chat, f"chat {number} turn {turn} 漢", [1, 2], [b"word "] * 60)
        said[session] = list(chat.list_turns())
    assert store.flush()
    if closed:
        store.close()
    return store, said


def told(path: Path) -> list[str]:
    store = Store.open(path)
    assert store.flush()
    notices = [f"{notice.message} {notice.hint}" for notice in store.notices()]
    store.close()
    return notices


@pytest.mark.parametrize(
    "lost", [bytes(100), Random(5).randbytes(100), Random(6).randbytes(PAGE), bytes(20)], ids=range(4)
)
def test_a_file_without_its_beginning_is_kept_aside(path: Path, lost: bytes) -> None:
    filled(path)
    with path.open("r+b") as file:
        file.write(lost)
    damaged = path.read_bytes()
    (notice,) = told(path)
    assert "Nothing could be recovered" in notice
    (aside,) = path.parent.glob("chats.db.damaged-*")
    assert aside.read_bytes() == damaged
    assert sorted(found.name for found in path.parent.iterdir()) == ["chats.db", aside.name, "chats.db.writers"]
    assert {stat.S_IMODE(found.stat().st_mode) for found in path.parent.iterdir()} == {0o600}


def test_a_record_that_is_no_text_any_more_keeps_nothing_from_being_taken_along(path: Path) -> None:
    filled(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE records SET record = X'A1FF' WHERE seq = (SELECT max(seq) FROM records)")
        db.commit()
    store_files.mark_broken(path, store_files.identify_file(path))
    (notice,) = told(path)
    assert "4 chats could be recovered" in notice


def test_a_reply_is_opened_up_to_a_damaged_record(path: Path) -> None:
    _, said = filled(path)
    session = min(said)
    with closing(sqlite3.connect(path)) as db:
        (first,) = db.execute("SELECT min(seq) FROM records WHERE session = ? AND node = 2", (session,)).fetchone()
        db.execute("UPDATE records SET record = X'A1FF' WHERE seq = ?", (first + 20,))
        db.execute("DELETE FROM replies")
        db.commit()
    chat = reopened(path, session)
    assert 0 < len(chat.nodes[2].tokens) < 60
    assert not chat.nodes[2].done
    assert next(iter(chat.list_turns())) == said[session][0]
    with closing(Store.open(path)) as store:
        assert len(list(store.records(session, 2))) == 20


def test_a_file_that_was_mended_meanwhile_is_not_set_aside_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, said = filled(path)
    connect = database.connect_to_read
    damaged = [True]

    def late(where: Path) -> sqlite3.Connection:
        """The first reader opened the damaged file, and hears of it when there is another one."""
        if damaged.pop() if damaged else False:
            copy = where.with_name("copy")
            shutil.copyfile(where, copy)
            copy.replace(where)
            error = sqlite3.DatabaseError("database disk image is malformed")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        return connect(where)

    store = Store.open(path)
    assert store.flush()
    monkeypatch.setattr(database, "connect_to_read", late)
    with pytest.raises(StoreError, match="the file is damaged"):
        store.sessions()
    assert store.close()
    store = Store.open(path)
    assert {summary.id for summary in store.sessions()} == set(said)
    assert store.close()
    assert not damaged
    assert not list(path.parent.glob("*.damaged-*"))


def test_saving_goes_on_after_a_fault_of_our_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(path)
    assert store.flush()
    connect, faults = Writer._connect, [ZeroDivisionError("a fault of ours")]

    def fails_once(self: Writer) -> sqlite3.Connection:
        if faults:
            raise faults.pop()
        return connect(self)

    monkeypatch.setattr(Writer, "_connect", fails_once)
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "are you there?", [1], [b"yes"])
    while faults:  # it is told, too, for as long as it lasts
        store.flush()
    assert eventually(store, wanted=False)
    assert store.close()
    assert list(reopened(path, session).list_turns()) == list(chat.list_turns())


def test_a_damaged_character_is_marked_and_keeps_nothing_from_being_read(path: Path) -> None:
    _, said = filled(path)
    session = min(said)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE sessions SET title = CAST(X'61FF62' AS TEXT) WHERE id = ?", (session,))
        db.execute("UPDATE nodes SET text = CAST(X'63FF64' AS TEXT) WHERE session = ? AND number = 1", (session,))
        db.commit()

    def read() -> tuple[int, str, str]:
        store = Store.open(path)
        titles = {one.id: one.title for one in store.sessions()}
        words = store.load(session).conversation.nodes[1].written
        assert store.close()
        return len(titles), titles[session], words

    assert read() == (4, "a\ufffdb", "c\ufffdd")
    store_files.mark_broken(path, store_files.identify_file(path))
    assert read() == (4, "a\ufffdb", "c\ufffdd")  # what was taken along is the same


def test_what_was_only_in_the_log_comes_along(path: Path, tmp_path: Path) -> None:
    store, said = filled(path, closed=False)
    other = tmp_path / "other" / path.name  # as the disk had it when the machine went down
    other.parent.mkdir()
    for suffix in ("", "-wal"):
        data = path.with_name(path.name + suffix).read_bytes()
        other.with_name(other.name + suffix).write_bytes(data)
    store.close()
    store_files.mark_broken(other, store_files.identify_file(other))
    store = Store.open(other)
    assert {session: list(store.load(session).conversation.list_turns()) for session in said} == said
    store.close()


def test_an_emptied_file_is_told_and_begun_anew(path: Path) -> None:
    filled(path)
    os.truncate(path, 0)
    os.utime(path, (1.7e9, 1.7e9))
    (notice,) = told(path)
    assert "damaged" in notice
    assert "Nothing could be recovered" in notice
    store = Store.open(path)
    chat = Conversation()
    say(store, store.begin(chat), chat, "again", [1], [b"a"])
    assert store.close()
    assert repair.check(path) == repair.Health(1, path.stat().st_size)
    assert told(path) == []


def test_a_file_that_another_process_is_making_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    assert told(path) == []
    assert [found.name for found in path.parent.iterdir()] == ["chats.db"]


def test_deleted_chats_are_not_counted(path: Path) -> None:
    _, said = filled(path)
    store = Store.open(path)
    store.delete(next(iter(said)))
    assert store.close()
    found = repair.check(path)
    assert found is not None
    assert (found.chats, found.problem) == (3, "")


def test_chats_of_which_only_the_titles_are_left_do_not_count(path: Path) -> None:
    filled(path)
    with closing(sqlite3.connect(path)) as db:
        (first,) = db.execute("SELECT min(pageno) FROM dbstat WHERE name = 'nodes'").fetchone()
    os.truncate(path, (first - 1) * PAGE)
    (notice,) = told(path)
    assert "Nothing could be recovered" in notice


def test_nobody_is_told_that_there_are_no_chats_while_they_are_set_aside(path: Path) -> None:
    _, said = filled(path)
    store = Store.open(path)
    assert len(store.sessions()) == 4
    store_files.set_aside(path)  # as another process does, which is ended before it goes on
    with pytest.raises(StoreError, match="is damaged"):
        store.sessions()
    assert store.close()
    store = Store.open(path)
    assert {one.id for one in store.sessions()} == said.keys()
    (notice,) = (found for found in store.notices() if "damaged" in found.message)
    assert "4 chats could be recovered" in notice.hint
    assert len(store.sessions()) == 4
    assert store.close()


def test_a_file_that_another_process_just_sets_aside_is_not_passed_over(path: Path, tmp_path: Path) -> None:
    """Its mark is there a moment before it is."""
    _, said = filled(path)
    away = path.rename(tmp_path / "away.db")
    aside = path.with_name(f"{path.name}.damaged-20260102-030405")
    store_files.mark_of(aside).touch()
    store = Store.open(path)
    assert store.sessions() == []
    away.rename(aside)
    assert store.close()
    store = Store.open(path)
    assert {one.id for one in store.sessions()} == said.keys()
    assert store.close()
    assert not store_files.mark_of(aside).exists()


def test_two_processes_never_set_aside_by_one_name(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.strftime", lambda _form: "20260102-030405")  # both in the same second
    path.parent.mkdir()
    path.touch()
    first = store_files.set_aside(path)
    first.rename(tmp_path / "away")  # as before it is moved: there is only its mark
    path.touch()
    assert store_files.set_aside(path) != first


def test_what_cannot_be_set_aside_is_told_with_the_reason_and_repaired_once_it_can() -> None:
    code = """
with path.open("r+b") as file:
    file.write(bytes(100))
path.parent.chmod(0o500)
store = Store.open(path)
try:
    print(store.sessions())
except Exception as error:
    print(error)
path.parent.chmod(0o700)
assert eventually(store, False)
print([len(store.sessions()), len(store.notices()), store.problem()])
assert store.close()
"""
    with tempfile.TemporaryDirectory() as folder:
        refused, mended = output(child(NOT_ROOT + ONE_CHAT + code, Path(folder) / "chats.db")).splitlines()
    assert refused.startswith("saved chats cannot be read: the file is damaged (")
    assert "and cannot be repaired: Permission denied (" in refused
    assert mended == "[0, 1, None]"
