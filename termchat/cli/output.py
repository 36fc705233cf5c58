"""What commands print: complaints on stderr, tables for people, one JSON object for scripts."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

import click

from termchat.models.errors import ModelError
from termchat.text import cells, one_line, sanitize

_GAP = "  "
_EVERY_S = 5.0
"""Seconds between lines of progress where stderr is not a terminal."""


def complain(message: str, hint: str = "") -> None:
    click.echo(f"termchat: {sanitize(message)}", err=True)
    if hint:
        click.echo(f"  {sanitize(hint)}", err=True)


def fail(error: ModelError) -> NoReturn:
    complain(error.message, error.hint)
    sys.exit(1)


def print_json(value: Any) -> None:
    """Print one object, ASCII only; a path becomes a string."""
    click.echo(json.dumps(value, indent=2, default=str))


def print_path(path: Path) -> None:
    """Print a path alone: its own bytes for a script, sanitised on a terminal."""
    text = str(path)
    terminal = sys.stdout is not None and sys.stdout.isatty()
    click.echo(sanitize(text, keep="") if terminal else text.encode("utf-8", "surrogateescape"))


def width() -> int:
    """Return the cells of a line of stdout; if it is not a terminal, more than any line takes."""
    return shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else 1 << 20


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[str] = frozenset()) -> None:
    """Print rows under titles, no wider than the terminal. The columns named in `right` are aligned right."""
    shown = [list(titles), *([one_line(cell, 1 << 16) for cell in row] for row in rows)]
    widths = [max(cells(row[column]) for row in shown) for column in range(len(titles))]
    most = width()
    for row in shown:
        line = _GAP.join(
            " " * (wide - cells(cell)) + cell if title in right else cell + " " * (wide - cells(cell))
            for title, wide, cell in zip(titles, widths, row, strict=True)
        )
        click.echo(one_line(line.rstrip(), most))


def facts(pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair per line, without the pairs that have no value."""
    wide = max((len(name) for name, value in pairs if value), default=0)
    for name, value in pairs:
        if value:
            click.echo(f"{name:<{wide}}{_GAP}{one_line(value, 1 << 16)}")


class ProgressLine:
    """One line on stderr that changes: in place on a terminal, otherwise a new line now and then. Call `end` after it."""

    def __init__(self) -> None:
        self._live = sys.stderr is not None and sys.stderr.isatty()
        self._shown, self._urgent, self._last = 0, "", -_EVERY_S

    def show(self, text: str, urgent: str = "") -> None:
        """Show the text; where stderr is not a terminal, at once only if `urgent` has changed."""
        if self._live:
            line = one_line(text, shutil.get_terminal_size().columns - 1)
            taken = cells(line)
            click.echo("\r" + line + " " * (self._shown - taken), nl=False, err=True)
            self._shown = taken
        elif monotonic() - self._last >= _EVERY_S or urgent != self._urgent:
            click.echo(one_line(text, 1 << 16), err=True)
            self._last = monotonic()
        self._urgent = urgent

    def end(self) -> None:
        if self._live and self._shown:
            click.echo("\r" + " " * self._shown + "\r", nl=False, err=True)
            self._shown = 0
