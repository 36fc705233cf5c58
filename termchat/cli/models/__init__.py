"""`termchat models`: what there is to chat with, brought here, checked, and removed.

A command is the module of its name, and a name in `_COMMANDS`; it is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module

import click

_COMMANDS = ("add", "list", "pull", "rm", "show", "verify")


class _Models(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS]  # `list` is a module here, once it was asked for

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        found: click.Command = import_module(f"{__name__}.{cmd_name}").command
        return found


@click.group("models", cls=_Models)
def command() -> None:
    """List, download, check and remove models.

    Everywhere, MODEL is a name of the list or a path. Exit codes: 0 done, 1 failed, 2 usage, 130 interrupted.
    """
