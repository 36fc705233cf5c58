"""The store: what goes in comes out, whatever happens to the process, the disk or the file."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from termchat.conversation.session import Breakpoint, View
from termchat.conversation.store import database, writer
from termchat.conversation.store.store import ModelRef, Store, StoreError
from termchat.conversation.tree import Conversation, Place
from termchat.decoding.conditions import Every, Text, Threshold
from termchat.decoding.records import Failed, Record, Start, Token
from termchat.decoding.samplers import Tuning
from tests.conversation.stored import NOT_ROOT, ONE_CHAT, child, eventually, output, reopened, same, say
from tests.made_records import MODEL, finished, reply, settings, start, stream, token, user

# --- round trips -----------------------------------------------------------------------------------------------------


def test_a_chat_comes_back_as_it_was(store: Store, path: Path) -> None:
    chat = Conversation("Be brief.\nÄ€😀")
    chat.title = "fox and bear"
    model = ModelRef("smollm2", "/models/a.gguf", MODEL)
    session = store.begin(chat, tuning=Tuning(temperature=1.2, stop=("\n6.",), seed=7), model=model)
    said = {2: say(store, session, chat, "hello", [1, 2, 3], [b"Once", b" \xe2\x82", b"\xac", b""])}
    said[4] = say(store, session, chat, "and?\ttwo\x1b", [4, 5], [b"b"] * 30)
    chat.grow_node("assistant", parent=3, at=2)
    said[5] = stream(chat.ids_before(5), [b"x", b"y"], reason=None, turned={1: settings(1, temperature=1.5)})
    said[5].append(Failed("engine", "the engine died", "restart it"))
    store.add_node(session, chat.nodes[5])
    for record in said[5]:
        chat.add(chat.nodes[5], record)
        store.add_record(session, 5, record)
    assert store.close()

    again = Store.open(path)
    stored = again.load(session)
    assert stored.tuning == Tuning(temperature=1.2, stop=("\n6.",), seed=7)
    assert stored.model == model
    assert stored.unfinished == ()
    loaded = stored.conversation
    assert (loaded.title, loaded.system, loaded.raw, loaded.leaf) == (chat.title, chat.system, False, 5)
    assert loaded.nodes.keys() == chat.nodes.keys()
    assert all(same(loaded.nodes[number], chat.nodes[number]) for number in chat.nodes)
    assert loaded.list_ids() == chat.list_ids()
    assert {number: list(again.records(session, number)) for number in said} == said
    assert list(again.records(session, 1)) == []
    again.close()


texts = st.text(max_size=12)
floats = st.floats(allow_nan=False)
small = st.integers(-(2**31), 2**31 - 1)
one_of_the_records = st.one_of(
    st.builds(start, st.lists(small, max_size=6), st.integers(0, 2**53 - 1)),
    st.builds(lambda number, stops, t: settings(number, stops=stops, temperature=t), small, st.tuples(texts), floats),
    st.builds(lambda step, piece, text: token(step, piece, text), st.integers(0, 2**30), st.binary(max_size=40), texts),
    st.builds(lambda detail, held: finished("stop", detail, held), texts, texts),
    st.builds(Failed, texts, texts, texts),
)


@hypothesis_settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(one_of_the_records, max_size=12), st.lists(one_of_the_records, max_size=12))
def test_any_records_come_back_in_order_and_apart(path: Path, one: list[Record], other: list[Record]) -> None:
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, user(chat, "x", [1, 2]))
    nodes = [chat.grow_node("assistant", parent=1, at=2) for _ in range(2)]
    for node in nodes:
        store.add_node(session, node)
    for i in range(max(len(one), len(other))):
        for node, records in zip(nodes, (one, other), strict=True):
            if i < len(records):
                store.add_record(session, node.number, records[i])
    assert [list(store.records(session, node.number)) for node in nodes] == [one, other]
    assert store.flush()
    assert [list(store.records(session, node.number)) for node in nodes] == [one, other]
    assert store.close()


def test_records_are_kept_as_they_travel_and_prompts_are_not_repeated(store: Store, path: Path) -> None:
    chat = Conversation()
    session = store.begin(chat)
    prompt = list(range(5000))
    said = say(store, session, chat, "long", prompt, [b"a"])
    more = [say(store, session, chat, "more", [9], [b"b"]) for _ in range(5)]
    assert store.flush()
    with sqlite3.connect(path) as db:
        blobs = [blob for (blob,) in db.execute("SELECT record FROM records WHERE node = 2 ORDER BY seq")]
        (size,) = db.execute("SELECT sum(length(record)) FROM records").fetchone()
    assert blobs[1:] == [msgspec.msgpack.encode(record) for record in said[1:]]
    assert size < 6 * 3000
    assert [list(store.records(session, 2 * i + 4)) for i in range(5)] == more


def test_a_start_whose_prompt_is_not_the_path_keeps_its_own(store: Store, path: Path) -> None:
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, user(chat, "x", [1, 2]))
    store.add_node(session, reply(chat))
    store.add_record(session, 2, start([9, 9, 9]))
    store.close()
    found = reopened(path, session).nodes[2].start
    assert isinstance(found, Start)
    assert found.prompt_ids == [9, 9, 9]


def test_a_whole_prompt_comes_back(store: Store, path: Path) -> None:
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "x", [1, 2], [b"a"])
    turn = user(chat, "y", [7, 8])
    turn.whole = True
    store.add_node(session, turn)
    store.close()
    assert reopened(path, session).list_ids() == [7, 8]


def test_texts_that_are_no_unicode_are_saved_with_a_mark(store: Store) -> None:
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, user(chat, "a\ud800b", [1]))
    store.add_node(session, reply(chat))
    store.add_record(session, 2, Failed("model", "no such file: \udcff.gguf"))
    assert store.flush()
    loaded = store.load(session).conversation
    assert loaded.nodes[1].written == "a\ufffdb"
    assert loaded.nodes[2].failed == Failed("model", "no such file: \ufffd.gguf")


def test_chats_are_listed_newest_first_and_empty_ones_not(store: Store) -> None:
    assert store.latest() is None
    ids = []
    for title in ("one", "two", "three"):
        chat = Conversation()
        chat.title = title
        ids.append(store.begin(chat, model=ModelRef(title)))
        say(store, ids[-1], chat, "hi", [1], [b"a"])
    store.begin(Conversation())
    store.rename(ids[0], "first")
    store.update(ids[0], model=ModelRef("m"))
    found = store.sessions()
    assert [(chat.id, chat.title, chat.model, chat.turns) for chat in found] == [
        (ids[0], "first", "m", 1),
        (ids[2], "three", "three", 1),
        (ids[1], "two", "two", 1),
    ]
    assert abs(found[0].updated - time.time()) < 60
    assert [chat.id for chat in store.sessions(1)] == [ids[0]]
    assert store.latest() == ids[0]


def test_the_leaf_can_be_moved(store: Store, path: Path) -> None:
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "hi", [1], [b"a"])
    say(store, session, chat, "more", [1], [b"b"])
    store.update(session, leaf=2, tuning=Tuning(top_k=3))
    store.close()
    again = Store.open(path)
    assert again.load(session).conversation.leaf == 2
    assert again.load(session).tuning.top_k == 3
    again.close()


def test_names_deletions_breakpoints_and_the_view_come_back(store: Store, path: Path) -> None:
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "hi", [1], [b"a", b"b"])
    fork = chat.grow_node("assistant", parent=2, at=1)
    fork.name = "other\ud800way"
    store.add_node(session, fork)
    gone = chat.grow_node("assistant", parent=1, at=1)
    store.add_node(session, gone)
    store.update_node(session, 2, name="the first")
    store.update_node(session, gone.number, deleted=True)
    points = (Breakpoint(Threshold("entropy", ">", 3.5)), Breakpoint(Text("fox", regex=True, action="stop"), False),
              Breakpoint(Every(20)))  # fmt: skip
    store.update(session, breakpoints=points, view=View(Place(2, 1), "entropy"))
    store.rename(session, "named")
    store.close()
    again = Store.open(path)
    stored = again.load(session)
    nodes = stored.conversation.nodes
    assert [(node.name, node.deleted) for node in nodes.values()] == [
        ("", False),
        ("the first", False),
        ("other\ufffdway", False),
        ("", True),
    ]
    assert stored.conversation.leaf == 3  # it was 4, which nobody sees any more
    assert (stored.breakpoints, stored.view) == (points, View(Place(2, 1), "entropy"))
    again.update_node(session, 4, deleted=False)
    again.update(session, leaf=4, breakpoints=())
    assert again.load(session).conversation.leaf == 4
    assert again.load(session).breakpoints == ()
    assert again.load(session).view.look == "entropy"
    again.close()


def test_breakpoints_of_a_newer_termchat_are_left_out(store: Store, path: Path) -> None:
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "hi", [1], [b"a"])
    store.close()
    with sqlite3.connect(path) as db:
        db.execute(
            """UPDATE sessions SET breakpoints = '[{"condition":{"condition":"mood"}}]', view = '{"cursor":7}'"""
        )
    db.close()
    again = Store.open(path)
    assert (again.load(session).breakpoints, again.load(session).view) == ((), View())
    again.close()


# --- one token -------------------------------------------------------------------------------------------------------


def every_token(store: Store, session: str, number: int, count: int) -> list[Token | None]:
    return [store.token(session, number, index) for index in range(count)]


def test_one_token_is_found_among_settings_and_other_chats_written_or_not(path: Path) -> None:
    store, other = Store.open(path), Store.open(path)
    chats = [Conversation(), Conversation()]
    sessions = [store.begin(chats[0]), other.begin(chats[1])]
    recorded: list[list[Record]] = [[], []]
    for opened, session, chat in zip((store, other), sessions, chats, strict=True):
        opened.add_node(session, user(chat, "hi", [1]))
        opened.add_node(session, reply(chat))
    for i in range(120):
        for opened, session, records in zip((store, other), sessions, recorded, strict=True):
            made = [token(7 + i, b"a", "a", token_id=i)]
            if i % 11 == 3:
                made = [settings(i), settings(i + 1), *made]  # type: ignore[list-item]
            for record in made:
                opened.add_record(session, 2, record)
            records += made
        if i in (10, 11, 40, 90):
            store.flush()
            other.flush()
    for opened, session, records in zip((store, other), sessions, recorded, strict=True):
        expected = [record for record in records if isinstance(record, Token)]
        assert every_token(opened, session, 2, 120) == expected
        assert [opened.token(session, *place) for place in ((2, 120), (2, -1), (1, 0), (9, 0))] == [None] * 4
        assert opened.flush()
        assert every_token(opened, session, 2, 120) == expected
        assert opened.close()


def test_one_token_of_a_long_reply_takes_a_small_part_of_the_time_for_all(store: Store) -> None:
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, user(chat, "hi", [1]))
    store.add_node(session, reply(chat))
    for step in range(20_000):
        if step % 500 == 0:
            store.add_record(session, 2, settings(step))
        store.add_record(session, 2, token(step, b"a", "a"))
    assert store.flush(60)
    times = []
    for index in range(0, 20_000, 199):
        begun = time.perf_counter()
        found = store.token(session, 2, index)
        times.append(time.perf_counter() - begun)
        assert found is not None
        assert found.step == index
    begun = time.perf_counter()
    assert len(list(store.records(session, 2))) == 20_040
    whole = time.perf_counter() - begun
    assert sorted(times)[len(times) // 2] < whole / 20  # a hundredth or less, where nothing else keeps the machine busy


def test_one_token_is_read_while_the_disk_takes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_S", 60.0)
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    said = say(store, session, chat, "one", [1], [b"a"] * 4)
    assert store.flush()
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    more = say(store, session, chat, "two", [2], [b"b"] * 4)
    begun = time.monotonic()
    for number, records in ((2, said), (4, more)):
        assert every_token(store, session, number, 4) == [r for r in records if isinstance(r, Token)]
    assert time.monotonic() - begun < 30  # whoever waited for the lock would wait for a minute
    lock.execute("ROLLBACK")
    lock.close()
    store.close()


def test_a_chat_taken_further_by_another_process_gives_its_own_tokens(path: Path) -> None:
    one, two = Store.open(path), Store.open(path)
    chat = Conversation()
    session = one.begin(chat)
    say(one, session, chat, "hi", [1], [b"a"])
    one.flush()
    again = two.load(session).conversation
    say(one, session, chat, "from one", [2], [b"b"])
    one.flush()
    said = say(two, session, again, "from two", [3], [b"c"] * 2)
    expected = [record for record in said if isinstance(record, Token)]
    assert every_token(two, session, 4, 2) == expected
    assert two.flush()
    assert every_token(two, session, 4, 2) == expected
    one.close()
    two.close()


def test_a_chat_that_is_not_there_is_an_error(store: Store) -> None:
    with pytest.raises(StoreError, match="no saved chat nope"):
        store.load("nope")


# --- the file --------------------------------------------------------------------------------------------------------


def test_nobody_else_may_read_the_chats(store: Store, path: Path) -> None:
    session = store.begin(Conversation())
    assert store.flush()
    assert session
    modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in path.parent.iterdir()}
    assert modes == dict.fromkeys(("chats.db", "chats.db-wal", "chats.db-shm"), 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("version", [0, 3])
def test_another_programs_database_is_refused_and_left_alone(path: Path, version: int) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (x)")
        db.execute(f"PRAGMA user_version = {version}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Store.open(path)
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_damaged_file_is_set_aside_and_a_new_one_started(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this was a database once" * 400)
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "hi", [1], [b"a"])
    assert store.flush()
    (aside,) = path.parent.glob("chats.db.damaged-*")
    assert aside.read_bytes() == b"this was a database once" * 400
    (notice,) = store.notices()
    assert "damaged" in notice.message
    assert str(aside) in notice.message
    assert store.notices() == []
    assert store.problem() is None
    assert store.latest() == session
    store.close()


def test_what_can_be_read_of_a_damaged_file_is_kept_by_the_next_start(path: Path) -> None:
    store = Store.open(path)
    kept, lost = Conversation(), Conversation()
    kept_id, lost_id = store.begin(kept), store.begin(lost)
    say(store, kept_id, kept, "first", [1], [b"a"] * 20)
    say(store, lost_id, lost, "last", [2], [b"b"] * 400)
    store.close()
    size, page = path.stat().st_size, 4096
    with path.open("r+b") as file:
        file.seek(size * 2 // 3 // page * page)
        file.write(b"\xa5" * page * 12)

    store = Store.open(path)
    loaded = store.load(kept_id).conversation  # its pages are whole
    for text in ("go on", "and on"):
        say(store, kept_id, loaded, text, [3], [b"c"] * 300)
        store.flush()
    with pytest.raises(StoreError, match="the file is damaged"):
        list(store.records(lost_id, 2))
    say(store, kept_id, loaded, "meanwhile", [3], [b"c"] * 300)
    assert store.close()
    store = Store.open(path)
    assert 0 < len(list(store.records(lost_id, 2))) < 400
    (notice,) = store.notices()
    assert "damaged" in notice.message
    loaded = store.load(kept_id).conversation
    say(store, kept_id, loaded, "still here", [4], [b"d"])
    assert store.close()
    again = reopened(path, kept_id)
    texts = [text for role, text in again.list_turns() if role == "user"]
    assert texts[0] == "first"
    assert all(again.nodes[2].tokens.ids[i] == 1000 + i for i in range(20))


def test_a_reply_with_a_hole_ends_the_chat_there(store: Store, path: Path) -> None:
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "one", [1], [b"a"] * 5)
    say(store, session, chat, "two", [2], [b"b"])
    store.close()
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM records WHERE node = 2 AND seq > 6")
    db.close()
    loaded = reopened(path, session)
    assert (sorted(loaded.nodes), loaded.leaf) == ([1, 2], 2)


def test_a_reply_with_a_hole_in_its_middle_ends_before_it(store: Store, path: Path) -> None:
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "one", [1], [b"a"] * 5)
    store.close()
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM records WHERE node = 2 AND seq = 6")
    db.close()
    loaded = reopened(path, session)
    assert list(loaded.nodes[2].ids) == [1000, 1001]
    assert not loaded.nodes[2].done


def test_a_file_removed_under_the_app_is_written_again(path: Path) -> None:
    store = Store.open(path)
    other, chat = Conversation(), Conversation()
    old = store.begin(other)
    say(store, old, other, "gone", [1], [b"a"])
    store.close()
    store = Store.open(path)
    session = store.begin(chat)
    say(store, session, chat, "one", [1], [b"a"] * 5)
    assert store.flush()
    for found in path.parent.iterdir():
        found.unlink()
    say(store, session, chat, "two", [2], [b"b"])
    assert store.flush()
    (notice,) = store.notices()
    assert "removed" in notice.message
    store.close()
    assert list(reopened(path, session).list_turns()) == list(chat.list_turns())
    again = Store.open(path)
    assert [chat.id for chat in again.sessions()] == [session]
    again.close()


# --- trouble with the disk -------------------------------------------------------------------------------------------


def test_a_locked_file_is_waited_for_and_nothing_blocks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_S", 0.1)
    monkeypatch.setattr(writer, "RETRY_S", 0.2)
    store = Store.open(path)
    store.flush()
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    chat = Conversation()
    begun = time.monotonic()
    session = store.begin(chat)
    said = say(store, session, chat, "hi", [1, 2], [b"a"] * 50)
    assert time.monotonic() - begun < 5  # 56 calls, of which each would wait for 0.1 s
    assert eventually(store, True)
    assert "another program has locked it" in (store.problem() or "")
    assert not store.flush(0.5)
    assert list(store.records(session, 2)) == said
    lock.execute("ROLLBACK")
    assert eventually(store, False)
    store.close()
    lock.close()
    assert list(reopened(path, session).list_turns()) == list(chat.list_turns())


def test_a_folder_that_cannot_be_made_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.2)
    (tmp_path / "data").write_text("a file where the folder should be")
    path = tmp_path / "data" / "chats.db"
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    said = say(store, session, chat, "hi", [1, 2], [b"a"] * 5)
    assert eventually(store, True)
    assert str(tmp_path / "data") in (store.problem() or "")
    assert list(store.records(session, 2)) == said
    with pytest.raises(StoreError, match="Not a directory"):
        store.latest()
    (tmp_path / "data").unlink()
    assert eventually(store, False)
    assert store.latest() == session
    assert store.close()


def test_closing_with_a_disk_that_stays_broken_says_so_in_time(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    store = Store.open(tmp_path / "data" / "chats.db")
    store.begin(Conversation())
    begun = time.monotonic()
    assert not store.close(2.0)
    assert time.monotonic() - begun < 30


def test_a_full_disk_keeps_going_and_saves_later(path: Path) -> None:
    code = """
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
store = Store.open(path)
chat = Conversation()
session = store.begin(chat)
for i in range(8):
    say(store, session, chat, f"turn {i}", [1, 2], [b"a"] * 20)
    store.flush()
assert eventually(store, True)
print(store.problem())
say(store, session, chat, "while full", [1, 2], [b"a"] * 20)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
assert eventually(store, False)
assert store.close()
print(session)
"""
    problem, session = output(child(code, path)).splitlines()
    assert str(path) in problem
    assert any(reason in problem for reason in ("the disk is full", "the disk rejected the data"))
    chat = reopened(path, session)
    said = [f"turn {i}" for i in range(8)] + ["while full"]
    assert [text for role, text in chat.list_turns() if role == "user"] == said
    assert all(len(node.ids) == 20 and node.done for node in chat.nodes.values() if node.role == "assistant")


def test_what_is_saved_can_be_read_on_a_full_disk(path: Path) -> None:
    code = """
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # not even the index of an empty log can be made
store = Store.open(path)
print([one.turns for one in store.sessions()], list(store.load(store.latest()).conversation.list_turns()))
print(len(list(store.records(session, 2))), store.problem() is not None)
"""
    listed, records = output(child(ONE_CHAT + code, path)).splitlines()
    assert listed == "[1] [('user', 'before'), ('assistant', 'a')]"
    assert records.endswith(" True")
    assert int(records.split()[0]) > 3


def test_a_read_only_folder_keeps_going_saves_later_and_can_be_read() -> None:
    code = """
folder = path.parent
store = Store.open(path)
old = store.begin(Conversation())
chat = Conversation()
session = store.begin(chat)
say(store, session, chat, "before", [1, 2], [b"a"])
assert store.close()
folder.chmod(0o500)
path.chmod(0o400)
store = Store.open(path)
assert store.latest() == session
chat = store.load(session).conversation
say(store, session, chat, "meanwhile", [1, 2], [b"a"])
assert eventually(store, True)
print(store.problem())
folder.chmod(0o700)
path.chmod(0o600)
assert eventually(store, False)
assert store.close()
print(list(store.load(session).conversation.list_turns()))
"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chats.db"
        problem, turns = output(child(NOT_ROOT + code, path)).splitlines()
    assert problem == f"the file or its folder is read-only ({path})"
    assert turns == "[('user', 'before'), ('assistant', 'a'), ('user', 'meanwhile'), ('assistant', 'a')]"


def test_a_read_only_file_keeps_going_saves_later_and_can_be_read() -> None:
    code = """
path.chmod(0o400)
store = Store.open(path)
assert store.latest() == session
chat = store.load(session).conversation
say(store, session, chat, "meanwhile", [1, 2], [b"a"])
assert eventually(store, True)
print(store.problem())
print([found.name for found in path.parent.iterdir() if "damaged" in found.name], store.notices())
path.chmod(0o600)
assert eventually(store, False)
assert store.close()
print(list(store.load(session).conversation.list_turns()))
"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chats.db"
        problem, told, turns = output(child(NOT_ROOT + ONE_CHAT + code, path)).splitlines()
    assert problem == f"the file or its folder is read-only ({path})"
    assert told == "[] []"
    assert turns == "[('user', 'before'), ('assistant', 'a'), ('user', 'meanwhile'), ('assistant', 'a')]"


# --- several processes, and sudden ends ------------------------------------------------------------------------------


def test_processes_that_start_together_share_one_file(path: Path) -> None:
    code = """
store = Store.open(path)
chat = Conversation()
session = store.begin(chat)
for i in range(5):
    say(store, session, chat, f"turn {i}", [1, 2], [b"a"] * 10)
    time.sleep(0.02)
assert store.close()
assert store.problem() is None and store.notices() == []
"""
    children = [child(code, path) for _ in range(4)]
    for process in children:
        output(process)
    store = Store.open(path)
    found = store.sessions()
    assert [chat.turns for chat in found] == [5] * 4
    for chat in found:
        loaded = store.load(chat.id)
        assert loaded.unfinished == ()
        assert [len(node.ids) for node in loaded.conversation.nodes.values()] == [2, 10] * 5
    store.close()


def test_two_processes_that_make_the_file_at_once_wait_for_each_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = ["database is locked"]

    class Busy(sqlite3.Connection):
        def execute(self, statement: str, *values: object) -> sqlite3.Cursor:  # type: ignore[override]
            if statement == "PRAGMA journal_mode=WAL" and refusals:
                error = sqlite3.OperationalError(refusals.pop())
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error
            return super().execute(statement, *values)  # type: ignore[arg-type]

    path.parent.mkdir()
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Busy))
    database.connect_file(path).close()
    assert not refusals


def test_a_chat_that_two_processes_go_on_with_becomes_two(path: Path) -> None:
    one, two = Store.open(path), Store.open(path)
    chat = Conversation("sys")
    session = one.begin(chat)
    say(one, session, chat, "hi", [1], [b"a"] * 3)
    one.flush()
    again = two.load(session).conversation
    say(one, session, chat, "from one", [2], [b"b"])
    one.flush()
    said = say(two, session, again, "from two", [3], [b"c"] * 2)
    assert list(two.records(session, 4)) == said
    assert two.flush()
    assert list(two.records(session, 4)) == said
    say(two, session, again, "two again", [3], [b"d"])
    (notice,) = two.notices()
    assert "Another running termchat" in notice.message
    assert two.load(session).conversation.list_ids() == again.list_ids()
    assert one.notices() == []
    assert one.load(session).conversation.list_ids() == chat.list_ids()
    found = one.sessions()
    assert len(found) == 2
    assert list(one.load(found[0].id).conversation.list_turns()) == list(again.list_turns())
    assert one.load(found[0].id).conversation.system == "sys"
    one.close()
    two.close()


STREAM = """
store = Store.open(path)
chat = Conversation()
session = store.begin(chat)
print(session, flush=True)
ready = time.monotonic()
say(store, session, chat, "first", [1, 2, 3], [b"a"] * 40)
print("turn", time.monotonic(), 40, flush=True)
store.add_node(session, user(chat, "second", [4]))
answer = reply(chat)
store.add_node(session, answer)
for record in stream(chat.ids_before(answer.number), [], reason=None):
    store.add_record(session, answer.number, record)
begun = time.monotonic()
for step in range(10_000):
    store.add_record(session, answer.number, token(step, b"b", "b"))
    print("token", time.monotonic(), step, flush=True)
    time.sleep(max(begun + (step + 1) / 150 - time.monotonic(), 0))
"""


@pytest.mark.parametrize("seconds", [0.3, 1.3])
def test_a_killed_process_loses_no_turn_and_at_most_a_second_of_tokens(path: Path, seconds: float) -> None:
    for attempt in range(5):  # a disk that others keep busy may hold one up
        kept, older = killed_after(seconds, path.with_name(f"{attempt}.db"))
        if kept >= older and (seconds < 1 or older > 20):
            return
    raise AssertionError(f"{kept} tokens were kept of {older} that were a second old")


def killed_after(seconds: float, path: Path) -> tuple[int, int]:
    """How many tokens a store kept of a reply that was killed so long after its first, and how many were a second old."""
    process = child(STREAM, path)
    assert process.stdout is not None
    session = process.stdout.readline().strip()
    lines = []
    end = None
    for line in process.stdout:
        lines.append(line.split())
        end = end or (time.monotonic() + seconds if lines[-1][0] == "token" else None)
        if end is not None and time.monotonic() > end:
            break
    killed = time.monotonic()
    os.kill(process.pid, signal.SIGKILL)
    rest, _ = process.communicate()
    lines += [line.split() for line in rest.splitlines() if len(line.split()) == 3]

    store = Store.open(path)
    assert store.latest() == session
    stored = store.load(session)
    store.close()
    first = stored.conversation.nodes[2]
    assert first.done
    assert len(first.ids) == 40
    older = [step for kind, at, step in lines if kind == "token" and float(at) < killed - 1.0]
    if 4 not in stored.conversation.nodes:
        return -1, len(older)
    second = stored.conversation.nodes[4]
    assert stored.unfinished == (4,)
    assert not second.done
    assert list(second.tokens.ids) == [1000 + step for step in range(len(second.ids))]
    assert second.start is not None
    assert second.start.prompt_ids == []
    assert stored.conversation.list_prompt(4) == stored.conversation.ids_before(4)
    return len(second.ids), len(older)


def test_an_ended_turn_is_on_the_disk_at_once(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "PERIOD_S", 3600.0)  # what is not written at once is not written
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, user(chat, "hi", [1]))
    node = reply(chat)
    store.add_node(session, node)
    assert store.flush()
    while store._writer._incomplete:  # what a new file lacks is a reason to write, too
        time.sleep(0.01)
    for record in stream([1], [b"a"] * 10):
        store.add_record(session, node.number, record)
    end, found = time.monotonic() + 60, 0
    while found < 14:
        assert time.monotonic() < end
        with sqlite3.connect(path) as db:
            (found,) = db.execute("SELECT count(*) FROM records").fetchone()
        db.close()
    assert found == 14


def test_tokens_are_written_a_few_times_a_second(store: Store, path: Path) -> None:
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, user(chat, "hi", [1]))
    store.add_node(session, reply(chat))
    assert store.flush()
    db = sqlite3.connect(path)
    seen = set()
    begun, step = time.monotonic(), 0
    while len(seen) < 5:
        store.add_record(session, 2, token(step, b"a", "a"))
        seen.add(db.execute("SELECT count(*) FROM records").fetchone()[0])
        time.sleep(1 / 150)
        step += 1
    took = time.monotonic() - begun
    db.close()
    assert 0.7 < took < 60  # four writes, of which the first may come at once


def test_the_store_is_cheap_to_import() -> None:
    code = "import sys, termchat.conversation.store; print(*{'numpy', 'textual', 'llama_cpp'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_a_node_whose_records_are_added_later_is_whole(store: Store) -> None:
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, user(chat, "hi", [1]))
    node = reply(chat)
    store.add_node(session, node)
    records = stream([1], [b"a", b"b"])
    for record in records:
        chat.add(node, record)
    for record in records:
        store.add_record(session, node.number, record)
    stored = store.load(session)
    assert same(stored.conversation.nodes[2], node)
