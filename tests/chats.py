"""Chats as tests make them: on an engine, with settings, kept in a store or nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from termchat.chat.host import Choice, Host
from termchat.chat.service import Chat
from termchat.conversation.session import Session
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.samplers import Tuning
from termchat.engine.port import Engine, ModelSpec
from termchat.models.errors import ModelError

_OPTIONS = ("candidates", "on_full", "keep_logits", "step_by_step_text", "configured", "measures")


def chat_on(
    engine: Engine,
    tuning: Tuning | None = None,
    *,
    session: Session | None = None,
    conversation: Conversation | None = None,
    origin: dict[str, str] | None = None,
    store: Store | None = None,
    kept: bool = False,
    **more: Any,
) -> Chat:
    """A chat on a host of its own. `kept` has the records of its tokens in memory; `more` are fields of its session, or what
    else `Chat` takes."""
    options = {name: more.pop(name) for name in _OPTIONS if name in more}
    session = session or Session(
        tuning=tuning or Tuning(), origins=origin or {}, conversation=conversation or Conversation(), store=store,
        kept={} if kept else None, **more,
    )  # fmt: skip
    return Chat(Host(engine), session, **options)


def chosen(spec: ModelSpec) -> Callable[[Chat], Iterable[str]]:
    """What loads this model for an app."""

    def load(chat: Chat) -> Iterable[str]:
        chat.loading.load(spec)
        return ()

    return load


def missing(why: str) -> Callable[[Chat], Iterable[str]]:
    """What finds no model for an app."""

    def load(_: Chat) -> Iterable[str]:
        raise ModelError(why)

    return load


def switch_to(chat: Chat, choice: Choice) -> Iterable[str]:
    """Loads a model as an app does; the faults of the lists that it comes from."""
    chat.loading.switch_model(choice)
    return choice.mistakes
