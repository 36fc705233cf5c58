"""A transcript is of the chat as it was when it was asked for, however long it takes to write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from termchat.chat.opening import make_saver
from termchat.conversation.session import Session
from termchat.conversation.store.store import Store
from termchat.conversation.transcripts.jsonl_reader import read
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.decoding.records import Record
from tests import made_records


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "sessions.db")
    yield opened
    opened.close()


def test_what_is_said_meanwhile_is_not_in_it(store: Store, tmp_path: Path) -> None:
    session = Session(store=store)
    chat = session.conversation
    session.add_node(made_records.user(chat, "go", [1, 2, 3]))
    node = made_records.reply(chat)
    session.add_node(node)
    records = list(made_records.stream(chat.list_ids(), [b"one", b" two", b" three", b" four"]))

    def come(some: list[Record]) -> None:
        for record in some:
            session.add(node, record)

    come(records[:-3])  # without the last two tokens and the end
    assert len(node.tokens) == 2
    jsonl, markdown = (make_saver(session, tmp_path / name) for name in ("chat.jsonl", "chat.md"))
    come(records[-3:])
    session.add_node(made_records.user(chat, "and then?", [4, 5]))
    assert list(read(jsonl()).conversation.list_turns()) == [("user", "go"), ("assistant", "one two")]
    assert "one two\n" in (said := markdown().read_text())
    assert "and then?" not in said
    later = make_saver(session, tmp_path / "later.jsonl")()
    assert [text for _, text in read(later).conversation.list_turns()] == ["go", "one two three four", "and then?"]


def test_a_chat_that_was_not_begun_has_no_transcript(store: Store, tmp_path: Path) -> None:
    save = make_saver(Session(store=store), tmp_path / "chat.md")
    with pytest.raises(TranscriptError, match="nothing to save yet"):
        save()
