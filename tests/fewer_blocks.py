"""Real models made from the real one, in a second or less: with fewer blocks, with blocks that change nothing, with another
vocabulary.

Each shares the real one's numbers, so it computes as any other does. Without one middle block it still says nearly the same: a
draft model that is right most of the time, and wrong often enough. With blocks that change nothing it says exactly the same and
takes longer: a target that is large for its draft model.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from termchat.models.gguf.reader import Reader, opened, read_beginning

_ALIGNMENT = 32
_BLOCK = re.compile(r"blk\.(\d+)\.(.*)")
_INTO_THE_STREAM = ("attn_output.weight", "ffn_down.weight")
"""What a block adds to the residual stream comes out of these."""
_U32, _I32, _F32, _TEXT, _ARRAY = 4, 5, 6, 8, 9
TOKENS, ENDS = "tokenizer.ggml.tokens", "tokenizer.ggml.eos_token_id"


def truncated(source: Path, target: Path, *, suppressed: Sequence[int] = ()) -> Path:
    """The first and the last block, a tenth of the time; what it says makes no sense. The `suppressed` ids are added to the
    metadata."""
    made = ModelFile(source)
    made.take_blocks([0, made.blocks - 1])
    if suppressed:
        numbers = struct.pack(f"<IQ{len(suppressed)}i", _I32, len(suppressed), *suppressed)
        made.metadata["tokenizer.ggml.suppress_tokens"] = struct.pack("<I", _ARRAY) + numbers
    return made.write(target)


def without_blocks(source: Path, target: Path, *left_out: int) -> Path:
    """The model without these blocks, 0 the first. Of SmolLM2's thirty: without 14 it takes the same token in about 80 % of the
    steps, without two to four in the middle in 67 to 40 %; its first blocks alone are right nearly never."""
    made = ModelFile(source)
    made.take_blocks([number for number in range(made.blocks) if number not in left_out])
    return made.write(target)


def with_idle_blocks(source: Path, target: Path, more: int) -> Path:
    """The model with so many blocks more that compute as the others do and add zeros: the same logits, bit for bit."""
    made = ModelFile(source)
    blocks = made.blocks
    made.take_blocks([*range(blocks), *(number % blocks for number in range(more))], idle_from=blocks)
    return made.write(target)


def with_vocabulary(
    source: Path,
    target: Path,
    *,
    renamed: Mapping[int, str] | None = None,
    size: int | None = None,
    end: int | None = None,
) -> Path:
    """The model with another text for some ids, with the first `size` tokens alone, or with another token that ends a reply."""
    made = ModelFile(source)
    tokens = made.texts(TOKENS)
    for number, text in (renamed or {}).items():
        tokens[number] = text.encode()
    if size is not None:
        _, inner, count = struct.unpack_from("<IIQ", kinds := made.metadata["tokenizer.ggml.token_type"])
        assert (inner, count) == (_I32, len(tokens))
        assert size <= count
        made.metadata["tokenizer.ggml.token_type"] = (
            struct.pack("<IIQ", _ARRAY, inner, size) + kinds[16 : 16 + 4 * size]
        )
        made.cut_rows("token_embd.weight", size)
        made.set_number("llama.vocab_size", size)
    if end is not None:
        made.set_number(ENDS, end)
    made.set_texts(TOKENS, tokens[:size])
    return made.write(target)


def with_marked_spaces(source: Path, target: Path) -> Path:
    """Two blocks with a SentencePiece vocabulary, which has "▁" for a space and a token for each byte."""
    made = ModelFile(source)
    made.take_blocks([0, made.blocks - 1])
    count = len(made.texts(TOKENS))
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "under", "▁under"]
    texts += [f"▁{number}" for number in range(count - len(texts))]
    kinds = [2, 3, 3, *[6] * 256, *[1] * (count - 259)]  # unknown, control, bytes, normal
    made.set_texts(TOKENS, [text.encode() for text in texts])
    made.metadata["tokenizer.ggml.model"] = struct.pack("<IQ", _TEXT, 5) + b"llama"
    made.metadata["tokenizer.ggml.token_type"] = struct.pack(f"<IIQ{count}i", _ARRAY, _I32, count, *kinds)
    scores = struct.pack(f"<IIQ{count}f", _ARRAY, _F32, count, *(-float(number) for number in range(count)))
    made.metadata["tokenizer.ggml.scores"] = scores
    return made.write(target)


class _Tensor(NamedTuple):
    shape: tuple[int, ...]
    kind: int
    content: memoryview


class ModelFile:
    """A GGUF file with the usual alignment, taken apart: `metadata` by key, each value with its type as it is in the file, and
    the tensors in their order."""

    def __init__(self, path: Path) -> None:
        data = memoryview(path.read_bytes())
        self.metadata: dict[str, bytes] = {}
        with opened(path) as reader:
            self.version, tensors, entries = read_beginning(reader)
            for _ in range(entries):
                key, at = reader.text("a key"), reader.position
                reader.value(key, keep=False)
                self.metadata[key] = bytes(data[at : reader.position])
            infos = [self._info(reader) for _ in range(tensors)]
            begin = _aligned(reader.position)
        ends = [*(offset for *_, offset in infos[1:]), len(data) - begin]
        self.tensors = {
            name: _Tensor(shape, kind, data[begin + offset : begin + end])
            for (name, shape, kind, offset), end in zip(infos, ends, strict=True)
        }

    @property
    def blocks(self) -> int:
        (count,) = struct.unpack_from("<I", self.metadata[self._block_count], 4)
        return int(count)

    @property
    def _block_count(self) -> str:
        return next(key for key in self.metadata if key.endswith(".block_count"))

    def take_blocks(self, numbers: Sequence[int], idle_from: int | None = None) -> None:
        """Makes these blocks the model's, in this order; those from the place `idle_from` on add nothing to what they are
        given."""
        blocks: dict[int, dict[str, _Tensor]] = {}
        others: dict[str, _Tensor] = {}
        for name, tensor in self.tensors.items():
            if block := _BLOCK.match(name):
                blocks.setdefault(int(block[1]), {})[block[2]] = tensor
            else:
                others[name] = tensor
        self.tensors = others
        for place, number in enumerate(numbers):
            idle = idle_from is not None and place >= idle_from
            for name, tensor in blocks[number].items():
                zero = idle and name in _INTO_THE_STREAM
                content = memoryview(bytes(len(tensor.content))) if zero else tensor.content
                self.tensors[f"blk.{place}.{name}"] = tensor._replace(content=content)
        self.set_number(self._block_count, len(numbers))

    def cut_rows(self, name: str, rows: int) -> None:
        """The first rows of a matrix alone."""
        tensor = self.tensors[name]
        columns, before = tensor.shape
        content = tensor.content[: len(tensor.content) // before * rows]
        self.tensors[name] = _Tensor((columns, rows), tensor.kind, content)

    def set_number(self, key: str, number: int) -> None:
        self.metadata[key] = struct.pack("<II", _U32, number)

    def texts(self, key: str) -> list[bytes]:
        """The texts of an array, as bytes."""
        value = self.metadata[key]
        kind, inner, count = struct.unpack_from("<IIQ", value)
        assert (kind, inner) == (_ARRAY, _TEXT)
        found, at = [], 16
        for _ in range(count):
            (length,) = struct.unpack_from("<Q", value, at)
            found.append(value[at + 8 : at + 8 + length])
            at += 8 + length
        return found

    def set_texts(self, key: str, texts: Sequence[bytes]) -> None:
        head = struct.pack("<IIQ", _ARRAY, _TEXT, len(texts))
        self.metadata[key] = head + b"".join(struct.pack("<Q", len(text)) + text for text in texts)

    def write(self, target: Path) -> Path:
        head = struct.pack("<4sIQQ", b"GGUF", self.version, len(self.tensors), len(self.metadata))
        head += b"".join(struct.pack("<Q", len(key)) + key.encode() + value for key, value in self.metadata.items())
        offset = 0
        for name, (shape, kind, content) in self.tensors.items():
            head += struct.pack("<Q", len(name)) + name.encode()
            head += struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
            offset += _aligned(len(content))
        with target.open("wb") as file:
            file.write(head.ljust(_aligned(len(head)), b"\0"))
            for tensor in self.tensors.values():
                file.write(tensor.content)
                file.write(bytes(_aligned(len(tensor.content)) - len(tensor.content)))
        return target

    @staticmethod
    def _info(reader: Reader) -> tuple[str, tuple[int, ...], int, int]:
        name = reader.text("a tensor's name")
        dimensions = reader.number("I", "its dimensions")
        shape = tuple(reader.number("Q", "its shape") for _ in range(dimensions))
        return name, shape, reader.number("I", "its type"), reader.number("Q", "its place")


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
