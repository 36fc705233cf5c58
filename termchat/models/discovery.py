"""Finds the models on this disk, wherever programs keep them, and says what was left out and why. It only reads."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from termchat.models import ollama
from termchat.models.brief import Brief, read_brief
from termchat.models.entry import PART, SUFFIX, Entry, expanded
from termchat.models.errors import ModelError
from termchat.models.places import Root, roots
from termchat.models.walk import Candidate, Refused, walk

OWN_FOLDERS = "folders in the config"
PIECES, PIECE = 8, 1 << 16
"""How many pieces of how many bytes are compared of two files that seem to be copies."""

_REPOSITORY = "models--"
_SAYS_NOTHING = ("model", "ggml-model")
"""File names that every model could have: then its folder's name says more."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A model on this disk. The texts come from file names and headers: sanitise them before they are shown."""

    name: str
    path: Path
    """Of its first file."""
    files: tuple[Path, ...]
    """All of them: one, or the parts of a set in order."""
    size: int
    """Bytes of all files."""
    place: str
    """Whose folder it is in, for people."""
    modified: float
    """Of the first file, in seconds since 1970."""
    brief: Brief

    def is_copy_of(self, entry: Entry) -> bool:
        """Whether it is the file that a catalogue's entry describes, as far as name and size tell."""
        return self.size == entry.size and self.path.name.lower() == entry.filename.lower()


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder that was left out, and why. A second copy has a name, and `same_as` is the first."""

    path: Path
    reason: str
    place: str
    name: str = ""
    same_as: Path | None = None


def discover(extra_folders: Iterable[str | Path] = ()) -> Iterator[Found | Skipped]:
    """Models of all places on this machine and of these folders, as they are found; each model once."""
    known = _Known()
    for root in roots():
        yield from _look(root, known)
    for folder in extra_folders:
        try:
            path = expanded(os.fspath(folder))
        except ModelError as error:
            yield Skipped(path=Path(folder), reason=error.message.removeprefix(f"{folder} "), place=OWN_FOLDERS)
        else:
            yield from _look(Root(OWN_FOLDERS, path), known)


def models(extra_folders: Iterable[str | Path] = ()) -> Iterator[Found]:
    """What `discover` finds, without what it leaves out."""
    return (one for one in discover(extra_folders) if isinstance(one, Found))


def names(extra_folders: Iterable[str | Path] = ()) -> Iterator[tuple[str, Path]]:
    """Every name that a model on this disk goes by, and its first file; a model may have several."""
    for one in discover(extra_folders):
        if isinstance(one, Found):
            yield one.name, one.path
        elif one.same_as is not None:
            yield one.name, one.same_as


def _look(root: Root, known: _Known) -> Iterator[Found | Skipped]:
    if ollama.is_ollama(root.path):
        for name, found in ollama.models(root.path):
            yield from _judged(found, name, root.place, known)
    else:
        for one in walk(root.path):
            path = one.path if isinstance(one, Refused) else one.files[0]
            yield from _judged(one, name_of(path), _place(root, path), known)


def _judged(found: Candidate | Refused, name: str, place: str, known: _Known) -> Iterator[Found | Skipped]:
    """A candidate as a model, unless its header says otherwise or it is there already."""
    if isinstance(found, Refused):
        yield Skipped(path=found.path, reason=found.reason, place=place)
        return
    path = found.files[0]
    same = known.file(found)
    if same == (name, path):  # a folder that is looked at twice
        return
    try:
        brief = read_brief(path) if same is None else None
        if brief is not None:
            same = known.content(found, brief)
        if same is not None:
            reason = f"is the same model as {same.name if same.path == path else same.path}"
            yield Skipped(path=path, reason=reason, place=place, name=name, same_as=same.path)
        elif brief is not None:
            _check_parts(found, brief)
            known.add(found, name, brief)
            yield Found(
                name=name,
                path=path,
                files=found.files,
                size=found.size,
                place=place,
                modified=found.modified,
                brief=brief,
            )
    except ModelError as error:
        reason = error.message.removeprefix(str(path)).removeprefix(path.name).lstrip(": ")
        yield Skipped(path=path, reason=reason, place=place)


def _check_parts(found: Candidate, brief: Brief) -> None:
    if brief.split_count not in (0, 1, len(found.files)):
        raise ModelError(f"is a part of a model in {brief.split_count}, whose other files are not beside it")


def name_of(path: Path) -> str:
    """What a model in this (first) file is called: the file's name, or its folder's where that says nothing."""
    stem = PART.sub("", path.name)
    if stem.lower().endswith(SUFFIX):
        stem = stem[: -len(SUFFIX)]
    return path.parent.name if stem.lower() in _SAYS_NOTHING and path.parent.name else stem


def _place(root: Root, path: Path) -> str:
    """Whose folder it is, and in a cache of Hugging Face's layout which repository."""
    for part in path.relative_to(root.path).parts:
        if part.startswith(_REPOSITORY):
            return f"{root.place}: {part.removeprefix(_REPOSITORY).replace('--', '/', 1)}"
    return root.place


class _Named(NamedTuple):
    name: str
    path: Path


class _Known:
    """The models that were found, to know one again: by its file, else by what is in it."""

    def __init__(self) -> None:
        self._files: dict[tuple[int, int], _Named] = {}
        self._alike: dict[tuple[object, ...], list[_Named]] = {}

    def add(self, found: Candidate, name: str, brief: Brief) -> None:
        named = _Named(name, found.files[0])
        self._files[found.identity] = named
        self._alike.setdefault(_traits(found, brief), []).append(named)

    def file(self, found: Candidate) -> _Named | None:
        """The model in the same file, reached another way."""
        return self._files.get(found.identity)

    def content(self, found: Candidate, brief: Brief) -> _Named | None:
        """A model whose file is a copy."""
        for other in self._alike.get(_traits(found, brief), ()):
            if _sample(other.path) == _sample(found.files[0]):
                return other
        return None


def _traits(found: Candidate, brief: Brief) -> tuple[object, ...]:
    return found.size, len(found.files), brief.architecture, brief.name, brief.tensor_count


def _sample(path: Path) -> bytes:
    """A digest of a few pieces of a file: gigabytes are not read to list them.

    Raises:
        ModelError: it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            for number in range(PIECES):
                file.seek(max(size - PIECE, 0) * number // (PIECES - 1))
                digest.update(file.read(PIECE))
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    return digest.digest()
