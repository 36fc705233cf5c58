"""The bytes of every token, of a server that only takes texts apart and puts them together.

Tokens are put together with a separator between them, a few thousand a request. Those that are parts of characters come out
as U+FFFD: they are put together again with known bytes around them, until the whole is a character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from termchat.engine.remote.server_answers import BadAnswer

SEPARATOR = "^~`"
"""Three different characters, so that it is found where it is, whatever stands before it and behind it."""
_AT_ONCE = 8192
"""Sequences of tokens that are put together in one request."""
_LOST = "\ufffd"
_PROBE = "\ue000\ue020\U00040000\U00080000\U000e0080\U00020000"
"""Characters that no vocabulary has: their tokens are bytes, of which some vocabularies lack the rarest."""
_LEAD3, _NEXT, _OTHER = 0xEE, 0x80, 0xA0
"""What begins a character of three bytes, and what goes on with one: the second behind every byte that begins one."""
_LEADS4 = (0xF1, 0xF2, 0xF3, 0xF0)
"""What begins one of four bytes: the last goes on with some bytes only."""
_BEHIND: tuple[tuple[int, ...], ...] = (
    (), (_NEXT,), (_NEXT, _NEXT), (_NEXT, _NEXT, _NEXT), (_OTHER,), (_OTHER, _NEXT), (_OTHER, _NEXT, _NEXT),
)  # fmt: skip
_TIDIED = (" .", " ?", " !", " ,", " '", " n't", " 'm", " 's", " 've", " 're")
"""What some tokenisers put together without the space."""


def _alphabet() -> dict[str, int]:
    """GPT-2's characters for bytes."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + i): byte for i, byte in enumerate(hidden)}


_ALPHABET = _alphabet()


class Retokenizer(Protocol):
    """What takes texts apart, and puts them together."""

    def apart(self, text: str) -> tuple[list[int], list[str]]:
        """Tokens, and how the vocabulary has them."""

    def together(self, ids: list[int]) -> str: ...


def read(texts: Retokenizer, count: int) -> list[bytes]:
    """The bytes of each token by its id, control tokens by their names; U+FFFD of what cannot be found out.

    Raises:
        BadAnswer: texts do not come back.
    """
    found = [text.encode("utf-8", "replace") for text in _between(texts, [[i] for i in range(count)])]
    probed, names = texts.apart(_PROBE)
    spelled = [_bytes_of(name) for name in names]
    known = {piece[0]: i for i, piece in zip(probed, spelled, strict=True) if piece is not None and len(piece) == 1}
    falls_back = any(name.startswith("<0x") for name in names)
    ids, names = texts.apart("".join(f"x{text}\n" for text in _TIDIED))
    for i, name in zip(ids, names, strict=True):
        if (piece := _bytes_of(name)) is not None and 0 <= i < count:
            found[i] = piece
    if falls_back:
        _fall_back(found, known)
    lost = [i for i in range(count) if _LOST.encode() in found[i]]
    if {_LEAD3, _NEXT, _OTHER} <= known.keys():
        for i, piece in _restored(texts, lost, known):
            found[i] = piece
    return found


def _fall_back(found: list[bytes], known: dict[int, int]) -> None:
    """Bytes as tokens of their own stand in their order."""
    base = known.get(_LEAD3, 0) - _LEAD3
    if base >= 0 and known.get(_NEXT) == base + _NEXT and base + 256 <= len(found):
        found[base : base + 256] = [bytes([byte]) for byte in range(256)]


def _restored(texts: Retokenizer, lost: list[int], known: dict[int, int]) -> Iterator[tuple[int, bytes]]:
    """Tokens that are parts of characters, and their bytes, as far as they can be found out."""
    lead4 = next((byte for byte in _LEADS4 if byte in known), None)
    before4 = [] if lead4 is None else [(lead4, _OTHER, _NEXT), (lead4, _OTHER), (lead4,)]
    ways = [(before, behind) for before in [(), (_LEAD3, _NEXT), (_LEAD3,), *before4] for behind in _BEHIND]
    at_once = max(_AT_ONCE // len(ways), 1)
    for begin in range(0, len(lost), at_once):
        tokens = lost[begin : begin + at_once]
        asked = [
            [*(known[byte] for byte in before), token, *(known[byte] for byte in behind)]
            for token in tokens
            for before, behind in ways
        ]
        told = iter(_between(texts, asked))
        for token in tokens:
            for text, (before, behind) in [(next(told), way) for way in ways]:
                whole = text.encode("utf-8", "replace")
                if _LOST not in text and whole.startswith(bytes(before)) and whole.endswith(bytes(behind)):
                    yield token, whole[len(before) : len(whole) - len(behind)]
                    break


def _between(texts: Retokenizer, sequences: list[list[int]]) -> list[str]:
    """The text of each sequence of tokens, as it is in the middle of a text."""
    separator = texts.apart(SEPARATOR)[0]
    apart = texts.together(separator * 3).split(SEPARATOR)
    if len(apart) < 3:
        raise BadAnswer("it does not detokenize its own tokens")
    inner = apart[1] + SEPARATOR
    found: list[str] = []
    for begin in range(0, len(sequences), _AT_ONCE):
        found += _split(texts, sequences[begin : begin + _AT_ONCE], separator, inner)
    return found


def _split(texts: Retokenizer, sequences: list[list[int]], separator: list[int], inner: str) -> list[str]:
    ids = [*separator, *(i for sequence in sequences for i in (*sequence, *separator))]
    parts = texts.together(ids).removeprefix(SEPARATOR).split(inner)
    if len(parts) == len(sequences) + 1:
        return parts[:-1]
    if len(sequences) == 1:  # the text has the separator in it
        return [inner.join(parts[:-1])]
    half = len(sequences) // 2
    return [*_split(texts, sequences[:half], separator, inner), *_split(texts, sequences[half:], separator, inner)]


def _bytes_of(name: str) -> bytes | None:
    """The bytes of a token as a vocabulary has it: in GPT-2's alphabet, or "<0x0A>", or with "▁" for spaces."""
    if byte := re.fullmatch("<0x([0-9A-Fa-f]{2})>", name):
        return bytes.fromhex(byte[1])
    if all(character in _ALPHABET for character in name):
        return bytes(_ALPHABET[character] for character in name)
    return name.replace("▁", " ").encode("utf-8", "replace") if "▁" in name else None
