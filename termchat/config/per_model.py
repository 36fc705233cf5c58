"""Settings of single models: those for all models, those a person chose for this one, and those measured to be fastest."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from termchat import atomic, paths, regular_files
from termchat.config.origins import PICKER
from termchat.engine.llama.thread_tuner import all_threads, default_threads
from termchat.engine.port import Measurement
from termchat.text import UNREADABLE

if TYPE_CHECKING:
    from termchat.config.settings import Settings
    from termchat.decoding.setting import Value


VERSION = 1
_LIBRARY = "llama-cpp-python"
_MOST = 16 << 20
"""Bytes of the largest file that is read: tens of thousands of models."""


class Tuned(msgspec.Struct, frozen=True):
    """One model on one machine. `settings` are those that beat their defaults; rates in tokens a second, `measured` in
    seconds since the epoch; a rate of 0.0 was not measured. `rows` are the costs and bits of batches, one for each way in which
    the model was loaded."""

    sha256: str
    name: str
    machine: str
    settings: dict[str, int]
    decode: float
    prefill: float
    measured: float
    rows: tuple[Measurement, ...] = ()


class Pick(msgspec.Struct, frozen=True):
    """What a person set for one model on one machine, whatever build of llama.cpp it has; unchecked, as the file has it."""

    sha256: str
    name: str
    hardware: str
    settings: dict[str, int | str | bool]


class _File(msgspec.Struct):
    version: int = VERSION
    tuned: list[Tuned] = []
    picks: list[Pick] = []


def machine() -> str:
    """Return what the best settings depend on beside the model: the hardware, and the build of llama.cpp."""
    from importlib import metadata  # it takes longer than the first frame should wait, and most starts need none of it

    try:
        library = metadata.version(_LIBRARY)
    except metadata.PackageNotFoundError:
        library = "none"
    return f"{hardware()}, {_LIBRARY} {library}"


def hardware() -> str:
    """Return the processor and the cores available to this process."""
    return f"{processor()}, {default_threads()} cores, {all_threads()} threads"


def processor() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    import platform

    return platform.processor() or platform.machine() or sys.platform


def entries(file: Path | None = None) -> list[Tuned]:
    """Return the measurements of all models and machines."""
    return _read_file(file).tuned


def find(sha256: str, file: Path | None = None) -> Tuned | None:
    """Find the measurement of this model on this machine."""
    return next((one for one in entries(file) if one.sha256 == sha256 and one.machine == machine()), None)


def find_rows(sha256: str, file: Path | None = None) -> tuple[Measurement, ...]:
    """Return what batches of this model cost and change on this machine, for each way in which it was loaded."""
    tuned = find(sha256, file)
    return tuned.rows if tuned is not None else ()


def picks(file: Path | None = None) -> list[Pick]:
    """Return the choices for all models and machines."""
    return _read_file(file).picks


def find_pick(sha256: str, file: Path | None = None) -> Pick | None:
    """Find the choice for this model on this machine."""
    return next((one for one in picks(file) if one.sha256 == sha256 and one.hardware == hardware()), None)


def keep_measured(tuned: Tuned, file: Path | None = None) -> Path:
    """Write a measurement in place of the one before; return the file.

    Raises:
        OSError: it cannot be written.
    """
    kept = _read_file(file)
    kept.tuned = [e for e in kept.tuned if (e.sha256, e.machine) != (tuned.sha256, tuned.machine)] + [tuned]
    return _write_file(kept, file)


def keep_rows(measured: Measurement, sha256: str, name: str, file: Path | None = None) -> Path:
    """Join a measurement of batches with what was measured before; returns where it is kept.

    Raises:
        OSError: it cannot be written.
    """
    tuned = find(sha256, file) or Tuned(sha256, name, machine(), {}, 0.0, 0.0, time())
    before = next((one for one in tuned.rows if one.how == measured.how), measured)
    others = tuple(one for one in tuned.rows if one.how != measured.how)
    return keep_measured(msgspec.structs.replace(tuned, rows=(*others, before.join_with(measured))), file)


def keep_pick(pick: Pick, file: Path | None = None) -> Path:
    """Write a choice in place of the one before; one without settings is removed. Return the file.

    Raises:
        OSError: it cannot be written.
    """
    kept = _read_file(file)
    others = [e for e in kept.picks if (e.sha256, e.hardware) != (pick.sha256, pick.hardware)]
    kept.picks = [*others, pick] if pick.settings else others
    return _write_file(kept, file)


def _read_file(file: Path | None) -> _File:
    with contextlib.suppress(OSError, *UNREADABLE):
        found = msgspec.json.decode(regular_files.read(file or paths.tuned_file(), _MOST), type=_File)
        return found if found.version == VERSION else _File()
    return _File()


def _write_file(kept: _File, file: Path | None) -> Path:
    file = file or paths.tuned_file()
    atomic.replace(file, msgspec.json.format(msgspec.json.encode(kept)))
    return file


class Picked(NamedTuple):
    """What a person set for one model, by option; the `newer` of it is newer than the flags, and so goes before them."""

    settings: Mapping[str, Value] = {}
    newer: frozenset[str] = frozenset()


class RunSettings(NamedTuple):
    """One model's settings and where they come from; `asked` is for all models, `measured` what was found best for this one."""

    asked: Settings
    picked: Picked
    measured: Mapping[str, int]

    @property
    def config(self) -> Settings:
        return self.asked.with_picked(*self.picked).with_tuned(self.measured)

    def set(self, name: str, value: Value) -> RunSettings:
        """Return a copy in which a person set an option for this model.

        Raises:
            SettingError: the option refuses the value.
        """
        settings, newer = self.picked
        return self._replace(picked=Picked({**settings, name: value}, newer | {name}))

    def unset(self, name: str) -> RunSettings:
        """Return a copy in which the option is not chosen for this model."""
        settings, newer = self.picked
        return self._replace(
            picked=Picked({other: value for other, value in settings.items() if other != name}, newer - {name})
        )


def run_of(config: Settings, sha256: str, picked: Picked | None = None) -> RunSettings:
    """Return how the model of this identity is run on this machine; `picked` None is the choice kept for it."""
    if picked is None:
        kept = find_pick(sha256)
        # Only what an option takes: the file may be from another termchat, or somebody's own work.
        taken = config.with_picked(kept.settings, kept.settings) if kept is not None else config
        picked = Picked({name: getattr(taken.engine, name) for name, place in taken.origin.items() if place == PICKER})
    measured = find(sha256)
    return RunSettings(config, picked, measured.settings if measured is not None else {})


def keep_drafter(draft_model: str, sha256: str, name: str) -> None:
    """Keep the model that drafts for the one of this identity, "" for none; `name` is as for `keep_picked`.

    Raises:
        OSError: it cannot be written.
    """
    kept = find_pick(sha256)
    settings = kept.settings if kept is not None else {}
    keep_pick(Pick(sha256, name, hardware(), {**settings, "draft_model": draft_model}))


def keep_picked(picked: Picked, sha256: str, name: str) -> None:
    """Keep how a model is run; `name` is for people who read the file.

    Raises:
        OSError: it cannot be written.
    """
    settings = {key: value for key, value in picked.settings.items() if isinstance(value, (int, str))}
    keep_pick(Pick(sha256, name, hardware(), settings))
