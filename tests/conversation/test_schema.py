"""Files of other versions are refused, left as they are, and the app goes on without them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from termchat.conversation.store.schema import APPLICATION_ID, VERSION
from termchat.conversation.store.store import Store, StoreError
from termchat.conversation.tree import Conversation
from tests.conversation.stored import child, output, say


def refused(path: Path, message: str) -> str:
    """The hint that goes with the refusal."""
    before = path.read_bytes()
    with pytest.raises(StoreError, match=message) as caught:
        Store.open(path)
    assert str(path) in caught.value.message
    assert path.read_bytes() == before
    assert not list(path.parent.glob("*damaged*"))
    return caught.value.hint


def test_a_file_says_what_it_is(path: Path) -> None:
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert db.execute("PRAGMA user_version").fetchone() == (VERSION,) == (1,)


def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version=99")
    assert "Update termchat" in refused(path, rf"newer termchat \(schema 99; this one knows {VERSION}\)")


@pytest.mark.parametrize("version", range(1, 8))
def test_a_development_version_is_refused_with_a_way_out(path: Path, version: int) -> None:
    store = Store.open(path)
    chat = Conversation()
    say(store, store.begin(chat), chat, "hi", [1], [b"a"])
    store.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA application_id=0")
        db.execute(f"PRAGMA user_version={version}")
    hint = refused(path, rf"development version of termchat \(schema {version}\)")
    assert "Export it with the version that wrote it: `termchat sessions export …`, then move the file away." in hint


def test_an_sqlite_without_trigrams_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 33, 0))
    with pytest.raises(StoreError, match="too old to save chats") as caught:
        Store.open(path)
    assert caught.value.hint == "Run termchat with a newer Python."


def test_processes_that_make_a_file_together_make_one(path: Path) -> None:
    code = """
store = Store.open(path)
chat = Conversation()
say(store, store.begin(chat), chat, "hi", [1], [b"a"])
print(store.close(), store.problem(), len(store.notices()))
"""
    said = [output(process).split() for process in [child(code, path) for _ in range(4)]]
    assert said == [["True", "None", "0"]] * 4
    store = Store.open(path)
    assert len(store.sessions()) == 4
    store.close()
