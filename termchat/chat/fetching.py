"""Fetches a chat from the store for an app that runs already. It takes its time: a thread does it."""

from __future__ import annotations

import msgspec

from termchat.chat.loading import Choice
from termchat.chat.opening import choose, reopen
from termchat.chat.reopening import Past
from termchat.conversation.session import ModelRef
from termchat.conversation.store import Store
from termchat.models.errors import ModelError
from termchat.settings import DEFAULT, Config


def fetch(store: Store, session: str, config: Config, loaded: str) -> Past:
    """A chat as it was left, and the model it was with, found and checked, unless that is the `loaded` one (its SHA-256).

    Raises:
        StoreError: there is no such chat, or it cannot be read.
    """
    # Here a flag says nothing of the model: it chose the one to begin with.
    config = msgspec.structs.replace(config, model=None, origin=config.origin | {"model": DEFAULT})
    found = reopen(store, session, config)
    info = found.recorder.info
    past = Past(found.conversation, info, found.config.knob_origin(), found.newest)
    if not info.model.name or (info.model.identity is not None and info.model.identity.sha256 == loaded):
        return past
    choice, missing = _model(config, info.model, found.config.model)
    return past._replace(choice=choice, missing=missing)


def _model(config: Config, model: ModelRef, wanted: str | None) -> tuple[Choice | None, str]:
    """The model, or what it was and why it cannot be had."""
    if wanted is None:
        return None, f"{model.name}, which is not here"
    try:
        return choose(config, wanted), ""
    except ModelError as error:
        return None, f"{model.name}, which cannot be loaded: {error.message}"
