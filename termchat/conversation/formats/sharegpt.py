"""The messages of a chat as ShareGPT has them: `{"conversations": [{"from": "human", "value": …}, …]}`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from termchat.conversation.formats.messages import said
from termchat.conversation.session import SessionInfo
from termchat.conversation.transcript import Records
from termchat.conversation.tree import Conversation

_NAMES = {"system": "system", "user": "human", "assistant": "gpt"}


def lines(conversation: Conversation, info: SessionInfo, _: Records) -> Iterator[str]:
    """One object on one line, so that files of several chats can be put together."""
    turns = [{"from": _NAMES[role], "value": text} for role, text in said(conversation)]
    yield json.dumps({"id": info.id, "conversations": turns})
