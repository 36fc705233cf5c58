"""Who writes a chat at this moment, between processes that share a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from termchat.conversation.session import INTERRUPTED, LEFT
from termchat.conversation.store.claims import Claims
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from tests.made_records import reply, stream, user

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")

WRITER = """
import sys
from pathlib import Path
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from tests.made_records import finished, reply, stream, user

store, chat = Store.open(Path(sys.argv[1])), Conversation()
session = store.begin(chat)

def begin(text):
    store.add_node(session, user(chat, text, [1, 2]))
    node = reply(chat)
    store.add_node(session, node)
    add(node, stream(chat.ids_before(node.number), [b"word "] * 3, reason=None))
    return node

def add(node, records):
    for record in records:
        node.add(record)
        store.add_record(session, node.number, record)
    assert store.flush()
    print(session, flush=True)

node = begin("one")
input()
add(node, [finished("length")])
input()
begin("two")
input()
"""


class Writing:
    """Another process that writes a reply of three tokens, ends it, then begins another, each when it is told to."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.session = self._said()

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._said() == self.session

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def writing(path: Path) -> Iterator[Writing]:
    made = Writing(path)
    try:
        yield made
    finally:
        made.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = Store.open(path)
    yield store
    store.close()


def test_a_reply_that_another_process_writes_is_not_interrupted_and_not_ours_to_write(store: Store, path: Path) -> None:
    with writing(path) as other:
        stored = store.load(other.session)
        assert (stored.is_own, stored.unfinished, stored.growing) == (False, (2,), {2})
        assert stored.read_to is not None
        assert stored.read_to[0] == 2
        assert [text for _, text in stored.conversation.list_turns()] == ["one", "word word word "]
        other.go_on()
        assert store.load(other.session).is_own
        copy = store.duplicate(other.session, stored.conversation, stored.read_to)
        copied = store.load(copy).conversation
        assert (list(copied.list_turns()), copied.nodes[2].done) == (list(stored.conversation.list_turns()), False)
        other.go_on()
        again = store.load(other.session)
        assert (again.is_own, again.growing, again.conversation.leaf) == (False, {4}, 4)


def test_when_that_process_is_killed_the_reply_is_interrupted(store: Store, path: Path) -> None:
    with writing(path) as other:
        assert not store.load(other.session).is_own
        other.kill()
        stored = store.load(other.session)
        assert (stored.unfinished, stored.is_own) == ((2,), True)


def test_an_old_reply_without_an_end_is_interrupted_while_a_newer_one_is_written(path: Path) -> None:
    theirs, ours = Store.open(path), Store.open(path)
    ours._claims.is_elsewhere = lambda _: True  # type: ignore[method-assign] # a lock tells processes apart, not stores
    chat = Conversation()
    session = theirs.begin(chat)

    def begin(text: str) -> None:
        theirs.add_node(session, user(chat, text, [1, 2]))
        node = reply(chat)
        theirs.add_node(session, node)
        for record in stream(chat.ids_before(node.number), [b"word "], reason=None):
            node.add(record)
            theirs.add_record(session, node.number, record)

    begin("one")
    theirs.add_node(session, user(chat, "two", [3]))
    assert theirs.flush()
    stored = ours.load(session)
    assert (stored.unfinished, stored.growing, stored.is_own) == ((2,), set(), True)
    begin("three")
    assert theirs.flush()
    stored = ours.load(session)
    assert (stored.unfinished, stored.growing, stored.is_own) == ((2, 5), {5}, False)
    stored.close_interrupted()
    assert [stored.conversation.nodes[number].failed for number in (2, 5)] == [INTERRUPTED, LEFT]
    theirs.close()
    ours.close()


def test_what_this_process_writes_is_nobody_elses(path: Path) -> None:
    one = Claims(path)
    one.hold_claim("a", 1)
    one.hold_claim("a", 1)
    assert not one.is_elsewhere("a")
    one.let_go("a", 1)
    one.let_go("a", 1)
    one.close()


def test_where_nothing_can_be_locked_nobody_is_known_to_write(tmp_path: Path) -> None:
    claims = Claims(tmp_path / "missing" / "sessions.db")
    claims.hold_claim("a", 1)
    assert not claims.is_elsewhere("a")
    (tmp_path / "sessions.db.writers").mkdir()
    claims = Claims(tmp_path / "sessions.db")
    claims.hold_claim("a", 1)
    assert not claims.is_elsewhere("a")
