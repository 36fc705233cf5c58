"""Imports transcripts: recognises a file, reads its chats, and puts them into the store.

A file is foreign. It is bounded while it is read, and none of its paths is ever used: the chat gets an id of its own, and the
model's file is known by name only.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import BinaryIO

from termchat import regular_files
from termchat.conversation.node import LARGEST_MESSAGE, is_too_large
from termchat.conversation.session import ModelRef
from termchat.conversation.store.store import Store, StoreError
from termchat.conversation.transcripts import FORMATS, Format
from termchat.conversation.transcripts.facts import without_folder
from termchat.conversation.transcripts.jsonl_reader import MOST_BYTES
from termchat.conversation.transcripts.transcript import Transcript, TranscriptError

_HEAD = 1 << 16
_CHUNK = 1 << 20
_AT_ONCE = 2000
"""Records that wait in memory to be written."""

_PATIENCE = 60.0

_PACKED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
"""How compressed files begin."""

_WIDE = re.compile(rb"\xff\xfe|\xfe\xff|\s?[\[{]\x00|\x00[\[{]")
"""How a text of two bytes a character begins."""


def chats(path: Path, form: Format | None = None) -> Iterator[Transcript]:
    """Yield the chats in a file, one by one; without a format, detect it from the file's beginning.

    Raises:
        TranscriptError: the file cannot be read, or is none of a format that is taken in; names line and reason.
    """
    found = recognise_format(path, form)
    if found.reader is None:
        known = ", ".join(each.name for each in FORMATS.values() if each.signs)
        raise TranscriptError(f"{found.name} cannot be imported", f"Supported formats: {known}.")
    return found.reader(path)


@contextlib.contextmanager
def open_readable(file: Path) -> Iterator[Path]:
    """Provide a file that can be read more than once: stdin ("-") or a pipe, such as a shell's <(…), is stored for as long
    as the context lasts. A pipe without a writer is an empty file.

    Raises:
        TranscriptError: stdin or the pipe cannot be read, or there is no room for what comes.
    """
    if str(file) == "-":
        if sys.stdin is None:
            raise TranscriptError("stdin is closed", "Name a file instead.")
        with copy_piped(sys.stdin.buffer) as path:
            yield path
    elif regular_files.odd_kind(file) == regular_files.PIPE:
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)  # which waits for nobody
        except OSError as error:
            raise TranscriptError(f"{file} cannot be read: {error.strerror}", "Check the path.") from error
        os.set_blocking(descriptor, True)
        with open(descriptor, "rb") as stream, copy_piped(stream, file.name) as path:
            yield path
    else:
        yield file


@contextlib.contextmanager
def copy_piped(stream: BinaryIO, name: str = "stdin") -> Iterator[Path]:
    """Store a stream in a file for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="termchat-") as folder:
        path = Path(folder) / name
        try:
            with path.open("wb") as file:
                while (
                    chunk := stream.read(_CHUNK)
                ) and file.tell() <= MOST_BYTES:  # who reads it says if it is too large
                    file.write(chunk)
        except OSError as error:
            raise TranscriptError(
                f"cannot store {name} in {folder}: {error.strerror or error}", "Free some space."
            ) from error
        yield path


def recognise_format(path: Path, form: Format | None = None) -> Format:
    """Return the format of a file: the one given, else by the first key in it that is specific to one.

    Raises:
        TranscriptError: it cannot be read, no key tells, or the file is no text in UTF-8.
    """
    try:
        with regular_files.opened(path) as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise TranscriptError(f"{path} cannot be read: {error.strerror or error}", "Check the path.") from error
    _check_text(path, head)
    if form is not None:
        return form
    signs = {sign: form for form in FORMATS.values() for sign in form.signs}
    found = re.search(rf'"({"|".join(signs)})"\s*:'.encode(), head)
    if found is None:
        known = ", ".join(dict.fromkeys(form.name for form in signs.values()))
        hint = f"Supported formats: {known}. Use --format to name one."
        raise TranscriptError(f"{path.name} is not in a known transcript format", hint)
    return signs[found[1].decode()]


def _check_text(path: Path, head: bytes) -> None:
    if len(head) < _HEAD and not head.strip():
        raise TranscriptError(f"{path.name} is empty", "Choose a file that contains a chat.")
    for begins, packed in _PACKED.items():
        if head.startswith(begins):
            raise TranscriptError(f"{path.name} is compressed with {packed}", "Decompress it first.")
    if _WIDE.match(head):
        raise TranscriptError(
            f"{path.name} is UTF-16, not UTF-8", "Convert it, for example with iconv -f UTF-16 -t UTF-8."
        )


def keep_transcript(store: Store, transcript: Transcript) -> str:
    """Put a chat into the store, as one of its own, with its dates if it has any; return its id.

    Raises:
        StoreError: the store cannot be written.
        TranscriptError: a message in it is too large.
    """
    chat, info = transcript.conversation, transcript.info
    if any(is_too_large(node.written) for node in chat.nodes.values()):
        raise TranscriptError(
            f"a message of the chat is longer than {LARGEST_MESSAGE:,} characters",
            "Split or shorten it, and import it again.",
        )
    model = ModelRef(info.model.name, "", without_folder(info.model.identity))
    session = store.begin(chat, tuning=info.tuning, model=model)
    counts = count(1)
    for number in sorted(chat.nodes):
        store.add_node(session, chat.nodes[number])
        for record in transcript.records(number):
            store.add_record(session, number, record)
            if next(counts) % _AT_ONCE == 0:
                _await_writes(store)
    store.update(session, leaf=chat.leaf, breakpoints=info.breakpoints, view=info.view)
    if info.created and info.updated:
        store.date(session, *sorted(min(seconds, time.time()) for seconds in (info.created, info.updated)))
    _await_writes(store)
    return session


def _await_writes(store: Store) -> None:
    if not store.flush(_PATIENCE):
        raise StoreError(
            f"the chat could not be saved: {store.problem() or 'the disk is too slow'}", "Fix that and try again."
        )
