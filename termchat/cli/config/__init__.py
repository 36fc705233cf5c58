"""`termchat config`: what is set, where it was set, and the file to set it in."""

from __future__ import annotations

import click

from termchat.cli.config import check, edit, init, path, set, show, unset
from termchat.cli.help import PageGroup


@click.group("config", cls=PageGroup)
def config() -> None:
    """Show, check and change the settings.

    The first of these that sets a value wins: a flag, the model's settings in the model list, a variable (TERMCHAT_TOP_K for
    top_k), config.toml, `termchat tune`, the model's own recommendation, the default.
    """


for _module in (check, edit, init, path, set, show, unset):
    config.add_command(_module.command)
