"""What was drafted for a reply is kept with it: in memory, in the store and by a kill, and costs nothing where nothing was."""

from __future__ import annotations

import math
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.conversation.draft_columns import DraftColumns
from termchat.conversation.node import Node, TokenColumns
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.records import Draft, DraftToken, Token
from tests.conversation.stored import reopened, same
from tests.made_drafts import drafted_stream
from tests.made_records import reply, stream, user


def text_of(token: int) -> str:
    return f"·{token}é"


ids = st.integers(0, 5)
told = st.builds(
    lambda by, accepted, made, us: Draft(by, accepted, [DraftToken(i, text_of(i)) for i in made], us),
    st.sampled_from(["ngram", "SmolLM2-135M é"]), st.booleans(), st.lists(ids, max_size=4), st.sampled_from([0, 0, 7]),
)  # fmt: skip


@st.composite
def rounds(draw: st.DrawFn) -> list[Draft | None]:
    """What an engine says of one round, or something else."""
    if draw(st.booleans()):
        return [draw(st.none() | told)]
    made, by = [DraftToken(i, text_of(i)) for i in draw(st.lists(ids, min_size=1, max_size=5))], draw(told).by
    taken = draw(st.integers(0, len(made)))
    said: list[Draft | None] = [
        Draft(by, at < taken, made[at : at + 1] if at else made, 0 if at else 9) for at in range(len(made))
    ]
    return said[: taken + 1] + [None] * (taken == len(made))


@given(st.lists(rounds(), max_size=30))
def test_drafts_come_back_as_they_were_told(made: list[list[Draft | None]]) -> None:
    drafts = [draft for each in made for draft in each]
    columns = DraftColumns()
    for index, draft in enumerate(drafts):
        if draft is not None:
            columns.append_draft(index, draft)
    again = DraftColumns.unpacked(columns.packed())
    assert again == columns
    for each in (columns, again):
        assert [each.find_draft(index) for index in range(len(drafts) + 2)] == [*drafts, None, None]


@given(st.lists(rounds(), min_size=1, max_size=8), st.data())
def test_damaged_drafts_are_refused_or_read(made: list[list[Draft | None]], data: st.DataObject) -> None:
    columns = DraftColumns()
    for index, draft in enumerate(draft for each in made for draft in each):
        if draft is not None:
            columns.append_draft(index, draft)
    packed = bytearray(columns.packed())
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = DraftColumns.unpacked(bytes(packed))
    except (ValueError, msgspec.MsgspecError):
        return
    for index in range(60):
        found.find_draft(index)


def written(path: Path, *, end: bool = True) -> tuple[str, Conversation]:
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, user(chat, "hello", [1, 2]))
    answer = reply(chat)
    store.add_node(session, answer)
    for record in drafted_stream(chat.ids_before(answer.number))[: None if end else -3]:
        chat.add(answer, record)
        store.add_record(session, answer.number, record)
    assert store.close()
    return session, chat


@pytest.mark.parametrize("end", [True, False], ids=["ended", "cut off"])
@pytest.mark.parametrize("damage", ["", "DELETE FROM replies"], ids=["packed", "from its records"])
def test_a_stored_reply_has_its_drafts(path: Path, end: bool, damage: str) -> None:
    session, chat = written(path, end=end)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(damage)
    stored = reopened(path, session)
    assert all(same(stored.nodes[number], chat.nodes[number]) for number in chat.nodes)
    node = stored.nodes[2]
    drafts = [node.tokens.find_draft(index) for index in range(len(node.tokens))]
    assert drafts == [record.draft for record in drafted_stream([]) if isinstance(record, Token)][: len(drafts)]
    assert (node.settings[0].draft, node.settings[0].drafting) == (DraftSettings("ngram", 7), "accepted 12 %")
    if end:
        assert node.finished is not None
        assert (node.finished.drafted, node.finished.accepted, node.finished.rounds) == (5, 4, 2)


@pytest.mark.parametrize(
    ("fewer", "packed"),
    [({"start": 1, "token": 3, "settings": 2, "finished": 3}, 3), ({"start": 1, "token": 2}, 4)],
    ids=["drafts", "margins"],
)
def test_a_store_from_before_there_were_these_fields_opens(path: Path, fewer: dict[str, int], packed: int) -> None:
    """Records had fewer fields then, and of packed replies `_Rare` had so many."""
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, user(chat, "hello", [1, 2]))
    answer = reply(chat)
    store.add_node(session, answer)
    for record in stream(chat.ids_before(answer.number), [b"a", b"b"]):
        chat.add(answer, record)
        store.add_record(session, answer.number, record)
    assert store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for seq, blob in db.execute("SELECT seq, record FROM records").fetchall():
            fields = msgspec.msgpack.decode(blob)
            left = msgspec.msgpack.encode(fields[: len(fields) - fewer.get(fields[0], 0)])
            db.execute("UPDATE records SET record = ? WHERE seq = ?", (left, seq))
        (blob,) = db.execute("SELECT packed FROM replies").fetchone()
        records, at, columns = msgspec.msgpack.decode(blob)
        records = [fields[: len(fields) - fewer.get(fields[0], 0)] for fields in records]
        columns[-1] = msgspec.msgpack.encode(msgspec.msgpack.decode(columns[-1], strict=False)[:packed])
        db.execute("UPDATE replies SET packed = ?", (msgspec.msgpack.encode((records, at, columns)),))
    stored = reopened(path, session)
    assert same(stored.nodes[2], chat.nodes[2])
    assert (set(map(math.isnan, stored.nodes[2].tokens.margins)), set(stored.nodes[2].tokens.near_ties)) == (
        {True},
        {-1},
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM replies")
    assert same(reopened(path, session).nodes[2], chat.nodes[2])


def test_a_reply_without_drafts_has_nothing_for_them() -> None:
    node = Node(2, 1, 0, "assistant")
    for record in stream([], [b"a"] * 2000):
        node.add(record)
    assert node.tokens.drafts is None
    bare = TokenColumns.unpacked(node.tokens.packed())
    assert bare.drafts is None


def test_a_drafted_reply_takes_little_more_memory() -> None:
    """A round of 16 rows takes less than 10 bytes for each of its tokens, where their texts were seen before."""
    columns = DraftColumns()
    for begin in range(0, 16_000, 16):
        made = [DraftToken(i % 100, text_of(i % 100)) for i in range(begin, begin + 15)]
        for at in range(15):
            columns.append_draft(begin + at, Draft("ngram", True, made[at : at + 1] if at else made, 0 if at else 5))
    arrays = (columns.begins, columns.told, columns.accepted, columns.us, columns.drafters, columns.ends, columns.ids)
    assert sum(map(sys.getsizeof, arrays)) / 16_000 < 10
    assert len(columns.begins) == 1000
