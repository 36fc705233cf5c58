"""A model whose file is an attack: a copy of the real one with other texts of the same length in its metadata."""

from __future__ import annotations

import struct
from pathlib import Path

NAME = "\x1b]0;owned\x07\x1b[2J\u202egnp\u200b"
REFUSES, LOOPS = "refuse", "loop"
TEMPLATE = (
    "{% if '" + LOOPS + "' in messages[-1].content %}{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}"
    "{% endfor %}{% elif '" + REFUSES + "' in messages[-1].content %}"
    "{{ raise_exception('\x1b]52;c;b3duZWQ=\x07 no\x9b31m \u202e') }}{% endif %}{{ messages[-1].content }}"
)  # fmt: skip
_HEAD = 4 << 20
"""Bytes that hold all of the real file's metadata."""
_SWAPPED = (("\u0120", "\u011b"), ("\u010a", "\u0107"))
"""How the vocabulary writes a space and the escape, a line break and the bell: they change places."""


def attacked(source: Path, folder: Path) -> Path:
    """The copy, under a name that is an attack too. Every word that it says begins with ESC, every line with BEL."""
    data = bytearray(source.read_bytes())
    head = bytes(data[:_HEAD])
    for key, text in (("general.name", NAME), ("tokenizer.chat_template", TEMPLATE)):
        at = head.index(key.encode()) + len(key) + 4
        size = struct.unpack_from("<Q", head, at)[0]
        wanted = text.encode()
        assert len(wanted) <= size
        data[at + 8 : at + 8 + size] = wanted.ljust(size)
    begin, end = head.index(b"tokenizer.ggml.tokens"), head.index(b"tokenizer.ggml.bos_token_id")
    words = bytes(data[begin:end])
    for one, other in _SWAPPED:
        words = words.replace(one.encode(), b"\xff\xff").replace(other.encode(), one.encode())
        words = words.replace(b"\xff\xff", other.encode())
    data[begin:end] = words
    target = folder / "mo\x1b]0;owned\x07\x9b2J\u202edel.gguf"
    target.write_bytes(data)
    return target
