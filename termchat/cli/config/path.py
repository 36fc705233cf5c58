"""`termchat config path`."""

from __future__ import annotations

import click

from termchat import paths
from termchat.cli.help import Page
from termchat.cli.output import print_path


@click.command("path", cls=Page)
def command() -> None:
    """Print where config.toml is, or would be."""
    print_path(paths.config_file())
