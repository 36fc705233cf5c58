"""`termchat models list`."""

from __future__ import annotations

from typing import Any

import click

from termchat.cli.flags import FOLDERS, config, flags
from termchat.cli.help import Page
from termchat.cli.output import complain, table, tell_json
from termchat.text import home, size

_TITLES = ("NAME", "SIZE", "QUANT", "CONTEXT", "STATE", "FROM", "WHAT")
_RIGHT = frozenset({"SIZE", "CONTEXT"})


@click.command("list", cls=Page)
@flags(only=FOLDERS, knobs=False)
@click.option("--skipped", is_flag=True, help="also say what was left out on this disk, and why")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def command(*, skipped: bool, as_json: bool, **given: Any) -> None:
    """List the known models, and those on this disk.

    With --json: `models`, each with wanted (what to give to --model), name, state (ready, not downloaded, not installed,
    broken), description, architecture, size_label, quantization, context (tokens), size (bytes), about (size is not exact),
    license, needs, source, catalogued, path, problem; `skipped`, each with path, reason, place; and `problems` of the
    catalogues.
    """
    import msgspec

    from termchat.models.listing import listing

    found = listing(config(given).model_folders)
    if as_json:
        tell_json(
            {
                "models": [msgspec.structs.asdict(row) for row in found.rows],
                "skipped": [{"path": one.path, "reason": one.reason, "place": one.place} for one in found.skipped],
                "problems": found.problems,
            }
        )
        return
    rows = [
        (
            row.name,
            ("~" if row.about else "") + size(row.size),
            row.quantization,
            f"{row.context:,}" if row.context else "",
            row.state,
            row.source,
            row.problem if row.state == "broken" else row.description,
        )
        for row in found.rows
    ]
    table(_TITLES, rows, _RIGHT)
    if skipped and found.skipped:
        click.echo()
        table(("LEFT OUT", "WHY"), [(home(one.path), one.reason) for one in found.skipped])
    elif found.skipped:
        count = len(found.skipped)
        what = "1 file or folder was" if count == 1 else f"{count} files and folders were"
        click.echo(f"{what} left out; --skipped says why", err=True)
    for problem in found.problems:
        complain(problem)
