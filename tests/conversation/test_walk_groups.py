"""Replies that grow together: told to the store as they come, interleaved, and there again when the chat is opened."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec
import pytest

from termchat.conversation.batch_shapes import shapes_of_prompt
from termchat.conversation.heat import Heats
from termchat.conversation.store import load
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation, Node
from termchat.conversation.walk_groups import groups_of
from termchat.decoding.group import BeamSettings
from termchat.decoding.records import Failed, Prefill, Shape, Token
from tests.conversation.stored import child, same
from tests.made_records import reply, stream, token, user
from tests.made_walks import NUMBER, beams, group, interleaved, ranking, siblings, walked

PIECES = [b"the ", b"sea ", b"is ", b"wide"]


def tell(store: Store, session: str, chat: Conversation, node: Node, *records: object) -> None:
    for record in records:
        chat.add(node, record)  # type: ignore[arg-type]
        store.add_record(session, node.number, record)  # type: ignore[arg-type]


def grown(store: Store, size: int = 4, open_ended: int | None = None) -> tuple[str, Conversation, list[Node]]:
    """A chat whose one message has several walks; one of them has no end yet. The first has the group's ranking and beams."""
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, user(chat, "how is the sea?", [1, 2, 3]))
    nodes = siblings(chat, size)
    for node in nodes:
        store.add_node(session, node)
    streams = [
        walked([1, 2, 3], walk, group(size), PIECES[: walk + 1], None if walk == open_ended else "end")
        for walk in range(size)
    ]
    streams[0][3:3] = [beams(0), beams(1)]
    for walk, record in interleaved(streams):
        tell(store, session, chat, nodes[walk], record)
    tell(store, session, chat, nodes[0], ranking(size))
    return session, chat, nodes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def test_walks_beams_and_ranking_are_there_again(path: Path) -> None:
    store = Store.open(path)
    session, chat, nodes = grown(store)
    assert store.close()
    with closing(sqlite3.connect(path)) as db:
        counted = "SELECT node, (SELECT count(*) FROM records WHERE node = replies.node) - records FROM replies"
        assert db.execute(counted).fetchall() == [
            (node.number, 0) for node in nodes
        ]  # none has to be read record by record
    for with_packed in (True, False):
        if not with_packed:
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                db.execute("DELETE FROM replies")
        store = Store.open(path)
        again = store.load(session)
        assert again.unfinished == ()
        for number, node in chat.nodes.items():
            assert same(again.conversation.nodes[number], node)
        assert again.conversation.nodes[nodes[0].number].beams == [beams(0), beams(1)]
        assert again.conversation.nodes[nodes[0].number].ranking == ranking(4)
        (walks,) = groups_of(again.conversation).values()
        assert {walk: node.number for walk, node in walks.items()} == {w: n.number for w, n in enumerate(nodes)}
        assert walks[2].group == group(4)
        assert [len(summary.title) + summary.tokens for summary in store.sessions()] == [1 + 2 + 3 + 4]
        assert [one.id for one in store.sessions(search="wide")] == [session]
        records = list(store.records(session, nodes[0].number))
        assert records[3:5] == [beams(0), beams(1)]
        assert records[-1] == ranking(4)
        store.close()


def test_a_walk_without_an_end_is_interrupted(path: Path) -> None:
    store = Store.open(path)
    session, _, nodes = grown(store, open_ended=2)
    assert store.close()
    store = Store.open(path)
    assert store.load(session).unfinished == (nodes[2].number,)
    store.close()


def test_a_group_is_known_by_its_starts_alone() -> None:
    chat = Conversation()
    user(chat, "hi", [1, 2])
    nodes = siblings(chat, 3)
    for walk, node in enumerate(nodes):
        for record in walked([1, 2], 2 - walk, group(3), PIECES[:2]):
            chat.add(node, record)
    (joined,) = siblings(chat, 1, nodes[0], at=1)
    for record in walked(chat.ids_before(joined.number), 3, group(3), PIECES):
        chat.add(joined, record)
    (single,) = siblings(chat, 1, chat.nodes[1])
    for record in stream([1, 2], PIECES):
        chat.add(single, record)
    assert groups_of(chat) == {NUMBER: {0: nodes[2], 1: nodes[1], 2: nodes[0], 3: joined}}
    assert (single.walk, single.group) == (None, None)
    chat.delete_node(nodes[0].number)
    assert groups_of(chat) == {NUMBER: {0: nodes[2], 1: nodes[1]}}


def test_the_leaf_stays_when_another_node_is_taken_back() -> None:
    chat = Conversation()
    user(chat, "hi", [1, 2])
    first, second = siblings(chat, 2)
    chat.drop_node(first)
    assert chat.leaf == second.number
    chat.drop_node(second)
    assert chat.leaf == 1


def test_a_token_is_found_among_those_of_many_walks(path: Path) -> None:
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, user(chat, "go", [1]))
    nodes = siblings(chat, 8)
    for node in nodes:
        store.add_node(session, node)
    streams = [walked([1], walk, group(8), [b"x"] * 150) for walk in range(7)]
    streams.append(walked([1], 7, group(8), [b"x"] * 40))
    for walk, record in interleaved(streams):
        tell(store, session, chat, nodes[walk], record)
    assert store.flush()
    looks = 0
    with closing(sqlite3.connect(path)) as db:
        rows = partial(load.load_records, db, session, nodes[3].number)

        def counted(place: int) -> object:
            nonlocal looks
            looks += 1
            return rows(place)

        for step in range(150):
            found = load.token_of_step(counted, step)  # type: ignore[arg-type]
            assert found is not None
            assert (found.step, found.walk) == (step, 3)
        assert looks / 150 < 12
        assert load.token_of_step(rows, 150) is None
    assert store.token(session, nodes[7].number, 39) == streams[7][3 + 39]
    assert store.token(session, nodes[7].number, 40) is None
    store.close()


def test_what_another_process_says_of_any_walk_after_it_was_read_is_not_in_a_copy(path: Path) -> None:
    ours, theirs = Store.open(path), Store.open(path)
    session, chat, nodes = grown(theirs, open_ended=1)
    chat.add(nodes[3], Failed("x", "y"))
    assert theirs.flush()
    ours._claims.is_elsewhere = lambda _: True  # type: ignore[method-assign] # a lock tells processes apart, not stores
    stored = ours.load(session)
    assert not stored.is_own
    assert (stored.unfinished, stored.growing) == (
        (nodes[1].number,),
        {nodes[1].number},
    )  # it is being written, though it is not the newest
    for record in (token(2, b" more", " more"), token(3, b"!", "!")):
        theirs.add_record(session, nodes[1].number, record)
    assert theirs.flush()
    before = stored.conversation.nodes[nodes[1].number].text()
    stored.close_interrupted()
    stored.copy_chat()
    assert stored.is_own
    assert ours.load(stored.id).conversation.nodes[nodes[1].number].text() == before
    assert ours.close()
    assert theirs.close()


def test_a_chat_is_claimed_until_its_last_walk_has_ended(path: Path) -> None:
    held: list[tuple[str, bool]] = []
    store = Store.open(path)
    session, chat, nodes = grown(store, open_ended=1)
    assert store.flush()
    held.append(("all but one have ended", session in store._claims._held))
    tell(store, session, chat, nodes[1], Failed("interrupted", "stopped"))
    assert store.flush()
    held.append(("all have", session in store._claims._held))
    assert held == [("all but one have ended", True), ("all have", False)]
    store.close()


KILLED = """
from tests.made_records import token
from tests.made_walks import group, siblings, walked
store = Store.open(path)
chat = Conversation()
session = store.begin(chat)
store.add_node(session, user(chat, "go", [1]))
nodes = siblings(chat, 8)
for node in nodes:
    store.add_node(session, node)
    for record in walked([1], node.number, group(8), [], None):
        chat.add(node, record)
        store.add_record(session, node.number, record)
print(session, flush=True)
begun, step = time.monotonic(), 0
while step < 60 or time.monotonic() < begun + 2.5:
    for node in nodes:
        if not node.done:
            ends = node.number == 4 and step == 20
            record = finished("length", tokens=step) if ends else token(step, b"x", "x")
            chat.add(node, record)
            store.add_record(session, node.number, record)
    step += 1
    time.sleep(0.02)
    print(step, time.monotonic(), flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_kill_loses_no_finished_walk_and_a_second_of_the_others_at_most(path: Path) -> None:
    process = child(KILLED, path)
    out, _ = process.communicate(timeout=240)
    session, *said = out.splitlines()
    steps = [(int(step), float(at)) for step, at in (line.split() for line in said)]
    store = Store.open(path)
    stored = store.load(session)
    store.close()
    assert len(stored.unfinished) == 7
    early = max((step for step, at in steps if at < steps[-1][1] - 1.0), default=0)
    assert early > 20
    for node in stored.conversation.nodes.values():
        if node.role == "assistant":
            assert (len(node.ids) == 20) if node.finished is not None else (len(node.ids) >= early)
    assert [node.number for node in stored.conversation.nodes.values() if node.finished is not None] == [4]


def test_prompts_of_siblings_are_not_kept(path: Path) -> None:
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    prompt = list(range(5000))
    store.add_node(session, user(chat, "long", prompt))
    for walk, node in enumerate(siblings(chat, 32)):
        store.add_node(session, node)
        tell(store, session, chat, node, *walked(prompt, walk, group(32), [b"x"]))
    assert store.flush()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT max(length(record)) FROM records").fetchone()[0] < 5000
    assert all(node.start is None or node.start.prompt_ids == [] for node in chat.nodes.values())
    assert next(iter(store.records(session, 33))).prompt_ids == prompt  # type: ignore[union-attr]
    store.close()


def test_what_follows_a_kept_walk_knows_how_its_cells_were_made() -> None:
    """Its siblings, which were made at the same time, are in nobody's way."""
    chat = Conversation()
    user(chat, "go", [1, 2, 3, 4])
    nodes = siblings(chat, 3)
    for walk, node in enumerate(nodes):
        for record in walked([1, 2, 3, 4], walk, group(3), [b"a", b"b", b"c"]):
            if isinstance(record, Prefill):
                record = Prefill(4, 0, [3, 1], 1.0, [2, 2], walk)
            elif isinstance(record, Token):
                record = token(record.step, b"t", "t", token_id=100 * walk + record.step)
            chat.add(node, record)
    chat.leaf = nodes[1].number
    user(chat, "on", [7, 8])
    after = reply(chat)
    for record in stream(chat.ids_before(after.number), [b"d"]):
        chat.add(after, Prefill(9, 6, [2, 1], 1.0, [2, 2]) if isinstance(record, Prefill) else record)
    kept = [Shape(3, 2), Shape(1, 2), Shape(1, 2), Shape(1, 2)]
    assert shapes_of_prompt(chat, after.number) == [*kept, Shape(2, 2), Shape(1, 2)]


def test_walks_are_deleted_restored_and_copied_as_any_branch(path: Path) -> None:
    store = Store.open(path)
    session, chat, nodes = grown(store)
    chat.delete_node(nodes[3].number)
    assert chat.leaf == nodes[2].number
    store.update_node(session, nodes[3].number, deleted=True)
    assert list(groups_of(chat)[NUMBER]) == [0, 1, 2]
    assert [one.id for one in store.sessions(search="wide")] == []  # only the last one says it
    assert store.sessions()[0].tokens == 1 + 2 + 3
    chat.restore_node(nodes[3].number)
    store.update_node(session, nodes[3].number, deleted=False)
    assert [(one.id, one.tokens) for one in store.sessions(search="wide")] == [(session, 1 + 2 + 3 + 4)]
    copy = store.duplicate(session)
    assert store.flush()
    copied = store.load(copy).conversation
    assert {number: same(node, copied.nodes[number]) for number, node in chat.nodes.items()} == dict.fromkeys(
        chat.nodes, True
    )
    assert len(copied.list_leaves()) == 4
    store.close()


def test_what_a_search_took_was_chosen_by_nobody(path: Path) -> None:
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, user(chat, "go", [1]))
    for of, node in zip(
        (group(1, kind="beams", beams=BeamSettings(2)), group(1, number=7)), siblings(chat, 2), strict=True
    ):
        store.add_node(session, node)
        taken = [
            msgspec.structs.replace(record, forced=True, logprob=-9.0) if isinstance(record, Token) else record
            for record in walked([1], 0, of, PIECES)
        ]
        tell(store, session, chat, node, *taken[:-1])
        for each in (node, node.freeze_node()):
            assert list(each.tokens.forced) == [1] * 4
            assert list(each.tokens.by_hand) == [1 if of.beams is None else 0] * 4
            calm = Heats("probability", 7).compute_heats(each.tokens) == bytes([7]) * 4
            assert calm == (of.beams is None)  # what a person forced says nothing of the model
        tell(store, session, chat, node, taken[-1])
    again = store.load(session).conversation
    assert [list(again.nodes[number].tokens.by_hand) for number in (2, 3)] == [[0] * 4, [1] * 4]
    store.close()
