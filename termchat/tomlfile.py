"""TOML files that people write: read with one clear error, and lines found again for what is wrong in them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any


class TomlError(Exception):
    """A file that cannot be read as TOML; the message names the file, and the line where there is one."""


class TomlFile:
    """A TOML file: its `table`, and the lines of its keys.

    Raises:
        TomlError: it cannot be opened, is not UTF-8 or not TOML.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._text = path.read_text("utf-8")
            self.table: dict[str, Any] = tomllib.loads(self._text)
        except OSError as error:
            raise TomlError(f"{path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise TomlError(f"{path} is not UTF-8 text (byte {error.start})") from error
        except tomllib.TOMLDecodeError as error:
            raise TomlError(f"{path} is not valid TOML: {error}") from error

    def place(self, *keys: str) -> str:
        """Where a key stands, for a message: "config.toml, line 3"; the table's line if the key has none of its own."""
        while keys:
            for number, found in self._keys():
                if found == keys:
                    return f"{self.path.name}, line {number}"
            keys = keys[:-1]
        return self.path.name

    def _keys(self) -> list[tuple[int, tuple[str, ...]]]:
        """Line numbers and full keys, as far as a look at each line tells."""
        table: tuple[str, ...] = ()
        found = []
        for number, line in enumerate(self._text.splitlines(), 1):
            if header := re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", line):
                table = _parts(header[1])
                found.append((number, table))
            elif pair := re.match(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*'|\s*\.\s*)+?)\s*=""", line):
                found.append((number, (*table, *_parts(pair[1]))))
        return found


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(r"""[\w-]+|"[^"]*"|'[^']*'""", dotted))
