"""What changes models: adds one to the user's catalogue, verifies the files of one, removes a download."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec

from termchat import atomic, paths
from termchat.models import catalogue
from termchat.models.catalogue import Catalogue, resolve
from termchat.models.download import hub
from termchat.models.download.hub import understand
from termchat.models.download.lock import locked
from termchat.models.download.pull import asked
from termchat.models.download.transfer import digest, lock_path, note_path, own_files, part_path, read_note
from termchat.models.entry import SUFFIX, Entry, expanded, is_name, parts
from termchat.models.errors import ModelError
from termchat.models.gguf.header import check_part, read_header
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
            f"a model named {name} already exists", "Choose another name, or edit the entry in models.toml."
        )
    fields = _local(source) if _is_file(source) else _remote(source)
    given = {"description": description or fields.pop("description"), "license": license}
    fields = {key: value for key, value in {**given, **fields}.items() if value}
    try:
        msgspec.convert(fields, Entry)
        added = _table(name, fields)
        parsed(text + added)
    except (msgspec.ValidationError, ValueError) as error:
        raise ModelError(f"cannot add {source!r}: {error}", "Give another source or description.") from error
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
        raise ModelError(str(error), "Correct the file first.") from error
    text = source.mark + source.text
    return text if not text or text.endswith("\n") else text + "\n"


def _write(file: Path, text: str) -> None:
    try:
        atomic.replace(file, text.encode("utf-8"))
    except OSError as error:
        raise ModelError(f"{file} cannot be written: {error.strerror}", "Check its folder's permissions.") from error


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one file of a model was found to be. Hashes are hex SHA-256, "" where unknown."""

    path: Path
    state: Literal["ok", "unknown", "damaged"]
    """`unknown` is a file that reads like a model, but no hash of it is known to compare with."""
    sha256: str = ""
    expected: str = ""
    problem: str = ""


def verify(
    wanted: str,
    known: Catalogue,
    progress: Callable[[Path, int], None] = lambda _path, _size: None,
    folders: Iterable[str | Path] = (),
) -> list[Verdict]:
    """Reads all files of a model again and checks each; one whose header or size is wrong is not read further.

    `progress` is called with the bytes of a file read so far; `folders` are as for `resolve`.

    Raises:
        ModelError: there is no such model here.
    """
    name, first = resolve(wanted, known, folders)
    entry = known.entries.get(name)
    alone = parts(first.name) == (first.name,)
    verdicts = []
    for number, part in enumerate(parts(first.name)):
        path = first.with_name(part)
        note = read_note(note_path(path))
        expected = (entry.sha256 if entry and alone else "") or (note.sha256 if note else "")
        check = read_header if number == 0 else check_part
        verdicts.append(_verify(path, expected, check, lambda size, path=path: progress(path, size)))  # type: ignore[misc]
    return verdicts


def _verify(path: Path, expected: str, check: Callable[[Path], object], progress: Callable[[int], None]) -> Verdict:
    try:
        check(path)  # first: a file of the wrong size may take hours to read
        sha256 = digest(path, progress)
    except OSError as error:
        return Verdict(path=path, state="damaged", expected=expected, problem=f"it cannot be read: {error.strerror}")
    except ModelError as error:
        return Verdict(path=path, state="damaged", expected=expected, problem=error.message)
    if expected and sha256 != expected:
        return Verdict(path=path, state="damaged", sha256=sha256, expected=expected, problem="its content has changed")
    return Verdict(path=path, state="ok" if expected else "unknown", sha256=sha256, expected=expected)


def removable(wanted: str, known: Catalogue, folders: Iterable[str | Path] = ()) -> list[Path]:
    """The files of a model that `remove` may remove: those that termchat made when it downloaded it.

    `wanted` and `folders` are as for `resolve`; a download that was begun and not finished is one, too.

    Raises:
        ModelError: nothing is here, or it is not ours.
    """
    entry = known.entries.get(wanted)
    path = entry.download_path(wanted) if entry is not None and entry.downloaded else None
    if path is None or not _own(path):
        begun = Path(wanted).expanduser() if path is None else path
        path = begun if _own(begun) else resolve(wanted, known, folders)[1]
    files = _own(path)
    if not files:
        raise ModelError(f"{path} was not downloaded by termchat and is not removed", _by_hand(wanted, path, known))
    return files


def _by_hand(wanted: str, path: Path, known: Catalogue) -> str:
    entry = known.entries.get(wanted)
    if entry is not None and entry.package:
        return f"It is part of the Python package {entry.package}; uninstall that."
    name = (
        f" To remove only its name, delete [{wanted}] from {paths.user_models_file()}." if wanted in known.own else ""
    )
    return f"Delete the file yourself: {path}.{name}"


def _own(first: Path) -> list[Path]:
    """The files that a download of this model made; none if there is no note of it."""
    found = []
    for part in parts(first.name):
        path = first.with_name(part)
        if any(read_note(note) is not None for note in (note_path(path), note_path(part_path(path)))):
            found += [file for file in own_files(path) if file.is_file()]
    return found


def remove(files: list[Path]) -> None:
    """Removes what `removable` gave, and the folders of ours that it leaves empty.

    Raises:
        ModelError: a file cannot be removed, or is being pulled.
    """

    def refuse(holder: str) -> None:
        raise ModelError(
            f"{files[0].name} is being downloaded by process {holder or 'unknown'}", "Wait for it or stop it."
        )

    with locked(lock_path(_placed(files[0])), refuse):
        for file in files:
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                raise ModelError(
                    f"{file} cannot be removed: {error.strerror}", "Check its folder's permissions."
                ) from error
    root = paths.models_folder()
    for folder in files[0].parents:
        if root not in folder.parents or any(folder.iterdir()):
            break
        folder.rmdir()


def _placed(file: Path) -> Path:
    """The final name of a file, of its part or of a note."""
    return file.with_name(file.name.removesuffix(".json").removesuffix(".part"))
