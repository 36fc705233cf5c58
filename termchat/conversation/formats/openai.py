"""The messages of a chat as OpenAI's API takes them: `{"messages": [{"role": …, "content": …}, …]}`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from termchat.conversation.formats.messages import said
from termchat.conversation.session import SessionInfo
from termchat.conversation.transcript import Records
from termchat.conversation.tree import Conversation


def lines(conversation: Conversation, _: SessionInfo, __: Records) -> Iterator[str]:
    """One object on one line, so that files of several chats can be put together."""
    yield json.dumps({"messages": [{"role": role, "content": text} for role, text in said(conversation)]})
