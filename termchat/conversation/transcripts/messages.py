"""A chat as a list of messages, as other programs know it: there, and back again.

Of an imported reply only the words are known. It becomes a reply without tokens whose text came with its end, made by an
unknown model, so that the next turn renders and tokenises the whole chat anew. Files may be large: their objects are found
by a scanner (`find_objects`) and decoded one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, TypeVar

import msgspec

from termchat import regular_files
from termchat.conversation.session import ModelRef, Session
from termchat.conversation.store import codec
from termchat.conversation.thoughts import answer_of, thoughts_of
from termchat.conversation.transcripts.jsonl_lines import LineError, replace_surrogates
from termchat.conversation.transcripts.transcript import Transcript, TranscriptError
from termchat.conversation.tree import Conversation
from termchat.decoding.escapes import well_formed
from termchat.decoding.records import (
    ABSENT,
    FORMAT,
    UNKNOWN,
    Failed,
    Finished,
    ModelIdentity,
    Record,
    Start,
    Token,
)
from termchat.text import UNREADABLE, explain_unreadable, size

MOST_BYTES = 1 << 32
"""Of a file. The largest collections of chats have a quarter of that."""

LONGEST = 1 << 24
"""Bytes of one object."""

DEEPEST = 32
"""Lists and objects within each other; a chat has four."""

_CHUNK = 1 << 16
_NEXT = re.compile(rb"[^\s,]")
_INSIDE = re.compile(rb'"(?:[^"\\]++|\\.)*+("?)|[{}\[\]]', re.DOTALL)
_MARK = b"\xef\xbb\xbf"


MOST_TOLD = 20
"""Lines about what is left out of a file at most."""
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


def find_objects(file: BinaryIO) -> Iterator[Value]:
    """Find the objects of a file, without decoding them.

    Raises:
        ValueProblem: what is there is no object, torn, too large or too deep.
        OSError: the file cannot be read.
    """
    data, begin, at, line, taken = b"", 0, 0, 1, 0
    depth, begun, is_listed = 0, 1, False  # an open object begins at `begin`, on line `begun`
    while chunk := file.read(max(_CHUNK, len(data) - begin)):
        data = data[begin:] + (chunk if taken else chunk.removeprefix(_MARK))
        begin, at, taken = 0, at - begin, taken + len(chunk)
        if taken > MOST_BYTES:
            raise ValueProblem(line, f"the file is larger than {size(MOST_BYTES)}")
        while (found := (_INSIDE if depth else _NEXT).search(data, at)) is not None:
            mark, is_inside = found[0], depth > 0
            if depth and mark.startswith(b'"') and not found[1]:  # a text that goes on in the next chunk
                break
            line += data.count(b"\n", at, found.start())
            if depth:
                line += mark.count(b"\n")
                depth += (mark in (b"{", b"[")) - (mark in (b"}", b"]"))
                if depth > DEEPEST:
                    raise ValueProblem(line, f"it is nested more than {DEEPEST} levels deep")
            elif mark == b"{":
                begin, begun, depth = found.start(), line, 1
            elif (mark == b"[") is not is_listed and mark in b"[]":
                is_listed = not is_listed
            else:
                raise ValueProblem(line, "not a JSON object")
            at = found.end()
            if (depth or is_inside) and at - begin > LONGEST:
                raise ValueProblem(begun, f"a chat is larger than {size(LONGEST)}")
            if is_inside and not depth:
                yield Value(begun, data[begin:at])
        if found is None:
            line += data.count(b"\n", at)
            at = len(data)
        if not depth:
            begin = at
        elif len(data) - begin > LONGEST:
            raise ValueProblem(begun, f"a chat is larger than {size(LONGEST)}")
    if depth or is_listed:
        raise ValueProblem(line + data.count(b"\n", at), "it is cut off: the end is missing")


class ChatMessage(NamedTuple):
    """`thoughts` stand before the text of an assistant's."""

    speaker: Speaker
    text: str
    thoughts: str = ""


class FoundMessages(NamedTuple):
    """The content of one object of a file: a whole chat, or with `whole` False messages of the one chat of the file, and in
    place of an unreadable message its fault. `halves` is the number of half characters that became U+FFFD.
    """

    messages: Sequence[ChatMessage | LineError]
    model: str = ""
    whole: bool = True
    halves: int = 0


def list_messages(conversation: Conversation) -> Iterator[ChatMessage]:
    """List the messages of the shown path, the system message first; empty replies are left out."""
    if conversation.system:
        yield ChatMessage("system", well_formed(conversation.system))
    for spans in conversation.turn_spans():
        if spans[0].node.role == "user":
            yield ChatMessage("user", well_formed(spans[0].node.written))
        else:
            thoughts, answer = thoughts_of(spans), well_formed(answer_of(spans))
            if thoughts is not None or answer:
                yield ChatMessage("assistant", answer, well_formed(thoughts.text) if thoughts is not None else "")


def read_messages(found: Iterable[_T], read_one: Callable[[_T], ChatMessage]) -> list[ChatMessage | LineError]:
    """Read messages one by one; see `FoundMessages`."""
    messages: list[ChatMessage | LineError] = []
    for one in found:
        try:
            messages.append(read_one(one))
        except LineError as error:
            messages.append(error)
    return messages


def decode_object(decode: Callable[[bytes], _T], data: bytes) -> tuple[_T, int]:
    """Decode an object; return it with the number of its half characters that became U+FFFD.

    Raises:
        LineError: it is no JSON, or not what `decode` takes.
    """
    try:
        try:
            return decode(data), 0
        except msgspec.DecodeError:  # hardly any has one, and to look for it takes longer than all the rest
            data, halves = replace_surrogates(data)
            return decode(data), halves
    except UnicodeDecodeError:
        raise LineError("it is not UTF-8") from None
    except UNREADABLE as error:
        raise LineError(explain_unreadable(error)) from None


def read(path: Path, find: Callable[[bytes], FoundMessages], hint: str) -> Iterator[Transcript]:
    """Read the chats of a file whose objects `find` understands. It is read through once before the first one is given.

    A chat or a message that cannot be read is left out, and told with the first chat.

    Raises:
        TranscriptError: the file cannot be read, or no chat in it: names line and reason. `find` raises `LineError`.
    """
    count, left_out = 0, _LeftOut()
    for count, _ in enumerate(_read_chats(path, find, hint, left_out), 1):
        if count > MOST_CHATS:
            raise TranscriptError(
                f"{path.name} contains more than {MOST_CHATS:,} chats", "Split it and import the parts."
            )
    if not count:
        raise TranscriptError(f"{path.name}{left_out.first or ' contains no chat'}", hint)
    more = left_out.total - len(left_out)
    told = (*left_out, *([f"and {more:,} more"] if more else ()))
    for transcript in _read_chats(path, find, hint, _LeftOut()):
        yield transcript._replace(left_out=told)
        told = ()


class _LeftOut(list[str]):
    """The unreadable parts of a file: `first` describes the first one and its place."""

    first, total = "", 0

    def add(self, line: int, place: str, error: LineError) -> None:
        self.first = self.first or f", line {line}: {error}"
        self.total += 1
        if len(self) < MOST_TOLD:
            self.append(f"line {line} ({place}): {error}")


def _read_chats(
    path: Path, find: Callable[[bytes], FoundMessages], hint: str, left_out: _LeftOut
) -> Iterator[Transcript]:
    loose: list[ChatMessage | LineError] = []
    lines: list[int] = []
    number = halves = 0
    try:
        with regular_files.opened(path) as file:
            for line, data in find_objects(file):
                try:
                    found = find(data)
                except LineError as error:
                    number += 1
                    left_out.add(line, f"chat {number}", error)
                    continue
                if found.whole:
                    number += 1
                    yield from _build_transcript(found, [line] * (len(found.messages) or 1), f"chat {number}", left_out)
                else:
                    loose += found.messages
                    lines += [line] * len(found.messages)
                    halves += found.halves
                if len(loose) > MOST_MESSAGES:
                    raise ValueProblem(line, f"there are more than {MOST_MESSAGES:,} messages")
        if loose:
            yield from _build_transcript(FoundMessages(loose, halves=halves), lines, "", left_out)
    except ValueProblem as error:
        raise TranscriptError(f"{path.name}{left_out.first or f', line {error.line}: {error}'}", hint) from None
    except OSError as error:
        raise TranscriptError(f"{path} cannot be read: {error.strerror or error}", "Check the path.") from error


def _build_transcript(
    found: FoundMessages, lines: Sequence[int], chat: str, left_out: _LeftOut
) -> Iterator[Transcript]:
    """Build the chat of messages that stand in these lines, without unreadable ones; nothing if none is left."""
    messages: list[ChatMessage] = []
    for at, message in enumerate(found.messages):
        late = isinstance(message, ChatMessage) and message.speaker == "system" and messages
        if late and any(one.speaker != "system" for one in messages):
            message = LineError("a system message is only supported at the start of a chat")
        if isinstance(message, LineError):
            left_out.add(lines[at], ", ".join(filter(None, (chat, f"message {at + 1}"))), message)
        else:
            messages.append(message)
    if any(message.speaker != "system" for message in messages):
        yield _make_transcript(messages, found.model, found.halves)
    elif len(messages) == len(found.messages):
        left_out.add(lines[0], chat or "chat 1", LineError("a chat has no messages"))


def _make_transcript(messages: Sequence[ChatMessage], model: str, halves: int) -> Transcript:
    first = next(at for at, message in enumerate(messages) if message.speaker != "system")
    system, rest = messages[:first], messages[first:]
    chat = Conversation("\n\n".join(message.text for message in system))
    chat.title = " ".join(next((m.text for m in rest if m.speaker == "user"), rest[0].text).split())[:_TITLE]
    model, packed = model[:_TITLE] or _UNKNOWN, dict[int, list[bytes]]()
    for speaker, several in groupby(rest, key=lambda message: message.speaker):
        pieces = list(several)
        if speaker == "assistant":
            text, thoughts = (
                "\n\n".join(filter(None, texts)) for texts in zip(*(piece[1:] for piece in pieces), strict=True)
            )
            _add_reply(chat, packed, model, Finished("end", "", text, 0, None, 0.0, 0.0, None), thoughts)
        else:
            for piece in pieces:
                parent = chat.nodes[chat.leaf] if chat.leaf is not None else None
                chat.grow_node(
                    "user", parent=chat.leaf, at=len(parent.ids) if parent is not None else 0, text=piece.text
                )
    if rest[-1].speaker == "user":
        _add_reply(chat, packed, model, _UNANSWERED)
    return Transcript(Session(model=ModelRef(model)), chat, packed, halves)


def _add_reply(
    chat: Conversation, packed: dict[int, list[bytes]], model: str, end: Finished | Failed, thoughts: str = ""
) -> None:
    """Add a reply with records that say no more than is known; of its thoughts, which become one token, that is the text."""
    identity = ModelIdentity(model, "", "", "", "")
    node = chat.grow_node("assistant", parent=chat.leaf, at=0)
    records: list[Record] = [Start(FORMAT, "", "", identity, [], False, 0, 0, 0, 0, 0, "", False), end]
    if thoughts:
        text = well_formed(thoughts) + "\n\n"
        token = Token(
            0, UNKNOWN, UNKNOWN, text.encode(), text, ABSENT, ABSENT, UNKNOWN, ABSENT, ABSENT, ABSENT, 0, False, [], [], {},
            0, 0, phase="thinking",
        )  # fmt: skip
        records.insert(1, token)
    for record in records:
        node.add(record)
    packed[node.number] = [codec.from_record(record) for record in records]
