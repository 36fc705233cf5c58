"""`termchat sessions`: the saved chats, found, read, named and removed.

A command is a module, and a name in `_COMMANDS`; it is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module

import click

_COMMANDS = {
    "export": "export",
    "import": "import_",
    "list": "list",
    "rename": "rename",
    "restore": "restore",
    "rm": "rm",
    "search": "search",
    "show": "show",
}
"""Names of commands, and the modules they are in."""


class _Sessions(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS]  # `list` is a module here, once it was asked for

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        found: click.Command = import_module(f"{__name__}.{_COMMANDS[cmd_name]}").command
        return found


@click.group("sessions", cls=_Sessions)
def command() -> None:
    """List, search, show, name and remove saved chats.

    Everywhere, SESSION is an id, the beginning of one that no other has, or `last`. Exit codes: 0 done, 1 failed, 2 usage,
    130 interrupted.
    """
