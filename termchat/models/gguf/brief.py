"""What a list of models shows of a GGUF file: the beginning of its header, read in well under a millisecond.

Reading stops where the vocabulary begins, which is long and has to be walked over; what stands behind it is for
`read_header`. So nothing here says that a model can be loaded.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from termchat.models.gguf.metadata import Metadata, check_kind
from termchat.models.gguf.quantization import FILE_TYPES
from termchat.models.gguf.reader import HeaderError, Reader, opened, read_beginning

WINDOW = 1 << 14
"""Bytes fetched at once; the part before the vocabulary is a tenth of it."""

_ENOUGH = ("block_count", "context_length")
_QUANTIZATIONS = (*sorted(FILE_TYPES.values(), key=len, reverse=True), r"Q\d_K_XL", r"Q\d_K_L")
_IN_NAME = re.compile(rf"(?:^|[-._])({'|'.join(_QUANTIZATIONS)})(?=[-._]|$)", re.IGNORECASE)


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """The start of a header. Sizes in bytes; None or "" where it does not say."""

    architecture: str
    name: str
    size_label: str
    quantization: str
    """As the header says, else as the file's name says."""
    context_length: int | None
    """Tokens the model was trained on."""
    block_count: int | None
    rewinds: bool
    """Whether its context can be cut back to any token; a recurrent model's cannot."""
    tensor_count: int
    split_count: int
    """Files of a model in several, of which this is the first; 0 if it does not say here."""
    file_size: int


def read_brief(path: Path) -> Brief:
    """Raises:
    HeaderError: it is no GGUF file, or no model that one can chat with.
    ModelError: the file cannot be opened.
    """
    with opened(path, WINDOW) as reader:
        return parse_brief(reader)


def parse_brief(reader: Reader) -> Brief:
    """From the reader's position. Raises as `read_brief` does."""
    _, tensors, pairs = read_beginning(reader)
    metadata = Metadata(reader)
    for number in range(pairs):
        key = metadata.key(number)
        if key.startswith("tokenizer.") and all(metadata.own(name) is not None for name in _ENOUGH):
            break
        metadata.take(key)
    check_kind(metadata)
    split = metadata.number("split.count", 0)
    if tensors == 0 and split < 2:
        raise HeaderError(
            f"{reader.name} contains only a vocabulary, no weights", "Choose a file that contains the whole model."
        )
    file_type = metadata.number("general.file_type", -1)
    return Brief(
        architecture=metadata.architecture,
        name=metadata.name("name"),
        size_label=metadata.name("size_label"),
        quantization=FILE_TYPES.get(file_type) or quantization_in(reader.name),
        context_length=metadata.context_length,
        block_count=metadata.own("block_count"),
        rewinds=metadata.rewinds,
        tensor_count=tensors,
        split_count=split,
        file_size=reader.size,
    )


def quantization_in(name: str) -> str:
    """ "" if the name has none."""
    found = _IN_NAME.findall(name.rsplit("/", 1)[-1])
    return found[-1].upper() if found else ""
