"""What a GGUF file says about itself, read from its first bytes, without llama.cpp and without loading anything.

The reader keeps the few values it needs and skips the rest, so memory and time are bounded whatever the file claims. It
refuses, with a reason, what llama.cpp cannot load or would abort on.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec

from termchat import regular_files
from termchat.models.entry import parts
from termchat.models.errors import ModelError
from termchat.models.gguf.metadata import Metadata, check
from termchat.models.gguf.quantization import FILE_TYPES, TENSOR_TYPES
from termchat.models.gguf.reader import AGAIN, MAX_NAME, HeaderError, Reader, opened, read_beginning

_EVERY_FOURTH = ("qwen3next", "qwen35", "qwen35moe")
"""Architectures of which every fourth layer attends and the others are recurrent, where the file says nothing else."""


MAX_DIMENSIONS = 4
MAX_TENSOR_NAME = 63
MAX_REST = 64 << 20
"""Bytes that may follow the last tensor in a small file; in a large one as many as its tensors have."""


class Layer(NamedTuple):
    """How many numbers a layer keeps: of each token as keys and as values, and once for each sequence."""

    keys: int
    values: int
    state: int


def layers(metadata: Metadata) -> tuple[Layer, ...]:
    """The layers that have a cache of their own; () where the file does not say how many there are.

    A layer with a sliding window counts like any other: its cache is kept whole, so that a chat can be cut anywhere.
    """
    count = metadata.own("block_count") or 0
    heads = _kv_heads(metadata, count)
    keys, values = (_widths(metadata, name, count) for name in ("key_length", "value_length"))
    state = _state(metadata)
    mixed = any(heads) and not all(heads)
    owned = max(count - (metadata.own("attention.shared_kv_layers") or 0), 0)
    return tuple(
        Layer(heads[number] * keys[number], heads[number] * values[number], 0 if mixed and heads[number] else state)
        for number in range(owned)
    )


def head_count(metadata: Metadata) -> int:
    """Query heads of a layer, of those that have most; 0 where the file does not say."""
    several = metadata.each("attention.head_count", metadata.own("block_count") or 0)
    return metadata.own("attention.head_count") or max(several, default=0)


def _kv_heads(metadata: Metadata, count: int) -> list[int]:
    """Key heads of each layer; none in a recurrent one."""
    heads = metadata.each("attention.head_count_kv", count)
    if not heads:
        same = metadata.own("attention.head_count_kv")
        heads = [head_count(metadata) if same is None else same] * count
    every = metadata.own("full_attention_interval") or (4 if metadata.architecture in _EVERY_FOURTH else 1)
    return [one if (number + 1) % every == 0 else 0 for number, one in enumerate(heads)]


def _widths(metadata: Metadata, name: str, count: int) -> list[int]:
    heads = head_count(metadata)
    usual = metadata.own(f"attention.{name}") or ((metadata.own("embedding_length") or 0) // heads if heads else 0)
    sliding = metadata.each("attention.sliding_window_pattern", count) or [0] * count
    narrow = metadata.own(f"attention.{name}_swa") or usual
    return [narrow if one else usual for one in sliding]


def _state(metadata: Metadata) -> int:
    """Numbers in the state of a recurrent layer: of its convolution, and its memory."""
    short = metadata.own("shortconv.l_cache")
    if short is not None:
        return (metadata.own("embedding_length") or 0) * max(short - 1, 0)
    inner, memory = metadata.own("ssm.inner_size") or 0, metadata.own("ssm.state_size") or 0
    groups, kernel = metadata.own("ssm.group_count") or 0, metadata.own("ssm.conv_kernel") or 1
    return (kernel - 1) * (inner + 2 * groups * memory) + memory * inner


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a GGUF file. Sizes in bytes; None or "" where the file does not say."""

    path: str
    version: int
    architecture: str
    name: str
    size_label: str
    quantization: str
    parameters: int
    """Weights in this file (of a model in several files: in its first one)."""
    context_length: int | None
    """Tokens the model was trained on."""
    block_count: int | None
    layers: tuple[Layer, ...]
    """What each layer keeps of a context; () if the file does not say enough."""
    head_count: int | None
    """Query heads of a layer."""
    embedding_length: int | None
    vocabulary: int | None
    tokenizer: str
    template: str | None
    """The chat template, Jinja."""
    recommended: dict[str, float | tuple[str, ...]]
    """What the file recommends, by knob name; not checked against the knobs' ranges."""
    tensor_count: int
    split_count: int
    header_size: int
    """From the first byte to the end of the tensors' descriptions."""
    file_size: int

    def identity(self) -> str:
        """Hex SHA-256 over the header's bytes and the file's size (8 bytes, little endian). Reads the file.

        Raises:
            ModelError: the file cannot be read any more.
        """
        digest = hashlib.sha256()
        try:
            with regular_files.opened(Path(self.path)) as file:
                left = self.header_size
                while left and (piece := file.read(min(left, 1 << 20))):
                    digest.update(piece)
                    left -= len(piece)
        except OSError as error:
            raise ModelError(f"{self.path} cannot be read: {error.strerror}") from error
        digest.update(self.file_size.to_bytes(8, "little"))
        return digest.hexdigest()


def read_header(path: Path) -> Header:
    """Of a model's (first) file.

    Raises:
        HeaderError: the file is no usable GGUF model, or not of the size that its tensors need; says why, and at which byte.
        ModelError: the file cannot be opened.
    """
    with opened(path) as reader:
        return parse_header(reader, path)


def check_parts(first: Path) -> None:
    """Refuses a model in several files where one of the others is missing, cut off or no part of a model.

    Raises:
        ModelError: names the file, and says what is wrong with it.
    """
    for name in parts(first.name)[1:]:
        check_part(first.with_name(name))


def check_part(path: Path) -> None:
    """Refuses a further file of a model that is not all there. Raises as `read_header` does, which is for the first one."""
    with opened(path) as reader:
        _, tensor_count, pairs = read_beginning(reader)
        metadata = Metadata(reader)
        for number in range(pairs):
            metadata.take(metadata.key(number))
        _tensors(reader, tensor_count, metadata.alignment)


def parse_header(reader: Reader, path: Path) -> Header:
    """From the reader's position; `path` is the file's. Raises as `read_header` does."""
    version, tensor_count, pairs = read_beginning(reader)
    metadata = Metadata(reader)
    for number in range(pairs):
        metadata.take(metadata.key(number))
    check(metadata, tensor_count)
    tensors = _tensors(reader, tensor_count, metadata.alignment)
    file_type = metadata.number("general.file_type", -1)
    return Header(
        path=str(path),
        version=version,
        architecture=metadata.architecture,
        name=metadata.name("name"),
        size_label=metadata.name("size_label"),
        quantization=FILE_TYPES.get(file_type, tensors.commonest),
        parameters=tensors.parameters,
        context_length=metadata.context_length,
        block_count=metadata.own("block_count"),
        layers=layers(metadata),
        head_count=head_count(metadata) or None,
        embedding_length=metadata.own("embedding_length"),
        vocabulary=metadata.vocabulary,
        tokenizer=metadata.text("tokenizer.ggml.model")[:MAX_NAME],
        template=metadata.text("tokenizer.chat_template") or None,
        recommended=metadata.recommended(),
        tensor_count=tensor_count,
        split_count=metadata.number("split.count", 0),
        header_size=tensors.end,
        file_size=reader.size,
    )


class _Tensors(NamedTuple):
    """All tensors together: weights, the type of most of their bytes, and where their descriptions end."""

    parameters: int
    commonest: str
    end: int


def _tensors(reader: Reader, count: int, alignment: int) -> _Tensors:
    parameters, needed, padded = 0, 0, 0
    sizes: Counter[str] = Counter()
    for number in range(count):
        at = reader.position
        name = reader.text(f"the name of tensor {number}", MAX_TENSOR_NAME)
        dimensions = reader.number("I", f"the shape of tensor {name!r}")
        if dimensions > MAX_DIMENSIONS:
            raise HeaderError(f"{reader.name}: tensor {name!r} (byte {at}) has {dimensions} dimensions", AGAIN)
        shape = [reader.number("Q", f"the shape of tensor {name!r}") for _ in range(dimensions)]
        packing = TENSOR_TYPES.get(reader.number("I", f"the type of tensor {name!r}"))
        offset = reader.number("Q", f"the place of tensor {name!r}")
        weights = math.prod(shape)
        if packing is None or weights >> 63 or (shape and shape[0] % packing.block):
            raise HeaderError(
                f"{reader.name}: tensor {name!r} (byte {at}) has an unknown type or is damaged",
                "Choose a file made for today's llama.cpp.",
            )
        if offset != padded:
            raise HeaderError(f"{reader.name}: tensor {name!r} (byte {at}) starts at {offset}, not {padded}", AGAIN)
        size = weights // packing.block * packing.size
        needed = padded + size
        padded += -(-size // alignment) * alignment
        parameters += weights
        sizes[packing.name] += size
    end = reader.position
    needed += -(-end // alignment) * alignment
    if count and needed > reader.size:
        raise HeaderError(
            f"{reader.name} ends at byte {reader.size}, but its tensors need {needed}: "
            f"{needed - reader.size} bytes are missing",
            f"The download is incomplete. {AGAIN}",
        )
    if reader.size - needed > max(needed, MAX_REST):
        raise HeaderError(
            f"{reader.name} has {reader.size} bytes, but its tensors end at byte {needed}: the rest is no part of a model",
            AGAIN,
        )
    return _Tensors(parameters, sizes.most_common(1)[0][0] if sizes else "", end)
