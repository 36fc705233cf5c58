"""The command that meets a damaged file of chats says so; the next one repairs it, and works with what could be recovered."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result

from termchat import paths
from termchat.chat.opening import load_latest
from termchat.cli import main, sessions
from termchat.cli.output import complain
from termchat.config.settings import load
from termchat.conversation.store import repair
from termchat.conversation.store.store import ModelRef, Store, StoreError
from termchat.conversation.tree import Conversation
from tests.conversation.stored import say

CHATS = 12
PAGE = 4096
KEPT = f"{CHATS} chats could be recovered."


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "sessions.db"
    store = Store.open(path)
    for number in range(CHATS):
        chat = Conversation("be brief")
        chat.title = f"chat {number}"
        session = store.begin(chat, model=ModelRef("smollm2"))
        for turn in range(2):
            say(store, session, chat, f"the fox {number} {turn}", [1, 2], [b"word "] * 40)
    assert store.flush(60)
    assert store.close()
    return path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATA", "CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    monkeypatch.chdir(tmp_path)


def damage(whole: Path, name: str, pages: int = 100) -> None:
    """A copy of the file where termchat looks for it, the first leaves of that table or index written over."""
    path = paths.store_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(whole, path)
    with closing(sqlite3.connect(path)) as db:
        question = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path LIMIT ?"
        leaves = [page for (page,) in db.execute(question, (name, pages))]
    assert leaves
    with path.open("r+b") as file:
        for page in leaves:
            file.seek((page - 1) * PAGE)
            file.write(Random(page).randbytes(PAGE))


def run(*words: str) -> Result:
    """A command; where it meets damage, it once more."""
    done = CliRunner().invoke(main, ["sessions", *words])
    if done.exit_code and "the file is damaged" in done.stderr:
        assert done.stdout == ""
        assert "Run termchat again: it repairs the file when it opens it." in done.stderr
        done = CliRunner().invoke(main, ["sessions", *words])
    return done


def told(done: Result) -> str:
    """What a person was told of the damage; all must have gone well."""
    assert done.exit_code == 0, done.stderr
    found = paths.store_file().parent.glob("*.damaged-*")
    (aside,) = (path for path in found if not path.name.endswith(("-wal", "-shm")))
    lines = done.stderr.splitlines()
    at = lines.index(f"termchat: The file of saved chats was damaged. It is now {aside}; a new one was started.")
    return lines[at + 1].strip()


def listed(done: Result) -> list[str]:
    assert done.stdout.isascii()
    return [one["title"] for one in json.loads(done.stdout)["sessions"]]


@pytest.mark.parametrize("name", ["sessions_by_use", "tallies"])
def test_a_list_has_all_that_was_kept(whole: Path, name: str) -> None:
    damage(whole, name)
    done = run("list", "--json")
    assert told(done) == KEPT
    assert sorted(listed(done)) == sorted(f"chat {number}" for number in range(CHATS))


@pytest.mark.parametrize("name", ["texts", "found_data", "sqlite_autoindex_sessions_1"])
def test_a_search_finds_all_that_was_kept(whole: Path, name: str) -> None:
    damage(whole, name)
    done = run("search", "fox", "--json")
    assert told(done) == KEPT
    assert len(listed(done)) == CHATS


@pytest.mark.parametrize("name", ["replies", "sqlite_autoindex_nodes_1"])
def test_a_chat_is_shown(whole: Path, name: str) -> None:
    damage(whole, name)
    done = run("show", "last", "--json")
    assert told(done) == KEPT
    said = json.loads(done.stdout)
    assert [turn["role"] for turn in said["turns"]] == ["user", "assistant"] * 2
    assert said["tokens"] == 80


@pytest.mark.parametrize("where", ["-", "chat.jsonl"])
def test_an_export_is_whole_and_can_be_taken_in_again(whole: Path, where: str) -> None:
    damage(whole, "records", 1)  # the beginning of the first reply
    first = json.loads(run("list", "--json").stdout)["sessions"][-1]["id"]
    done = run("export", first, "-o", where)
    assert told(done) == KEPT
    if where == "-":
        Path("chat.jsonl").write_text(done.stdout)
    lines = [json.loads(line) for line in Path("chat.jsonl").read_text().splitlines()]
    assert 0 < sum(line["record"] == "token" for line in lines) < 80
    again = run("import", "chat.jsonl")
    assert again.exit_code == 0, again.stderr
    taken = run("export", again.stdout.strip())
    assert [json.loads(line) for line in taken.stdout.splitlines()][1:] == lines[1:]


def test_a_chat_is_removed_and_another_taken_in(whole: Path) -> None:
    damage(whole, "sqlite_autoindex_sessions_1")
    assert told(run("rm", "last")) == KEPT
    assert len(listed(run("list", "--json"))) == CHATS - 1
    damage(whole, "sqlite_autoindex_sessions_1")
    for old in paths.store_file().parent.glob("*.damaged-*"):
        old.unlink()
    Path("one.json").write_text(json.dumps({"messages": [{"role": "user", "content": "hello bear"}]}))
    done = run("import", "one.json")
    assert told(done) == KEPT
    assert listed(run("search", "bear", "--json")) == ["hello bear"]
    assert len(done.stdout.split()) == 1


def test_chats_whose_own_rows_are_lost_are_named_after_their_words(whole: Path) -> None:
    damage(whole, "sessions")
    done = run("list", "--json")
    assert told(done) == KEPT
    assert sorted(listed(done)) == sorted(f"the fox {number} 0" for number in range(CHATS))
    for one in json.loads(done.stdout)["sessions"]:
        shown = json.loads(run("show", one["id"], "--json").stdout)
        assert (shown["tokens"], len(shown["turns"])) == (80, 4)
        assert (
            one["created"]
            == one["updated"]
            == datetime.strptime(one["id"][:15], "%Y%m%d-%H%M%S").astimezone(UTC).isoformat()
        )


def test_what_takes_long_is_told(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damage(whole, "sessions_by_use")
    told_so = threading.Event()
    rescue = repair.rescue_rows

    def patient(damaged: Path, db: sqlite3.Connection) -> int | None:
        assert told_so.wait(60)
        return rescue(damaged, db)

    def tell(message: str, hint: str = "") -> None:
        complain(message, hint)
        if "recovering" in message:
            told_so.set()

    monkeypatch.setattr(sessions, "_SILENT_S", 0.05)
    monkeypatch.setattr(sessions, "complain", tell)
    monkeypatch.setattr(repair, "rescue_rows", patient)
    done = run("list", "--json")
    assert told(done) == KEPT
    assert len(listed(done)) == CHATS


def test_the_latest_chat_is_reopened(whole: Path) -> None:
    damage(whole, "replies")
    store = Store.open(paths.store_file())
    with pytest.raises(StoreError, match="the file is damaged"):
        load_latest(store, load())
    assert store.close()
    store = Store.open(paths.store_file())
    found = load_latest(store, load())
    assert found is not None
    assert len(found.conversation.nodes) == 4
    assert [notice.hint for notice in store.notices()] == [KEPT]
    assert store.close()
