"""A chat as a list of messages, as other programs know it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from termchat.conversation.tree import Conversation
from termchat.decoding.escapes import well_formed

Speaker = Literal["system", "user", "assistant"]


def said(conversation: Conversation) -> Iterator[tuple[Speaker, str]]:
    """Who said what on the path that is shown, the system message first; replies without a word are left out."""
    if conversation.system:
        yield "system", well_formed(conversation.system)
    for role, text in conversation.turns():
        if text or role == "user":
            yield role, well_formed(text)
