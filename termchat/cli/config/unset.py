"""`termchat config unset`."""

from __future__ import annotations

import sys

import click

from termchat import paths
from termchat.cli import completers
from termchat.cli.help import Page
from termchat.cli.output import complain
from termchat.config import file as configfile
from termchat.text import home, sanitize


@click.command("unset", cls=Page)
@click.argument("name", shell_complete=completers.settings)
def command(*, name: str) -> None:
    """Take NAME out of config.toml, so that its default counts again.

    NAME is a setting of `termchat config show`, or keys.ID for a key.
    """
    try:
        there = configfile.remove(name)
    except configfile.ConfigFileError as error:
        complain(str(error))
        sys.exit(1)
    file = sanitize(home(paths.config_file()))
    click.echo(
        f"{sanitize(name)} is no longer set in {file}" if there else f"{sanitize(name)} is not in {file}", err=True
    )
