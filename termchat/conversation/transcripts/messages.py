"""A chat as a list of messages, as other programs know it: there, and back again.

Of an imported reply only the words are known. It becomes a reply without tokens whose text came with its end, made by an
unknown model, so that the next turn renders and tokenises the whole chat anew. Files may be large: their objects are found
by a scanner (`values`) and decoded one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, TypeVar

import msgspec

from termchat import regular_files
from termchat.conversation.session import ModelRef, SessionInfo
from termchat.conversation.store import codec
from termchat.conversation.thoughts import answer_of, thoughts_of
from termchat.conversation.transcripts.jsonl_lines import LineError, replaced
from termchat.conversation.transcripts.transcript import Transcript, TranscriptError
from termchat.conversation.tree import Conversation
from termchat.decoding.escapes import well_formed
from termchat.decoding.records import FORMAT, Failed, Finished, ModelIdentity, Record, Start
from termchat.text import size

MOST_BYTES = 1 << 32
"""Of a file. The largest collections of chats have a quarter of that."""

LONGEST = 1 << 24
"""Bytes of one object."""

DEEPEST = 32
"""Lists and objects within each other; a chat has four."""

_CHUNK = 1 << 16
_NEXT = re.compile(rb"[^\s,]")
_IN_OBJECT = re.compile(rb'["{}\[\]]')
_IN_TEXT = re.compile(rb'["\\]')
_MARK = b"\xef\xbb\xbf"


MOST_MESSAGES = 10_000
MOST_CHATS = 100_000
_T = TypeVar("_T")
Speaker = Literal["system", "user", "assistant"]
_UNKNOWN = "imported"
_TITLE = 60
_UNANSWERED = Failed("imported", "the imported file has no reply to this message", "use Regenerate to get one")


class Value(NamedTuple):
    """An object as it is in the file, and the line on which it starts."""

    line: int
    data: bytes


class ValueProblem(LineError):
    """The file is invalid; `line` says where."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def values(file: BinaryIO) -> Iterator[Value]:
    """The objects of a file, not yet decoded.

    Raises:
        ValueProblem: what is there is no object, torn, too large or too deep.
        OSError: the file cannot be read.
    """
    scanner = _Scanner()
    taken = 0
    while chunk := file.read(_CHUNK):
        begins = not taken
        taken += len(chunk)
        if taken > MOST_BYTES:
            raise ValueProblem(scanner.line, f"the file is larger than {size(MOST_BYTES)}")
        yield from scanner.take(chunk.removeprefix(_MARK) if begins else chunk)
    scanner.finish()


class _Scanner:
    """Finds where objects start and end, without decoding them."""

    def __init__(self) -> None:
        self.line = 1
        self._begun = 1
        self._value = bytearray()
        self._depth = 0
        self._listed = self._quoted = self._escaped = False

    def take(self, chunk: bytes) -> Iterator[Value]:
        """The objects that end in this piece of the file."""
        at = 0
        while at < len(chunk):
            end = self._inside(chunk, at) if self._depth else self._between(chunk, at)
            self.line += chunk.count(b"\n", at, end)
            at = end
            if self._value and not self._depth:
                yield Value(self._begun, bytes(self._value))
                self._value.clear()

    def finish(self) -> None:
        """Checks that nothing is left open at the end of the file."""
        if self._depth or self._listed:
            raise ValueProblem(self.line, "it is cut off: the end is missing")

    def _between(self, chunk: bytes, at: int) -> int:
        """Moves to the next object, and into it; returns how far."""
        found = _NEXT.search(chunk, at)
        if found is None:
            return len(chunk)
        here = self.line + chunk.count(b"\n", at, found.start())
        mark = found[0]
        if mark == b"{":
            self._begun, self._depth = here, 1
            self._value += mark
        elif (mark == b"[") is not self._listed and mark in b"[]":
            self._listed = not self._listed
        else:
            raise ValueProblem(here, "not a JSON object")
        return found.end()

    def _inside(self, chunk: bytes, at: int) -> int:
        """Moves to the next quote, escape or bracket; returns how far."""
        if self._escaped:
            self._escaped, end = False, at + 1
        else:
            found = (_IN_TEXT if self._quoted else _IN_OBJECT).search(chunk, at)
            end = found.end() if found is not None else len(chunk)
            if found is not None:
                self._change(found[0])
        self._value += chunk[at:end]
        if len(self._value) > LONGEST:
            raise ValueProblem(self._begun, f"a chat is larger than {size(LONGEST)}")
        return end

    def _change(self, mark: bytes) -> None:
        if mark == b'"':
            self._quoted = not self._quoted
        elif mark == b"\\":
            self._escaped = True
        else:
            self._depth += 1 if mark in b"{[" else -1
            if self._depth > DEEPEST:
                raise ValueProblem(self.line, f"it is nested more than {DEEPEST} levels deep")


class ChatMessage(NamedTuple):
    """`thoughts` stand before the text of an assistant's."""

    speaker: Speaker
    text: str
    thoughts: str = ""


class FoundMessages(NamedTuple):
    """What one object of a file holds: a whole chat, or with `whole` False messages of the one chat that the file is. `halves`
    is the number of half characters that became U+FFFD.
    """

    messages: Sequence[ChatMessage]
    model: str = ""
    whole: bool = True
    halves: int = 0


def said(conversation: Conversation) -> Iterator[ChatMessage]:
    """The messages on the path that is shown, the system message first; empty replies are left out."""
    if conversation.system:
        yield ChatMessage("system", well_formed(conversation.system))
    for user, group in groupby(conversation.path(), key=lambda span: span.node.role == "user"):
        spans = list(group)
        if user:
            yield from (ChatMessage("user", well_formed(span.node.written)) for span in spans)
        else:
            thoughts, answer = thoughts_of(spans), well_formed(answer_of(spans))
            if thoughts is not None or answer:
                yield ChatMessage("assistant", answer, well_formed(thoughts.text) if thoughts is not None else "")


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


def read(path: Path, find: Callable[[bytes], FoundMessages], hint: str) -> Iterator[Transcript]:
    """The chats of a file whose objects `find` understands. It is looked through once before the first one is given.

    Raises:
        TranscriptError: it cannot be read, or an object of it not be understood: names line and reason. `find` raises
            `LineError`.
    """
    count = 0
    for count, _ in enumerate(_chats(path, find, hint), 1):
        if count > MOST_CHATS:
            raise TranscriptError(
                f"{path.name} contains more than {MOST_CHATS:,} chats", "Split it and import the parts."
            )
    if not count:
        raise TranscriptError(f"{path.name} contains no chat", hint)
    yield from _chats(path, find, hint)


def _chats(path: Path, find: Callable[[bytes], FoundMessages], hint: str) -> Iterator[Transcript]:
    loose: list[ChatMessage] = []
    begun = line = 1
    halves = 0
    try:
        with regular_files.opened(path) as file:
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


def _transcript(messages: Sequence[ChatMessage], model: str, halves: int) -> Transcript:
    first = next((at for at, message in enumerate(messages) if message.speaker != "system"), len(messages))
    system, rest = messages[:first], messages[first:]
    if not rest:
        raise LineError("a chat has no messages")
    if any(message.speaker == "system" for message in rest):
        raise LineError("a system message is only supported at the start of a chat")
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
        self.packed[node.number] = [codec.from_record(record) for record in records]
