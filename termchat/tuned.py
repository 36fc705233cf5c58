"""What `termchat tune` found: the best settings of a model on a machine, in a file of their own.

They go before the defaults and after everything that a person set. A file that cannot be read counts as empty: measuring
again makes a new one.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import msgspec

from termchat import paths
from termchat.engine.llama.cores import all_threads, default_threads

VERSION = 1
_LIBRARY = "llama-cpp-python"


class Tuned(msgspec.Struct, frozen=True):
    """One model on one machine. `settings` are those that beat their defaults; rates in tokens a second, `measured` in
    seconds since the epoch."""

    sha256: str
    name: str
    machine: str
    settings: dict[str, int]
    decode: float
    prefill: float
    measured: float


class _File(msgspec.Struct):
    version: int = VERSION
    tuned: list[Tuned] = []


def machine() -> str:
    """What the best settings depend on beside the model: the processor, the cores we may use, and the build of llama.cpp."""
    try:
        library = metadata.version(_LIBRARY)
    except metadata.PackageNotFoundError:
        library = "none"
    return f"{processor()}, {default_threads()} cores, {all_threads()} threads, {_LIBRARY} {library}"


def processor() -> str:
    """The processor's name."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine() or sys.platform


def entries(file: Path | None = None) -> list[Tuned]:
    """All that was measured, on whatever machine."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        found = msgspec.json.decode((file or paths.tuned_file()).read_bytes(), type=_File)
        return found.tuned if found.version == VERSION else []
    return []


def find(sha256: str, file: Path | None = None) -> Tuned | None:
    """What was measured for this model on this machine."""
    mine = [entry for entry in entries(file) if entry.sha256 == sha256]
    here = machine() if mine else ""
    return next((entry for entry in mine if entry.machine == here), None)


def keep(tuned: Tuned, file: Path | None = None) -> Path:
    """Writes it in place of what was measured before; returns where.

    Raises:
        OSError: it cannot be written.
    """
    file = file or paths.tuned_file()
    others = [e for e in entries(file) if (e.sha256, e.machine) != (tuned.sha256, tuned.machine)]
    data = msgspec.json.format(msgspec.json.encode(_File(tuned=[*others, tuned])))
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(descriptor, "wb") as written:
            written.write(data)
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return file
