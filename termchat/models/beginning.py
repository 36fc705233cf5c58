"""The first 24 bytes of a GGUF file, and what a file is that begins otherwise."""

from __future__ import annotations

from typing import NamedTuple

from termchat.models.reader import AGAIN, ANOTHER_FILE, HeaderError, Reader

MAX_TENSORS = 1 << 16
MAX_METADATA = 1 << 16

_LOOKS_LIKE = (
    (b"version https://git-lfs", "a Git LFS pointer: the real file was not fetched"),
    (b"<!doctype", "a web page"),
    (b"<html", "a web page"),
    (b"<?xml", "XML"),
    (b"PK\x03\x04", "a zip archive, as PyTorch writes them"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x28\xb5\x2f\xfd", "a zstandard archive"),
    (b"tjgg", "GGML, the format before GGUF"),
    (b"fmgg", "GGML, the format before GGUF"),
    (b"lmgg", "GGML, the format before GGUF"),
    (b"\0\0\0\0", "zeros: perhaps a download that is not finished"),
    (b"{", "JSON"),
)


class Beginning(NamedTuple):
    """What the file claims: its format's version, and how many tensors and metadata entries follow."""

    version: int
    tensors: int
    pairs: int


def read_beginning(reader: Reader) -> Beginning:
    """Reads on to the first metadata entry.

    Raises:
        HeaderError: it is no GGUF file, of a version that cannot be read, or it claims what no file holds.
    """
    _check_magic(reader)
    return Beginning(
        _version(reader), _count(reader, "tensors", MAX_TENSORS), _count(reader, "metadata entries", MAX_METADATA)
    )


def _check_magic(reader: Reader) -> None:
    if reader.size == 0:
        raise HeaderError(f"{reader.name} is empty", AGAIN)
    first = reader.peek(64)
    if first[:4] == b"GGUF":
        reader.skip(4, "the magic number")
        return
    raise HeaderError(f"{reader.name} is not a GGUF file. At byte 0 it looks like {_looks(first)}", ANOTHER_FILE)


def _looks(first: bytes) -> str:
    """What a file that begins with these bytes seems to be."""
    if first[8:9] == b"{" and int.from_bytes(first[:8], "little") < 100 << 20:
        return "safetensors: convert it with llama.cpp's convert_hf_to_gguf.py"
    bare = first.lstrip().lower()
    for start, words in _LOOKS_LIKE:
        if first.startswith(start) or bare.startswith(start):
            return words
    if b"\0" not in first and first.isascii():
        return f"text: {first.decode()!r}"
    return f"bytes {first[:4].hex(' ')}"


def _version(reader: Reader) -> int:
    at = reader.position
    version = reader.number("I", "the version")
    if version & 0xFFFF == 0 and version:
        raise HeaderError(f"{reader.name} is big-endian (byte {at}), which llama.cpp cannot read here", ANOTHER_FILE)
    if version not in (2, 3):
        raise HeaderError(f"{reader.name} is GGUF version {version} (byte {at}); 2 and 3 can be read", ANOTHER_FILE)
    return version


def _count(reader: Reader, what: str, most: int) -> int:
    at = reader.position
    count = reader.number("Q", f"the number of {what}")
    if count > most:
        raise HeaderError(f"{reader.name} claims {count} {what} (byte {at}); the file is damaged", AGAIN)
    return count
