"""llama.cpp itself: the import, a check of what it offers, its log, and the flag that stops a long decode."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import sys
from collections import deque
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from termchat.decoding.stages import STAGES
from termchat.engine.llama import observe
from termchat.engine.port import EngineError

_NEEDED = (
    "llama_model_load_from_file",
    "llama_init_from_model",
    "llama_get_memory",
    "llama_memory_seq_rm",
    "llama_memory_seq_cp",
    "llama_set_n_threads",
    "llama_set_abort_callback",
    "llama_vocab_is_eog",
    "llama_vocab_get_suppress_tokens",
    "llama_token_to_piece",
    "llama_sampler_init",
    *(f"llama_sampler_init_{stage.sampler}" for stage in STAGES.values() if stage.sampler),
)
_HINT = "install a compatible version: pip install 'llama-cpp-python>=0.3.36,<0.4'"


def _import_library() -> Any:
    # The package itself is not run: its high-level API takes four times as long to import.
    spec = importlib.util.find_spec("llama_cpp")
    if spec is not None and "llama_cpp" not in sys.modules:
        sys.modules["llama_cpp"] = importlib.util.module_from_spec(spec)
    try:
        lib: Any = importlib.import_module("llama_cpp.llama_cpp")
    except ImportError as error:
        raise EngineError("library", f"llama-cpp-python cannot be imported: {error}", _HINT) from error
    except (OSError, RuntimeError) as error:
        raise EngineError("library", f"llama.cpp's library cannot be loaded: {error}", _HINT) from error
    missing = [name for name in _NEEDED if not hasattr(lib, name)]
    # Since 0.3.35 the penalties take n_vocab first; called the old way they would read the wrong memory.
    if missing or len(lib.llama_sampler_init_penalties.argtypes) != 5:
        what = ", ".join(missing) or "llama_sampler_init_penalties with five arguments"
        raise EngineError("library", f"llama-cpp-python {read_version()} lacks {what}", _HINT)
    return lib


@cache
def read_version() -> str:
    """Read the version in the package's source: importlib.metadata takes as long to import as llama.cpp."""
    package = importlib.util.find_spec("llama_cpp")
    text = Path(package.origin).read_text("utf-8") if package is not None and package.origin is not None else ""
    match = re.search(r"^__version__ = [\"'](.+)[\"']", text, re.MULTILINE)
    return match[1] if match is not None else "unknown"


LIB: Any = _import_library()
"""llama_cpp's low-level module."""

_WARN, _ERROR = 3, 4
_errors: deque[str] = deque(maxlen=8)
_placements: deque[str] = deque(maxlen=64)
_PLACEMENT = ("using device ", "offloaded ", "failed to mlock", "failed to VirtualLock")


@LIB.llama_log_callback  # type: ignore[untyped-decorator]
def _log_line(level: int, text: bytes | None, _data: object) -> None:
    line = (text or b"").decode("utf-8", "replace").rstrip()
    if level == _ERROR and line:
        _errors.append(line)
    if any(words in line for words in _PLACEMENT):
        _placements.append(line)
    if line and level in (_WARN, _ERROR):
        print(line, file=sys.stderr, flush=True)


def start() -> None:
    """Redirect llama.cpp's log and initialise its backends, once a process."""
    LIB.llama_log_set(_log_line, ctypes.c_void_p(0))
    LIB.llama_backend_init()


def last_errors() -> str:
    """Return the errors that llama.cpp logged since the last call, newest last."""
    text = "; ".join(dict.fromkeys(_errors))
    _errors.clear()
    return text


def take_placements() -> list[str]:
    """Return the log lines since the last call about devices, offloaded layers and locking."""
    lines = list(_placements)
    _placements.clear()
    return lines


class _Limits(ctypes.Structure):
    """`limits` of `observe.c`."""

    _fields_ = (("stop", ctypes.c_char), ("calls", ctypes.c_uint32), ("until", ctypes.c_double))


class AbortFlag:
    """Stops a running `llama_decode`: from another thread, or when it takes too long.

    llama.cpp asks its abort callback after every node of the graph, hundreds of times a token; a Python function would cost
    a millisecond each. The callback is therefore one of `observe.c`; where that was not compiled, it is libc's `strlen`, which
    says 0 while the first byte is NUL, 1 once it is set, and knows no time limit. CPU backends only; elsewhere nobody asks.
    """

    def __init__(self) -> None:
        library = observe.load()
        self._limits = _Limits()
        self._address = ctypes.addressof(self._limits)
        self._limit = library.termchat_limit if library is not None else None
        function = library.termchat_is_over if library is not None else ctypes.CDLL(None).strlen
        self._function = ctypes.cast(function, LIB.ggml_abort_callback)
        self._none = LIB.ggml_abort_callback()

    def set(self) -> None:
        """Stop the running decode; may be called from any thread."""
        self._limits.stop = b"\1"

    def clear(self) -> None:
        self._limits.stop = b"\0"

    @property
    def is_set(self) -> bool:
        return bool(self._limits.stop != b"\0")

    def watch_context(self, context: Any, seconds: float = inf) -> None:
        """Attach the flag to a context; the next decode may take so many seconds."""
        if self._limit is not None:
            self._limit(self._address, seconds if seconds < inf else 0.0)
        LIB.llama_set_abort_callback(context, self._function, self._address)

    def leave_context(self, context: Any) -> None:
        """Detach the flag from a context."""
        LIB.llama_set_abort_callback(context, self._none, self._address)
