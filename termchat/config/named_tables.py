"""TOML files in which each table is a thing with a name: the entries that ship, and a user's own beside config.toml.

A bad entry falls alone. What is changed in a file that people write is read back first: it says what it said, with this one
table changed, or the file is not touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from termchat import atomic
from termchat.decoding.samplers import KNOBS, Value
from termchat.text import guess_of
from termchat.toml import TomlError, TomlFile, literal, parsed

Entry = TypeVar("Entry")

_NAME = re.compile(r"[\w+-](?:[\w .+-]{0,38}[\w.+-])?")


class NameRefused(Exception):
    """An unknown or invalid name, or a file that cannot be changed; the message says what to do."""


class EntryRefused(NameRefused):
    """An invalid name or table of an entry; `keys` lead to the mistake."""

    def __init__(self, message: str, *keys: str) -> None:
        super().__init__(message)
        self.keys = keys


class NamedEntries(msgspec.Struct, Generic[Entry], frozen=True):
    """All entries of a kind by name, and the mistakes in the files: one line each, which may hold foreign text."""

    kind: str
    entries: dict[str, Entry]
    problems: tuple[str, ...] = ()

    def get(self, name: str) -> Entry:
        """Return the entry of a name, however it is capitalised.

        Raises:
            NameRefused: there is none.
        """
        if name in self.entries:
            return self.entries[name]
        for known, entry in self.entries.items():
            if known.lower() == name.lower():
                return entry
        guess, all_names = guess_of(name, self.entries), ", ".join(self.entries)
        raise NameRefused(f"unknown {self.kind} {name!r}{guess}; known {self.kind}s: {all_names}")


def load(
    kind: str, shipped: Path, own: Path, make: Callable[[str, Mapping[str, Any], bool], Entry]
) -> NamedEntries[Entry]:
    """Read the entries that ship, then the user's own, which replace those of the same name. The own file may be missing.

    Args:
        make: makes an entry of its name, its table, and whether it is the user's; it raises `EntryRefused`.
    """
    entries: dict[str, Entry] = {}
    problems = []
    for path in (shipped, own):
        try:
            source = TomlFile(path)
        except TomlError as error:
            if path == shipped or not error.is_missing:
                problems.append(f"{error}; its {kind}s are ignored")
            continue
        for name, table in source.table.items():
            try:
                check_name(name)
                if not isinstance(table, dict):
                    raise EntryRefused(f"{name} must be a table, [{name}]")
                entries[name] = make(name, table, path == own)
            except EntryRefused as wrong:
                problems.append(f"{source.place(name, *wrong.keys)}: {wrong}; this {kind} is ignored")
    return NamedEntries(kind, entries, tuple(problems))


def check_name(name: str) -> None:
    """Check the name of an entry.

    Raises:
        EntryRefused: it is invalid.
    """
    if not _NAME.fullmatch(name):
        raise EntryRefused(f"{name!r} is not a valid name: use up to 40 letters, digits, spaces and . _ + -")


def read_knob(name: str, value: object) -> Value:
    """Read a knob's value, as written in such a file: numbers may also be words, such as "off".

    Raises:
        EntryRefused: the knob refuses it.
    """
    try:
        return KNOBS[name].parse(value) if isinstance(value, str) else KNOBS[name].check(value)
    except ValueError as error:
        raise EntryRefused(str(error), name) from error


def check_keys(table: Mapping[str, Any], known: Iterable[str], texts: Iterable[str]) -> None:
    """Check the keys of a table, and that its texts are texts.

    Raises:
        EntryRefused: a key is unknown, or a text is something else.
    """
    for key, value in table.items():
        if key not in known:
            raise EntryRefused(f"unknown key {key!r}{guess_of(key, known)}", key)
        if key in texts and not isinstance(value, str):
            raise EntryRefused(f"{key} must be a string, not {value!r}", key)


def put(path: Path, name: str, table: Mapping[str, object], about: str) -> Path:
    """Write an entry into the file, in place of one of that name; return the file. A new file begins with the comment `about`.

    Raises:
        NameRefused: the name is none, or the file cannot be changed.
    """
    check_name(name)
    written = "\n".join([f"[{literal(name)}]", *(f"{key} = {literal(value)}" for key, value in table.items())]) + "\n"
    source = _open_file(path)
    before, text = ({}, about) if source is None else (source.table, source.mark + _cut_table(source, name))
    _write_checked(path, name, f"{text.rstrip()}\n\n{written}", {**before, **parsed(written)})
    return path


def remove(path: Path, name: str) -> Path:
    """Remove an entry from the file; return the file.

    Raises:
        NameRefused: the file cannot be changed.
    """
    source = _open_file(path)
    if source is not None and name in source.table:
        left = {other: table for other, table in source.table.items() if other != name}
        _write_checked(path, name, source.mark + _cut_table(source, name), left)
    return path


def rename(path: Path, name: str, new: str) -> Path:
    """Give an entry of the file another name; return the file.

    Raises:
        NameRefused: the new name is none, or the file cannot be changed.
    """
    check_name(new)
    source = _open_file(path)
    if source is None or name not in source.table:
        return path
    header = next((one for one in source.statements if one.keys == (name,) and one.value < 0), None)
    text = (
        source.text if header is None else source.text[: header.start] + f"[{literal(new)}]" + source.text[header.end :]
    )
    wanted = {new if other == name else other: table for other, table in source.table.items()}
    _write_checked(path, name, source.mark + text, wanted)
    return path


def _open_file(path: Path) -> TomlFile | None:
    """Read the file; None if it is missing."""
    try:
        return TomlFile(path)
    except TomlError as error:
        if error.is_missing:
            return None
        raise NameRefused(str(error)) from error


def _write_checked(path: Path, name: str, text: str, wanted: Mapping[str, object]) -> None:
    try:
        is_right = parsed(text) == wanted
    except ValueError:
        is_right = False
    if not is_right:
        raise NameRefused(f"{name!r} in {path} cannot be replaced automatically; remove it by hand first")
    try:
        atomic.replace(path, text.encode("utf-8"))
    except OSError as error:
        raise NameRefused(f"{path} cannot be written: {error.strerror or error}") from error


def _cut_table(source: TomlFile, name: str) -> str:
    """Return the text without the lines of one table; comments after them stay, as they may belong to what follows."""
    mine = [statement for statement in source.statements if statement.keys[0] == name]
    return source.text[: mine[0].start] + source.text[mine[-1].after :] if mine else source.text
