"""Odd values in the store's columns, as flipped bits and other programs leave them: they spoil and end nothing else."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from termchat.conversation.session import Breakpoint, View
from termchat.conversation.store import codec
from termchat.conversation.store.schema import COLUMNS
from termchat.conversation.store.store import Store, StoreError
from termchat.conversation.transcripts import FORMATS
from termchat.conversation.transcripts.transcript import TranscriptError, limit_records
from termchat.conversation.tree import Conversation
from termchat.decoding.conditions import Text, parse
from termchat.decoding.records import Token
from termchat.decoding.samplers import Tuning
from tests.conversation.stored import saved, say

DEEP = "'{\"zz\":' || replace(hex(zeroblob(20000)), '00', '[') || replace(hex(zeroblob(20000)), '00', ']') || '}'"
VALUES = {
    "a blob": "x'fffe00'",
    "a word": "'a1' || char(27) || '[2J'",
    "deep": DEEP,
    "odd JSON": """'{"turns":-5,"summary":99,"name":5,"cursor":[-1]}'""",
    "negative": "-7",
    "a fraction": "0.5",
    "huge": "9223372036854775807",
    "infinite": "9e999",
    "NULL": "NULL",
}
OWN = {"sessions": "id", "nodes": "session", "records": "session", "unsent": "session", "prompts": "session"}
WHOLE = [("user", "a whole question"), ("assistant", " whole answer")]
ODD = [(table, column.split()[0]) for table in OWN for column in COLUMNS[table]]
INDEXED = ("id", "number", "role", "title", "text")
"""Columns that lists and searches are made from."""
DERIVED = [
    ("texts", "text"), ("texts", "turns"), ("texts", "tokens"), ("texts", "whole"), ("tallies", "turns"),
    ("tallies", "tokens"), ("replies", "packed"), ("replies", "records"), ("history", "text"),
]  # fmt: skip


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A store with two chats, and their ids: the one whose values are to be odd, and the other."""
    path = tmp_path_factory.mktemp("filled") / "sessions.db"
    store = Store.open(path)
    chat = Conversation("Be brief.")
    chat.title = "an odd chat"
    odd = store.begin(chat, tuning=Tuning(temperature=0.5))
    say(store, odd, chat, "an odd question", [1, 2], [b"odd", b" answer"])
    say(store, odd, chat, "another one", [3], [b"odd", b" answer"])
    store.update(odd, view=View(look="heat"), breakpoints=(Breakpoint(Text("x")),))
    store.keep_unsent(odd, "a draft", ("queued",))
    store.add_message("a message")
    whole, _ = saved(store, "the whole one", ("a whole question", "whole answer"))
    assert store.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO prompts VALUES (?, 1, 'Be long.')", (odd,))
        db.commit()
    return path, odd, whole


@contextlib.contextmanager
def changed(filled: tuple[Path, str, str], folder: Path, *statements: str) -> Iterator[Store]:
    """The store after some changes of it."""
    for old in folder.iterdir():
        old.unlink()
    path = folder / "sessions.db"
    shutil.copy(filled[0], path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        for statement in statements:
            with contextlib.suppress(sqlite3.IntegrityError):
                db.execute(statement)
        db.commit()
    store = Store.open(path, 60)
    try:
        yield store
    finally:
        assert store.close(60)


def use(store: Store, session: str) -> None:
    """Does with a chat all that lists, previews, screens and commands do. What cannot be read may be told."""
    with contextlib.suppress(StoreError):
        for role, text in store.preview(session):
            assert (type(role), type(text)) == (str, str)
    try:
        stored = store.load(session)
    except StoreError:
        return
    chat, info = stored.conversation, stored
    texts = [chat.title, chat.system, chat.unsent.draft, *chat.unsent.waiting]
    assert all(isinstance(text, str) for text in texts)
    for value in (
        info.id,
        info.created,
        info.updated,
        info.model,
        info.tuning,
        info.view,
        info.named,
        *info.breakpoints,
    ):
        assert msgspec.convert(msgspec.to_builtins(value), type(value)) == value
    assert all(isinstance(text, str) for _, text in chat.list_turns())
    chat.list_ids(), chat.find_forks(), chat.list_leaves()
    for node in chat.nodes.values():
        store.token(session, node.number, 0)
    for form in FORMATS.values():
        with contextlib.suppress(TranscriptError):
            lines = form.writer(
                chat, info, lambda number: limit_records(chat.nodes[number], store.records(session, number))
            )
            assert all(isinstance(line, str) for line in lines)


def check_rest(store: Store, whole: str) -> None:
    """The other chat is as it was, in the list, in a search and when it is opened."""
    found = {one.id: one for one in store.sessions()}
    assert found[whole].title == "the whole one"
    for one in found.values():
        assert msgspec.convert(msgspec.to_builtins(one), type(one)) == one
        assert (one.turns >= 0, one.tokens >= 0) == (True, True)
        use(store, one.id)
    assert [one.id for one in store.sessions(search="whole answer")] == [whole]
    store.sessions(search="odd")
    store.sessions(search="an x")
    for how in ({"deleted": True}, {"lessons": True}):
        store.sessions(**how)
    assert [*store.load(whole).conversation.list_turns()] == WHOLE
    assert store.preview(whole) == WHOLE
    assert all(isinstance(text, str) for text in store.messages())
    assert isinstance(store.abandoned(), str)


@pytest.mark.parametrize(("table", "column"), ODD)
def test_an_odd_value_of_a_chat_spoils_no_other(
    filled: tuple[Path, str, str], tmp_path: Path, table: str, column: str
) -> None:
    _, odd, whole = filled
    for value in VALUES.values():
        one = f"UPDATE OR IGNORE {table} SET {column} = {value} WHERE {OWN[table]} = '{odd}'"
        anew = [f"DELETE FROM {name}" for name in ("tallies", "texts", "found", "replies")]
        with changed(filled, tmp_path, *(anew if column in INDEXED else ()), one) as store:
            check_rest(store, whole)


@pytest.mark.parametrize(("table", "column"), DERIVED)
def test_nor_does_one_that_is_derived(filled: tuple[Path, str, str], tmp_path: Path, table: str, column: str) -> None:
    _, odd, whole = filled
    where = {
        "texts": f"WHERE id >> 32 = (SELECT number FROM tallies WHERE session = '{odd}')",
        "tallies": f"WHERE session = '{odd}'",
        "replies": f"WHERE session = '{odd}'",
        "history": "",
    }
    for value in VALUES.values():
        with changed(filled, tmp_path, f"UPDATE OR IGNORE {table} SET {column} = {value} {where[table]}") as store:
            check_rest(store, whole)


def test_a_chat_of_which_nothing_can_be_read_is_named(filled: tuple[Path, str, str], tmp_path: Path) -> None:
    _, odd, whole = filled
    with changed(filled, tmp_path, f"UPDATE nodes SET role = 'x' WHERE session = '{odd}'") as store:
        assert {one.id for one in store.sessions()} == {odd, whole}
        with pytest.raises(StoreError) as refused:
            store.load(odd)
        assert refused.value.message == "the chat an odd chat is damaged: none of its messages can be read"
        assert refused.value.hint == f"To delete it: termchat sessions rm {odd}"
        store.delete(odd)
        assert [one.id for one in store.sessions()] == [whole]


def test_one_knob_out_of_range_takes_no_other_along() -> None:
    text = codec.from_settings(Tuning(temperature=0.5, stop=("x",), seed=4))
    assert codec.to_tuning(text) == Tuning(temperature=0.5, stop=("x",), seed=4)
    for odd in ('"top_k":-99999999999', '"top_p":1e308', '"mirostat":"x"', '"max_tokens":-5', '"unknown":1'):
        name = odd.partition('"')[2].partition('"')[0]
        plain = {key: value for key, value in msgspec.json.decode(text).items() if key != name}
        changed = msgspec.json.encode(plain).decode()[:-1] + f",{odd}}}"
        assert codec.to_tuning(changed) == Tuning(temperature=0.5, stop=("x",), seed=4)


def test_one_bad_breakpoint_takes_no_other_along() -> None:
    points = (Breakpoint(parse("after 3 sentences")), Breakpoint(Text("x"), enabled=False))
    text = codec.from_settings(points)
    assert codec.to_breakpoints(text) == points
    bad = '{"condition":{"condition":"after","amount":-5,"quantity":"sentences"}}', '{"condition":7}', "5"
    assert codec.to_breakpoints(f"[{','.join(bad)},{text[1:]}") == points


@pytest.mark.parametrize("packed", [True, False])
def test_numbers_that_a_faulty_server_gave_are_absent(tmp_path: Path, packed: bool) -> None:
    """Also where they were saved before they were looked at."""
    path = tmp_path / "sessions.db"
    store = Store.open(path)
    chat = Conversation()
    session = store.begin(chat)
    records = say(store, session, chat, "a question", [1], [b"a", b"b"])
    assert store.close()
    odd = [
        msgspec.structs.replace(one, logprob=1e308, p_end=-3.0) if isinstance(one, Token) else one for one in records
    ]
    with contextlib.closing(sqlite3.connect(path)) as db:
        rows = [seq for (seq,) in db.execute("SELECT seq FROM records ORDER BY seq")]
        for seq, record in zip(rows, odd, strict=True):
            db.execute("UPDATE records SET record = ? WHERE seq = ?", (codec.from_record(record), seq))
        node = chat.nodes[2]
        for column in (node.tokens.logprobs, node.tokens.p_ends):
            for at in range(len(column)):
                column[at] = float("inf")
        blob = codec.from_reply(node) if packed else b"\x93"
        db.execute("UPDATE replies SET packed = ?", (blob,))
        db.commit()
    store = Store.open(path)
    try:
        tokens = store.load(session).conversation.nodes[2].tokens
        assert [value != value for value in (*tokens.logprobs, *tokens.p_ends)] == [True] * 4
        assert [record.logprob != record.logprob for record in store.records(session, 2) if isinstance(record, Token)]
        info, chat = store.load(session), store.load(session).conversation
        lines = [*FORMATS["jsonl"].writer(chat, info, partial(store.records, session))]
    finally:
        store.close()
    file = tmp_path / "x.jsonl"
    file.write_text("\n".join(lines) + "\n")
    (again,) = FORMATS["jsonl"].reader(file)  # type: ignore[misc]
    assert [*again.conversation.list_turns()] == [*chat.list_turns()]
