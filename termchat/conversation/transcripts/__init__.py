"""Transcripts: a chat as a file, in six formats, out and in.

`export.write` takes a conversation and its records and writes a file by a format's `lines`. `importing.chats` recognises a
file, reads it by the format's `chats`, and `importing.keep` puts each chat into the store. The command line and the save
dialog call both.

Each format is a module of its name (`md`, `html`, `jsonl`, `openai`, `sharegpt`, `csv`) and an entry of `FORMATS`. It has
`lines(conversation, info, records)`, the lines of the file without line breaks, and if it can be read `chats(path)`. The
module is imported when it is needed, so that the list of formats costs the first frame nothing. `facts` says what the
formats for people tell of a reply, and `groups_on_page` what of replies that were made together; `inert` keeps Markdown from
doing anything, and `mark_places` its marks out of code; `messages` is shared by the two formats of other programs;
`jsonl_lines` says what a line of ours may hold, and `jsonl_reader` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from termchat.conversation.session import Session
from termchat.conversation.transcripts.transcript import Records, Transcript, TranscriptError
from termchat.conversation.tree import Conversation

Writer = Callable[[Conversation, Session, Records], Iterator[str]]
Reader = Callable[[Path], Iterator[Transcript]]


class Format(NamedTuple):
    """A form of a transcript. Its first ending is the usual one; `signs` are the keys that tell its files from others, and a
    format without signs is not read."""

    name: str
    endings: tuple[str, ...]
    what: str
    signs: tuple[str, ...] = ()

    @property
    def writer(self) -> Writer:
        """The lines of a chat's file, each without its line break."""
        found: Writer = import_module(f"{__name__}.{self.name}").lines
        return found

    @property
    def reader(self) -> Reader | None:
        """The chats in a file. It raises `TranscriptError`, which names line and reason; None where it is not read."""
        if not self.signs:
            return None
        found: Reader = import_module(f"{__name__}.{self.name}").chats
        return found


FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format("md", (".md",), "Markdown for people"),
        Format("html", (".html", ".htm"), "self-contained page with a token heat map"),
        Format("jsonl", (".jsonl",), "every record; lossless import", ("record",)),
        Format("openai", (".openai.json", ".json"), "messages in OpenAI format", ("messages", "role")),
        Format(
            "sharegpt",
            (".sharegpt.json",),
            "messages in ShareGPT format",
            ("conversations", "conversation", "from"),
        ),
        Format("csv", (".csv",), "one row per token, for pandas"),
    )
}
"""Name to format, in the order in which a person is shown them."""


def of_file(path: Path) -> Format:
    """Return the format that a file's name ends in; the longest ending counts.

    Raises:
        TranscriptError: it ends in none.
    """
    name = path.name.lower()
    _, found = max(
        ((ending, each) for each in FORMATS.values() for ending in each.endings if name.endswith(ending)),
        key=lambda pair: len(pair[0]),
        default=("", None),
    )
    if found is None:
        usual = [each.endings[0] for each in FORMATS.values()]
        raise TranscriptError(
            f"{path.name} has no known transcript extension",
            f"Use {', '.join(usual[:-1])} or {usual[-1]}.",
        )
    return found
