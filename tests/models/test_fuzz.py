"""Damaged headers, more than a hundred thousand of them: the answer is a header or a refusal, never anything else."""

from __future__ import annotations

import io
import random
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termchat.models.gguf.brief import Brief, parse_brief
from termchat.models.gguf.header import Header, parse_header, read_header
from termchat.models.gguf.metadata import MAX_LAYERS
from termchat.models.gguf.reader import HeaderError, Reader
from termchat.models.memory import estimate
from tests.models.gguf_files import ARCHITECTURES, model, whole

EACH = 10_500
"""Mutations of each of ten headers."""
INTERESTING = [
    *(struct.pack("<Q", n) for n in (0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 2**20 + 1, 2**22 + 1)),
    *(struct.pack("<I", n) for n in (0, 1, 4, 8, 9, 13, 2**31, 2**32 - 1)),
    *(struct.pack("<f", x) for x in (-1.0, float("nan"), float("inf"))),
    b"\0",
    b"\xff",
]

Parse = Callable[[Reader], Header | Brief]


def header_of(reader: Reader) -> Header:
    return parse_header(reader, Path(reader.name))


def answer(parse: Parse, data: bytes) -> Header | Brief | None:
    """What the bytes are read as, or None for a proper refusal."""
    reader = Reader(io.BytesIO(data), "mutated.gguf", len(data), 1 << 12)
    try:
        found: Header | Brief | None = parse(reader)
    except HeaderError as error:
        refusal = error
        found = None
    if found is None:
        assert refusal.message.startswith("mutated.gguf")
        assert refusal.hint
        return None
    assert reader.position <= len(data)
    if isinstance(found, Header):
        assert found.header_size <= found.file_size == len(data)
        assert found.block_count is None or 0 < found.block_count <= MAX_LAYERS
        assert len(found.layers) <= MAX_LAYERS
        assert estimate(found, 4096).total >= 0
    return found


def mutations(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """The bytes with a few of them changed, some put in or left out, or the end cut off."""
    while True:
        changed = bytearray(data)
        for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
            at = chance.randrange(4, len(changed))
            patch = chance.choice(INTERESTING)
            match chance.randrange(8):
                case 0:
                    changed[at] ^= 1 << chance.randrange(8)
                case 1:
                    changed[at:at] = patch
                case 2:
                    del changed[at : at + chance.randrange(1, 40)]
                case 3:
                    start = chance.randrange(len(changed))
                    changed[at:at] = changed[start : start + chance.randrange(1, 60)]
                case 4:
                    del changed[at:]
                case _:
                    changed[at : at + len(patch)] = patch
            if len(changed) < 8:
                break
        yield bytes(changed)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_mutation_of_a_header_does_harm(architecture: str) -> None:
    data = whole(ARCHITECTURES[architecture])
    assert answer(header_of, data) is not None
    chance = random.Random(architecture)
    refused = 0
    for number, mutated in zip(range(EACH), mutations(data, chance), strict=False):
        parse = parse_brief if number % 4 == 0 else header_of
        refused += answer(parse, mutated) is None
    assert EACH * 0.2 < refused < EACH, "mutations are to break headers, and not all of them"


def test_no_mutation_takes_much_memory_or_time() -> None:
    data = whole(ARCHITECTURES["gemma4"])
    made = mutations(data, random.Random(7))

    def seconds() -> float:
        begin = time.perf_counter()
        answer(header_of, mutated)
        return time.perf_counter() - begin

    tracemalloc.start()
    for _ in range(1000):
        mutated = next(made)
        # A machine with other things to do, or a collection of garbage, holds one up, but not the same one each time.
        assert seconds() < 0.25 or min(seconds() for _ in range(5)) < 0.25
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20


def test_no_mutation_of_the_real_header_does_harm(model_path: Path) -> None:
    """The real file's header, its vocabulary and all."""
    size = read_header(model_path).header_size
    with model_path.open("rb") as file:
        data = file.read(size)
    chance = random.Random(135)
    for _ in range(300):
        changed = bytearray(data)
        at = chance.choice(
            (chance.randrange(4, 1200), chance.randrange(4, size), chance.randrange(size - 20_000, size - 8))
        )
        patch = chance.choice(INTERESTING)
        changed[at : at + len(patch)] = patch
        answer(header_of, bytes(changed) if chance.randrange(4) else bytes(changed[: chance.randrange(size)]))


@settings(max_examples=1500, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=400), known=st.sampled_from([0, 4, 24, 60, 100]))
def test_bytes_from_nowhere_are_refused(data: bytes, known: int) -> None:
    """Anything behind a good beginning of any length."""
    bare = model()[:known] + data
    for parse in (header_of, parse_brief):
        found = answer(parse, bare)
        assert found is None or known


@settings(max_examples=500, suppress_health_check=list(HealthCheck))
@given(cut=st.integers(0, len(model()) - 1), tail=st.binary(max_size=16))
def test_a_file_on_disk_answers_like_one_in_memory(
    tmp_path_factory: pytest.TempPathFactory, cut: int, tail: bytes
) -> None:
    data = model()[:cut] + tail
    path = tmp_path_factory.getbasetemp() / "mutated.gguf"
    path.write_bytes(data)
    try:
        found = read_header(path).header_size
    except HeaderError:
        found = None
    in_memory = answer(header_of, data)
    assert found == (in_memory.header_size if isinstance(in_memory, Header) else None)
