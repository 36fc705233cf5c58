"""Tiny models of the families that people have, with random weights: each stands for many real files.

A model is two blocks of width 256, which K-quants need. Its weights are random in their quantized form, where nearly any bits
are valid: making one takes a second at most. They are scaled so that the model is about as sure of the next token as a real
one, and so that this depends on all of the past: draws and near ties are as in a real one. The text makes no sense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice, product
from pathlib import Path
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, TokenType
from numpy.typing import NDArray

WIDTH, INNER, BLOCKS, HEADS, KV_HEADS, HEAD = 256, 512, 2, 4, 2, 64
CONTEXT = 2048
ENTROPY = 1.5
"""Nats that the next token has, about: of logits with a normal distribution, ln(vocabulary) less half their variance."""

Q4_K, Q6_K, Q8_0, F16 = (GGMLQuantizationType[name] for name in ("Q4_K", "Q6_K", "Q8_0", "F16"))

GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}<start_of_turn>{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n"
    "{{ message['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
THINKING = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Family(NamedTuple):
    """A model to make. `weights` are the types of most matrices, and of those that a mixed quantization keeps finer. `window`:
    every second block sees no more cells."""

    architecture: str
    weights: tuple[GGMLQuantizationType, GGMLQuantizationType]
    spm: bool
    vocabulary: int
    tied: bool
    template: str
    window: int = 0


FAMILIES = {
    "gemma": Family("gemma3", (Q4_K, Q6_K), spm=True, vocabulary=262_144, tied=True, template=GEMMA, window=64),
    "qwen": Family("qwen3", (Q6_K, Q6_K), spm=False, vocabulary=151_936, tied=True, template=THINKING),
    "llama": Family("llama", (Q4_K, Q6_K), spm=True, vocabulary=4096, tied=False, template=GEMMA),
    "smol": Family("llama", (Q8_0, Q8_0), spm=False, vocabulary=4096, tied=False, template=CHATML),
    "half": Family("gemma3", (F16, F16), spm=False, vocabulary=4096, tied=True, template=THINKING, window=64),
}


def make_model(name: str, target: Path) -> Path:
    """Write the model of a family."""
    family = FAMILIES[name]
    writer = GGUFWriter(target, family.architecture)
    _add_sizes(writer, family)
    _add_vocabulary(writer, family)
    for name, values, kind in _tensors(family, np.random.default_rng(1)):
        writer.add_tensor(name, values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _add_sizes(writer: GGUFWriter, family: Family) -> None:
    writer.add_quantization_version(2)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(BLOCKS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(family.vocabulary)
    if family.window:
        writer.add_sliding_window(family.window)
        writer.add_uint32(f"{family.architecture}.attention.sliding_window_pattern", 2)
    writer.add_chat_template(family.template)


# --- vocabularies ----------------------------------------------------------------------------------------------------

SPECIAL = {
    True: ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"],
    False: ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"],
}
"""Control tokens of a SentencePiece vocabulary, and of a byte-level one, in which those of thoughts are none."""
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
"""The tokens of single bytes in a SentencePiece vocabulary."""
_SHOWN = {*range(33, 127), *range(161, 173), *range(174, 256)}
_HIDDEN = sorted({*range(256)} - _SHOWN)
CHARACTERS = [chr(byte if byte in _SHOWN else 256 + _HIDDEN.index(byte)) for byte in range(256)]
"""The characters that stand for the 256 bytes in a byte-level vocabulary."""
_UNUSED = 10


def texts_of(family: Family) -> list[str]:
    """Return the text of each token in the file. The last ones are unused, as in many real files."""
    unused = [f"<unused{number}>" for number in range(_UNUSED)]
    if family.spm:
        single = [chr(code) for code in range(33, 127)] + ["▁", "\n", "é", "🙂"]
        used = chain(SPECIAL[True], BYTES, single, _pieces("▁"))
        return [*islice(used, family.vocabulary - _UNUSED), *unused]
    special = SPECIAL[False]
    merged = islice(_pieces("Ġ"), family.vocabulary - 256 - len(special) - _UNUSED)
    return [*CHARACTERS, *merged, *special, *unused]


def _pieces(space: str) -> Iterator[str]:
    """Yield pieces of words, with and without a space in front, short ones first: each is one before it and a letter more."""
    for length in range(1, 5):
        for letters in map("".join, product(ascii_lowercase, repeat=length)):
            if length > 1:
                yield letters
            if length < 4:
                yield space + letters


def _add_vocabulary(writer: GGUFWriter, family: Family) -> None:
    texts = texts_of(family)
    normal = dict.fromkeys(texts, TokenType.NORMAL)
    kinds = (
        normal
        | dict.fromkeys(SPECIAL[family.spm], TokenType.CONTROL)
        | dict.fromkeys(texts[-_UNUSED:], TokenType.UNUSED)
    )
    writer.add_token_list(texts)
    if family.spm:
        kinds |= dict.fromkeys(BYTES, TokenType.BYTE) | {"<unk>": TokenType.UNKNOWN}
        writer.add_tokenizer_model("llama")
        writer.add_token_scores([-float(at) for at in range(len(texts))])
        writer.add_unk_token_id(texts.index("<unk>"))
        writer.add_pad_token_id(texts.index("<pad>"))
        writer.add_add_space_prefix(False)
    else:
        kinds |= dict.fromkeys(("<think>", "</think>"), TokenType.USER_DEFINED)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        merged = texts[256 : -_UNUSED - len(SPECIAL[False])]
        writer.add_token_merges([f"{piece[:-1]} {piece[-1]}" for piece in merged])
    writer.add_token_types([kinds[text] for text in texts])
    writer.add_bos_token_id(texts.index("<bos>" if family.spm else "<|endoftext|>"))
    writer.add_eos_token_id(texts.index("<eos>" if family.spm else "<|im_end|>"))
    writer.add_add_bos_token(family.spm)


# --- weights ---------------------------------------------------------------------------------------------------------

Values = NDArray[Any]
Tensor = tuple[str, Values, GGMLQuantizationType | None]


def _tensors(family: Family, rng: np.random.Generator) -> Iterator[Tensor]:
    """All tensors. Each block adds as much to the stream of a token as its embedding is."""
    most, fine = family.weights

    def matrix(name: str, rows: int, columns: int, scale: float, kind: GGMLQuantizationType = most) -> Tensor:
        return f"{name}.weight", QUANTIZED[kind](rng, rows, columns, scale), kind

    def vector(name: str, size: int, scale: float) -> Tensor:
        values = scale * rng.uniform(0.7, 1.3, size) * rng.choice([-1, 1], size)
        return f"{name}.weight", values.astype(np.float32), None

    deviation = np.sqrt(2 * (np.log(family.vocabulary) - ENTROPY))
    yield matrix("token_embd", family.vocabulary, WIDTH, 1.0, fine)
    if not family.tied:
        yield matrix("output", family.vocabulary, WIDTH, 1.0, fine)
    yield vector("output_norm", WIDTH, deviation / np.sqrt(WIDTH))
    gemma = family.architecture == "gemma3"
    per_column = 1 / np.sqrt(WIDTH)
    for at in range(BLOCKS):
        block = f"blk.{at}."
        yield vector(block + "attn_norm", WIDTH, 1.0)
        yield matrix(block + "attn_q", HEADS * HEAD, WIDTH, 1.5 * per_column)
        yield matrix(block + "attn_k", KV_HEADS * HEAD, WIDTH, 1.5 * per_column)
        yield matrix(block + "attn_v", KV_HEADS * HEAD, WIDTH, per_column, fine)
        yield matrix(block + "attn_output", WIDTH, HEADS * HEAD, 4 * per_column)
        if family.architecture != "llama":
            yield vector(block + "attn_q_norm", HEAD, 1.5)
            yield vector(block + "attn_k_norm", HEAD, 1.5)
        yield vector(block + "ffn_norm", WIDTH, 1.0)
        yield matrix(block + "ffn_gate", INNER, WIDTH, per_column)
        yield matrix(block + "ffn_up", INNER, WIDTH, per_column)
        yield matrix(block + "ffn_down", WIDTH, INNER, 2 / np.sqrt(INNER), fine)
        if gemma:  # which multiplies the embedding by the root of the width
            yield vector(block + "post_attention_norm", WIDTH, np.sqrt(WIDTH))
            yield vector(block + "post_ffw_norm", WIDTH, np.sqrt(WIDTH))


def _make_q4_k(rng: np.random.Generator, rows: int, columns: int, scale: float) -> Values:
    """A block of 256: two scales in half precision, eight pairs of six bits (which scale and shift 32 weights each), and 4 bits
    a weight. A weight is evenly distributed around zero."""
    blocks = np.empty((rows, columns // 256, 144), np.uint8)
    steps = rng.integers(24, 64, (*blocks.shape[:2], 8), np.uint8)
    each = scale / np.sqrt((steps.astype(np.float32) ** 2).mean() * (16**2 - 1) / 12)
    blocks[..., :4] = np.array([each, 7.5 * each], np.float16).view(np.uint8)
    first, second = steps[..., :4], steps[..., 4:]
    blocks[..., 4:8] = blocks[..., 8:12] = first | (second >> 4 << 6)
    blocks[..., 12:16] = (second & 15) * 17
    blocks[..., 16:] = rng.integers(0, 256, (*blocks.shape[:2], 128), np.uint8)
    return blocks.reshape(rows, -1)


def _make_q6_k(rng: np.random.Generator, rows: int, columns: int, scale: float) -> Values:
    """A block of 256: 6 bits a weight, a signed byte that scales 16 weights, and a scale in half precision."""
    blocks = np.empty((rows, columns // 256, 210), np.uint8)
    blocks[..., :192] = rng.integers(0, 256, (*blocks.shape[:2], 192), np.uint8)
    steps = rng.integers(40, 128, (*blocks.shape[:2], 16), np.int8)
    blocks[..., 192:208] = steps.view(np.uint8)
    each = scale / np.sqrt((steps.astype(np.float32) ** 2).mean() * (64**2 - 1) / 12)
    blocks[..., 208:] = np.array([each], np.float16).view(np.uint8)
    return blocks.reshape(rows, -1)


def _make_q8_0(rng: np.random.Generator, rows: int, columns: int, scale: float) -> Values:
    """A block of 32: a scale in half precision, and a signed byte a weight."""
    blocks = np.empty((rows, columns // 32, 34), np.uint8)
    each = rng.uniform(0.5, 1.5, (*blocks.shape[:2], 1)) * scale / 73.9
    blocks[..., :2] = each.astype(np.float16).view(np.uint8)
    blocks[..., 2:] = rng.integers(-127, 128, (*blocks.shape[:2], 32), np.int8).view(np.uint8)
    return blocks.reshape(rows, -1)


def _make_f16(rng: np.random.Generator, rows: int, columns: int, scale: float) -> Values:
    return (rng.standard_normal((rows, columns), np.float32) * np.float32(scale)).astype(np.float16)


QUANTIZED: dict[GGMLQuantizationType, Callable[[np.random.Generator, int, int, float], Values]] = {
    Q4_K: _make_q4_k, Q6_K: _make_q6_k, Q8_0: _make_q8_0, F16: _make_f16,
}  # fmt: skip
