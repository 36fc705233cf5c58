"""A chat as a list of messages, as other programs know it: there, and back again.

Of a reply from elsewhere only its words are known. It becomes a reply without tokens whose text came with its end, made by
another model than any that is here, so that the next turn has the whole chat rendered and tokenised anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import msgspec

from termchat.conversation import columns
from termchat.conversation.formats.values import ValueProblem, values
from termchat.conversation.halves import replaced
from termchat.conversation.lines import LineError
from termchat.conversation.session import ModelRef, SessionInfo
from termchat.conversation.transcript import Transcript, TranscriptError
from termchat.conversation.tree import Conversation
from termchat.decoding.escapes import well_formed
from termchat.decoding.records import FORMAT, Failed, Finished, ModelIdentity, Record, Start

MOST_MESSAGES = 10_000
MOST_CHATS = 100_000

_T = TypeVar("_T")

Speaker = Literal["system", "user", "assistant"]

_UNKNOWN = "imported"
_TITLE = 60
_UNANSWERED = Failed("imported", "the file has no reply to this message", "regenerate has one made")


class Message(NamedTuple):
    """What somebody said."""

    speaker: Speaker
    text: str


class Found(NamedTuple):
    """What one object of a file holds: a whole chat, or with `whole` False messages of the one chat that the file is. `halves`
    is the number of half characters that became U+FFFD.
    """

    messages: Sequence[Message]
    model: str = ""
    whole: bool = True
    halves: int = 0


def said(conversation: Conversation) -> Iterator[Message]:
    """Who said what on the path that is shown, the system message first; replies without a word are left out."""
    if conversation.system:
        yield Message("system", well_formed(conversation.system))
    for role, text in conversation.turns():
        if text or role == "user":
            yield Message(role, well_formed(text))


def decoded(decode: Callable[[bytes], _T], data: bytes) -> tuple[_T, int]:
    """What an object holds, and how many half characters in it became U+FFFD.

    Raises:
        LineError: it is no JSON, or not what `decode` takes.
    """
    try:
        try:
            return decode(data), 0
        except msgspec.DecodeError:  # hardly any has one, and to look for it takes longer than all the rest
            data, halves = replaced(data)
            return decode(data), halves
    except UnicodeDecodeError:
        raise LineError("it is not UTF-8") from None
    except msgspec.MsgspecError as error:
        raise LineError(str(error)) from None


def read(path: Path, find: Callable[[bytes], Found], hint: str) -> Iterator[Transcript]:
    """The chats of a file whose objects `find` understands. It is looked through once before the first one is given.

    Raises:
        TranscriptError: it cannot be read, or an object of it not be understood: names line and reason. `find` raises
            `LineError`.
    """
    count = 0
    for count, _ in enumerate(_chats(path, find, hint), 1):
        if count > MOST_CHATS:
            raise TranscriptError(f"{path.name} holds more than {MOST_CHATS:,} chats", "Take it in in parts.")
    if not count:
        raise TranscriptError(f"{path.name} holds no chat", hint)
    yield from _chats(path, find, hint)


def _chats(path: Path, find: Callable[[bytes], Found], hint: str) -> Iterator[Transcript]:
    loose: list[Message] = []
    begun = line = 1
    halves = 0
    try:
        with path.open("rb") as file:
            for line, data in values(file):
                found = find(data)
                if found.whole:
                    yield _transcript(found.messages, found.model, found.halves)
                else:
                    begun = begun if loose else line
                    loose += found.messages
                    halves += found.halves
                if len(loose) > MOST_MESSAGES:
                    raise LineError(f"there are more than {MOST_MESSAGES:,} messages")
        line = begun
        if loose:
            yield _transcript(loose, "", halves)
    except LineError as error:
        at = error.line if isinstance(error, ValueProblem) else line
        raise TranscriptError(f"{path.name}, line {at}: {error}", hint) from None
    except OSError as error:
        raise TranscriptError(f"{path} cannot be read: {error.strerror or error}", "Check the path.") from error


def _transcript(messages: Sequence[Message], model: str, halves: int) -> Transcript:
    first = next((at for at, message in enumerate(messages) if message.speaker != "system"), len(messages))
    system, rest = messages[:first], messages[first:]
    if not rest:
        raise LineError("a chat has no message")
    if any(message.speaker == "system" for message in rest):
        raise LineError("a system message stands in the middle of a chat; here it can only stand before it")
    chat = Conversation("\n\n".join(message.text for message in system))
    chat.title = " ".join(next((m.text for m in rest if m.speaker == "user"), rest[0].text).split())[:_TITLE]
    made = _Replies(chat, model[:_TITLE] or _UNKNOWN)
    for speaker, several in groupby(rest, key=lambda message: message.speaker):
        texts = [message.text for message in several]
        if speaker == "assistant":
            made.reply(Finished("end", "", "\n\n".join(texts), 0, None, 0.0, 0.0, None))
        else:
            for text in texts:
                chat.grow("user", parent=chat.leaf, at=0, text=text)
    if rest[-1].speaker == "user":
        made.reply(_UNANSWERED)
    return Transcript(SessionInfo(model=ModelRef(made.model)), chat, made.packed, halves)


class _Replies:
    """The replies of a chat, with records that say no more than is known."""

    def __init__(self, chat: Conversation, model: str) -> None:
        self._chat, self.model = chat, model
        self.packed: dict[int, list[bytes]] = {}

    def reply(self, end: Finished | Failed) -> None:
        identity = ModelIdentity(self.model, "", "", "", "")
        start = Start(FORMAT, "", "", identity, [], False, 0, 0, 0, 0, 0, "", False)
        node = self._chat.grow("assistant", parent=self._chat.leaf, at=0)
        records: tuple[Record, ...] = (start, end)
        for record in records:
            node.add(record)
        self.packed[node.number] = [columns.from_record(record) for record in records]
