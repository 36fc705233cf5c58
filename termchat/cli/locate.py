"""`termchat locate`: every file and folder that termchat keeps or reads."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from termchat.cli.completers import completer_of
from termchat.cli.help import Page
from termchat.cli.output import complain, table, tell_json, tell_path
from termchat.text import guess_of, home, size

_TITLES = ("NAME", "SIZE", "WHERE", "WHAT")
_RIGHT = frozenset({"SIZE"})


class Located(NamedTuple):
    """A file or folder; `size` in bytes, of a folder with all that is in it; None where nothing is there."""

    name: str
    path: Path
    what: str
    size: int | None


@click.command("locate", cls=Page, short_help="Say where termchat keeps things.")
@click.argument(
    "name", required=False, shell_complete=completer_of(lambda: ((name, what) for name, _, what in places()))
)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def command(*, name: str | None, as_json: bool) -> None:
    """Say where termchat keeps things, and how large they are; of NAME, only where it is.

    The variables XDG_CONFIG_HOME, XDG_DATA_HOME and XDG_STATE_HOME move what is yours.

    With --json: `files`, each with name, path, what, size (bytes; null if it is not there).
    """
    found = list(_found())
    if name is not None:
        one = next((one for one in found if one.name == name), None)
        if one is None:
            names = [one.name for one in found]
            complain(f"there is no {name!r}{guess_of(name, names)}", f"There are {', '.join(names)}.")
            sys.exit(1)
        found = [one]
    if as_json:
        tell_json({"files": [one._asdict() for one in found]})
    elif name is not None:
        tell_path(found[0].path)
    else:
        rows = [(one.name, "-" if one.size is None else size(one.size), home(one.path), one.what) for one in found]
        table(_TITLES, rows, _RIGHT)


def _found() -> Iterator[Located]:
    for name, path, what in places():
        yield Located(name, path, what, _size(path))


def places() -> Iterator[tuple[str, Path, str]]:
    """Names, where they are, and what they are."""
    yield from _own()
    yield from _shipped()


def _own() -> Iterator[tuple[str, Path, str]]:
    """What is the user's: all that `termchat.paths` knows of, described as there."""
    from termchat import paths

    for name, function in vars(paths).items():
        if name.endswith(("_file", "_folder")) and not name.startswith("shipped"):
            what = (function.__doc__ or "").partition("\n")[0]
            yield name.removesuffix("_file").removesuffix("_folder").replace("_", "-"), function(), _small(what)


def _shipped() -> Iterator[tuple[str, Path, str]]:
    from termchat import paths
    from termchat.engine.llama.observe import LIBRARY

    package = Path(paths.__file__).parent
    yield "program", package, "termchat itself"
    yield "library", LIBRARY, "the compiled step; without it termchat runs, and slower"
    yield "shipped-models", paths.shipped_file("models.toml"), "the catalogue that ships"
    yield "shipped-themes", paths.shipped_folder("themes"), "the themes that ship"


def _small(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _size(path: Path) -> int | None:
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode):
        return found.st_size
    return sum(_size_in(one) for one in path.rglob("*"))


def _size_in(path: Path) -> int:
    try:
        found = path.lstat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
