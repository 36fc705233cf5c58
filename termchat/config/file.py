"""Changes the config file a person wrote: one setting at a time, and nothing else in it.

Comments, order, line ends and layout stay as they are. Every change is read back before it is kept: the file says what it
said, with this one setting changed, or it is not touched. `TomlFile` knows where each value stands, and what is changed is
one value or one line. tomlkit would put a new key behind the comment that belongs to the next table, and not under its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from termchat import atomic, paths
from termchat.config.settings import TABLES
from termchat.config.sources import KEYS
from termchat.text import guess_of
from termchat.toml import Statement, TomlError, TomlFile, dotted, literal, parsed

Written = str | int | float | bool | Sequence[str]
"""What can stand in the file."""


class ConfigFileError(Exception):
    """The config file cannot be changed; the message says why, and what to do."""


def put(name: str, value: Written | None, file: Path | None = None) -> Path:
    """Writes a setting into the config file, which is made if there is none; returns its path.

    Args:
        name: a setting, or `keys.ID` for what is bound to ID. The value is not checked: see `Option.check`, `Knob.check`.
        value: None is a fresh seed.
        file: None is the user's own config.toml.

    Raises:
        ConfigFileError: the file cannot be read, changed or written, or there is no such setting.
    """
    file = paths.config_file() if file is None else file
    _change(_address(name), "fresh" if value is None else value, file)
    return file


def remove(name: str, file: Path | None = None) -> bool:
    """Takes a setting out of the config file, so that its default counts again; returns whether it was there.

    Raises:
        ConfigFileError: see `put`.
    """
    return _change(_address(name), None, paths.config_file() if file is None else file)


def write(file: Path, text: str) -> None:
    """Replaces the file; see `wholefile.replace`.

    Raises:
        ConfigFileError: it cannot be written.
    """
    try:
        atomic.replace(file, text.encode("utf-8"))
    except OSError as error:
        raise ConfigFileError(f"{file} cannot be written: {error.strerror}") from error
    except UnicodeEncodeError as error:
        raise ConfigFileError("the config file can only hold UTF-8 text") from error


def _address(name: str) -> tuple[str, ...]:
    table, _, id = name.partition(".")
    if table == KEYS and id:
        return (KEYS, id)
    if name not in TABLES:
        raise ConfigFileError(f"unknown setting {name!r}{guess_of(id or name, TABLES)}")
    return (TABLES[name], name) if TABLES[name] else (name,)


def _change(keys: tuple[str, ...], value: Written | None, path: Path) -> bool:
    """Sets or, with None, removes what has these keys; says whether there was something to do."""
    try:
        source = TomlFile(path)
    except TomlError as error:
        if not error.is_missing:
            raise ConfigFileError(f"{error}. Correct it first: termchat config edit") from error
        if value is None:
            return False
        write(path, _new(keys, literal(value)))
        return True
    before = _flat(source.table)
    wanted = {key: said for key, said in before.items() if key[: len(keys)] != keys}
    there = len(wanted) < len(before)
    if value is None and not there:
        return False
    line = next((one for one in source.statements if one.keys == keys), None)
    if there and line is not None:
        changed = _replaced(source.text, line, value)
    elif there:  # written inside a value, as in sampling = {top_k = 5}
        raise ConfigFileError(f"{source.place(*keys)}: {'.'.join(keys)} is inside another value; change it by hand")
    else:
        changed = _added(source, keys, literal(value))
    if value is not None:
        wanted[keys] = list(value) if isinstance(value, (list, tuple)) else value
    if _said(changed) != wanted:
        raise ConfigFileError(f"{source.place(*keys)}: {'.'.join(keys)} cannot be changed here; change it by hand")
    write(path, source.mark + changed)
    return True


def _replaced(text: str, line: Statement, value: Written | None) -> str:
    if value is None:
        return text[: line.start] + text[line.after :]
    return text[: line.value] + literal(value) + text[line.end :]


def _added(source: TomlFile, keys: tuple[str, ...], written: str) -> str:
    """The text with one more line: under the commented one of that name, else behind the last of its table, else a table."""
    text, table = source.text, keys[:-1]
    end = "\r\n" if "\r\n" in text else "\n"
    begin, until = _section(source, table)
    if begin < 0:
        inside = [one for one in source.statements if one.value >= 0 and one.keys[:-1] == table]
        if inside:  # a table that is written key by key: sampling.top_p = 0.9
            return _insert(text, inside[-1].after, f"{dotted(keys)} = {written}{end}", end)
        gap = end if text.strip() else ""
        return _insert(text, len(text), f"{gap}[{dotted(table)}]{end}{dotted(keys[-1:])} = {written}{end}", end)
    commented = re.compile(rf"^[ \t]*#[ \t]*{re.escape(keys[-1])}[ \t]*=[^\n]*\n?", re.MULTILINE)
    if found := commented.search(text, begin, until):
        at = found.end()
    else:
        inside = [one for one in source.statements if begin <= one.start < until]
        at = inside[-1].after if inside else begin if table else _foreword(text, until)
    return _insert(text, at, f"{dotted(keys[-1:])} = {written}{end}", end)


def _section(source: TomlFile, table: tuple[str, ...]) -> tuple[int, int]:
    """The offsets between which the lines of a table stand; (-1, -1) if it has no header. That of the top is never missing."""
    headers = [one for one in source.statements if one.value < 0]
    for number, header in enumerate(headers):
        if header.keys == table:
            later = headers[number + 1 :]
            return header.after, later[0].start if later else len(source.text)
    return (-1, -1) if table else (0, headers[0].start if headers else len(source.text))


def _foreword(text: str, until: int) -> int:
    """Behind the comment a file begins with, if an empty line ends it; else its very beginning."""
    found = re.match(r"(?:[ \t]*#[^\n]*\n)+[ \t]*\r?\n", text[:until])
    return found.end() if found else 0


def _insert(text: str, at: int, line: str, end: str) -> str:
    before = text[:at]
    return before + (end if before and not before.endswith("\n") else "") + line + text[at:]


def _new(keys: tuple[str, ...], written: str) -> str:
    header = f"[{dotted(keys[:-1])}]\n" if keys[:-1] else ""
    return f"{header}{dotted(keys[-1:])} = {written}\n"


def _flat(table: Mapping[str, Any], above: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """What a file says, by the keys of all tables on the way; a table that lost its last key may be there still, or not."""
    found: dict[tuple[str, ...], Any] = {}
    for key, value in table.items():
        found |= _flat(value, (*above, key)) if isinstance(value, dict) else {(*above, key): value}
    return found


def _said(text: str) -> dict[tuple[str, ...], Any] | None:
    try:
        return _flat(parsed(text))
    except ValueError:
        return None
