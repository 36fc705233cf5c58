"""`termchat config check`."""

from __future__ import annotations

import sys

import click

from termchat import paths
from termchat.cli.flags import config
from termchat.cli.help import Page
from termchat.cli.output import print_json
from termchat.text import home, one_line


@click.command("check", cls=Page)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def command(*, as_json: bool) -> None:
    """Look for mistakes in all that you set.

    Looked at are config.toml with its keys, the TERMCHAT_ variables, and your own themes, personas and models.toml. No mistake
    stops termchat: a setting that is wrong is as if it were not set.

    With --json: `problems`, a text each.
    """
    from termchat.cli.config.checking import problems

    found = problems(config({}))
    if as_json:
        print_json({"problems": found})
    else:
        told(found)
    sys.exit(1 if found else 0)


def told(found: list[str]) -> None:
    """Says what was found, a line each, or that all is well."""
    for problem in found:
        click.echo(one_line(problem, 1 << 16))
    if not found:
        file = paths.config_file()
        what = home(file) if file.exists() else f"{home(file)} (not there)"
        click.echo(f"no mistakes in {one_line(what, 1 << 16)}, the variables and your own themes, personas and models")
