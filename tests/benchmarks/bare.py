"""The yardstick: llama.cpp's own loop with nothing around it, in a process of its own.

Reads one JSON request a line on stdin, answers with one JSON line on stdout: seconds for the prefill and for the steps
after the first token.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from time import perf_counter
from typing import Any

import llama_cpp.llama_cpp as lib

DEFAULT: list[list[Any]] = [["top_k", 40], ["top_p", 0.95, 1], ["min_p", 0.05, 1], ["temp", 0.8]]
DRAW = ("mirostat", "mirostat_v2", "adaptive_p")
"""These draw by themselves."""


@lib.llama_log_callback
def _silent(_level: int, _text: bytes, _data: object) -> None:
    pass


class Bare:
    """A model and a context with llama.cpp's defaults."""

    def __init__(self, path: str, context: int, threads: int) -> None:
        lib.llama_log_set(_silent, None)
        lib.llama_backend_init()
        how = lib.llama_model_default_params()
        how.use_extra_bufts = (
            b"AMX_INT8 = 1" not in lib.llama_print_system_info()
        )  # as termchat does, and for its reason
        self.model = lib.llama_model_load_from_file(os.fsencode(path), how)
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_threads, params.n_threads_batch = context, threads, threads
        params.n_batch = params.n_ubatch = 512
        params.no_perf = True
        self.context = lib.llama_init_from_model(self.model, params)
        self.memory = lib.llama_get_memory(self.context)

    def run(
        self, ids: list[int], batch: int, tokens: int, seed: int, samplers: list[list[Any]] = DEFAULT
    ) -> dict[str, float]:
        """Decodes the prompt in batches of so many and the last token alone, then draws so many tokens. `samplers` are names
        of `llama_sampler_init_…` with their arguments; `V` is the vocabulary."""
        lib.llama_memory_clear(self.memory, True)
        chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        for name, *arguments in (*samplers, *([["dist", seed]] if samplers[-1][0] not in DRAW else [])):
            given = [lib.llama_model_get_vocab(self.model) if one == "V" else one for one in arguments]
            if name == "dry":
                texts = [text.encode() for text in given.pop()]
                given += [(ctypes.c_char_p * len(texts))(*texts), len(texts)]
            lib.llama_sampler_chain_add(chain, getattr(lib, f"llama_sampler_init_{name}")(*given))
        for token in ids:
            lib.llama_sampler_accept(chain, token)
        body = ids[:-1]
        begun = perf_counter()
        for part in [*(body[i : i + batch] for i in range(0, len(body), batch)), ids[-1:]]:
            self._decode(part)
        lib.llama_get_logits_ith(self.context, -1)
        prefill = perf_counter() - begun
        token = lib.llama_sampler_sample(chain, self.context, -1) if tokens else 0
        begun = perf_counter()
        for _ in range(tokens - 1):
            self._decode([token])
            token = lib.llama_sampler_sample(chain, self.context, -1)
        decode = perf_counter() - begun
        lib.llama_sampler_free(chain)
        return {"prefill_s": prefill, "decode_s": decode}

    def _decode(self, ids: list[int]) -> None:
        array = (lib.llama_token * len(ids))(*ids)
        if lib.llama_decode(self.context, lib.llama_batch_get_one(array, len(ids))) != 0:
            raise RuntimeError("llama_decode failed")


def main() -> None:
    """Answers requests until stdin ends."""
    path, context, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    bare = Bare(path, context, threads)
    for line in sys.stdin:
        out.write(json.dumps(bare.run(**json.loads(line))) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
