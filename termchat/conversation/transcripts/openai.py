"""The messages of a chat as OpenAI's API takes them: `{"messages": [{"role": …, "content": …}, …]}`.

A file may hold one such object, several, a list of them, or a bare list of messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from termchat.conversation.session import Session
from termchat.conversation.transcripts.jsonl_lines import LineError
from termchat.conversation.transcripts.messages import (
    MOST_MESSAGES,
    ChatMessage,
    FoundMessages,
    Speaker,
    decode_object,
    list_messages,
    read,
    read_messages,
)
from termchat.conversation.transcripts.transcript import Records, Transcript
from termchat.conversation.tree import Conversation

_HINT = (
    'Expected {"messages": [{"role": "user", "content": "…"}, …]} with text by system, developer, user and assistant.'
)

_SPEAKERS: dict[str, Speaker] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


class _Part(msgspec.Struct):
    type: str
    text: str = ""


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Part] | None = None
    reasoning_content: str | None = None


class _Object(msgspec.Struct):
    """A chat, or one message of it."""

    messages: Annotated[list[_Message], msgspec.Meta(max_length=MOST_MESSAGES)] | None = None
    model: str | None = None
    role: str | None = None
    content: str | list[_Part] | None = None
    reasoning_content: str | None = None
    mapping: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode = msgspec.json.Decoder(_Object).decode


def lines(conversation: Conversation, _: Session, __: Records) -> Iterator[str]:
    """One object on one line, so that files of several chats can be put together."""
    yield json.dumps({"messages": [_write_message(message) for message in list_messages(conversation)]})


def _write_message(message: ChatMessage) -> dict[str, str]:
    """Build the message; thoughts have the name that servers for reasoning models use."""
    known = {"role": message.speaker, "content": message.text}
    return known | ({"reasoning_content": message.thoughts} if message.thoughts else {})


def chats(path: Path) -> Iterator[Transcript]:
    return read(path, _find_messages, _HINT)


def _find_messages(data: bytes) -> FoundMessages:
    found, halves = decode_object(_decode, data)
    if found.messages is not None:
        return FoundMessages(read_messages(found.messages, _read_message), found.model or "", halves=halves)
    if found.mapping is not msgspec.UNSET:
        raise LineError("ChatGPT's own export format (a tree) is not supported")
    if found.role is None:
        raise LineError("it has neither `messages` nor a `role`")
    message = _Message(found.role, found.content, found.reasoning_content)
    return FoundMessages(read_messages([message], _read_message), whole=False, halves=halves)


def _read_message(message: _Message) -> ChatMessage:
    role, content = message.role, message.content
    if role not in _SPEAKERS:
        raise LineError(f"a message with the unsupported role {role!r:.40}")
    thoughts = message.reasoning_content or "" if role == "assistant" else ""
    content = "" if content is None and thoughts else content
    if content is None:
        raise LineError(f"a message with the role {role!r} but without text")
    parts = [_Part("text", content)] if isinstance(content, str) else content
    other = next((part.type for part in parts if part.type != "text"), None)
    if other is not None:
        raise LineError(f"a message contains a {other!r:.40} part; only text is supported")
    return ChatMessage(_SPEAKERS[role], "".join(part.text for part in parts), thoughts)
