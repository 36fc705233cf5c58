"""GGUF files written down by hand: any metadata, and headers with the keys of real architectures."""

from __future__ import annotations

import struct
from pathlib import Path

U8, U32, I32, F32, BOOL, TEXT, ARRAY, U64 = 0, 4, 5, 6, 7, 8, 9, 10
PACK = {U8: "<B", U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}

Metadata = dict[str, tuple[int, object]]
Tensors = list[tuple[str, tuple[int, ...], int]]

BASE: Metadata = {
    "general.architecture": (TEXT, "llama"),
    "general.type": (TEXT, "model"),
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
TENSORS: Tensors = [("token_embd.weight", (64, 4), 3), ("output_norm.weight", (64,), 0)]


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind: int, content: object) -> bytes:
    """A value in the file's form; bytes are in it already."""
    if isinstance(content, bytes):
        return content
    if kind == TEXT:
        return text(str(content))
    if kind == ARRAY:
        inner, items = content  # type: ignore[misc]
        return struct.pack("<IQ", inner, len(items)) + b"".join(value(inner, item) for item in items)
    return struct.pack(PACK[kind], content)


def header(metadata: Metadata, tensors: Tensors) -> bytes:
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
    return whole(metadata, data=data)


def whole(metadata: Metadata, *, data: int = 416) -> bytes:
    head = header(metadata, TENSORS)
    return head + bytes(-len(head) % 32) + bytes(data)


def named(name: str, folder: Path, filename: str = "", **changes: tuple[int, object]) -> Path:
    """Writes a tiny model that says it is called `name`; a file of its own content."""
    path = folder / (filename or f"{name}.gguf")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model({"general.name": (TEXT, name), **changes}))
    return path


def _general(architecture: str, name: str, **more: tuple[int, object]) -> Metadata:
    return {
        "general.architecture": (TEXT, architecture),
        "general.type": (TEXT, "model"),
        "general.name": (TEXT, name),
        **{f"general.{key}": entry for key, entry in more.items()},
    }


def _own(architecture: str, **numbers: object) -> Metadata:
    """Numbers under the architecture's name, in the types the converters write: floats F32, lists as arrays."""
    found: Metadata = {}
    for key, content in numbers.items():
        kind, held = U32, content
        if isinstance(content, bool):
            kind = BOOL
        elif isinstance(content, float):
            kind = F32
        elif isinstance(content, list):
            kind, held = ARRAY, (BOOL if isinstance(content[0], bool) else I32, content)
        found[f"{architecture}.{key.replace('__', '.')}"] = (kind, held)
    return found


def _vocabulary(model: str, pre: str, count: int, *, merges: bool = True, scores: bool = False) -> Metadata:
    found: Metadata = {
        "tokenizer.ggml.model": (TEXT, model),
        "tokenizer.ggml.pre": (TEXT, pre),
        "tokenizer.ggml.tokens": (ARRAY, (TEXT, [f"t{number}" for number in range(count)])),
        "tokenizer.ggml.token_type": (ARRAY, (I32, [1] * count)),
    }
    if scores:
        found["tokenizer.ggml.scores"] = (ARRAY, (F32, [0.0] * count))
    if merges:
        found["tokenizer.ggml.merges"] = (ARRAY, (TEXT, ["t 0"] * count))
    return found | {"tokenizer.ggml.eos_token_id": (U32, 1), "tokenizer.chat_template": (TEXT, "{{ messages }}")}


_LAST: Metadata = {"general.quantization_version": (U32, 2), "general.file_type": (U32, 15)}
"""llama-quantize writes these anew, behind everything else."""

ARCHITECTURES: dict[str, Metadata] = {
    "llama": _general("llama", "Llama 3.2 1B Instruct", size_label=(TEXT, "1B"))
    | _own(
        "llama", block_count=16, context_length=131072, embedding_length=2048, feed_forward_length=8192,
        attention__head_count=32, attention__head_count_kv=8, rope__freq_base=500000.0,
        attention__layer_norm_rms_epsilon=1e-5, attention__key_length=64, attention__value_length=64,
        vocab_size=128256, rope__dimension_count=64,
    )
    | _vocabulary("gpt2", "llama-bpe", 40) | _LAST,
    "qwen2": _general("qwen2", "qwen2", file_type=(U32, 1))
    | _own(
        "qwen2", block_count=32, context_length=32768, embedding_length=4096, feed_forward_length=11008,
        attention__head_count=32, attention__head_count_kv=32, rope__freq_base=1e6,
        attention__layer_norm_rms_epsilon=1e-6,
    )
    | _vocabulary("gpt2", "qwen2", 40),
    "qwen3": _general("qwen3", "Qwen3 0.6B", size_label=(TEXT, "0.6B"))
    | _own(
        "qwen3", block_count=28, context_length=40960, embedding_length=1024, feed_forward_length=3072,
        attention__head_count=16, attention__head_count_kv=8, rope__freq_base=1e6,
        attention__layer_norm_rms_epsilon=1e-6, attention__key_length=128, attention__value_length=128,
    )
    | {"general.sampling.temp": (F32, 0.6), "general.sampling.top_k": (I32, 20), "general.sampling.top_p": (F32, 0.95)}
    | _vocabulary("gpt2", "qwen2", 40) | _LAST,
    "qwen35": _general("qwen35", "Qwen3.5 0.8B", size_label=(TEXT, "0.8B"))
    | _own(
        "qwen35", block_count=24, context_length=262144, embedding_length=1024, feed_forward_length=3584,
        attention__head_count=8, attention__head_count_kv=2, rope__freq_base=1e7,
        attention__layer_norm_rms_epsilon=1e-6, attention__key_length=256, attention__value_length=256,
        ssm__conv_kernel=4, ssm__state_size=128, ssm__group_count=16, ssm__time_step_rank=16, ssm__inner_size=2048,
        full_attention_interval=4, rope__dimension_count=64,
    )
    | _vocabulary("gpt2", "qwen35", 40) | _LAST,
    "gemma3": _general("gemma3", "Gemma 3 1b It", size_label=(TEXT, "1B"))
    | _own(
        "gemma3", context_length=32768, embedding_length=1152, block_count=26, feed_forward_length=6912,
        attention__head_count=4, attention__layer_norm_rms_epsilon=1e-6, attention__key_length=256,
        attention__value_length=256, rope__freq_base=1e6, attention__sliding_window=512, attention__head_count_kv=1,
    )
    | _vocabulary("llama", "default", 40, merges=False, scores=True) | _LAST,
    "gemma4": _general("gemma4", "gemma4")
    | _own(
        "gemma4", block_count=6, context_length=262144, embedding_length=2816, feed_forward_length=2112,
        attention__head_count=16, attention__head_count_kv=[8, 8, 8, 8, 8, 2], rope__freq_base=1e6,
        rope__freq_base_swa=1e4, attention__layer_norm_rms_epsilon=1e-6, expert_count=128, expert_used_count=8,
        attention__key_length=512, attention__value_length=512,
    )
    | {"general.file_type": (U32, 1)}
    | _own(
        "gemma4", final_logit_softcapping=30.0, attention__sliding_window=1024, attention__shared_kv_layers=0,
        attention__sliding_window_pattern=[True] * 5 + [False], attention__key_length_swa=256,
        attention__value_length_swa=256,
    )
    | _vocabulary("gemma4", "default", 40, scores=True),
    "phi3": _general("phi3", "Phi3")
    | _own(
        "phi3", context_length=4096, rope__scaling__original_context_length=4096, embedding_length=3072,
        feed_forward_length=8192, block_count=32, attention__head_count=32, attention__head_count_kv=32,
        attention__layer_norm_rms_epsilon=1e-5, rope__dimension_count=96, rope__freq_base=1e4,
    )
    | {"general.file_type": (U32, 1)} | _vocabulary("llama", "default", 40, merges=False, scores=True),
    "mamba": _general("mamba", "Mamba 370M")
    | _own(
        "mamba", context_length=1048576, embedding_length=1024, feed_forward_length=0, attention__head_count=0,
        block_count=48, ssm__conv_kernel=4, ssm__inner_size=2048, ssm__state_size=16, ssm__time_step_rank=64,
        attention__layer_norm_rms_epsilon=1e-5,
    )
    | _vocabulary("gpt2", "olmo", 40) | _LAST,
    "lfm2": _general("lfm2", "LFM2.5 1.2B Instruct", size_label=(TEXT, "1.2B"))
    | _own(
        "lfm2", block_count=6, context_length=128000, embedding_length=2048, feed_forward_length=8192,
        attention__head_count=32, attention__head_count_kv=[0, 0, 8, 0, 0, 8], rope__freq_base=1e6,
        attention__layer_norm_rms_epsilon=1e-5, vocab_size=65536, shortconv__l_cache=3,
    )
    | _vocabulary("gpt2", "lfm2", 40) | _LAST,
    "mpt": _general("mpt", "mpt")
    | _own(
        "mpt", context_length=2048, embedding_length=4096, block_count=32, feed_forward_length=16384,
        attention__head_count=32, attention__layer_norm_epsilon=1e-5, attention__max_alibi_bias=8.0,
    )
    | _vocabulary("gpt2", "mpt", 40),
}  # fmt: skip
"""Metadata with the keys, in the order and types, of real files; the vocabularies are short."""
