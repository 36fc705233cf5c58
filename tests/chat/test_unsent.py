"""What is written and not sent stays with its chat, and with it over a kill."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
from pathlib import Path

import msgspec
import pytest

from termchat.chat.opening import fetch_session
from termchat.config.settings import load
from termchat.conversation.store import unsent_rows
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.conversation.unsent import Queued, Unsent
from tests.chat.driven_chat import Faked
from tests.conversation.stored import child
from tests.tui import fake_engine

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def chat_in(file: Path) -> tuple[Faked, Store]:
    store = Store.open(file)
    return Faked(store=store), store


def left(file: Path, session: str) -> tuple[str, list[str]]:
    """What another process finds that the chat was left with."""
    with contextlib.closing(Store.open(file)) as store:
        unsent = store.load(session).conversation.unsent
        return unsent.draft, [message.text for message in unsent.queue]


def go(it: Faked, store: Store, session: str, file: Path) -> None:
    it.chat.show_session(*fetch_session(store, session, load({}, {}, file.with_name("none.toml")), it.chat.host.loaded))
    it.pump()


def session_of(it: Faked) -> str:
    return it.chat.session.current_id


def test_a_draft_and_a_queue_stay_with_their_chat(file: Path) -> None:
    it, store = chat_in(file)
    it.replied("one", " a")
    one = session_of(it)
    it.writing("more", " b")
    it.chat.send("queued")
    it.chat.send("and another")
    it.chat.session.keep_draft("half a")
    it.chat.new()
    it.pump()
    assert (it.chat.conversation.unsent.written, list(it.chat.turns.queue)) == ("", [])
    it.replied("two", " c")
    assert [node.written for node in it.chat.conversation.nodes.values() if node.role == "user"] == ["two"]
    assert store.flush()
    assert left(file, one) == ("half a", ["queued", "and another"])
    go(it, store, one, file)
    assert (it.chat.conversation.unsent.draft, list(it.chat.turns.queue)) == ("half a", ["queued", "and another"])
    assert it.chat.phase == "idle", "what was queued then is not sent by itself now"
    it.replied("now", " d")
    said = [span.node.written for span in it.chat.conversation.find_path() if span.node.role == "user"]
    assert said == ["one", "more", "queued", "and another"], "the next message sends it"
    store.close()


def test_a_chat_without_a_message_is_one_however_often_it_is_begun(file: Path) -> None:
    it, store = chat_in(file)
    it.replied("one", " a")
    one = session_of(it)
    it.chat.new()
    it.chat.session.keep_draft("a first thought")
    go(it, store, one, file)
    assert it.chat.conversation.unsent.draft == ""
    it.chat.new()
    assert it.chat.conversation.unsent.draft == "a first thought"
    it.chat.session.keep_draft("")
    it.replied("sent", " b")
    it.chat.session.keep_draft("its own")
    it.chat.new()
    assert it.chat.conversation.unsent.draft == ""
    store.close()


def test_drafts_and_queues_are_in_no_list_and_are_no_use_of_a_chat(file: Path) -> None:
    it, store = chat_in(file)
    it.chat.session.keep_draft("nothing but a draft")
    assert store.sessions() == []
    assert store.latest() is None
    it.replied("one", " a")
    before = store.sessions()
    it.chat.session.keep_draft("fox")
    assert store.sessions() == before
    assert store.sessions(search="fox") == []
    copy = store.duplicate(session_of(it))
    assert store.load(copy).conversation.unsent.draft == ""
    store.purge(session_of(it))
    assert store.flush()
    with contextlib.closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT count(*) FROM unsent").fetchone() == (0,)
    store.close()


KILLED = """
import signal
from termchat.conversation.session import Session
from tests.chat.driven_chat import Faked
store = Store.open(path)
it = Faked(store=store)
if sys.argv[2:] != ["new"]:
    it.replied("one", " a")
    it.writing("two", " b")
    it.chat.send("queued")
it.chat.session.keep_draft("half a thought")
store.flush()
print(it.chat.session.current_id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(file: Path, *args: str) -> str:
    """A process writes in a chat and is killed; the chat's id."""
    code = f"sys.argv += {list(args)}\n" + KILLED
    out, error = child(code, file).communicate(timeout=240)
    assert not error, error
    return out.strip()


def test_both_survive_a_kill(file: Path) -> None:
    assert left(file, killed(file)) == ("half a thought", ["queued"])


def test_a_draft_in_a_chat_without_a_message_is_found_once_by_the_next_process(file: Path) -> None:
    killed(file, "new")
    with contextlib.closing(Store.open(file)) as store:
        assert store.abandoned() == "half a thought"
        assert store.abandoned() == "", "it is this process's own by now"
    with contextlib.closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT session FROM unsent").fetchall() == [(unsent_rows.OWN,)]


RUNNING = """
store = Store.open(path)
store.keep_unsent("", "theirs", ["queued"])
store.flush()
print("kept", flush=True)
sys.stdin.read()
"""


def test_what_a_running_process_writes_is_left_to_it(file: Path) -> None:
    with contextlib.closing(Store.open(file)) as store:
        process = child(RUNNING, file, stdin=subprocess.PIPE)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "kept\n"
            assert store.abandoned() == ""
        finally:
            process.kill()
            process.communicate(timeout=240)
        assert store.abandoned() == "queued\ntheirs"


def test_of_a_chat_that_is_looked_on_the_draft_is_left_to_whoever_writes_it(file: Path) -> None:
    it, store = chat_in(file)
    it.replied("one", " a")
    it.chat.session.keep_draft("theirs")
    assert store.flush()
    session = session_of(it)
    other, elsewhere = chat_in(file)
    stored = elsewhere.load(session)
    stored.read_to = (2, 2**40)  # as if its reply was being written
    stored.conversation.unsent = Unsent()
    other.chat.show_session(stored)
    assert other.chat.conversation.unsent.written == ""
    other.chat.session.keep_draft("mine")
    assert elsewhere.flush()
    assert left(file, session) == ("theirs", [])
    other.chat.copy_chat()
    assert elsewhere.flush()
    assert left(file, session_of(other)) == ("mine", [])
    store.close()
    elsewhere.close()


def test_what_a_resumed_chat_had_in_its_queue_waits_for_the_next_message() -> None:
    chat = Conversation()
    chat.unsent.queue.append(Queued("queued"))
    it = Faked(conversation=chat)
    assert (it.chat.phase, it.engine.generated) == ("idle", [])
    it.replied("now", " a")
    assert [node.written for node in chat.nodes.values() if node.role == "user"] == ["queued", "now"]


def test_a_message_on_its_way_is_kept_until_its_turn_is(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_engine, "INFO", msgspec.structs.replace(fake_engine.INFO, context=40))
    store = Store.open(file)
    it = Faked(store=store, on_full="ask")
    for number in range(4):
        it.replied(f"question {number}", *[" word"] * 5)
    it.engine.prompt = [1] * 20
    it.chat.send("too much")
    it.pump()
    assert it.chat.full is not None
    it.chat.send("behind it")
    assert store.flush()
    assert left(file, session_of(it)) == ("", ["too much", "behind it"])
    it.chat.turns.make_room("drop")
    it.pump()
    assert store.flush()
    assert left(file, session_of(it)) == ("", ["behind it"])
    it.chat.turns.make_room("stop")
    store.close()


def test_a_file_from_before_drafts_were_kept_gets_their_table(file: Path) -> None:
    with contextlib.closing(Store.open(file)) as store:
        chat = Conversation()
        store.add_node(session := store.begin(chat), chat.grow_node("user", parent=None, at=0, text="hi"))
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("DROP TABLE unsent")
    with contextlib.closing(Store.open(file)) as store:
        assert store.load(session).conversation.unsent.draft == ""
        store.keep_unsent(session, "a draft", ["queued"])
        assert store.flush()
        assert store.problem() is None
    assert left(file, session) == ("a draft", ["queued"])
