"""A reply that has ended is kept as it is held in memory, too: opening it says the same, whatever is there of that."""

from __future__ import annotations

import sqlite3
from array import array
from contextlib import closing
from itertools import accumulate
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.conversation.node import Node, Omission
from termchat.conversation.store import codec, load
from termchat.conversation.store.store import Store
from termchat.conversation.token_texts import Texts
from termchat.conversation.tree import Conversation
from termchat.decoding.records import Token, bytes_of
from termchat.engine import wire
from termchat.engine.port import Event
from tests.conversation.stored import reopened, same, say
from tests.made_records import reply, settings, stream, user, with_margins


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=600), st.data())
def test_texts_are_a_list_of_texts(said: list[str], data: st.DataObject) -> None:
    texts = Texts()
    for text in said:
        texts.append(text)
    begin, end = (data.draw(st.none() | st.integers(-700, 700)) for _ in range(2))
    assert texts == said
    assert texts[begin:end] == said[begin:end]
    assert [texts[at] for at in range(-len(said), len(said))] == said + said
    assert texts.join_texts(begin) == "".join(said if begin is None else said[: max(begin, 0)])
    assert texts.start(len(texts)) == sum(map(len, said))
    again = Texts.unpacked(*texts.packed())
    assert again == said
    starts = list(accumulate(map(len, said), initial=0))
    owners = [number for number, text in enumerate(said) for _ in text]
    for each in (texts, again):
        assert [each.start(index) for index in range(len(said) + 1)] == starts
        assert [each.find_text(offset) for offset in range(each.start(len(each)))] == owners
        with pytest.raises(IndexError):
            each.find_text(each.start(len(each)))
    with pytest.raises(IndexError):
        texts[len(said)]


@pytest.mark.parametrize(
    ("data", "ends"), [("éa", [1, 3]), ("abc", [2, 1, 3]), ("abc", [9, 3]), ("abc", [1, 2]), ("é", [2, 1, 2])]
)
def test_texts_that_end_where_none_can_are_refused(data: str, ends: list[int]) -> None:
    with pytest.raises(ValueError, match="end"):
        Texts.unpacked(data.encode(), array("I", ends).tobytes())


def made(path: Path) -> tuple[str, Conversation]:
    """A file with a chat of a reply that has ended, and one that has not."""
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    say(store, session, chat, "hello", [1, 2], [b"Once", b" \xe2\x82", b"\xac", b" upon"])
    turn = user(chat, "and?", [3])
    turn.whole, turn.omitted = True, Omission(1, 2)
    store.add_node(session, turn)
    node = chat.grow_node("assistant", parent=turn.number, at=1)
    store.add_node(session, node)
    for record in stream(chat.ids_before(node.number), [b"a", b"b"], reason=None, turned={1: settings(1, top_k=7)}):
        chat.add(node, record)
        store.add_record(session, node.number, record)
    assert store.close()
    return session, chat


def reads_records(path: Path, session: str, monkeypatch: pytest.MonkeyPatch, chat: Conversation) -> list[int]:
    """Opens the chat, which must be as it was; the nodes whose records were read for that."""
    read: list[int] = []
    records = load.load_records

    def watched(db: sqlite3.Connection, session: str, number: int) -> object:
        read.append(number)
        return records(db, session, number)

    monkeypatch.setattr(load, "load_records", watched)
    store = Store.open(path)
    stored = store.load(session).conversation
    store.close()
    monkeypatch.setattr(load, "load_records", records)
    assert all(same(stored.nodes[number], chat.nodes[number]) for number in chat.nodes)
    return [number for number in read if stored.nodes[number].role == "assistant"]


def test_only_a_reply_without_an_end_is_read_record_by_record(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, chat = made(path)
    assert reads_records(path, session, monkeypatch, chat) == [4]


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM replies",
        "UPDATE replies SET packed = x'93'",
        "UPDATE replies SET packed = substr(packed, 1, 300)",
        "UPDATE replies SET records = records + 1",
    ],
)
def test_where_it_cannot_be_used_the_records_count(path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    session, chat = made(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(damage)
    assert reads_records(path, session, monkeypatch, chat) == [2, 4]


def test_a_copy_needs_no_records_either(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, chat = made(path)
    store = Store.open(path)
    copy = store.duplicate(session)
    assert store.close()
    assert reads_records(path, copy, monkeypatch, chat) == [4]


@pytest.mark.parametrize("damage", ["", "DELETE FROM replies"], ids=["packed", "from its records"])
def test_a_stored_reply_has_its_margins(path: Path, damage: str) -> None:
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, user(chat, "hello", [1, 2]))
    answer = reply(chat)
    store.add_node(session, answer)
    for record in with_margins(stream(chat.ids_before(answer.number), [b"a", b"b", b"c", b"d"])):
        chat.add(answer, record)
        store.add_record(session, answer.number, record)
    assert store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(damage)
    node = reopened(path, session).nodes[2]
    assert same(node, chat.nodes[2])
    assert str(list(node.tokens.margins)) == "[0.0, 0.25, nan, 0.75]"
    assert list(node.tokens.near_ties) == [1, 0, -1, 0]
    assert node.start is not None
    assert node.start.largest_change == 0.5


def test_columns_of_different_lengths_are_refused() -> None:
    node = Node(2, 1, 0, "assistant")
    for record in stream([], [b"a", b"b"]):
        node.add(record)
    packed = codec.from_reply(node)
    assert packed is not None
    assert not codec.to_reply(Node(2, 1, 0, "assistant"), packed.replace(bytes(node.tokens.forced), b"\0", 1))


def test_a_token_from_the_pipe_is_stored_as_it_came_and_a_changed_one_is_not() -> None:
    drawn = next(record for record in stream([1, 2], [b"word"]) if isinstance(record, Token))
    for number in (1, 127, 128, 256, 70_000, 2**40):
        frames: wire.Frames[Event] = wire.Frames(Event, keeps_bytes=True)
        ((_, event),) = frames.feed_bytes(wire.frame(number, drawn))
        assert isinstance(event, Token)
        assert event == drawn
        assert codec.from_record(event) is bytes_of(event)
        assert codec.from_record(event) == codec.from_record(drawn)
        assert bytes_of(msgspec.structs.replace(event, step=7)) is None
