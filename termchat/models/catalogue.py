"""Models by name: the entries of `models.toml`, and the way from what a person asked for to a file that can be opened."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import msgspec

from termchat import paths, regular_files
from termchat.models.entry import SUFFIX as SUFFIX
from termchat.models.entry import Entry, expanded, is_name
from termchat.models.errors import ModelError, NotHere
from termchat.text import sanitize
from termchat.toml import TomlError, TomlFile

DEFAULT = "smollm2"


_LONGEST = 240
"""Bytes of one name; file systems take 255, and a download adds an ending of its own."""
_FORBIDDEN = frozenset('\\:*?"<>|')
_RESERVED = frozenset({"CON", "PRN", "AUX", "NUL", *(f"{port}{n}" for port in ("COM", "LPT") for n in range(1, 10))})


class Catalogue(msgspec.Struct, frozen=True):
    """The models that have names, and what was wrong with the files that name them."""

    entries: dict[str, Entry]
    problems: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()
    """Names of the entries that are the user's, not those that ship."""


def load(files: Iterable[Path] | None = None) -> Catalogue:
    """Reads catalogues; a name in a later file replaces the same in an earlier one. None reads the one that ships and then
    the user's own, if there is one.

    A bad file or entry is left out and told in `problems`.
    """
    entries: dict[str, Entry] = {}
    problems: list[str] = []
    own: set[str] = set()
    ships = paths.shipped_file("models.toml")
    for path in (ships, paths.user_models_file()) if files is None else files:
        try:
            source = TomlFile(path)
        except TomlError as error:
            if files is not None or path == ships or not error.is_missing:
                problems.append(str(error))
            continue
        for name, table in source.table.items():
            try:
                entries[name] = _entry(name, table)
            except msgspec.ValidationError as error:
                problems.append(f"{source.place(name)}: model {name!r} is ignored: {error}")
                continue
            if path != ships:
                own.add(name)
    return Catalogue(entries, tuple(problems), frozenset(own))


def resolve(
    wanted: str | None, catalogue: Catalogue | None = None, folders: Iterable[str | Path] = ()
) -> tuple[str, Path]:
    """The name and the file of the model that a person asked for.

    `wanted` is a name of the catalogue, a path to a GGUF file (`~` is understood; `./name` is always a path), or a name
    that `termchat models list` shows for a file on this disk (`folders` are looked into besides the known places); None is
    the default model. The disk is searched only when nothing else answers. The file is there, is not empty and can be read;
    what is in it is for `read_header` to say.

    Raises:
        NotHere: it is in the catalogue, and has to be downloaded or installed first.
        ModelError: there is no such model, or its file cannot be used.
    """
    catalogue = load() if catalogue is None else catalogue
    known = catalogue.entries
    name = wanted or DEFAULT
    if name in known:
        path = _located(name, known[name], folders)
        _check(path)
        return name, path
    if _is_path(name) and (_exists(name) or not _may_be_name(name)):
        path = expanded(name)
        _check(path)
        return path.name.removesuffix(SUFFIX), path
    return _discovered(name, catalogue, folders)


def _entry(name: str, table: object) -> Entry:
    if isinstance(table, dict) and len(table) == 1 and isinstance(next(iter(table.values())), dict):
        raise msgspec.ValidationError(f'put a name with a dot in quotes: ["{name}.{next(iter(table))}"]')
    if not is_name(name):
        raise msgspec.ValidationError("a name may use letters, digits and . _ + - between them")
    return msgspec.convert(table, Entry)


def _located(name: str, entry: Entry, folders: Iterable[str | Path]) -> Path:
    """The entry's file; if it is not downloaded, the same file in another program's folder."""
    try:
        return entry.locate(name)
    except NotHere:
        from termchat.models.disk import (
            discovery,  # only here and below: it is not needed on the way to the first frame
        )

        for found in discovery.models(folders) if entry.downloaded and entry.size else ():
            if found.is_copy_of(entry):
                return found.path
        raise


def _discovered(name: str, catalogue: Catalogue, folders: Iterable[str | Path]) -> tuple[str, Path]:
    from termchat.models.disk import discovery

    known = catalogue.entries
    names: dict[str, str] = {}
    matches: dict[Path, str] = {}
    for called, path in discovery.names(folders):
        names.setdefault(called.lower(), called)
        if called.lower() == name.lower():
            matches.setdefault(path, called)
    if len(matches) == 1:
        ((path, called),) = matches.items()
        _check(path)
        return called, path
    if matches:
        raise ModelError(
            f"{len(matches)} models on this disk are named {name!r}",
            f"Give the path of one: {', '.join(str(path) for path in matches)}",
        )
    close = difflib.get_close_matches(name.lower(), [*(one.lower() for one in known), *names], n=1)
    guess = f"Did you mean {names.get(close[0], close[0])}? " if close else ""
    raise ModelError(
        f"no model named {name!r}",
        f"{guess}Known: {', '.join(known) or 'none'}; or give a path to a GGUF file."
        + "".join(f" {problem}." for problem in catalogue.problems),
    )


def _may_be_name(text: str) -> bool:
    """Whether a text with a separator may still be a name, as Ollama's `hf.co/owner/model:tag` is."""
    return not text.startswith(("~", ".", os.sep)) and "\\" not in text and not text.endswith(SUFFIX)


def _exists(text: str) -> bool:
    return os.path.exists(text) or text.startswith("~")


def _is_path(text: str) -> bool:
    separators = {os.sep, os.altsep or os.sep}
    return text.startswith("~") or text.endswith(SUFFIX) or any(s in text for s in separators) or os.path.exists(text)


def _check(path: Path) -> None:
    """Refuses what cannot be a model before anything opens it: a pipe would block."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot access {path}: {_reason(error)}", "Check the path.") from error
    if stat.S_ISDIR(status.st_mode):
        raise ModelError(f"{path} is a folder", _choices(path) or f"Give the path of a {SUFFIX} file.")
    if kind := regular_files.odd_kind(path):
        raise ModelError(f"{path} is {kind}, not a regular file", f"Give the path of a {SUFFIX} file.")
    if status.st_size == 0:
        raise ModelError(f"{path} is empty", "Download it again.")
    try:
        regular_files.opened(path).close()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {_reason(error)}", "Check its permissions.") from error


def _missing(path: Path) -> ModelError:
    if path.is_symlink():
        return ModelError(f"{path} is a broken link to {os.readlink(path)}", "Download it again.")
    if not path.parent.is_dir():
        return ModelError(f"file not found: {path} (the folder {path.parent} does not exist)", "Check the path.")
    return ModelError(f"file not found: {path}", _choices(path.parent, path.name) or "Check the path.")


def _choices(folder: Path, near: str = "", most: int = 5) -> str:
    """The GGUF files of a folder as a hint, the likeliest first; "" if there is none."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.suffix == SUFFIX)
    except OSError:
        return ""
    names.sort(key=lambda name: -difflib.SequenceMatcher(None, near, name).ratio())
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"The folder contains {', '.join(names[:most])}{more}." if names else ""


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def checked(path: str) -> PurePosixPath:
    """The path, relative and separated by /, if every system can have a file of that name.

    Raises:
        ModelError: it would lead out of the folder, or some system cannot have a file of that name.
    """
    for name in path.split("/"):
        if why := _wrong(name):
            raise ModelError(f"{path!r} is not a safe file name: {why}", "Ask its owner to rename it.")
    return PurePosixPath(path)


def _wrong(name: str) -> str:
    """Why a name is refused; "" if it is not."""
    if name in ("", ".", ".."):
        return "it points outside its folder"
    if sanitize(name, keep="") != name:
        return "it contains control or invisible characters"
    if found := sorted(_FORBIDDEN.intersection(name)):
        return f"it contains {' '.join(found)}"
    if name[-1] in " .":
        return "it ends in a space or a dot"
    if name.split(".")[0].rstrip().upper() in _RESERVED:
        return "Windows reserves that name for a device"
    if len(name.encode()) > _LONGEST:
        return f"it is longer than {_LONGEST} bytes"
    return ""
