"""`termchat locate`: every file and folder that termchat writes or reads."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click

from termchat.cli.completers import completer_of
from termchat.cli.help import ManualPage
from termchat.cli.output import complain, print_json, print_path, table
from termchat.text import guess_of, home, size

_TITLES = ("NAME", "SIZE", "WHERE", "WHAT")
_RIGHT = frozenset({"SIZE"})


class Located(NamedTuple):
    """A file or folder. `size` is in bytes, a folder's with everything in it; None if it does not exist."""

    name: str
    path: Path
    what: str
    size: int | None


@click.command("locate", cls=ManualPage, short_help="Show where termchat keeps its files.")
@click.argument(
    "name", required=False, shell_complete=completer_of(lambda: ((name, what) for name, _, what in places()))
)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def locate(*, name: str | None, as_json: bool) -> None:
    """Show where termchat keeps its files and how large they are. With NAME, print only that path.

    XDG_CONFIG_HOME, XDG_DATA_HOME and XDG_STATE_HOME move your own files.

    With --json: `files`, each with name, path, what, size (bytes; null if it does not exist).

    Environment: folders
    Examples:
      # List all files and folders
      $ termchat locate
      # Back up the saved chats
      $ cp "$(termchat locate store)" backup.db
    See also: config path, doctor
    """
    found = [Located(name, path, what, _measure(path)) for name, path, what in places()]
    if name is not None:
        one = next((one for one in found if one.name == name), None)
        if one is None:
            names = [one.name for one in found]
            complain(f"unknown name {name!r}{guess_of(name, names)}", f"Known names: {', '.join(names)}.")
            sys.exit(1)
        found = [one]
    if as_json:
        print_json({"files": [one._asdict() for one in found]})
    elif name is not None:
        print_path(found[0].path)
    else:
        rows = [(one.name, "-" if one.size is None else size(one.size), home(one.path), one.what) for one in found]
        table(_TITLES, rows, _RIGHT)


def places() -> Iterator[tuple[str, Path, str]]:
    """List every place: its name, its path and its contents. The user's own are the functions of `termchat.paths`, described
    by their docstrings."""
    from termchat import paths
    from termchat.engine.llama.observe import LIBRARY

    for name, function in vars(paths).items():
        if name.endswith(("_file", "_folder")) and not name.startswith("shipped"):
            what = (function.__doc__ or "").partition("\n")[0].rstrip(".")
            shown = name.removesuffix("_file").removesuffix("_folder").replace("_", "-")
            yield shown, function(), what[:1].lower() + what[1:]
    yield "program", Path(paths.__file__).parent, "termchat itself"
    yield "library", LIBRARY, "compiled step observer; termchat also runs without it, more slowly"
    yield "shipped-models", paths.shipped_file("models.toml"), "bundled model catalogue"
    yield "shipped-themes", paths.shipped_folder("themes"), "bundled themes"


def _measure(path: Path) -> int | None:
    """Return the bytes of a file, or of all files in a folder; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size
    total = 0
    for inner in path.rglob("*"):
        with suppress(OSError):
            status = inner.lstat()
            total += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return total
