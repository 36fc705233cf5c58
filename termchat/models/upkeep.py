"""What becomes of models after they were downloaded: checked again, or removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec

from termchat import paths
from termchat.models.catalogue import Catalogue, resolve
from termchat.models.entry import parts
from termchat.models.errors import ModelError
from termchat.models.header import read_header
from termchat.models.lock import Lock
from termchat.models.partial import digest, lock_path, note_path, own_files, part_path, read_note


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
    """Reads all of a model again, and says of each of its files what it is.

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
        verdicts.append(_verify(path, expected, number == 0, lambda size, path=path: progress(path, size)))  # type: ignore[misc]
    return verdicts


def _verify(path: Path, expected: str, whole: bool, progress: Callable[[int], None]) -> Verdict:
    try:
        sha256 = digest(path, progress)
        if whole:
            read_header(path)
    except OSError as error:
        return Verdict(path=path, state="damaged", expected=expected, problem=f"it cannot be read: {error.strerror}")
    except ModelError as error:
        return Verdict(path=path, state="damaged", sha256=sha256, expected=expected, problem=error.message)
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
        named = f"; its name is [{wanted}] in {paths.user_models_file()}" if wanted in known.own else ""
        raise ModelError(
            f"{path} was not downloaded by termchat, so it is not removed", f"Delete it by hand: {path}{named}"
        )
    return files


def _own(first: Path) -> list[Path]:
    """What a download made of all files of a model; nothing if there is no note of it."""
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
        raise ModelError(f"{files[0].name} is being pulled by process {holder or 'unknown'}", "Wait for it, or end it.")

    with Lock(lock_path(_placed(files[0])), refuse):
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
    """The name that a file has, or will have, when it is whole."""
    return file.with_name(file.name.removesuffix(".json").removesuffix(".part"))
