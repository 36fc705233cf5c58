"""A small real model: the first and the last block of the real one, with its vocabulary. What it says makes no sense, but it
computes as any other does, in a tenth of the time.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of the types of metadata that have one size; of the others 8 is a text and 9 an array."""
_ALIGNMENT = 32
_BLOCK = re.compile(rb"blk\.(\d+)\.")


def truncated(source: Path, target: Path, *, suppressed: Sequence[int] = ()) -> Path:
    """Writes the first and the last block of a GGUF file without an alignment of its own to `target`, and returns it; the
    tokens that are `suppressed` are added to the metadata."""
    reader = _Reader(source.read_bytes())
    magic, version, tensors, entries = reader.take("<4sIQQ")
    metadata = b"".join(reader.entry() for _ in range(entries))
    if suppressed:
        name, entries = b"tokenizer.ggml.suppress_tokens", entries + 1
        metadata += struct.pack(f"<Q{len(name)}sIIQ", len(name), name, 9, 5, len(suppressed))
        metadata += struct.pack(f"<{len(suppressed)}i", *suppressed)
    infos = [reader.tensor() for _ in range(tensors)]
    begin = _aligned(reader.at)
    offsets = sorted(offset for _, _, offset in infos)
    ends = dict(zip(offsets, [*offsets[1:], len(reader.data) - begin], strict=True))
    last = max(int(block[1]) for name, _, _ in infos if (block := _BLOCK.match(name)))
    header, contents, size = b"", [], 0
    for name, shape, offset in infos:
        block = _BLOCK.match(name)
        if block and int(block[1]) not in (0, last):
            continue
        called = name.replace(b"blk.%d." % last, b"blk.1.")
        header += struct.pack("<Q", len(called)) + called + shape + struct.pack("<Q", size)
        content = reader.data[begin + offset : begin + ends[offset]]
        contents.append(content.ljust(_aligned(len(content)), b"\0"))
        size += len(contents[-1])
    start = struct.pack("<4sIQQ", magic, version, len(contents), entries) + metadata + header
    target.write_bytes(b"".join((start.ljust(_aligned(len(start)), b"\0"), *contents)))
    return target


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, what: str) -> tuple[bytes, int, int, int]:
        found = struct.unpack_from(what, self.data, self.at)
        self.at += struct.calcsize(what)
        return found  # type: ignore[return-value]

    def number(self, what: str) -> int:
        return self.take(what)[0]  # type: ignore[return-value]

    def text(self) -> bytes:
        size = self.number("<Q")
        self.at += size
        return self.data[self.at - size : self.at]

    def entry(self) -> bytes:
        """The next entry of the metadata as it is there, but for the number of blocks: two."""
        begin = self.at
        name = self.text()
        kind = self.number("<I")
        value = self.at
        self.skip(kind)
        changed = struct.pack("<I", 2) if name.endswith(b".block_count") else self.data[value : self.at]
        return self.data[begin:value] + changed

    def skip(self, kind: int) -> None:
        if kind == 8:
            self.text()
        elif kind == 9:
            inner, count = self.number("<I"), self.number("<Q")
            if inner in _SIZES:
                self.at += _SIZES[inner] * count
            else:
                for _ in range(count):
                    self.skip(inner)
        else:
            self.at += _SIZES[kind]

    def tensor(self) -> tuple[bytes, bytes, int]:
        """Name, shape and type as they are there, and offset."""
        name, begin = self.text(), self.at
        dimensions = self.number("<I")
        self.at += 8 * dimensions + 4
        return name, self.data[begin : self.at], self.number("<Q")
