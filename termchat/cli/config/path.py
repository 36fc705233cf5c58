"""`termchat config path`."""

from __future__ import annotations

import click

from termchat import paths
from termchat.cli.page import Page


@click.command("path", cls=Page)
def command() -> None:
    """Print where config.toml is, or would be."""
    click.echo(str(paths.config_file()).encode("utf-8", "surrogateescape"))
