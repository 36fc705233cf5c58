"""The metadata of a GGUF file: which values are kept, and which make the file unusable."""

from __future__ import annotations

import math

from termchat.models.gguf.reader import AGAIN, ANOTHER_FILE, MAX_NAME, Array, HeaderError, Reader, Value

MAX_LAYERS = 512  # LLAMA_MAX_LAYERS: llama.cpp aborts above it
MAX_KEY = 1 << 16
MAX_KEPT = 256
"""Most values that are kept; a model has a fifth of it."""

_RECOMMENDED = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_repeat": "repeat_penalty",
    "penalty_last_n": "repeat_last_n",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
}
"""`general.sampling.*` to the knob of the same meaning."""
_MAX_SEQUENCE = 512
"""Characters of the recommended order that llama.cpp reads, too."""

_NOT_MODELS = {
    "adapter": "a LoRA adapter",
    "imatrix": "an importance matrix",
    "mmproj": "a projector for images or audio",
}
"""`general.type` of files that are GGUF and no language model."""

_EMBEDS = "an embedding model"
_NOT_LANGUAGE = {
    "clip": _NOT_MODELS["mmproj"],
    **dict.fromkeys(
        (
            "bert",
            "modern-bert",
            "neo-bert",
            "eurobert",
            "nomic-bert",
            "nomic-bert-moe",
            "jina-bert-v2",
            "jina-bert-v3",
            "gemma-embedding",
        ),
        _EMBEDS,
    ),
    "t5encoder": _EMBEDS,
    "wavtokenizer-dec": "an audio decoder",
}
"""Architectures that write no text."""


_TEXTS = (
    "general.architecture",
    "general.type",
    "general.name",
    "general.size_label",
    "general.sampling.sequence",
    "tokenizer.ggml.model",
    "tokenizer.chat_template",
)
_OWN = (
    "context_length",
    "block_count",
    "embedding_length",
    "vocab_size",
    "nextn_predict_layers",
    "pooling_type",
    "full_attention_interval",
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.key_length_swa",
    "attention.value_length",
    "attention.value_length_swa",
    "attention.sliding_window_pattern",
    "attention.shared_kv_layers",
    "shortconv.l_cache",
    "ssm.conv_kernel",
    "ssm.group_count",
    "ssm.inner_size",
    "ssm.state_size",
    "wkv.head_size",
)
"""Numbers under the architecture's own name."""
_STATES = ("ssm.state_size", "ssm.conv_kernel", "shortconv.l_cache", "wkv.head_size")
"""What recurrent and hybrid models alone have: Mamba and its like, LFM2, RWKV."""


class Metadata:
    """The values that are needed, by key: texts by their whole key, numbers by its beginning or end."""

    TEXTS = frozenset(_TEXTS)
    PREFIXES = ("general.file_type", "general.alignment", "general.sampling.", "split.", "tokenizer.ggml.tokens")
    SUFFIXES = (*(f".{name}" for name in _OWN), "_epsilon")

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.values: dict[str, Value] = {}
        self.places: dict[str, int] = {}

    def key(self, number: int) -> str:
        return self.reader.text(f"the key of metadata entry {number}", MAX_KEY)

    def take(self, key: str) -> None:
        """Reads the value that follows its key; keeps it where it is needed."""
        at = self.reader.position
        wanted = key in self.TEXTS
        value = self.reader.value(key, keep=wanted or key.startswith(self.PREFIXES) or key.endswith(self.SUFFIXES))
        if value is None or (isinstance(value, str) and not wanted):
            return
        if len(self.values) >= MAX_KEPT:
            raise HeaderError(
                f"{self.reader.name} has more metadata than any model (byte {at}); the file is damaged", AGAIN
            )
        self.values[key], self.places[key] = value, at

    @property
    def architecture(self) -> str:
        return self.name("architecture")

    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        return value if isinstance(value, str) else ""

    def name(self, key: str) -> str:
        """The beginning of a text under `general.`, one of those that lists show."""
        return self.text(f"general.{key}")[:MAX_NAME]

    def number(self, key: str, default: int) -> int:
        value = self.values.get(key, default)
        return int(value) if isinstance(value, int) else default

    def own(self, name: str) -> int | None:
        """A whole number of 0 or more under the architecture's own name."""
        value = self.values.get(f"{self.architecture}.{name}")
        return value if isinstance(value, int) and value >= 0 else None

    def each(self, name: str, count: int) -> list[int]:
        """Whole numbers of 0 or more under the architecture's own name, one per layer; [] if it is no such array."""
        value = self.values.get(f"{self.architecture}.{name}")
        if isinstance(value, tuple) and len(value) >= count and all(isinstance(one, int) and one >= 0 for one in value):
            return [int(one) for one in value[:count]]
        return []

    @property
    def alignment(self) -> int:
        """Of the tensors, in bytes."""
        return self.number("general.alignment", 32)

    @property
    def context_length(self) -> int | None:
        """Tokens the model was trained on; None where the file says nothing, or a number that is none: llama.cpp counts
        positions in 32 bits with a sign.
        """
        length = self.own("context_length")
        return length if length and length < 1 << 31 else None

    @property
    def vocabulary(self) -> int | None:
        tokens = self.values.get("tokenizer.ggml.tokens")
        return tokens.length if isinstance(tokens, Array) else self.own("vocab_size")

    @property
    def rewinds(self) -> bool:
        """Whether a context can be cut back to any token: not where a layer keeps one state for all that it has read."""
        return all(self.own(name) is None for name in _STATES)

    def recommended(self) -> dict[str, float | tuple[str, ...]]:
        found = {knob: self.values.get(f"general.sampling.{key}") for key, knob in _RECOMMENDED.items()}
        # A file holds 32-bit floats: 0.6 is written there as 0.6000000238…
        short = {knob: float(f"{value:.7g}") if isinstance(value, float) else value for knob, value in found.items()}
        numbers = {knob: value for knob, value in short.items() if isinstance(value, (int, float))}
        order = tuple(filter(None, self.text("general.sampling.sequence")[:_MAX_SEQUENCE].split(";")))
        return numbers | ({"order": order} if order else {})


def check_kind(metadata: Metadata) -> None:
    """Refuses GGUF files that are not chat models."""
    name, architecture = metadata.reader.name, metadata.architecture
    kind = metadata.text("general.type")
    part, parts = metadata.number("split.no", 0), metadata.number("split.count", 0)
    if part > 0:
        raise HeaderError(
            f"{name} is part {part + 1} of {parts} of a model", f"Open the first part, …-00001-of-{parts:05d}.gguf."
        )
    if kind in _NOT_MODELS or architecture in _NOT_LANGUAGE:
        what = _NOT_MODELS.get(kind) or _NOT_LANGUAGE[architecture]
        raise HeaderError(f"{name} is {what}, not a language model", ANOTHER_FILE)
    if not architecture:
        raise HeaderError(f"{name} does not name its architecture (general.architecture is missing)", ANOTHER_FILE)
    if metadata.own("pooling_type") or metadata.own("attention.causal") == 0:
        raise HeaderError(
            f"{name} is an embedding or fill-in model; it cannot generate text", "Choose a different model."
        )


def check(metadata: Metadata, tensor_count: int) -> None:
    """Refuses files that are no model, and values that make llama.cpp abort the process."""
    check_kind(metadata)
    name, architecture = metadata.reader.name, metadata.architecture
    if tensor_count == 0 and metadata.number("split.count", 0) < 2:
        raise HeaderError(
            f"{name} contains only a vocabulary, no weights", "Choose a file that contains the whole model."
        )
    layers = metadata.values.get(f"{architecture}.block_count")
    if isinstance(layers, int) and not 0 < layers <= MAX_LAYERS:
        _refuse(metadata, f"{architecture}.block_count", f"must be from 1 to {MAX_LAYERS}")
    if isinstance(layers, int) and (metadata.own("nextn_predict_layers") or 0) > layers:
        _refuse(metadata, f"{architecture}.nextn_predict_layers", f"must be at most block_count, {layers}")
    for key, value in metadata.values.items():
        if key.endswith("_epsilon") and isinstance(value, float) and not (value >= 0 and math.isfinite(value)):
            _refuse(metadata, key, "must be a number of 0 or more")
    if metadata.alignment & (metadata.alignment - 1) or metadata.alignment < 1:
        _refuse(metadata, "general.alignment", "must be a power of 2")


def _refuse(metadata: Metadata, key: str, wanted: str) -> None:
    value, at = metadata.values[key], metadata.places[key]
    raise HeaderError(
        f"{metadata.reader.name}: {key[:MAX_NAME]!r} is {value} (byte {at}) but {wanted}; the file is damaged", AGAIN
    )
