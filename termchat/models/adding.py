"""Adds a model to the user's own catalogue, and leaves the rest of that file as it was written."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from termchat import atomic, paths
from termchat.models import catalogue, hub
from termchat.models.entry import SUFFIX, Entry, expanded, is_name, parts
from termchat.models.errors import ModelError
from termchat.models.header import read_header
from termchat.models.pull import asked
from termchat.models.sources import understand
from termchat.toml import TomlError, TomlFile, dotted, literal, parsed


def add(name: str, source: str, *, description: str = "", license: str = "") -> Path:
    """Writes an entry into the user's `models.toml` and returns that file's path.

    `source` is the path of a GGUF file, or anything that can be pulled; a repository is asked for its commit, size and hash.

    Raises:
        ModelError: the name is taken or none, the source is nothing, or the file cannot be written.
    """
    file = paths.user_models_file()
    text = _text(file)
    taken = catalogue.load().entries
    if not is_name(name):
        raise ModelError(f"{name!r} cannot be a model's name", "Use letters, digits and . _ + - between them.")
    if name in taken or name in parsed(text):
        raise ModelError(
            f"there is a model named {name} already", "Choose another name, or change the entry in models.toml."
        )
    fields = _local(source) if _is_file(source) else _remote(source)
    given = {"description": description or fields.pop("description"), "license": license}
    fields = {key: value for key, value in {**given, **fields}.items() if value}
    try:
        msgspec.convert(fields, Entry)
        added = _table(name, fields)
        parsed(text + added)
    except (msgspec.ValidationError, ValueError) as error:
        raise ModelError(f"{source!r} cannot be an entry: {error}", "Give another source or description.") from error
    _write(file, text + added)
    return file


def _is_file(source: str) -> bool:
    return source.startswith((".", "/", "~")) or "\\" in source or (source.endswith(SUFFIX) and os.path.isfile(source))


def _local(source: str) -> dict[str, str | int]:
    path = expanded(source).absolute()
    header = read_header(path)
    return {
        "description": header.name or path.name.removesuffix(SUFFIX),
        "context": header.context_length or 0,
        "path": str(path),
    }


def _remote(source: str) -> dict[str, str | int]:
    at_home = understand(source, hub.Hub.from_environment())
    if isinstance(at_home, str):
        return {"description": hub.shown(at_home).rpartition("/")[2].removesuffix(SUFFIX), "url": at_home}
    place, listing = asked(source)
    file = place.file or hub.choose(place.repo, listing, place.quantization)
    found = [hub.find(place.repo, listing, part) for part in parts(file)]
    sizes = [part.size for part in found]
    return {
        "description": file.rpartition("/")[2].removesuffix(SUFFIX),
        "size": 0 if None in sizes else sum(size or 0 for size in sizes),
        "sha256": found[0].sha256 if len(found) == 1 else "",
        "repo": place.repo,
        "file": parts(file)[0],
        "revision": listing.commit,
    }


def _table(name: str, fields: dict[str, str | int]) -> str:
    written = {key: f"{value:_}" if isinstance(value, int) else literal(value) for key, value in fields.items()}
    return "\n".join(["", f"[{dotted([name])}]", *(f"{key} = {value}" for key, value in written.items()), ""])


def _text(file: Path) -> str:
    """What the file holds, ready to be added to.

    Raises:
        ModelError: it cannot be read, or is not TOML.
    """
    try:
        source = TomlFile(file)
    except TomlError as error:
        if error.is_missing:
            return ""
        raise ModelError(str(error), "Correct it first.") from error
    text = source.mark + source.text
    return text if not text or text.endswith("\n") else text + "\n"


def _write(file: Path, text: str) -> None:
    try:
        atomic.replace(file, text.encode("utf-8"))
    except OSError as error:
        raise ModelError(f"{file} cannot be written: {error.strerror}", "Check its folder's permissions.") from error
