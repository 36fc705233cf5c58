"""`termchat config init`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from termchat import paths
from termchat.cli.help import Page
from termchat.cli.output import complain
from termchat.text import home, sanitize


@click.command("init", cls=Page)
@click.option("--print", "only_print", is_flag=True, help="print it, and write nothing")
@click.option("--force", is_flag=True, help="replace the config.toml that is there")
def command(*, only_print: bool, force: bool) -> None:
    """Write a config.toml that explains every setting and every key.

    In it all is commented out: it changes nothing until you do.
    """
    from termchat.cli.config import template

    if only_print:
        click.echo(template.text(), nl=False)
        return
    file = paths.config_file()
    if file.exists() and not force:
        complain(f"{home(file)} is there already", "--force replaces it; --print shows what would be written.")
        sys.exit(1)
    write(file)
    click.echo(f"{sanitize(home(file))} is written", err=True)


def write(file: Path) -> None:
    """Writes it; what goes wrong is said, and ends the command with 1."""
    from termchat.cli.config import template
    from termchat.config import file as configfile

    try:
        configfile.write(file, template.text())
    except configfile.ConfigFileError as error:
        complain(str(error))
        sys.exit(1)
