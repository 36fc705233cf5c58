"""Chats told to a store at once or in time, in the test's process and in those that it starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import tests.store_timeouts  # noqa: F401  (in the processes that import this)
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.records import Record
from tests.made_records import reply, stream, user


def say(store: Store, session: str, chat: Conversation, text: str, tokens: int = 20) -> list[Record]:
    """A turn and its reply, told to the store as a chat does; returns the reply's records."""
    store.add_node(session, user(chat, text, [1, 2]))
    answer = reply(chat)
    store.add_node(session, answer)
    records = stream(chat.ids_before(answer.number), [b"word "] * tokens)
    for record in records:
        answer.add(record)
        store.add_record(session, answer.number, record)
    return records


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def turns(path: Path, session: str) -> list[str]:
    store = Store.open(path)
    try:
        return [text for role, text in store.load(session).conversation.list_turns() if role == "user"]
    finally:
        store.close()
