"""Files of other versions: older ones are brought up to date and lose nothing, newer ones are left alone."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from termchat.conversation.store import database, repair, store_files, writer
from termchat.conversation.store.schema import COLUMNS, VERSION
from termchat.conversation.store.store import Store, StoreError
from termchat.conversation.tree import Conversation
from termchat.decoding.records import Record
from termchat.decoding.samplers import Tuning
from tests.conversation.older_stores import TABLES, to_version
from tests.conversation.stored import child, eventually, output, reopened, same, say

each_older = pytest.mark.parametrize("version", sorted(TABLES))


def old_file(path: Path, version: int = 1) -> tuple[str, Conversation, list[Record]]:
    """A file of an older version, with a chat, what it was, and the records of its reply."""
    store = Store.open(path)
    chat = Conversation("sys")
    chat.title = "old"
    session = store.begin(chat, tuning=Tuning(top_k=3))
    said = say(store, session, chat, "hi", [1, 2], [b"a"] * 29 + [b" walrus"])
    store.close()
    to_version(path, version)
    return session, chat, said


def definitions(path: Path) -> dict[str, str]:
    """All that the file is made of, by name; of columns their names, in order."""
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT name, type, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
        columns = {table: str([row[1:] for row in db.execute(f"PRAGMA table_info({table})")]) for table in COLUMNS}
    return {name: sql for name, kind, sql in found} | columns


def columns_of(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as db:
        return len(db.execute(f"PRAGMA table_info({table})").fetchall())


def test_every_earlier_version_is_tested() -> None:
    assert sorted(TABLES) == list(range(1, VERSION))


def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version=99")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=rf"newer termchat \(schema 99; this one knows {VERSION}\)") as caught:
        Store.open(path)
    assert caught.value.hint
    assert path.read_bytes() == before


@each_older
def test_an_older_file_is_kept_and_brought_up_to_date(path: Path, tmp_path: Path, version: int) -> None:
    Store.open(tmp_path / "new.db").close()
    session, chat, said = old_file(path, version)
    old = definitions(path)
    with closing(sqlite3.connect(path)) as db:
        dumped = list(db.iterdump())
    store = Store.open(path)
    stored = store.load(session)
    assert all(same(stored.conversation.nodes[number], chat.nodes[number]) for number in chat.nodes)
    assert stored.info.tuning.top_k == 3
    assert list(store.records(session, 2)) == said
    (listed,) = store.sessions()
    assert (listed.id, listed.title, listed.turns, listed.tokens) == (session, "old", 1, 30)
    (found,) = store.sessions(search="walr")
    assert (found.id, "\x02walrus\x03" in found.snippet) == (session, True)
    store.update_node(session, 2, name="kept")
    say(store, session, chat, "more", [3], [b"b"])
    assert store.load(session).conversation.nodes[2].name == "kept"
    (notice,) = store.notices()
    kept = path.with_name(f"chats.db.schema-{version}")
    assert str(kept) in notice.hint
    store.close()
    assert definitions(path) == definitions(tmp_path / "new.db")
    assert sorted(found.name for found in path.parent.iterdir()) == ["chats.db", kept.name]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert definitions(kept) == old
    with closing(sqlite3.connect(kept)) as db:
        assert list(db.iterdump()) == dumped
        assert db.execute("PRAGMA user_version").fetchone() == (version,)
    again = Store.open(path)
    assert again.flush()
    assert again.notices() == []
    again.close()


@pytest.mark.parametrize("damage", ["", "UPDATE found_data SET block = x'00' WHERE id > 10"], ids=["whole", "broken"])
def test_the_index_of_an_older_file_is_made_anew(path: Path, damage: str) -> None:
    session, _, _ = old_file(path, 4)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE sessions SET title = '旅行の計画'")
        db.execute("INSERT INTO tallies (number, session) VALUES (1, ?)", (session,))
        db.execute("INSERT INTO texts VALUES (1 << 32, '旅行の計画', 0, 0, 0), ((1 << 32) + 1, 'hi', 1, 0, 0)")
        db.executescript(damage)
    store = Store.open(path)
    (found,) = store.sessions(search="計画")
    assert (found.id, found.title, found.turns, found.tokens) == (session, "旅行の計画", 1, 30)
    store.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO found (found, rank) VALUES ('integrity-check', 1)")


def test_an_upgrade_that_fails_leaves_the_old_file_and_is_tried_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.2)
    session, chat, _ = old_file(path)
    kept = path.with_name("chats.db.schema-1")
    kept.mkdir()
    store = Store.open(path)
    assert eventually(store, True)
    assert list(store.load(session).conversation.turns()) == list(chat.turns())
    assert [(one.id, one.turns) for one in store.sessions()] == [(session, 1)]
    assert [one.snippet for one in store.sessions(search="OL")] == ["\x02old\x03"]
    assert store.sessions(search="walrus") == []
    assert store.sessions(deleted=True) == []
    assert store.preview(session) == list(chat.turns())
    assert columns_of(path, "nodes") == 8
    assert sorted(found.name for found in path.parent.iterdir() if "chats.db-" not in found.name) == [
        "chats.db",
        "chats.db.schema-1",
    ]
    say(store, session, chat, "meanwhile", [3], [b"b"])
    kept.rmdir()
    assert eventually(store, False)
    assert store.close()
    assert columns_of(path, "nodes") == 11
    assert list(reopened(path, session).turns()) == list(chat.turns())


@each_older
def test_a_damaged_older_file_is_rescued(path: Path, version: int) -> None:
    session, chat, _ = old_file(path, version)
    damaged = store_files.set_aside(path)
    db = database.connect(path)
    assert repair.rescue(damaged, db) == 1
    db.close()
    assert list(reopened(path, session).turns()) == list(chat.turns())
    store = Store.open(path)
    assert [(one.id, one.tokens) for one in store.sessions(search="walrus")] == [(session, 30)]
    store.close()


@each_older
def test_processes_that_upgrade_together_do_it_once(path: Path, version: int) -> None:
    session, _, _ = old_file(path, version)
    code = """
store = Store.open(path)
store.flush()
print(len(store.notices()), len(store.load(store.latest()).conversation.nodes[2].ids), store.problem())
store.close()
"""
    said = [output(process).split() for process in [child(code, path) for _ in range(3)]]
    assert sorted(line[0] for line in said) == ["0", "0", "1"]
    assert [line[1:] for line in said] == [["30", "None"]] * 3
    assert reopened(path, session).leaf == 2
