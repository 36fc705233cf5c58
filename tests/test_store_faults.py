"""What befalls a store from outside: damage anywhere in it, full disks, locks, files that go, careless modes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from termchat.chat.opening import make_saver
from termchat.conversation.session import Session
from termchat.conversation.store import database, store_files, writer
from termchat.conversation.store.database import StoreError
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.records import Record
from termchat.engine.local import LocalEngine
from termchat.engine.port import Describe
from tests.made_records import user
from tests.store_chats import say, turns, until

ROOT = Path(__file__).parents[1]
PAGE = 4096
CHATS = 12


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_S", 0.1)
    monkeypatch.setattr(writer, "RETRY_S", 0.1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "termchat" / "chats.db"


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Record]]]:
    """A store of some chats, and what was said in each."""
    path = tmp_path_factory.mktemp("whole") / "chats.db"
    store = Store.open(path)
    said = {}
    for number in range(CHATS):
        chat = Conversation()
        session = store.begin(chat)
        said[session] = say(store, session, chat, f"chat {number}", 30)
        assert store.flush()
    assert store.close()
    return path, said


def pages_of(path: Path) -> dict[int, str]:
    """To which table or index each page belongs, as SQLite itself says."""
    with sqlite3.connect(path) as db:
        found = dict(db.execute("SELECT pageno, name FROM dbstat").fetchall())
    db.close()
    return found


def overwrite(path: Path, pages: list[int], random: Random) -> None:
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(random.randbytes(PAGE))


def salvaged(path: Path, said: dict[str, list[Record]]) -> tuple[Store, dict[str, float]]:
    """The next start on a damaged file: it works at once, and tells what it could keep; what share of each reply."""
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "after the damage")
    assert store.flush(60)
    for _ in range(2):  # damage that nobody came by yet is found by reading, and repaired by the next start
        shares, whole = {}, True
        for old, records in said.items():
            try:
                found = list(store.records(old, 2)) if old in {chat.id for chat in store.sessions()} else []
            except StoreError:
                found, whole = [], False
            shares[old] = len([record for record in found if record in records]) / len(records)
            assert all(record in records for record in found)
        assert store.flush(60)
        if not whole:
            assert store.close()
            store = Store.open(path)
    assert store.problem() is None
    assert list(store.load(session).conversation.list_turns()) == list(chat.list_turns())
    return store, shares


def told_where(store: Store, path: Path) -> None:
    notices = [notice for notice in store.notices() if "damaged" in notice.message]
    (aside,) = (found for found in path.parent.glob("chats.db.damaged-*") if not found.name.endswith(("-wal", "-shm")))
    assert aside.stat().st_size
    assert len(notices) == 1
    assert str(aside) in notices[0].message
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600


@pytest.mark.parametrize("seed", range(12))
def test_pages_written_over_cost_only_what_was_on_them(
    path: Path, whole: tuple[Path, dict[str, list[Record]]], seed: int
) -> None:
    random = Random(seed)
    path.parent.mkdir()
    shutil.copyfile(whole[0], path)
    leaves = [page for page, name in pages_of(path).items() if name == "records"][1:]
    hit = random.sample(leaves, 1 + seed % 3)
    overwrite(path, hit, random)
    store, shares = salvaged(path, whole[1])
    lost = sum((1 - share) * len(whole[1][session]) for session, share in shares.items())
    assert round(lost) <= 12 * len(hit)  # so many records fit on a page
    assert sum(share == 1 for share in shares.values()) >= CHATS - 2 * len(hit)
    store.close()


def cut(path: Path, random: Random) -> None:
    os.truncate(path, random.randrange(PAGE * 4, path.stat().st_size))


def emptied(path: Path, _: Random) -> None:
    os.truncate(path, 0)


def headless(path: Path, random: Random) -> None:
    with path.open("r+b") as file:
        file.write(random.randbytes(100))


@pytest.mark.parametrize("seed", range(4))
def test_a_file_cut_off_keeps_the_chats_before_the_cut(
    path: Path, whole: tuple[Path, dict[str, list[Record]]], seed: int
) -> None:
    path.parent.mkdir()
    shutil.copyfile(whole[0], path)
    size = path.stat().st_size
    cut(path, Random(seed))
    left = path.stat().st_size / size
    store, shares = salvaged(path, whole[1])
    kept = sum(shares.values()) / CHATS
    assert kept >= left - 0.25  # what was written last lies at the end, and the page that names the others may be there
    told_where(store, path)
    store.close()


@pytest.mark.parametrize("harm", [emptied, headless])
def test_a_file_without_a_beginning_never_stops_the_chat(
    path: Path, whole: tuple[Path, dict[str, list[Record]]], harm: Callable[[Path, Random], None]
) -> None:
    path.parent.mkdir()
    shutil.copyfile(whole[0], path)
    harm(path, Random(1))
    store, _ = salvaged(path, whole[1])
    if harm is headless:
        told_where(store, path)
    store.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_log_that_is_cut_or_written_over_costs_only_what_was_in_it(path: Path, seed: int) -> None:
    """The write-ahead log of a process that was killed, harmed before the next start."""
    code = """
import os, sqlite3, sys
from pathlib import Path
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from tests.store_chats import say
store = Store.open(Path(sys.argv[1]))
for number in range(4):
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, f"chat {number}")
    assert store.flush()
    print(session, flush=True)
    if number == 1:
        db = sqlite3.connect(sys.argv[1])
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
os.kill(os.getpid(), 9)
"""
    said = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, cwd=ROOT).stdout.split()
    assert len(said) == 4
    log, random = path.with_name("chats.db-wal"), Random(seed)
    assert log.stat().st_size > 20 * PAGE
    if seed % 2:
        os.truncate(log, random.randrange(1, log.stat().st_size))
    else:
        with log.open("r+b") as file:
            file.seek(random.randrange(log.stat().st_size - PAGE))
            file.write(random.randbytes(PAGE))
    store = Store.open(path)
    assert [turns(path, session) for session in said[:2]] == [["chat 0"], ["chat 1"]]
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "on")
    assert store.flush()
    assert store.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    assert turns(path, session) == ["on"]


def test_several_on_a_damaged_store_all_keep_what_they_say(
    path: Path, whole: tuple[Path, dict[str, list[Record]]]
) -> None:
    path.parent.mkdir()
    shutil.copyfile(whole[0], path)
    stores = [Store.open(path) for _ in range(3)]
    chats = [Conversation() for _ in stores]
    sessions = [store.begin(chat) for store, chat in zip(stores, chats, strict=True)]
    for store, session, chat in zip(stores, sessions, chats, strict=True):
        say(store, session, chat, "before")
        assert store.flush()
    leaves = [page for page, name in pages_of(whole[0]).items() if name == "records"]
    overwrite(path, leaves, Random(1))
    for store, session, chat in zip(stores, sessions, chats, strict=True):
        say(store, session, chat, "after")
    for store in stores:
        until(lambda store=store: store.flush(5))
        assert store.problem() is None
    for store in stores:
        assert store.close()
    assert [turns(path, session)[-1] for session in sessions] == ["after"] * 3


def test_a_start_that_is_ended_while_it_salvages_is_made_good_by_the_next(
    path: Path, whole: tuple[Path, dict[str, list[Record]]]
) -> None:
    path.parent.mkdir()
    shutil.copyfile(whole[0], path)
    os.truncate(path, path.stat().st_size - PAGE)
    code = """
import os, sys
from pathlib import Path
from termchat.conversation.store import repair
from termchat.conversation.store.store import Store
rows = repair.schema.read
def cut_short(db, table):
    if table == "records":
        os.kill(os.getpid(), 9)
    return rows(db, table)
repair.schema.read = cut_short
store = Store.open(Path(sys.argv[1]))
store.sessions()
store.flush(60)
"""
    ended = subprocess.run([sys.executable, "-c", code, path], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == -9, ended.stderr
    store, shares = salvaged(path, whole[1])
    assert sum(shares.values()) > CHATS / 2
    told_where(store, path)
    store.close()


def test_what_one_process_salvaged_another_does_not_write_again(
    path: Path, whole: tuple[Path, dict[str, list[Record]]]
) -> None:
    path.parent.mkdir()
    shutil.copyfile(whole[0], path)
    first, second = Store.open(path), Store.open(path)
    chat = Conversation()
    session = second.begin(chat)
    said = say(second, session, chat, "before")
    assert second.flush()
    store_files.mark_broken(path, store_files.identify_file(path))  # as where somebody found damage; this chat is whole
    assert first.close()
    first = Store.open(path)
    until(lambda: first.flush(5))
    say(second, session, chat, "after")
    assert second.flush()
    assert list(second.records(session, 2)) == said
    assert first.close()
    assert second.close()
    assert turns(path, session) == ["before", "after"]


# --- files that go, locks, modes -------------------------------------------------------------------------------------


def test_a_file_replaced_under_the_app_gets_this_chat_too(path: Path) -> None:
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "one")
    assert store.flush()
    other_path = path.with_name("other.db")
    other = Store.open(other_path)
    theirs = Conversation()
    their_session = other.begin(theirs)
    say(other, their_session, theirs, "theirs")
    assert other.close()
    other_path.replace(path)
    say(store, session, chat, "two")
    assert store.flush()
    assert store.close()
    assert turns(path, session) == ["one", "two"]
    assert turns(path, their_session) == ["theirs"]


def test_a_lock_held_for_long_is_told_once_and_outlasted(path: Path) -> None:
    store = Store.open(path)
    session = Session(store=store)
    chat = session.conversation
    node = user(chat, "before", [1])
    session.add_node(node)
    assert store.flush()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    say(store, session.id, chat, "meanwhile")
    until(store.problem)
    told: list[tuple[str, str]] = []
    end = time.monotonic() + 1.0  # ten tries
    while time.monotonic() < end:
        told += store.take_notices()
        time.sleep(0.05)
    assert [message for message, _ in told] == [f"not saved: another program has locked it ({path})"]
    holder.execute("ROLLBACK")
    holder.close()
    until(lambda: store.problem() is None)
    assert [message for message, _ in store.take_notices()] == ["the chat is saved again"]
    assert store.close()
    assert turns(path, session.id) == ["before", "meanwhile"]


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {found.name: stat.S_IMODE(found.stat().st_mode) for found in folder.rglob("*")}


@pytest.mark.usefixtures("no_umask")
def test_no_file_of_ours_is_open_to_others_whatever_the_umask(path: Path, tmp_path: Path) -> None:
    store = Store.open(path)
    session = Session(store=store)
    chat = session.conversation
    session.add_node(user(chat, "x", [1]))
    assert store.flush()
    make_saver(session, tmp_path / "chat.jsonl")()
    engine = LocalEngine(tmp_path / "state" / "termchat" / "termchat.log")
    engine.send(Describe([]))
    found = modes(tmp_path)
    engine.close()
    store.close()
    assert {"chats.db", "chats.db-wal", "chats.db-shm", "chat.jsonl", "termchat.log"} <= found.keys()
    own = {name: mode for name, mode in found.items() if name != "state"}
    assert {name: mode & 0o077 for name, mode in own.items()} == dict.fromkeys(own, 0)


# --- a disk that is full ---------------------------------------------------------------------------------------------

FULL = """
import errno, os, resource, sys
from pathlib import Path
from termchat.conversation.store import database, writer
from termchat.conversation.session import Session
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from tests.made_records import user
from tests.store_chats import say, turns, until
database.BUSY_S, writer.RETRY_S = 0.1, 0.1
folder = Path(sys.argv[1])
filler = folder / "filler"

def fill():
    if not os.path.ismount(folder):
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, resource.RLIM_INFINITY))
        return
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as error:
                assert error.errno == errno.ENOSPC

def make_room():
    if os.path.ismount(folder):
        filler.unlink()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)

path = folder / "termchat" / "chats.db"
store = Store.open(path)
session = Session(store=store)
chat = session.conversation
node = user(chat, "before", [1])
session.add_node(node)
assert store.flush()
fill()
told = []
for number in range(20):
    say(store, session.id, chat, f"turn {number}")
    store.flush(5)
    told += store.take_notices()
until(store.problem)
told += store.take_notices()
assert len(list(store.records(session.id, 3))) == 24  # from memory
make_room()
until(lambda: store.problem() is None)
assert store.flush(60)
told += store.take_notices()
assert store.close()
print(*[message.partition(" (")[0] for message, _ in told], sep="|")
print(turns(path, session.id) == ["before", *(f"turn {number}" for number in range(20))])
"""
MOUNT = 'mount -t tmpfs -o size=2m tmpfs "$2" 2>/dev/null; exec "$0" -c "$1" "$2"'


def test_a_full_disk_is_told_once_and_all_is_saved_when_there_is_room(tmp_path: Path) -> None:
    """On a small file system of its own where the system lets one be made, else with a limit on the size of files."""
    apart = ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        may_mount = subprocess.run([*apart, "true"], capture_output=True).returncode == 0
    except OSError:
        may_mount = False
    command = [*(apart if may_mount else []), "sh", "-c", MOUNT, sys.executable, FULL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    told, whole = done.stdout.splitlines()
    assert told in {f"not saved: {why}|the chat is saved again" for why in REASONS}
    assert whole == "True"


REASONS = ("the disk is full", "the disk rejected the data")
