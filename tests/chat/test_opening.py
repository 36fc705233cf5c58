"""From the store and a configuration to a chat that goes on."""

from __future__ import annotations

from pathlib import Path

from termchat.chat.opening import reopen_latest
from termchat.conversation.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.samplers import Tuning
from termchat.settings import load


def test_no_models_recommendation_overwrites_what_a_chat_was_set_to(tmp_path: Path) -> None:
    """top_p stands at its default in the chat: that was the chat's own choice too."""
    store = Store.open(tmp_path / "sessions.db")
    chat = Conversation("")
    session = store.begin(chat, tuning=Tuning(temperature=0.5))
    store.add_node(session, chat.grow("user", parent=None, at=0, text="hi"))
    found = reopen_latest(store, load({"top_k": 9}, {}, tmp_path / "none"))
    store.close()
    assert found is not None
    config = found.config.with_recommended({"temperature": 0.1, "top_p": 0.1, "top_k": 1})
    assert config.tuning == Tuning(temperature=0.5, top_k=9)
    assert [config.origin[name] for name in ("temperature", "top_p", "top_k")] == ["session", "session", "flag"]
