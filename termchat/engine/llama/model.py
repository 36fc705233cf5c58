"""A loaded GGUF model: its metadata, its vocabulary, text to ids and ids to bytes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from termchat.decoding.thinking import tags_from, tags_of
from termchat.engine.llama import observe
from termchat.engine.llama.dry import Breakers
from termchat.engine.llama.grammars import Grammars
from termchat.engine.llama.native import LIB, last_errors, read_version, take_placements
from termchat.engine.llama.observe import Labels
from termchat.engine.llama.offload import count_offloaded, list_offloading
from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.port import EngineError, ModelSpec

CONTROL = 1 << 3
UNKNOWN = 1 << 0
LSTRIP = 1 << 7
RSTRIP = 1 << 8

_LOAD_MODES = {
    ("auto", False): "LLAMA_LOAD_MODE_AUTO",
    ("on", False): "LLAMA_LOAD_MODE_MMAP",
    ("off", False): "LLAMA_LOAD_MODE_NONE",
    ("auto", True): "LLAMA_LOAD_MODE_MMAP_MLOCK",
    ("on", True): "LLAMA_LOAD_MODE_MMAP_MLOCK",
    ("off", True): "LLAMA_LOAD_MODE_MLOCK",
}
"""llama.cpp's name for how to load, by `mmap` and `mlock`."""
_EVERYTHING = 10_000
"""More layers than any model has: llama.cpp takes it for all of them."""


class Model(Vocabulary):
    """Owns a `llama_model`. Ids are ints, pieces are bytes. `gpu_layers` are as many as llama.cpp says it offloaded.

    Raises:
        EngineError: the file cannot be loaded, or holds a vocabulary only.
    """

    def __init__(self, spec: ModelSpec, progress: Callable[[float], None] | None = None) -> None:
        super().__init__()
        self.spec, self.build = spec, read_version()
        params = LIB.llama_model_default_params()
        # A build with RPC could offload, and has nothing to offload to while no server is given.
        self.offloads = bool(LIB.llama_supports_gpu_offload()) and bool(list_offloading())
        wanted = _EVERYTHING if spec.gpu_layers < 0 else spec.gpu_layers
        params.n_gpu_layers = wanted if self.offloads else 0
        params.load_mode = getattr(LIB, _LOAD_MODES[spec.mmap, spec.mlock])
        if spec.main_gpu >= 0 and self.offloads:
            params.split_mode, params.main_gpu = LIB.LLAMA_SPLIT_MODE_NONE, spec.main_gpu

        @LIB.llama_progress_callback  # type: ignore[untyped-decorator]
        def on_progress(fraction: float, _data: object) -> bool:
            if progress is not None:
                progress(fraction)
            return True

        params.progress_callback = on_progress
        # AMX's kernels end the process in virtual machines that announce AMX and do not carry it (a fault at ldtilecfg).
        params.use_extra_bufts = b"AMX_INT8 = 1" not in LIB.llama_print_system_info()
        last_errors()
        take_placements()
        self.pointer: Any = LIB.llama_model_load_from_file(spec.path_bytes or os.fsencode(spec.path), params)
        if not self.pointer:
            why = last_errors() or "llama.cpp gave no reason"
            raise EngineError(
                "model", f"{os.path.basename(spec.path)} could not be loaded: {why}", "choose another file with --model"
            )
        self.vocab: Any = LIB.llama_model_get_vocab(self.pointer)
        self.n_vocab = int(LIB.llama_vocab_n_tokens(self.vocab))
        self.layers = int(LIB.llama_model_n_layer(self.pointer))
        log = take_placements()
        on_devices = count_offloaded(log)
        self.gpu_layers = min(params.n_gpu_layers, self.layers + 1) if on_devices is None else on_devices
        self.locked = spec.mlock and not any("failed to" in line for line in log)
        self.context_trained = max(int(LIB.llama_model_n_ctx_train(self.pointer)), 0)  # what the file has as unsigned
        self.can_rewind = not (LIB.llama_model_is_recurrent(self.pointer) or LIB.llama_model_is_hybrid(self.pointer))
        self.end_ids = [i for i in range(self.n_vocab) if LIB.llama_vocab_is_eog(self.vocab, i)]
        self.bos = int(LIB.llama_vocab_bos(self.vocab))
        self.eos = int(LIB.llama_vocab_eos(self.vocab))
        self.adds_bos = bool(LIB.llama_vocab_get_add_bos(self.vocab))
        count = ctypes.c_int32()
        ids = LIB.llama_vocab_get_suppress_tokens(self.vocab, ctypes.byref(count))
        # The tokens that the file has in `tokenizer.ggml.suppress_tokens`: never to be drawn.
        self.suppressed = sorted({i for i in ids[: count.value] if 0 <= i < self.n_vocab}) if count.value else []
        if len(self.suppressed) == self.n_vocab > 0:
            name = os.path.basename(spec.path)
            LIB.llama_model_free(self.pointer)
            raise EngineError(
                "model",
                f"{name} bans all of its {self.n_vocab:,} tokens (suppress_tokens)",
                "choose another file with --model",
            )
        self._buffer = ctypes.create_string_buffer(256)
        self._pieces: dict[int, bytes] = {}
        self.thinking = tags_from(spec.thinking) or tags_of(self.template or "")
        self.names = Labels(self.n_vocab, self._find_label)
        self.breakers = Breakers(self.spell_all, partial(self.tokenize, special=False))

    def close(self) -> None:
        """Free the model; its contexts must be gone."""
        if (grammars := self.__dict__.pop("grammars", None)) is not None:
            grammars.close()
        if self.pointer:
            LIB.llama_model_free(self.pointer)
            self.pointer = None

    @cached_property
    def grammars(self) -> Grammars:
        piece = partial(self._to_piece, special=True)
        return Grammars(self.vocab, self.n_vocab, self.end_ids, piece, self.is_control)

    def read_metadata(self, key: str) -> str | None:
        size = 1024
        while True:
            buffer = ctypes.create_string_buffer(size)
            need = LIB.llama_model_meta_val_str(self.pointer, key.encode(), buffer, size)
            if need < 0:
                return None
            if need < size:
                return buffer.raw[:need].decode("utf-8", "replace")
            size = need + 1

    @property
    def template(self) -> str | None:
        text = LIB.llama_model_chat_template(self.pointer, None)
        return text.decode("utf-8", "replace") if text else None

    @property
    def description(self) -> str:
        buffer = ctypes.create_string_buffer(256)
        LIB.llama_model_desc(self.pointer, buffer, 256)
        return buffer.value.decode("utf-8", "replace")

    def read_attributes(self, token: int) -> int:
        return int(LIB.llama_vocab_get_attr(self.vocab, token))

    def is_control(self, token: int) -> bool:
        return bool(self.read_attributes(token) & (CONTROL | UNKNOWN))

    def piece(self, token: int) -> bytes:
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self._to_piece(token, special=False)
        return piece

    def spell_all(self) -> list[bytes]:
        library, ends = observe.load(), np.empty(self.n_vocab, np.int64)
        text = ctypes.create_string_buffer(64 * self.n_vocab)
        function = ctypes.cast(LIB.llama_token_to_piece, ctypes.c_void_p)
        if library is not None and library.termchat_spell(
            function, ctypes.c_void_p(self.vocab), self.n_vocab, text, len(text), ctypes.c_void_p(ends.ctypes.data)
        ):
            data, places = text.raw, [0, *ends.tolist()]
            self._pieces = {i: data[begin:end] for i, (begin, end) in enumerate(pairwise(places))}
        return super().spell_all()

    def _to_piece(self, token: int, *, special: bool) -> bytes:
        while True:
            size = len(self._buffer)
            written = LIB.llama_token_to_piece(self.vocab, token, self._buffer, size, 0, special)
            if written >= 0:
                return self._buffer.raw[:written]
            self._buffer = ctypes.create_string_buffer(-written)

    def _find_label(self, token: int) -> str:
        # A token that is unused in training has no piece, but a name.
        label = self._to_piece(token, special=True) or LIB.llama_vocab_get_text(self.vocab, token)
        return str(label.decode("utf-8", "replace"))

    def tokenize(self, text: str, *, special: bool, begin: bool = False) -> list[int]:
        data = text.encode("utf-8", "surrogatepass")
        size = len(data) + 8
        while True:
            ids = (ctypes.c_int32 * size)()
            # Asked to add what begins a text, it would add what ends one, too.
            count = LIB.llama_tokenize(self.vocab, data, len(data), ids, size, False, special)
            if count >= 0:
                return [self.bos] * (begin and self.adds_bos) + list(ids[:count])
            size = -count
