"""`termchat models`: what there is to chat with, brought here, checked, and removed.

A command is the module of its name, and a name in `_COMMANDS`; it is imported when it is asked for.
"""

from __future__ import annotations

import click

from termchat.cli.main import group

_COMMANDS = {name: name for name in ("add", "list", "pull", "rm", "show", "verify")}


@click.group("models", cls=group(__name__, _COMMANDS))
def command() -> None:
    """List, download, check and remove models.

    Everywhere, MODEL is a name of the list or a path.
    """
