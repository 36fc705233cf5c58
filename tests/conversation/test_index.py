"""Listing, searching, previewing, naming and removing chats."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termchat.conversation.store import deleting, derived, load
from termchat.conversation.store import search as chat_search
from termchat.conversation.store.store import PREVIEWED, Store, StoreError
from tests.conversation.stored import found, pieces, saved, say
from tests.made_records import reply, stream, user

# --- lists -----------------------------------------------------------------------------------------------------------


def test_a_list_counts_turns_and_tokens_as_they_come(store: Store, path: Path) -> None:
    session, chat = saved(store, "one", ("hi", "a b c"), ("more", "d e"))
    (listed,) = store.sessions()
    assert (listed.turns, listed.tokens, listed.snippet) == (2, 5, "")
    assert 0 < listed.created <= listed.updated <= time.time()
    store.add_node(session, user(chat, "third", [4]))
    node = reply(chat)
    store.add_node(session, node)
    records = stream(chat.ids_before(node.number), pieces("x y z"))
    for record in records[:-1]:
        store.add_record(session, node.number, record)
    (listed,) = store.sessions()
    assert (listed.turns, listed.tokens) == (3, 8)
    store.add_record(session, node.number, records[-1])
    (listed,) = store.sessions()
    assert (listed.turns, listed.tokens) == (3, 8)
    store.close()
    again = Store.open(path)
    assert again.sessions() == [listed]
    again.close()


def test_a_list_is_given_in_pages(store: Store) -> None:
    for number in range(7):
        saved(store, f"chat {number}", ("walrus" if number != 3 else "fox", "a"))
    assert [one.title for one in store.sessions(3, offset=2)] == ["chat 4", "chat 3", "chat 2"]
    whole = found(store, "walrus")
    assert sorted(whole) == [f"chat {number}" for number in (0, 1, 2, 4, 5, 6)]
    assert [found(store, "walrus", limit=2, offset=at) for at in (0, 2, 4, 6)] == [whole[:2], whole[2:4], whole[4:], []]


def test_pages_go_on_from_chats_with_all_words_in_one_text_to_the_others(store: Store) -> None:
    for number in range(4):
        saved(store, f"both {number}", ("walrus " * (number + 1) + "and fox", "no"))
    for number in range(3):
        saved(store, f"spread {number}", ("walrus", "fox"))
    order = found(store, "walrus fox")
    assert sorted(order[:4]) == [f"both {number}" for number in range(4)]
    assert order[4:] == [f"spread {number}" for number in (2, 1, 0)]
    pages = [found(store, "walrus fox", limit=2, offset=at) for at in (0, 2, 4, 6, 8)]
    assert pages == [order[:2], order[2:4], order[4:6], order[6:], []]


# --- search ----------------------------------------------------------------------------------------------------------


def test_a_search_looks_in_titles_messages_and_replies(store: Store) -> None:
    saved(store, "Ümlaut hunting", ("where?", "Über den Wölken"))
    saved(store, "other", ("The Fox and the bear", "once upon a time"))
    saved(store, "third", ("nothing", "the bear slept"))
    assert found(store, "umlaut") == ["Ümlaut hunting"]
    assert found(store, "uber wolk") == ["Ümlaut hunting"]
    assert found(store, "FOX") == ["other"]
    assert found(store, "fo") == ["other"]
    assert found(store, "ox") == ["other"]
    assert sorted(found(store, "bear")) == ["other", "third"]
    assert found(store, "bear walrus") == []
    assert found(store, "") == ["third", "other", "Ümlaut hunting"]
    assert found(store, "…!") == []


@pytest.mark.parametrize("rare", [3, 500])
def test_words_may_stand_in_different_texts_of_a_chat(store: Store, monkeypatch: pytest.MonkeyPatch, rare: int) -> None:
    monkeypatch.setattr(chat_search, "RARE", rare)  # how words are looked for depends on how many texts have them
    saved(store, "spread", ("tell me of a fox", "it met a bear"))
    saved(store, "together", ("the fox and the bear", "yes"))
    saved(store, "half", ("the fox", "yes"))
    assert found(store, "bear fox") == ["together", "spread"]
    assert found(store, "bear fox", limit=1, offset=1) == ["spread"]
    assert found(store, "yes fox") == ["half", "together"]
    assert found(store, "tell met") == found(store, "met tell fox") == ["spread"]
    assert found(store, "met half") == found(store, "fox bear walrus") == found(store, "walrus fox") == []


def test_words_are_found_within_scripts_that_have_no_spaces(store: Store) -> None:
    saved(store, "旅行の計画", ("東京都に行きたい", "いつ行きますか"))
    saved(store, "中文", ("我想学GPT模型的原理", "好的，模型"))
    saved(store, "hanko", ("한국어를 배우다", "a漢b"))
    assert found(store, "京都") == ["旅行の計画"]
    assert found(store, "計画") == ["旅行の計画"]
    assert found(store, "京東") == []
    assert found(store, "行き") == ["旅行の計画"]
    assert found(store, "模型 原理") == ["中文"]
    assert found(store, "GPT模") == ["中文"]
    assert found(store, "gpt") == ["中文"]
    assert found(store, "漢") == found(store, "한국") == ["hanko"]
    (one,) = store.sessions(search="京都")
    assert one.snippet == "東\x02京都\x03に行きたい"
    (one,) = store.sessions(search="gp 原")
    assert one.snippet == "我想学\x02GP\x03T模型的\x02原\x03理"
    assert store.preview(one.id) == [("user", "我想学GPT模型的原理"), ("assistant", " 好的，模型")]


def test_the_best_match_stands_first(store: Store) -> None:
    saved(store, "walrus", ("walrus walrus", "a walrus"))
    saved(store, "much", ("w " * 200 + "walrus", "no"))
    assert found(store, "walrus") == ["walrus", "much"]


def test_a_snippet_is_a_line_around_the_match_with_its_words_marked(store: Store) -> None:
    saved(store, "t", ("hi", "once " * 50 + "the old\n\x02wälrus\x03 and the Walrusses swam " + "on " * 60))
    (one,) = store.sessions(search="walrus")
    assert "old  \x02wälrus\x03  and the \x02Walrus\x03ses swam" in one.snippet
    assert one.snippet.startswith("…")
    assert one.snippet.endswith("…")
    assert len(one.snippet) < 200
    (one,) = store.sessions(search="t")  # the title is there to be seen anyway
    assert one.snippet == "" or "\x02t\x03he" in one.snippet


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(max_size=20) | st.sampled_from(['"', "a OR", "NEAR(a b)", "a*", "-a", "^a", "text:a", "a AND", "(", "a\0b"])
)
def test_no_search_is_an_error(store: Store, search: str) -> None:
    if not store.sessions():
        saved(store, "a b", ("a NEAR b OR c", "text"))
    for one in store.sessions(search=search):
        assert one.snippet.count("\x02") == one.snippet.count("\x03")


def test_what_others_write_is_found_and_what_is_deleted_is_not(store: Store, path: Path) -> None:
    session, chat = saved(store, "one", ("tell", "the fox slept"))
    assert store.flush()
    other = Store.open(path)
    assert found(other, "fox") == ["one"]
    fork = chat.grow_node("assistant", parent=1, at=2)
    other.add_node(session, fork)
    for record in stream(chat.ids_before(fork.number), pieces("a walrus swam")):
        other.add_record(session, fork.number, record)
    other.flush()
    assert found(store, "walrus") == ["one"]
    assert store.sessions()[0].tokens == 6
    store.update_node(session, fork.number, deleted=True)
    assert found(store, "walrus") == []
    assert store.sessions()[0].tokens == 3
    store.update_node(session, fork.number, deleted=False)
    assert found(store, "walrus") == ["one"]
    assert store.sessions()[0].tokens == 6
    other.close()


def test_a_reply_that_was_cut_off_is_found_once_the_chat_goes_on(store: Store, path: Path) -> None:
    session, chat = saved(store, "one", ("tell", "yes"))
    store.add_node(session, user(chat, "more", [4]))
    node = reply(chat)
    store.add_node(session, node)
    for record in stream(chat.ids_before(node.number), pieces("a walrus"), reason=None):
        store.add_record(session, node.number, record)
    store.close()
    again = Store.open(path)
    assert found(again, "walrus") == []
    assert [one.tokens for one in again.sessions()] == [one.tokens for one in again.sessions(search="yes")] == [3]
    loaded = again.load(session).conversation
    say(again, session, loaded, "go on", [5], pieces("and on"))
    assert found(again, "walrus") == ["one"]
    assert again.sessions()[0].tokens == 5
    again.close()


def test_a_cut_off_reply_on_a_deleted_branch_is_not_counted(store: Store) -> None:
    session, chat = saved(store, "one", ("tell", "yes it is"))
    question = user(chat, "more", [4])
    store.add_node(session, question)
    node = reply(chat)
    store.add_node(session, node)
    for record in stream(chat.ids_before(node.number), pieces("a walrus"), reason=None):
        store.add_record(session, node.number, record)
    assert store.sessions()[0].tokens == 5
    store.update_node(session, question.number, deleted=True)
    assert store.sessions()[0].tokens == 3


def break_index(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE found_data SET block = x'00' WHERE id > 10")


def test_a_broken_index_keeps_nothing_from_being_written(path: Path) -> None:
    store = Store.open(path)
    session, _ = saved(store, "one", ("fox", "walrus"))
    other, _ = saved(store, "other", ("fox", "walrus"))
    store.close()
    break_index(path)
    store = Store.open(path)
    store.purge(other)
    say(store, session, store.load(session).conversation, "more", [3], pieces("crab"))
    assert store.close()
    assert store.problem() is None
    again = Store.open(path)
    with pytest.raises(StoreError, match="the file is damaged"):
        found(again, "walrus")
    again.close()
    again = Store.open(path)
    assert (found(again, "crab"), found(again, "walrus"), found(again, "other")) == (["one"], ["one"], [])
    again.close()


def test_a_broken_index_is_told_and_repaired_by_the_next_start(path: Path) -> None:
    store = Store.open(path)
    saved(store, "one", ("fox", "walrus"))
    store.close()
    break_index(path)
    store = Store.open(path)
    with pytest.raises(StoreError, match="the file is damaged") as caught:
        found(store, "walrus")
    assert "it repairs the file when it opens it" in caught.value.hint
    store.close()
    store = Store.open(path)
    assert found(store, "walrus") == ["one"]
    (notice,) = store.notices()
    assert "1 chat could be recovered" in notice.hint
    store.close()


def test_a_chat_that_goes_on_as_a_copy_within_a_batch_is_found_with_all_it_has(path: Path) -> None:
    one, two = Store.open(path), Store.open(path)
    session, chat = saved(one, "both", ("hi", "fox"))
    one.add_node(session, user(chat, "what", [1]))
    node = reply(chat)
    one.add_node(session, node)
    assert one.flush()
    again = two.load(session).conversation
    say(two, session, again, "mine", [2], [b" walrus"])
    assert two.flush()
    with one._writer.between_writes():  # so that all of it is one batch
        for record in stream(chat.ids_before(node.number), pieces("heron")):
            node.add(record)
            one.add_record(session, node.number, record)
        one.add_node(session, user(chat, "ours", [3]))
    assert one.flush()
    assert one.current(session) != session
    texts = {summary.id: summary.tokens for summary in one.sessions()}
    assert texts == {session: 3, one.current(session): 2}
    assert sorted(summary.id for summary in one.sessions(search="heron")) == sorted(texts)
    with closing(sqlite3.connect(path)) as db:
        counted = "SELECT count(*) FROM tallies JOIN texts ON id >> 32 = tallies.number WHERE session = ?"
        assert {id: db.execute(counted, (id,)).fetchone()[0] for id in texts} == {session: 7, one.current(session): 6}
    one.close()
    two.close()


def test_what_is_derived_can_be_made_from_the_rest(path: Path) -> None:
    store = Store.open(path)
    _, chat = saved(store, "one", ("fox", "walrus"), ("stop it", "a b"))
    node = chat.grow_node("assistant", parent=3, at=2)
    session = store.sessions()[0].id
    store.add_node(session, node)
    for record in stream(chat.ids_before(node.number), [b"never ", b"STOP", b" here"], stops=("STOP",)):
        store.add_record(session, node.number, record)
    store.rename(session, "two")
    store.flush()
    with closing(sqlite3.connect(path)) as db:
        before = [db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in ("tallies", "texts")]
    assert [row[1] for row in before[1]] == ["two", "fox", " walrus", "stop it", " a b", "never "]
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        derived.remove_tally(db, session)
        assert db.execute("SELECT count(*) FROM texts").fetchone() == (0,)
        assert not derived.complete_index(db, 60.0)
        after = [db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in ("tallies", "texts")]
        db.execute("INSERT INTO found (found, rank) VALUES ('integrity-check', 1)")
    assert after == before


# --- previews --------------------------------------------------------------------------------------------------------


def test_a_preview_is_the_end_of_the_chat_that_was_shown(store: Store) -> None:
    session, chat = saved(store, "t", ("one", "a b c"), ("two", "d e f"))
    assert store.preview(session) == list(chat.list_turns())
    cut = chat.grow_node("assistant", parent=2, at=2)  # from the middle of a reply
    store.add_node(session, cut)
    for record in stream(chat.ids_before(cut.number), pieces("z")):
        cut.add(record)
        store.add_record(session, cut.number, record)
    assert store.preview(session) == list(chat.list_turns()) == [("user", "one"), ("assistant", " a b z")]
    store.update(session, leaf=4)
    chat.leaf = 4
    assert store.preview(session) == list(chat.list_turns())
    assert store.preview("nobody") == []


def test_a_preview_knows_stops_continuations_and_replies_that_stream(store: Store) -> None:
    session, chat = saved(store, "t")
    store.add_node(session, user(chat, "one", [1]))
    node = reply(chat)
    store.add_node(session, node)
    for record in stream(chat.ids_before(node.number), [b"so ", b"it ST", b"OP"], stops=("STOP",)):
        node.add(record)
        store.add_record(session, node.number, record)
    assert store.preview(session) == list(chat.list_turns()) == [("user", "one"), ("assistant", "so it ")]
    store.add_node(session, user(chat, "two", [2]))
    assert store.preview(session) == list(chat.list_turns())
    chat.leaf = node.number
    more = chat.grow_node("assistant", parent=node.number, at=len(node.ids))
    store.add_node(session, more)
    for record in stream(chat.ids_before(more.number), [b"!", b"?"], reason=None):
        more.add(record)
        store.add_record(session, more.number, record)
    assert store.preview(session) == list(chat.list_turns()) == [("user", "one"), ("assistant", "so it STOP!?")]


@pytest.fixture
def long_chat(store: Store) -> str:
    """A chat whose path has more nodes than a preview reads. Its last reply but one was continued, elsewhere."""
    session, chat = saved(store, "t", *((f"ask {number}", f"say {number}") for number in range(4 * PREVIEWED + 10)))
    leaf = chat.leaf
    assert leaf is not None
    asked = chat.nodes[leaf].parent
    assert asked is not None
    before = chat.nodes[asked].parent
    assert before is not None
    more = chat.grow_node("assistant", parent=before, at=len(chat.nodes[before].ids))
    store.add_node(session, more)
    store.update(session, leaf=leaf)
    return session


def opened(store: Store, session: str) -> list[tuple[str, str]]:
    return [*store.load(session).conversation.list_turns()][-PREVIEWED:]


def test_a_preview_of_a_long_chat_is_the_end_of_what_opening_shows(store: Store, long_chat: str) -> None:
    assert store.preview(long_chat) == opened(store, long_chat)
    assert store.preview(long_chat)[-1] == ("assistant", f" say {4 * PREVIEWED + 9}")
    assert len(store.preview(long_chat)) == PREVIEWED


def test_a_preview_of_a_long_chat_reads_a_part_of_it(store: Store, path: Path, long_chat: str) -> None:
    assert store.flush()
    with closing(sqlite3.connect(path)) as db:
        read = load.load(db, long_chat, 8 * PREVIEWED)
    assert read is not None
    assert len(read.conversation.nodes) == 8 * PREVIEWED + 1


@pytest.mark.parametrize("lost", ["number = 3", "number = 300", "parent = 300", "number = (SELECT leaf FROM sessions)"])
def test_a_preview_of_a_long_chat_that_lost_a_row_is_the_end_of_what_opening_shows(
    store: Store, path: Path, long_chat: str, lost: str
) -> None:
    assert store.flush()
    for change in (f"UPDATE nodes SET at = 'x' WHERE {lost}", f"DELETE FROM nodes WHERE {lost}"):
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute(change)
        assert store.preview(long_chat) == opened(store, long_chat) != []


def test_a_preview_of_a_long_chat_that_lost_tokens_is_the_end_of_what_opening_shows(
    store: Store, path: Path, long_chat: str
) -> None:
    assert store.flush()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM records WHERE node = 300")
    assert store.preview(long_chat) == opened(store, long_chat)
    assert len(store.load(long_chat).conversation.find_path()) == 300


def test_a_preview_of_a_reply_that_was_continued_within_a_character(store: Store) -> None:
    session, chat = saved(store, "t")
    store.add_node(session, user(chat, "one", [1]))
    done = b""
    for piece, shown in ((b"a \xe2\x82", "a \ufffd"), (b"\xac", "a €")):
        node = chat.grow_node("assistant", parent=chat.leaf, at=1)
        store.add_node(session, node)
        for record in stream(chat.ids_before(node.number), [piece], reason="length", done=done):
            node.add(record)
            store.add_record(session, node.number, record)
        done += piece
        assert store.preview(session) == list(chat.list_turns()) == [("user", "one"), ("assistant", shown)]


def test_a_preview_of_a_chat_whose_branch_was_deleted_shows_what_is_left(store: Store) -> None:
    session, chat = saved(store, "t", ("one", "a"), ("two", "b"))
    store.update_node(session, 3, deleted=True)
    chat.delete_node(3)
    assert store.preview(session) == list(chat.list_turns()) == [("user", "one"), ("assistant", " a")]


# --- naming, copying, removing ---------------------------------------------------------------------------------------


def test_a_chat_is_renamed_and_found_by_its_new_name(store: Store) -> None:
    first, _ = saved(store, "fox", ("hi", "a"))
    saved(store, "later", ("hi", "a"))
    before = store.sessions()[1].updated
    store.rename(first, " walrus \n tusks ")
    assert [one.title for one in store.sessions()] == ["later", "walrus tusks"]
    assert store.sessions()[1].updated == before
    assert found(store, "walr") == ["walrus tusks"]
    assert found(store, "fox") == []
    assert store.load(first).named
    assert not store.load(store.sessions()[0].id).named


def test_a_copy_goes_its_own_way(store: Store) -> None:
    session, chat = saved(store, "t", ("one", "a b"))
    copy = store.duplicate(session)
    other = store.load(copy).conversation
    assert list(other.list_turns()) == list(chat.list_turns())
    assert other.list_ids() == chat.list_ids()
    assert [one.id for one in store.sessions()] == [copy, session]
    say(store, copy, other, "only here: walrus", [3], pieces("c"))
    assert [one.id for one in store.sessions(search="walrus")] == [copy]
    assert [(one.turns, one.tokens) for one in store.sessions()] == [(2, 3), (1, 2)]
    assert list(store.load(session).conversation.list_turns()) == list(chat.list_turns())


def test_a_deleted_chat_is_hidden_and_comes_back(store: Store, path: Path) -> None:
    session, chat = saved(store, "t", ("fox", "a"))
    saved(store, "other", ("bear", "b"))
    store.delete(session)
    assert [one.title for one in store.sessions()] == ["other"]
    assert found(store, "fox") == []
    assert [one.title for one in store.sessions(deleted=True)] == ["t"]
    assert found(store, "fox", deleted=True) == ["t"]
    assert store.latest() != session
    store.restore(session)
    assert found(store, "fox") == ["t"]
    store.close()
    assert list(Store.open(path).load(session).conversation.list_turns()) == list(chat.list_turns())


def test_a_deleted_chat_comes_back_with_its_next_turn_but_not_by_being_looked_at(store: Store, path: Path) -> None:
    session, chat = saved(store, "t", ("fox", "a"))
    assert store.flush()
    other = Store.open(path)
    other.delete(session)
    assert other.flush()
    store.update(session, leaf=2)
    assert store.sessions() == []
    say(store, session, chat, "still here", [3], pieces("yes"))
    assert store.flush()
    assert [one.turns for one in other.sessions()] == [2]
    other.close()


def test_a_chat_is_gone_for_good_a_week_after_it_was_deleted(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, _ = saved(store, "t", ("fox", "a"))
    kept, _ = saved(store, "other", ("fox", "a"))
    store.delete(session)
    store.close()
    Store.open(path).close()
    again = Store.open(path)
    assert [one.id for one in again.sessions(deleted=True)] == [session]
    again.close()
    now = time.time()
    monkeypatch.setattr(deleting.time, "time", lambda: now + 7 * 86400 + 60)
    again = Store.open(path)
    assert again.sessions(deleted=True) == []
    assert [one.id for one in again.sessions(search="fox")] == [kept]
    with pytest.raises(StoreError, match="no saved chat"):
        again.load(session)
    again.close()
    with closing(sqlite3.connect(path)) as db:
        for table, owner in (("nodes", "session"), ("records", "session"), ("tallies", "session")):
            assert {row[0] for row in db.execute(f"SELECT {owner} FROM {table}")} == {kept}


def test_a_turn_in_a_chat_that_was_purged_is_refused_with_a_word(store: Store, path: Path) -> None:
    session, chat = saved(store, "t", ("fox", "a"))
    assert store.flush()
    other = Store.open(path)
    other.purge(session)
    assert other.close()
    say(store, session, chat, "still here", [3], pieces("yes"))
    say(store, session, chat, "and here", [3], pieces("yes"))
    assert store.flush()
    (notice,) = store.notices()
    assert "removed" in notice.message
    assert store.problem() is None
    assert store.sessions() == store.sessions(deleted=True) == []
    with closing(sqlite3.connect(path)) as db:
        counts = [db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("nodes", "records", "texts")]
    assert counts == [0, 0, 0]


def test_a_chat_is_found_by_its_id_a_beginning_of_it_or_as_the_last(store: Store) -> None:
    with pytest.raises(StoreError, match="no saved chat last"):
        store.find("last")
    one, _ = saved(store, "one", ("a", "b"))
    two, _ = saved(store, "two", ("a", "b"))
    assert (store.find("last"), store.find(one), store.find(one[:-1])) == (two, one, one)
    with pytest.raises(StoreError, match="more than one") as caught:
        store.find(one[:4])
    assert one in caught.value.hint
    for word in ("", "nobody", "%"):
        with pytest.raises(StoreError, match="no saved chat"):
            store.find(word)
