"""The vocabulary of a model file: what each id means, read without llama.cpp and without loading anything.

Ids mean the same in two models where the texts of their tokens are equal. Merges, token types and end tokens may differ: they
decide how text becomes ids and how a reply ends, not what an id is.
"""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from termchat import regular_files
from termchat.models.errors import ModelError
from termchat.models.gguf.metadata import Metadata
from termchat.models.gguf.reader import AGAIN, MAX_NAME, Array, HeaderError, opened, read_beginning

_TOKENS, _TOKENIZER = "tokenizer.ggml.tokens", "tokenizer.ggml.model"
_HEAD = struct.Struct("<IQ")
"""Before the texts of an array: their type and their number."""
_TEXT = 8
_WITH_BYTES = "llama"
"""The tokenizer (SentencePiece's) that spells what it does not know byte by byte, and aborts where a byte has no token."""
_SHOWN = 40
"""Characters that are shown of a token."""


class VocabularyTexts(msgspec.Struct, frozen=True, eq=False):
    """The texts of all tokens, by id: the bytes from `begin` to `end` of a model's (first) file, as it was when it was read.
    Two are equal where all ids mean the same."""

    path: Path
    begin: int
    end: int
    size: int
    """Tokens, also those that only fill the vocabulary up."""
    tokenizer: str
    """As the file names it: "gpt2", "llama" …"""
    digest: str
    """Hex SHA-256 of all texts, in the order of their ids."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VocabularyTexts) and (self.tokenizer, self.digest) == (other.tokenizer, other.digest)

    def __hash__(self) -> int:
        return hash((self.tokenizer, self.digest))

    def shown(self, text: bytes) -> str:
        """The text of a token as a person writes it, in quotes; what is no character is escaped."""
        if self.tokenizer == "gpt2":
            written, bytes_of = text.decode("utf-8", "replace"), _bytes_of()
            data = b"".join(bytes_of.get(character) or character.encode() for character in written)
        else:
            data = text.replace("▁".encode(), b" ")
        return repr(data.decode("utf-8", "replace")[:_SHOWN])


def read_texts(path: Path) -> VocabularyTexts:
    """Of a model's (first) file; takes the time to walk over its tokens, milliseconds.

    Raises:
        HeaderError: the file is no GGUF model, or has no vocabulary.
        ModelError: it cannot be opened.
    """
    found = _find_texts(path)
    if found is None:
        raise HeaderError(f"{path.name} has no vocabulary", "Choose a different model.")
    return found


def check_vocabulary(path: Path) -> None:
    """Refuse a vocabulary with which llama.cpp aborts, when it loads the file or when it reads a text. Raises as `read_texts`.

    An empty text is none for llama.cpp, which gives the token a name of its own.
    """
    found = _find_texts(path)
    if found is None:
        return
    texts = _texts_in(_bytes(path, found.begin, found.end))
    known = set(texts)
    if len(known) + max(texts.count(b"") - 1, 0) < len(texts):
        first = {text: token for token, text in reversed(list(enumerate(texts)))}
        token, text = next((token, text) for token, text in enumerate(texts) if text and first[text] < token)
        raise HeaderError(
            f"{path.name}: tokens {first[text]} and {token} have the same text, {found.shown(text)}; the file is damaged",
            AGAIN,
        )
    if found.tokenizer == _WITH_BYTES:
        byte = next((byte for byte in range(256) if not {b"<0x%02X>" % byte, bytes([byte])} & known), None)
        if byte is not None:
            raise HeaderError(
                f"{path.name}: no token for the byte 0x{byte:02X}, which its tokenizer ({_WITH_BYTES}) needs",
                "Choose a different model.",
            )


def _find_texts(path: Path) -> VocabularyTexts | None:
    """Find the texts of a model's file. Raises as `read_texts` does, unless there are none."""
    with opened(path) as reader:
        *_, pairs = read_beginning(reader)
        metadata = Metadata(reader)
        begin = end = 0
        for number in range(pairs):
            key = metadata.key(number)
            at = reader.position
            metadata.take(key)
            if key == _TOKENS:
                begin, end = at + 4, reader.position
            if end and _TOKENIZER in metadata.values:
                break
        tokens = metadata.values.get(_TOKENS)
        tokenizer = metadata.text(_TOKENIZER)[:MAX_NAME]
    if not isinstance(tokens, Array) or _bytes(path, begin, begin + _HEAD.size) != _HEAD.pack(_TEXT, tokens.length):
        return None
    begin += _HEAD.size
    return VocabularyTexts(
        path, begin, end, tokens.length, tokenizer, hashlib.sha256(_bytes(path, begin, end)).hexdigest()
    )


class FirstDifference(NamedTuple):
    """The first id that two vocabularies mean different things by, and what each means, as `VocabularyTexts.shown` says it."""

    token: int
    texts: tuple[str, str]


@lru_cache(maxsize=1024)
def same_ids(one: VocabularyTexts, other: VocabularyTexts) -> bool:
    """Whether each id that both have means the same.

    Raises:
        ModelError: a file cannot be read any more.
    """
    if one.size == other.size or one.tokenizer != other.tokenizer:
        return one == other
    texts, others = _both(one, other)
    return texts.startswith(others) or others.startswith(texts)


@lru_cache(maxsize=256)
def difference(one: VocabularyTexts, other: VocabularyTexts) -> FirstDifference:
    """Of two with the same tokenizer that are not the same. Raises as `same_ids` does."""
    texts, others = _both(one, other)
    differs = _common(texts, others)
    at = token = 0
    while (after := at + 8 + _length(texts, at)) <= differs:
        at, token = after, token + 1
    shown = one.shown(_text_at(texts, at)), other.shown(_text_at(others, at))
    return FirstDifference(token, shown)


def _both(one: VocabularyTexts, other: VocabularyTexts) -> tuple[bytes, bytes]:
    return _bytes(one.path, one.begin, one.end), _bytes(other.path, other.begin, other.end)


def _common(one: bytes, other: bytes) -> int:
    """How many bytes at the beginning are the same."""
    same, most = 0, min(len(one), len(other))
    while same < most:
        middle = (same + most + 1) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same


def _texts_in(data: bytes) -> list[bytes]:
    """All texts of an array, in order."""
    texts, at = [], 0
    while at < len(data):
        texts.append(_text_at(data, at))
        at += 8 + len(texts[-1])
    return texts


def _length(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _text_at(data: bytes, at: int) -> bytes:
    return data[at + 8 : at + 8 + _length(data, at)]


def _bytes(path: Path, begin: int, end: int) -> bytes:
    try:
        with regular_files.opened(path) as file:
            file.seek(begin)
            return file.read(end - begin)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error


@lru_cache(maxsize=1)
def _bytes_of() -> dict[str, bytes]:
    """What GPT-2's tokenizer writes for each byte, to the byte: itself where it can be seen, else a character from 256 on."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    unseen = [byte for byte in range(256) if byte not in seen]
    written = {chr(byte): byte for byte in seen} | {chr(256 + number): byte for number, byte in enumerate(unseen)}
    return {character: bytes([byte]) for character, byte in written.items()}
