"""Changes the config file a person wrote: one setting at a time, and nothing else in it.

Comments, order, line ends and layout stay as they are. Every change is read back before it is kept: the file says what it
said, with this one setting changed, or it is not touched. tomlkit would put a new key behind the comment that belongs to the
next table, and not under its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from termchat import atomic, paths
from termchat.config.fields import ENGINES, KEYS, TABLES
from termchat.config.named_engines import FIELDS
from termchat.text import guess_of
from termchat.toml import Statement, TomlError, TomlFile, dotted, literal, parsed

Written = str | int | float | bool | Sequence[str]
"""What can stand in the file."""


class ConfigFileError(Exception):
    """The config file cannot be changed; the message says why, and what to do."""


def put(name: str, value: Written | None, file: Path | None = None) -> Path:
    """Write a setting into the config file, which is made if there is none; return its path.

    Args:
        name: a setting, `keys.ID` for what is bound to ID, or `engines.NAME.KEY` for a key of an engine. The value is not
            checked: see `Setting.check`.
        value: None is a fresh seed.
        file: None is the user's own config.toml.

    Raises:
        ConfigFileError: the file cannot be read, changed or written, or there is no such setting.
    """
    file = paths.config_file() if file is None else file
    _change_setting(_parse_name(name), "fresh" if value is None else value, file)
    return file


def remove(name: str, file: Path | None = None) -> bool:
    """Remove a setting from the config file, so that its default counts again; return whether it was there.

    Raises:
        ConfigFileError: see `put`.
    """
    return _change_setting(_parse_name(name), None, paths.config_file() if file is None else file)


def write(file: Path, text: str) -> None:
    """Replace the file; see `atomic.replace`.

    Raises:
        ConfigFileError: it cannot be written.
    """
    try:
        atomic.replace(file, text.encode("utf-8"))
    except OSError as error:
        raise ConfigFileError(f"{file} cannot be written: {error.strerror}") from error
    except UnicodeEncodeError as error:
        raise ConfigFileError("the config file can only hold UTF-8 text") from error


def _parse_name(name: str) -> tuple[str, ...]:
    """Return the keys of a setting, its table first."""
    table, _, id = name.partition(".")
    if table == KEYS and id:
        return (KEYS, id)
    if table == ENGINES:
        engine, _, key = id.rpartition(".")
        if not engine or key not in FIELDS:
            raise ConfigFileError(f"write engines.NAME.KEY, where KEY is one of {', '.join(FIELDS)}")
        return (ENGINES, engine, key)
    if name not in TABLES:
        raise ConfigFileError(f"unknown setting {name!r}{guess_of(id or name, TABLES)}")
    return (TABLES[name], name) if TABLES[name] else (name,)


def _change_setting(keys: tuple[str, ...], value: Written | None, path: Path) -> bool:
    """Set the value with these keys, or with None remove it; return whether the file has changed."""
    mark, text, statements, before, place = "", "", list[Statement](), dict[tuple[str, ...], Any](), path.name
    try:
        file = TomlFile(path)
        mark, text, statements, before = file.mark, file.text, file.statements, _flatten_table(file.table)
        place = file.place(*keys)
    except TomlError as error:
        if not error.is_missing:
            raise ConfigFileError(f"{error}. Correct it first: termchat config edit") from error
    wanted = {key: said for key, said in before.items() if key[: len(keys)] != keys}
    there = len(wanted) < len(before)
    if value is None and not there:
        return False
    line = next((one for one in statements if one.keys == keys), None)
    if there and line is None:  # written inside a value, as in sampling = {top_k = 5}
        raise ConfigFileError(f"{place}: {'.'.join(keys)} is inside another value; change it by hand")
    if value is None and line is not None:
        changed = text[: line.start] + text[line.after :]
    elif line is not None:
        changed = text[: line.value] + literal(value) + text[line.end :]
    else:
        changed = _add_line(text, statements, keys, literal(value))
    if value is not None:
        wanted[keys] = list(value) if isinstance(value, (list, tuple)) else value
    if _parse_flat(changed) != wanted:
        raise ConfigFileError(f"{place}: {'.'.join(keys)} cannot be changed here; change it by hand")
    write(path, mark + changed)
    return True


def _add_line(text: str, statements: list[Statement], keys: tuple[str, ...], written: str) -> str:
    """Add a line to the text: under the commented one of that name, else the last of its table, else in a new table."""
    end, table = "\r\n" if "\r\n" in text else "\n", keys[:-1]
    line = f"{dotted(keys[-1:])} = {written}{end}"
    headers = [one for one in statements if one.value < 0]
    # A text begins with the lines of no table, behind a comment of its own that ends with an empty line.
    foreword = re.match(r"(?:[ \t]*#[^\n]*\n)+[ \t]*\r?\n", text)
    alone = [one.after for one in statements if one.value >= 0 and one.keys[:-1] == table]
    sections = {one.keys: one.after for one in reversed(headers)} | {(): foreword.end() if foreword else 0}
    if table not in sections and alone:  # its keys are written with it: sampling.top_p = 0.9
        at, line = alone[-1], f"{dotted(keys)} = {written}{end}"
    elif table not in sections:
        at, line = len(text), f"{end if text.strip() else ''}[{dotted(table)}]{end}{line}"
    else:
        begin = sections[table] if table else 0
        until = next((one.start for one in headers if one.start >= begin), len(text))
        commented = re.compile(rf"^[ \t]*#[ \t]*{re.escape(keys[-1])}[ \t]*=[^\n]*\n?", re.MULTILINE)
        found = commented.search(text, begin, until)
        inside = [one.after for one in statements if begin <= one.start < until]
        at = found.end() if found else inside[-1] if inside else min(sections[table], until)
    return text[:at] + (end if at and text[at - 1] != "\n" else "") + line + text[at:]


def _flatten_table(table: Mapping[str, Any], above: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Return the values of a table by all their keys, those of its inner tables first; empty tables are left out."""
    found: dict[tuple[str, ...], Any] = {}
    for key, value in table.items():
        found |= _flatten_table(value, (*above, key)) if isinstance(value, dict) else {(*above, key): value}
    return found


def _parse_flat(text: str) -> dict[tuple[str, ...], Any] | None:
    try:
        return _flatten_table(parsed(text))
    except ValueError:
        return None
