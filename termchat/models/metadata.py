"""The metadata of a GGUF file: which values are kept, and which make the file unusable."""

from __future__ import annotations

import math

from termchat.models.reader import AGAIN, ANOTHER_FILE, Array, HeaderError, Reader, Value

MAX_LAYERS = 512  # LLAMA_MAX_LAYERS: llama.cpp aborts above it

_RECOMMENDED = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_repeat": "repeat_penalty",
    "penalty_last_n": "repeat_last_n",
}
"""`general.sampling.*` to the knob of the same meaning."""

_NOT_MODELS = {
    "adapter": "a LoRA adapter",
    "imatrix": "an importance matrix",
    "mmproj": "a projector for images or sound",
}
"""`general.type` of files that are GGUF and no language model."""


class Metadata:
    """The values that are needed, by key."""

    PREFIXES = ("general.", "split.", "tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.chat_template")
    SUFFIXES = (".context_length", ".block_count", ".vocab_size", ".nextn_predict_layers", "_epsilon")

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.values: dict[str, Value] = {}
        self.places: dict[str, int] = {}

    def take(self, number: int) -> None:
        """Reads the next entry and keeps it where it is needed."""
        key = self.reader.text(f"the key of metadata entry {number}")
        at = self.reader.position
        keep = key.startswith(self.PREFIXES) or key.endswith(self.SUFFIXES)
        value = self.reader.value(key, keep=keep)
        if keep and value is not None:
            self.values[key], self.places[key] = value, at

    @property
    def architecture(self) -> str:
        return self.text("general.architecture")

    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        return value if isinstance(value, str) else ""

    def number(self, key: str, default: int) -> int:
        value = self.values.get(key, default)
        return int(value) if isinstance(value, int) else default

    def own(self, name: str) -> int | None:
        """A whole number under the architecture's own name."""
        value = self.values.get(f"{self.architecture}.{name}")
        return value if isinstance(value, int) else None

    @property
    def vocabulary(self) -> int | None:
        tokens = self.values.get("tokenizer.ggml.tokens")
        return tokens.length if isinstance(tokens, Array) else self.own("vocab_size")

    def recommended(self) -> dict[str, float]:
        found = {knob: self.values.get(f"general.sampling.{key}") for key, knob in _RECOMMENDED.items()}
        # A file holds 32-bit floats: 0.6 is written there as 0.6000000238…
        short = {knob: float(f"{value:.7g}") if isinstance(value, float) else value for knob, value in found.items()}
        return {knob: value for knob, value in short.items() if isinstance(value, (int, float))}


def check(metadata: Metadata, tensor_count: int) -> None:
    """Refuses files that are no model, and values that make llama.cpp abort the process."""
    name, architecture = metadata.reader.name, metadata.architecture
    kind = metadata.text("general.type")
    if kind in _NOT_MODELS:
        raise HeaderError(f"{name} is {_NOT_MODELS[kind]}, not a language model", ANOTHER_FILE)
    if not architecture:
        raise HeaderError(f"{name} does not say its architecture (no general.architecture)", ANOTHER_FILE)
    part, parts = metadata.number("split.no", 0), metadata.number("split.count", 0)
    if part > 0:
        raise HeaderError(
            f"{name} is part {part + 1} of {parts} of a model", f"Open the first part, …-00001-of-{parts:05d}.gguf."
        )
    if tensor_count == 0 and parts < 2:
        raise HeaderError(f"{name} holds a vocabulary and no weights", "Choose a file that holds the whole model.")
    layers = metadata.own("block_count")
    if layers is not None and not 0 < layers <= MAX_LAYERS:
        _refuse(metadata, f"{architecture}.block_count", f"must be from 1 to {MAX_LAYERS}")
    if layers is not None and (metadata.own("nextn_predict_layers") or 0) > layers:
        _refuse(metadata, f"{architecture}.nextn_predict_layers", f"must be at most block_count, {layers}")
    for key, value in metadata.values.items():
        if key.endswith("_epsilon") and isinstance(value, float) and not (value >= 0 and math.isfinite(value)):
            _refuse(metadata, key, "must be a number from 0")
    alignment = metadata.number("general.alignment", 32)
    if alignment < 1 or alignment & (alignment - 1):
        _refuse(metadata, "general.alignment", "must be a power of 2")


def _refuse(metadata: Metadata, key: str, wanted: str) -> None:
    value, at = metadata.values[key], metadata.places[key]
    raise HeaderError(f"{metadata.reader.name}: {key!r} is {value} (byte {at}) but {wanted}; it is damaged", AGAIN)
