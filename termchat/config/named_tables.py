"""TOML files in which each table is a thing with a name: the entries that ship, and a user's own beside config.toml.

A bad entry falls alone. What is changed in a file that people write is read back first: it says what it said, with this one
table changed, or the file is not touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from termchat import atomic
from termchat.decoding.samplers import KNOBS, Value
from termchat.text import guess_of
from termchat.toml import TomlError, TomlFile, literal, parsed

Entry = TypeVar("Entry")

_NAME = re.compile(r"[\w+-](?:[\w .+-]{0,38}[\w.+-])?")


class NameRefused(Exception):
    """There is nothing of that name, it is no name, or the file cannot be changed; the message says what to do."""


class EntryRefused(ValueError):
    """A table that is no such entry; `keys` lead to what is wrong in it."""

    def __init__(self, message: str, *keys: str) -> None:
        super().__init__(message)
        self.keys = keys


def read(
    path: Path, make: Callable[[str, Mapping[str, Any]], Entry], kind: str, problems: list[str], *, optional: bool
) -> dict[str, Entry]:
    """The entries of a file by name; `make` raises `EntryRefused`. What is wrong is added to `problems`, one line each, also
    that there is no file unless it is `optional`."""
    try:
        source = TomlFile(path)
    except TomlError as error:
        if not (optional and error.is_missing):
            problems.append(f"{error}; its {kind}s are ignored")
        return {}
    found = {}
    for name, table in source.table.items():
        try:
            valid_name(name)
            if not isinstance(table, dict):
                raise EntryRefused(f"{name} must be a table, [{name}]")
            found[name] = make(name, table)
        except EntryRefused as wrong:
            problems.append(f"{source.place(name, *wrong.keys)}: {wrong}; this {kind} is ignored")
    return found


def valid_name(name: str) -> None:
    """Raises:
    EntryRefused: nothing can have this name.
    """
    if not _NAME.fullmatch(name):
        raise EntryRefused(_no_name(name))


def knob(name: str, value: object) -> Value:
    """A knob's value as written in such a file: numbers may also be words, such as "off".

    Raises:
        EntryRefused: the knob refuses it.
    """
    try:
        return KNOBS[name].parse(value) if isinstance(value, str) else KNOBS[name].check(value)
    except ValueError as error:
        raise EntryRefused(str(error), name) from error


def only(table: Mapping[str, Any], known: Iterable[str], texts: Iterable[str]) -> None:
    """Refuses keys that are not known, and what should be a text and is none.

    Raises:
        EntryRefused: see above.
    """
    for key, value in table.items():
        if key not in known:
            raise EntryRefused(f"unknown key {key!r}{guess_of(key, known)}", key)
        if key in texts and not isinstance(value, str):
            raise EntryRefused(f"{key} must be a string, not {value!r}", key)


def named(name: str, entries: Mapping[str, Entry], kind: str) -> Entry:
    """The entry of that name, however it is capitalised.

    Raises:
        NameRefused: there is none.
    """
    folded = {known.lower(): entry for known, entry in entries.items()}
    if name in entries or name.lower() in folded:
        return entries[name] if name in entries else folded[name.lower()]
    guess = guess_of(name, entries)
    raise NameRefused(f"unknown {kind} {name!r}{guess}; known {kind}s: {', '.join(entries)}")


def put(path: Path, name: str, table: Mapping[str, object], about: str) -> None:
    """Writes an entry into the file, in place of one of that name; a file that is made begins with the comment `about`.

    Raises:
        NameRefused: the name is none, or the file cannot be changed.
    """
    if not _NAME.fullmatch(name):
        raise NameRefused(_no_name(name))
    written = "\n".join([f"[{literal(name)}]", *(f"{key} = {literal(value)}" for key, value in table.items())]) + "\n"
    source = _opened(path)
    before, text = ({}, about) if source is None else (source.table, source.mark + _without(source, name))
    _write(path, name, f"{text.rstrip()}\n\n{written}", {**before, **parsed(written)})


def remove(path: Path, name: str) -> None:
    """Takes an entry out of the file.

    Raises:
        NameRefused: the file cannot be changed.
    """
    source = _opened(path)
    if source is not None and name in source.table:
        left = {other: table for other, table in source.table.items() if other != name}
        _write(path, name, source.mark + _without(source, name), left)


def rename(path: Path, name: str, new: str) -> None:
    """Gives an entry of the file another name.

    Raises:
        NameRefused: the new name is none, or the file cannot be changed.
    """
    if not _NAME.fullmatch(new):
        raise NameRefused(_no_name(new))
    source = _opened(path)
    if source is None or name not in source.table:
        return
    header = next((one for one in source.statements if one.keys == (name,) and one.value < 0), None)
    text = (
        source.text if header is None else source.text[: header.start] + f"[{literal(new)}]" + source.text[header.end :]
    )
    wanted = {new if other == name else other: table for other, table in source.table.items()}
    _write(path, name, source.mark + text, wanted)


def _no_name(name: str) -> str:
    return f"{name!r} is not a valid name: use up to 40 letters, digits, spaces and . _ + -"


def _opened(path: Path) -> TomlFile | None:
    """None where there is no such file."""
    try:
        return TomlFile(path)
    except TomlError as error:
        if error.is_missing:
            return None
        raise NameRefused(str(error)) from error


def _write(path: Path, name: str, text: str, wanted: Mapping[str, object]) -> None:
    if _said(text) != wanted:
        raise NameRefused(f"{name!r} in {path} cannot be replaced automatically; remove it by hand first")
    try:
        atomic.replace(path, text.encode("utf-8"))
    except OSError as error:
        raise NameRefused(f"{path} cannot be written: {error.strerror or error}") from error


def _without(source: TomlFile, name: str) -> str:
    """The text without the lines of one table; comments after them stay, as they may belong to what follows."""
    mine = [statement for statement in source.statements if statement.keys[0] == name]
    return source.text[: mine[0].start] + source.text[mine[-1].after :] if mine else source.text


def _said(text: str) -> dict[str, object] | None:
    try:
        return parsed(text)
    except ValueError:
        return None
