"""Chats told to the store as the app does, in this process and in others."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from termchat import paths
from termchat.conversation.store.store import ModelRef, Store
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import Record, SettingsRecord
from termchat.decoding.samplers import KNOBS, SamplerSettings, Tuning
from tests import made_records
from tests.made_records import reply, stream, user

CHILD = """
import os, resource, sys, time
from pathlib import Path
from termchat.conversation.store import writer
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
import tests.store_timeouts
from tests.made_records import finished, settings, start, stream, token, user, reply
from tests.conversation.stored import eventually, say
writer.RETRY_S = 0.2
path = Path(sys.argv[1])
"""


def say(store: Store, session: str, chat: Conversation, text: str, ids: list[int], pieces: list[bytes]) -> list[Record]:
    """A turn and its reply, told to the store as a chat does; returns the reply's records."""
    store.add_node(session, user(chat, text, ids))
    answer = reply(chat)
    store.add_node(session, answer)
    records = stream(chat.ids_before(answer.number), pieces)
    for record in records:
        chat.add(answer, record)
        store.add_record(session, answer.number, record)
    return records


def reopened(path: Path, session: str) -> Conversation:
    store = Store.open(path)
    try:
        return store.load(session).conversation
    finally:
        store.close()


def same(one: Node, other: Node) -> bool:
    def all_of(node: Node) -> object:
        columns = vars(node.tokens) | {"margins": bytes(node.tokens.margins)}  # NaN is not NaN
        earlier = node.earlier.number if node.earlier is not None else None
        return {name: value for name, value in vars(node).items() if name != "tokens"} | columns | {"earlier": earlier}

    return all_of(one) == all_of(other)


def eventually(store: Store, wanted: bool, seconds: float = 60.0) -> bool:
    """Whether `problem` comes to be one, or none, in time."""
    end = time.monotonic() + seconds
    while (store.problem() is not None) != wanted and time.monotonic() < end:
        time.sleep(0.02)
    return (store.problem() is not None) == wanted


NOT_ROOT = """
if os.geteuid() == 0:
    os.chown(path.parent, 65534, 65534)
    os.seteuid(65534)
"""
"""For a `child`: from here on it is nobody in particular. Root may write anywhere."""

ONE_CHAT = """
store = Store.open(path)
chat = Conversation()
session = store.begin(chat)
say(store, session, chat, "before", [1, 2], [b"a"])
assert store.close()
"""
"""For a `child`: a store with one chat, saved and closed."""


def child(code: str, path: Path, **kind: object) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", CHILD + code, str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root, **kind,  # type: ignore[call-overload]
    )  # fmt: skip


def output(process: subprocess.Popen[str]) -> str:
    out, error = process.communicate(timeout=240)
    assert process.returncode == 0, error
    return out


def saved_with_knobs(store: Store, origin: dict[str, str], left: Tuning, **drawn_with: float) -> None:
    """A chat with one reply that was drawn with some knobs, and left with others."""
    chat = Conversation("")
    session = store.begin(chat, tuning=left)
    turn = chat.grow_node("user", parent=None, at=0, text="hi")
    store.add_node(session, turn)
    reply = chat.grow_node("assistant", parent=turn.number, at=0)
    store.add_node(session, reply)
    drawn = SettingsRecord(0, SamplerSettings(**drawn_with), (), dict.fromkeys(KNOBS, "default") | origin)
    for record in (made_records.start([1, 2]), drawn, made_records.finished()):
        reply.add(record)
        store.add_record(session, reply.number, record)
    assert store.flush()


def saved(store: Store, title: str, *turns: tuple[str, str]) -> tuple[str, Conversation]:
    """A chat with these messages and replies."""
    chat = Conversation()
    chat.title = title
    session = store.begin(chat)
    for asked, answered in turns:
        say(store, session, chat, asked, [1, 2], pieces(answered))
    return session, chat


def saved_in_home(title: str, asked: str, answered: str) -> str:
    """A chat of one turn in the store that the commands use; its id."""
    store = Store.open(paths.store_file())
    chat = Conversation("be brief")
    chat.title = title
    session = store.begin(chat, model=ModelRef("smollm2"))
    say(store, session, chat, asked, [1, 2], pieces(answered))
    assert store.close()
    return session


def pieces(text: str) -> list[bytes]:
    """A text as tokens, a word each."""
    return [f" {word}".encode() for word in text.split()]


def found(store: Store, search: str, **how: object) -> list[str]:
    return [one.title for one in store.sessions(search=search, **how)]  # type: ignore[arg-type]
