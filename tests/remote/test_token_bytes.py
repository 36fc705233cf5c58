"""Pieces found out from texts alone, with tokenizers of other kinds than the recorded server's."""

from __future__ import annotations

import re

import pytest

from termchat.engine.remote import token_bytes

WORDS = [
    "▁Hello",
    "Hello",
    "▁",
    "▁^",
    "^",
    "~",
    "`",
    "x",
    "q",
    "\n",
    ".",
    "▁.",
    ",",
    "▁,",
    "é",
    "▁é",
    "日本",
    "^~`",
    "a^~`^~`b",
]


class Fallback:
    """A tokenizer with "▁" for spaces and a token for each byte, which puts a space before every text and tidies up."""

    def __init__(self, *, tidies: bool) -> None:
        self.tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *WORDS]
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.tidies, self.requests = tidies, 0

    def apart(self, text: str) -> tuple[list[int], list[str]]:
        self.requests += 1
        rest, found = "▁" + text.replace(" ", "▁"), list[str]()
        while rest:
            longest = max((w for w in WORDS if rest.startswith(w) and len(w) < 4), key=len, default="")
            found += [longest] if longest else [f"<0x{byte:02X}>" for byte in rest[0].encode()]
            rest = rest[len(longest) or 1 :]
        return [self.ids[token] for token in found], found

    def together(self, ids: list[int]) -> str:
        self.requests += 1
        data, text = b"", ""
        for token in [*(self.tokens[i] for i in ids), ""]:
            if re.fullmatch("<0x[0-9A-F]{2}>", token):
                data += bytes.fromhex(token[3:5])
                continue
            try:
                text += data.decode()
            except UnicodeDecodeError:
                text += "\ufffd" * len(data)
            text, data = text + token.replace("▁", " "), b""
        text = text.removeprefix(" ")
        return text.replace(" .", ".").replace(" ,", ",") if self.tidies else text


@pytest.mark.parametrize("tidies", [False, True])
def test_bytes_as_tokens_and_signs_for_spaces(tidies: bool) -> None:
    tokenizer = Fallback(tidies=tidies)
    found = token_bytes.read(tokenizer, len(tokenizer.tokens))
    assert found[:3] == [b"<unk>", b"<s>", b"</s>"]
    assert found[3:259] == [bytes([byte]) for byte in range(256)]
    assert found[259:] == [word.replace("▁", " ").encode() for word in WORDS]
    assert tokenizer.requests < 40


class Bytes:
    """A byte-level tokenizer whose vocabulary has parts of characters of every kind, and little else."""

    PARTS = (
        "F0 9F", "F0 9F 98", "9F 98 80", "98 80", "80 F0 9F", "E2 82", "82 AC", "AC", "C3", "E0", "E0 A4", "A9 20", "E6 97",
        "61 C3", "A9 62",
    )  # fmt: skip

    def __init__(self) -> None:
        self.pieces = [bytes([byte]) for byte in range(256)] + [bytes.fromhex(part) for part in self.PARTS]
        self.shown = {byte: character for character, byte in token_bytes._ALPHABET.items()}

    def apart(self, text: str) -> tuple[list[int], list[str]]:
        ids = list(text.encode())
        return ids, [self.shown[i] for i in ids]

    def together(self, ids: list[int]) -> str:
        return b"".join(self.pieces[i] for i in ids).decode("utf-8", "replace")


def test_parts_of_characters() -> None:
    tokenizer = Bytes()
    found = token_bytes.read(tokenizer, len(tokenizer.pieces))
    never = {0xC0, 0xC1, *range(0xF5, 0x100)}  # no character has these bytes
    assert {i for i, piece in enumerate(found) if piece != tokenizer.pieces[i]} <= never
    assert all(found[byte] == "\ufffd".encode() for byte in never)
