"""`termchat config`: what is set, where it was set, and the file to set it in."""

from __future__ import annotations

import click

from termchat.cli.main import group

_COMMANDS = {name: name for name in ("check", "edit", "init", "path", "set", "show", "unset")}


@click.group("config", cls=group(__name__, _COMMANDS))
def command() -> None:
    """Show, check and change the settings.

    A setting is looked for in this order: a flag, what was set for one model in the list of models, a variable
    (TERMCHAT_TOP_K for top_k), config.toml, what `termchat tune` measured, what the model itself recommends, the default.
    """
