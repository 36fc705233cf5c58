"""`termchat sessions`: the saved chats, found, read, named and removed.

A command is a module, and a name in `_COMMANDS`; it is imported when it is asked for.
"""

from __future__ import annotations

import click

from termchat.cli.main import group

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


@click.group("sessions", cls=group(__name__, _COMMANDS))
def command() -> None:
    """List, search, show, name and remove saved chats.

    Everywhere, SESSION is an id, the beginning of one that no other has, or `last`.
    """
