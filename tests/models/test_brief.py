"""The brief look at a header that lists are made from."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from termchat.models.errors import ModelError
from termchat.models.gguf.brief import quantization_in, read_brief
from termchat.models.gguf.header import read_header
from termchat.models.gguf.reader import HeaderError
from tests.models.gguf_files import ARCHITECTURES, BASE, F32, TEXT, U32, header, model, whole


def test_the_real_model(model_path: Path) -> None:
    found = read_brief(model_path)
    assert (found.architecture, found.name) == ("llama", "Smollm2 135M 8k Lc100K Mix1 Ep2")
    assert (found.size_label, found.quantization) == ("135M", "Q4_1")
    assert (found.context_length, found.block_count, found.tensor_count) == (8192, 30, 272)
    assert found.file_size == 98_362_432


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_says_the_same_as_the_header(tmp_path: Path, architecture: str) -> None:
    path = tmp_path / "model-Q4_K_M.gguf"
    path.write_bytes(whole(ARCHITECTURES[architecture]))
    brief, full = read_brief(path), read_header(path)
    for name in ("architecture", "name", "size_label", "context_length", "block_count", "tensor_count", "split_count"):
        assert getattr(brief, name) == getattr(full, name)
    assert brief.quantization == (full.quantization if full.quantization != "F32" else "Q4_K_M")


def test_it_reads_no_further_than_the_vocabulary(tmp_path: Path, model_path: Path) -> None:
    """The real header, cut off in the middle of its tokens."""
    path = tmp_path / "cut-Q8_0.gguf"
    with model_path.open("rb") as file:
        path.write_bytes(file.read(4096))
    assert read_brief(path).context_length == 8192
    with pytest.raises(HeaderError, match="ends at byte 4096"):
        read_header(path)


def test_a_name_without_end_is_cut_where_it_is_read(tmp_path: Path) -> None:
    long = "\u0301" * 20_000 + "x" * 200
    path = tmp_path / "long.gguf"
    path.write_bytes(model({"general.name": (TEXT, long)}))
    for found in (read_brief(path), read_header(path)):
        assert found.name == "\u0301" * 200
    key = "x" * 60_000 + "_epsilon"
    path.write_bytes(model({key: (F32, -1.0)}))
    with pytest.raises(HeaderError) as caught:
        read_header(path)
    assert len(caught.value.message) < 400


def test_it_takes_less_than_a_millisecond(model_path: Path) -> None:
    times = []
    for _ in range(200):
        begin = time.perf_counter()
        read_brief(model_path)
        times.append(time.perf_counter() - begin)
    assert sorted(times)[50] < 1e-3  # a machine with other things to do holds some of them up


@pytest.mark.parametrize(
    ("name", "quantization"),
    [
        ("Qwen3-0.6B-Q8_0.gguf", "Q8_0"),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("gemma-3-4b-it-Q4_K_M.gguf", "Q4_K_M"),
        ("qwen2.5-1.5b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("Qwen3.5-2B-UD-Q4_K_XL.gguf", "Q4_K_XL"),
        ("Llama-3.2-1B-Instruct-Q3_K_L.gguf", "Q3_K_L"),
        ("model-bf16-00001-of-00002.gguf", "BF16"),
        ("org_name_Model.IQ2_XXS.gguf", "IQ2_XXS"),
        ("f16-story.gguf", "F16"),
        ("MXFP4_MOE.gguf", "MXFP4_MOE"),
        ("model.gguf", ""),
        ("Q4ever.gguf", ""),
    ],
)
def test_the_quantization_in_a_files_name(name: str, quantization: str) -> None:
    assert quantization_in(name) == quantization


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (model({"general.type": (TEXT, "mmproj")}), "a projector"),
        (whole({"llama.pooling_type": (U32, 1), **BASE}), "cannot generate text"),
        (header(ARCHITECTURES["llama"], []), "only a vocabulary, no weights"),
        (b"version https://git-lfs.github.com/spec/v1", "a Git LFS pointer"),
    ],
    ids=["projector", "embeddings", "vocabulary", "pointer"],
)
def test_what_is_no_model_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(data)
    with pytest.raises(HeaderError, match=words):
        read_brief(path)


def test_a_pipe_does_not_hold_it_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    for read in (read_brief, read_header):
        with pytest.raises(ModelError, match="not a regular file"):
            read(tmp_path / "pipe.gguf")
