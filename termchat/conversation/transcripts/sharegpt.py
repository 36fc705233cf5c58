"""The messages of a chat as ShareGPT has them: `{"conversations": [{"from": "human", "value": …}, …]}`.

A file may hold one such object, several, a list of them, or a bare list of messages. Collections have it with `conversation`,
with `role` and `content`, and with the system message beside the others, too.
"""

from __future__ import annotations

import json
import re
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

_HINT = 'Expected {"conversations": [{"from": "human", "value": "…"}, …]} with text by system, human and gpt.'

_NAMES: dict[Speaker, str] = {"system": "system", "user": "human", "assistant": "gpt"}
_SPEAKERS: dict[str, Speaker] = {
    **{name: speaker for speaker, name in _NAMES.items()},
    **dict.fromkeys(("user",), "user"),
    **dict.fromkeys(("assistant", "chatgpt", "bing", "bard", "model"), "assistant"),
}
"""Ours, and those that collections of such chats have."""


_THOUGHTS = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)
"""How a reply begins that has thoughts; see `_write_value`."""


class _Message(msgspec.Struct):
    """A message; some collections use OpenAI's field names."""

    speaker: str | None = msgspec.field(name="from", default=None)
    value: str | None = None
    role: str | None = None
    content: str | None = None


_Messages = Annotated[list[_Message], msgspec.Meta(max_length=MOST_MESSAGES)]


class _Object(_Message):
    """A chat, or one message of it."""

    conversations: _Messages | None = None
    conversation: _Messages | None = None
    system: str | None = None
    model: str | None = None


_decode = msgspec.json.Decoder(_Object).decode


def lines(conversation: Conversation, info: Session, _: Records) -> Iterator[str]:
    """One object on one line, so that files of several chats can be put together."""
    turns = [
        {"from": _NAMES[message.speaker], "value": _write_value(message)} for message in list_messages(conversation)
    ]
    yield json.dumps({"id": info.id, "conversations": turns})


def _write_value(message: ChatMessage) -> str:
    """Join thoughts and text as collections do, between the tags that most models have."""
    return f"<think>\n{message.thoughts}\n</think>\n\n{message.text}" if message.thoughts else message.text


def chats(path: Path) -> Iterator[Transcript]:
    return read(path, _find_messages, _HINT)


def _find_messages(data: bytes) -> FoundMessages:
    found, halves = decode_object(_decode, data)
    several = found.conversations if found.conversations is not None else found.conversation
    if several is None:
        return FoundMessages(read_messages([found], _read_message), whole=False, halves=halves)
    before = [ChatMessage("system", found.system)] if found.system else []
    return FoundMessages([*before, *read_messages(several, _read_message)], found.model or "", halves=halves)


def _read_message(found: _Message) -> ChatMessage:
    speaker, text = found.speaker or found.role, found.value if found.value is not None else found.content
    if speaker is None or text is None:
        raise LineError("it has neither `conversations` nor a speaker with text")
    if speaker not in _SPEAKERS:
        raise LineError(f"a message from the unsupported speaker {speaker!r:.40}")
    thoughts = _THOUGHTS.match(text) if _SPEAKERS[speaker] == "assistant" else None
    if thoughts is None:
        return ChatMessage(_SPEAKERS[speaker], text)
    return ChatMessage("assistant", text[thoughts.end() :], thoughts[1].strip())
