"""`termchat models rm`."""

from __future__ import annotations

import sys
from typing import Any

import click

from termchat.cli import completers
from termchat.cli.flags import FOLDERS, config, flags
from termchat.cli.help import Page
from termchat.cli.output import fail
from termchat.models.errors import ModelError
from termchat.text import home, sanitize, size


@click.command("rm", cls=Page)
@click.argument("model", shell_complete=completers.models)
@flags(only=FOLDERS, knobs=False)
@click.option("-y", "--yes", is_flag=True, help="do not ask")
def command(*, model: str, yes: bool, **given: Any) -> None:
    """Remove MODEL, if termchat downloaded it.

    What something else put on this disk is not touched.
    """
    from termchat.models import catalogue, manage

    try:
        files = manage.removable(model, catalogue.load(), config(given).model_folders)
        freed = size(sum(file.stat().st_size for file in files))
        if not yes:
            if sys.stdin is None or not sys.stdin.isatty():
                raise click.UsageError("nobody can be asked here; give --yes to remove it")
            for file in files:
                click.echo(sanitize(home(file)), err=True)
            click.confirm(f"Remove {'it' if len(files) == 1 else 'them'} and free {freed}?", abort=True, err=True)
        manage.remove(files)
    except ModelError as error:
        fail(error)
    click.echo(f"removed {sanitize(model)}, {freed} freed", err=True)
