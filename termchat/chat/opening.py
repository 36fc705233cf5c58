"""From a configuration to what an engine can load, and from the store to a chat that goes on."""

from __future__ import annotations

from termchat.chat.recording import StoreRecorder
from termchat.conversation.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.records import Token
from termchat.engine.port import ModelSpec
from termchat.models import catalogue
from termchat.models.header import read_header
from termchat.settings import Config


def find_model(config: Config) -> tuple[Config, ModelSpec]:
    """The configured model's file, checked, and the configuration with what the file recommends.

    Raises:
        ModelError: there is no such model, or its file cannot be used; says what to do.
    """
    name, path = catalogue.resolve(config.model)
    header = read_header(path)
    config = config.with_recommended(header.recommended)
    return config, config.spec(name, path, sha256=header.identity(), quantization=header.quantization)


def reopen_latest(store: Store) -> tuple[StoreRecorder, Conversation, Token | None] | None:
    """The latest chat as it was, ready to go on; None when there is none."""
    session = store.latest()
    if session is None:
        return None
    stored = store.load(session)
    conversation = stored.conversation
    newest = None
    if conversation.leaf is not None:
        for record in store.records(session, conversation.leaf):
            if isinstance(record, Token):
                newest = record
    return StoreRecorder(store, stored.info.tuning, session), conversation, newest
