"""`termchat models verify`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from termchat.cli import completers
from termchat.cli.flags import FOLDERS, config, flags
from termchat.cli.help import Page
from termchat.cli.output import ProgressLine, complain, table, tell_json
from termchat.models.errors import ModelError, NotHere
from termchat.text import home, size

if TYPE_CHECKING:
    from termchat.models.catalogue import Catalogue


@click.command("verify", cls=Page)
@click.argument("models", nargs=-1, metavar="[MODEL]...", shell_complete=completers.models)
@flags(only=FOLDERS, knobs=False)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def command(*, models: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Read MODEL again and compare its hash.

    Without MODEL, all that are in the catalogue and here.

    With --json: `files`, each with model, path, state (ok, damaged, or unknown where there is no hash to compare with), sha256,
    expected, problem. Exits with 1 if one is damaged or not here.
    """
    import msgspec

    from termchat.models import catalogue, manage

    known, folders = catalogue.load(), config(given).model_folders
    line = ProgressLine()
    files: list[dict[str, object]] = []
    failed = False

    def progress(path: Path, done: int) -> None:
        line.show(f"reading {path.name}  {size(done)}", path.name)

    for model in models or _here(known):
        try:
            files += [
                {"model": model, **msgspec.structs.asdict(v)} for v in manage.verify(model, known, progress, folders)
            ]
        except ModelError as error:
            line.end()
            complain(error.message, error.hint)
            failed = True
    line.end()
    if as_json:
        tell_json({"files": files})
    elif files:
        rows = [
            (str(f["state"]), home(str(f["path"])), str(f["problem"] or _MEANS.get(str(f["state"]), ""))) for f in files
        ]
        table(("STATE", "FILE", "PROBLEM"), rows)
    sys.exit(1 if failed or any(file["state"] == "damaged" for file in files) else 0)


_MEANS = {"unknown": "it reads like a model, but there is no SHA-256 to compare it with"}
"""What states mean that are no problem."""


def _here(known: Catalogue) -> list[str]:
    """The models of the catalogue whose files are on this machine."""
    found = []
    for name, entry in known.entries.items():
        try:
            entry.locate(name)
        except NotHere:
            continue
        except ModelError:
            pass  # it is here, and damaged: for `verify` to say
        found.append(name)
    return found
