"""Finds the models on this disk and says what was skipped and why. Also reads Ollama's manifests. It only reads."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from termchat import regular_files
from termchat.models.disk.opened import opened_paths
from termchat.models.disk.program_folders import Root, roots
from termchat.models.disk.walk import CandidateFile, RefusedFile, candidate, walk
from termchat.models.entry import PART, SUFFIX, Entry, expanded
from termchat.models.errors import ModelError
from termchat.models.gguf.brief import Brief, read_brief
from termchat.models.gguf.header import read_header
from termchat.text import UNREADABLE

MODEL_LAYER = "application/vnd.ollama.image.model"
MAX_MANIFEST = 1 << 20
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_HOME = ("registry.ollama.ai", "library")


OWN_FOLDERS = "folders in the config"
OPENED = "opened by path"
PIECES, PIECE = 8, 1 << 16
"""How many pieces of how many bytes are compared of two files that seem to be copies."""
_REPOSITORY = "models--"
_SAYS_NOTHING = ("model", "ggml-model")
"""File names that every model could have: then its folder's name says more."""


class Tagged(NamedTuple):
    """A model under the name that Ollama gives it."""

    name: str
    found: CandidateFile | RefusedFile


def is_ollama(folder: Path) -> bool:
    """Whether a folder is laid out as Ollama's `models` is."""
    return os.path.isdir(folder / "manifests") and os.path.isdir(folder / "blobs")


def ollama_models(folder: Path) -> Iterator[Tagged]:
    """The models of all manifests, host/namespace/model/tag, in the order of their names."""
    manifests = folder / "manifests"
    for manifest in sorted(manifests.glob("*/*/*/*")):
        parts = manifest.relative_to(manifests).parts
        yield Tagged(_name(*parts), _model(manifest, folder / "blobs"))
    for blob in sorted((folder / "blobs").glob("*-partial")):
        yield Tagged(blob.name, RefusedFile(blob, "is an unfinished download"))


def _name(host: str, namespace: str, model: str, tag: str) -> str:
    """The name as `ollama list` shows it."""
    where = () if (host, namespace) == _HOME else (namespace,) if host == _HOME[0] else (host, namespace)
    return f"{'/'.join((*where, model))}:{tag}"


def _model(manifest: Path, blobs: Path) -> CandidateFile | RefusedFile:
    try:
        content = msgspec.json.decode(regular_files.read(manifest, MAX_MANIFEST))
        digest = _DIGEST.fullmatch(_layer(content)["digest"])
    except regular_files.NotAFile as error:
        return RefusedFile(manifest, f"is {error.kind}, not a regular file")
    except OSError as error:
        return RefusedFile(manifest, f"cannot be read: {error.strerror}")
    except (*UNREADABLE, LookupError, TypeError):
        return RefusedFile(manifest, "is a manifest without a GGUF file")
    if digest is None:
        return RefusedFile(manifest, "is a manifest with an invalid digest")
    return candidate((blobs / f"sha256-{digest[1]}",))


def _layer(content: Any) -> dict[str, Any]:
    for layer in content["layers"]:
        if layer["mediaType"] == MODEL_LAYER:
            return dict(layer)
    raise LookupError(MODEL_LAYER)


class FoundModel(msgspec.Struct, frozen=True, kw_only=True):
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


def discover(extra_folders: Iterable[str | Path] = ()) -> Iterator[FoundModel | Skipped]:
    """Models of all places on this machine, of these folders, and beside those that were opened by their paths, as they are
    found; each model once."""
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
    for folder in dict.fromkeys(path.parent for path in opened_paths()):
        if os.path.isdir(folder):
            for one in walk(folder, inner=False):
                path = one.path if isinstance(one, RefusedFile) else one.files[0]
                yield from _judged(one, name_of(path), OPENED, known)


def models(extra_folders: Iterable[str | Path] = ()) -> Iterator[FoundModel]:
    return (one for one in discover(extra_folders) if isinstance(one, FoundModel))


def identified(sha256: str, extra_folders: Iterable[str | Path] = ()) -> Path | None:
    """Return the file of the model on this disk with this identity (`Header.identity`). Reads the header of each model."""
    for one in models(extra_folders):
        with suppress(ModelError):
            if read_header(one.path).identity() == sha256:
                return one.path
    return None


def names(extra_folders: Iterable[str | Path] = ()) -> Iterator[tuple[str, Path]]:
    """Every name that a model on this disk goes by, with its first file; a model may have several names."""
    for one in discover(extra_folders):
        if isinstance(one, FoundModel):
            yield one.name, one.path
        elif one.same_as is not None:
            yield one.name, one.same_as


def _look(root: Root, known: _Known) -> Iterator[FoundModel | Skipped]:
    if is_ollama(root.path):
        for name, found in ollama_models(root.path):
            yield from _judged(found, name, root.place, known)
    else:
        for one in walk(root.path):
            path = one.path if isinstance(one, RefusedFile) else one.files[0]
            yield from _judged(one, name_of(path), _place(root, path), known)


def _judged(found: CandidateFile | RefusedFile, name: str, place: str, known: _Known) -> Iterator[FoundModel | Skipped]:
    """A candidate as a model, unless its header says otherwise or it is there already."""
    if isinstance(found, RefusedFile):
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
            yield FoundModel(
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


def _check_parts(found: CandidateFile, brief: Brief) -> None:
    if brief.split_count not in (0, 1, len(found.files)):
        raise ModelError(f"is one of {brief.split_count} parts of a model; the other parts are not in its folder")


def name_of(path: Path) -> str:
    """What a model in this (first) file is called: the file's name, or its folder's where that says nothing."""
    stem = PART.sub("", path.name)
    if stem.lower().endswith(SUFFIX):
        stem = stem[: -len(SUFFIX)]
    return path.parent.name if stem.lower() in _SAYS_NOTHING and path.parent.name else stem


def _place(root: Root, path: Path) -> str:
    """The program whose folder it is, and in a Hugging Face cache the repository."""
    for part in path.relative_to(root.path).parts:
        if part.startswith(_REPOSITORY):
            return f"{root.place}: {part.removeprefix(_REPOSITORY).replace('--', '/', 1)}"
    return root.place


class _Named(NamedTuple):
    name: str
    path: Path


class _Known:
    """The models found so far, to recognise copies: by file, else by content."""

    def __init__(self) -> None:
        self._files: dict[tuple[int, int], _Named] = {}
        self._alike: dict[tuple[object, ...], list[_Named]] = {}

    def add(self, found: CandidateFile, name: str, brief: Brief) -> None:
        named = _Named(name, found.files[0])
        self._files[found.identity] = named
        self._alike.setdefault(_traits(found, brief), []).append(named)

    def file(self, found: CandidateFile) -> _Named | None:
        """Reached by another way: a link, or a folder that is named twice."""
        return self._files.get(found.identity)

    def content(self, found: CandidateFile, brief: Brief) -> _Named | None:
        """Its file is a copy."""
        for other in self._alike.get(_traits(found, brief), ()):
            if _sample(other.path) == _sample(found.files[0]):
                return other
        return None


def _traits(found: CandidateFile, brief: Brief) -> tuple[object, ...]:
    return found.size, len(found.files), brief.architecture, brief.name, brief.tensor_count


def _sample(path: Path) -> bytes:
    """A digest of a few pieces of a file: reading gigabytes would take too long for a list.

    Raises:
        ModelError: it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with regular_files.opened(path) as file:
            size = file.seek(0, os.SEEK_END)
            for number in range(PIECES):
                file.seek(max(size - PIECE, 0) * number // (PIECES - 1))
                digest.update(file.read(PIECE))
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    return digest.digest()
