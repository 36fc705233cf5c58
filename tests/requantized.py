"""A second real model: the first one's weights in another quantization, made by llama.cpp's own function.

It has a template and a recommended temperature of its own, so that one can tell whose they are. Run as a program, in a
process of its own: llama.cpp prints every tensor.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

FTYPES = {"Q4_0": 2, "Q8_0": 7}
TEMPERATURE = 0.5
TEMPLATE = "{% for m in messages %}<|im_start|>{{m.role}}: {{m.content}}<|im_end|>{% endfor %}<|im_start|>assistant:"


def requantized(source: Path, target: Path, ftype: str) -> Path:
    """Writes `target`, which takes a second or two, and returns it."""
    command = [sys.executable, "-m", "tests.requantized", str(source), str(target), ftype]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr[-2000:]
    return target


def _make(source: Path, target: Path, ftype: str) -> int:
    import llama_cpp.llama_cpp as lib

    overrides = (lib.llama_model_kv_override * 3)()  # the last one, without a key, ends the list
    overrides[0].tag, overrides[0].key = lib.LLAMA_KV_OVERRIDE_TYPE_STR, b"tokenizer.chat_template"
    overrides[0].value.val_str = TEMPLATE.encode()
    overrides[1].tag, overrides[1].key = lib.LLAMA_KV_OVERRIDE_TYPE_FLOAT, b"general.sampling.temp"
    overrides[1].value.val_f64 = TEMPERATURE
    params = lib.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize, params.nthread, params.kv_overrides = FTYPES[ftype], True, 2, overrides
    return int(lib.llama_model_quantize(bytes(source), bytes(target), ctypes.byref(params)))


if __name__ == "__main__":
    sys.exit(_make(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
