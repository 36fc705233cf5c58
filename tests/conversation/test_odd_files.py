"""What else may stand where the file of chats should: pipes, folders, devices, links."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from termchat.conversation.store import store_files, writer
from termchat.conversation.store.database import StoreError
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from tests.conversation.stored import eventually, reopened, say


def _socket(path: Path) -> None:
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)  # a longer path than a hundred characters would be refused


MADE: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": _socket,
    "a device": lambda path: path.symlink_to(os.devnull),
}


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_what_is_no_file_is_refused_at_once_and_left_as_it_is(path: Path, kind: str, suffix: str) -> None:
    path.parent.mkdir()
    if suffix:
        Store.open(path).close()
    odd = path.with_name(path.name + suffix)
    MADE[kind](odd)
    before = odd.lstat()
    with pytest.raises(StoreError, match=f"{kind}; termchat needs a regular file for its chats") as caught:
        Store.open(path)
    assert str(odd) in caught.value.message
    assert "Move it away" in caught.value.hint
    assert (odd.lstat().st_mode, odd.lstat().st_ino) == (before.st_mode, before.st_ino)
    assert not list(path.parent.glob("*damaged*"))


def test_the_program_says_so_and_leaves(tmp_path: Path) -> None:
    places = {f"XDG_{name}_HOME": str(tmp_path) for name in ("DATA", "CONFIG", "STATE", "CACHE")}
    pipe = tmp_path / "termchat" / "sessions.db"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    for words in (["list", "--json"], ["show", "last"], ["rm", "last"]):
        done = subprocess.run(
            [sys.executable, "-m", "termchat", "sessions", *words],
            env=os.environ | places, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines()[0] == f"termchat: {pipe} is a pipe; termchat needs a regular file for its chats"


def test_a_pipe_that_comes_while_the_app_runs_stops_nobody(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.1)
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "before", [1], [b"a"])
    assert store.flush()
    path.rename(path.with_name("away"))
    os.mkfifo(path)
    say(store, session, chat, "after", [1], [b"b"])
    assert eventually(store, wanted=True)
    assert "is a pipe" in str(store.problem())
    with pytest.raises(StoreError, match="is a pipe"):
        store.sessions()
    path.unlink()
    assert eventually(store, wanted=False)
    assert store.close()
    assert list(reopened(path, session).list_turns()) == list(chat.list_turns())


def test_a_link_to_a_file_stays_one_also_where_the_file_is_damaged(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "synced" / "all.db"
    file.parent.mkdir()
    path.parent.mkdir()
    path.symlink_to(file)
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "through a link", [1], [b"a"])
    assert store.close()
    assert file.stat().st_mode & 0o777 == 0o600
    store_files.mark_broken(file, store_files.identify_file(file))
    store = Store.open(path)
    assert list(store.load(session).conversation.list_turns()) == list(chat.list_turns())
    assert store.close()
    (aside,) = (one for one in file.parent.glob("all.db.damaged-*") if not one.name.endswith(("-wal", "-shm")))
    assert [notice.message for notice in store.notices()] == [
        f"The file of saved chats was damaged. It is now {aside}; a new one was started."
    ]
    assert path.readlink() == file
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_link_to_a_disk_that_is_not_there_waits_for_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.1)
    disk = tmp_path / "disk"
    path.parent.mkdir()
    path.symlink_to(disk / "chats.db")
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "hi", [1], [b"a"])
    assert eventually(store, wanted=True)
    assert not disk.exists()
    with pytest.raises(StoreError, match="is a broken link to"):
        store.sessions()
    disk.mkdir()
    assert eventually(store, wanted=False)
    assert store.close()
    assert list(reopened(path, session).list_turns()) == list(chat.list_turns())
