"""`termchat models`: what there is to chat with, brought here, checked, and removed."""

from __future__ import annotations

import click

from termchat.cli.models.add import add
from termchat.cli.models.look import list_, show
from termchat.cli.models.pull import pull
from termchat.cli.models.rm import rm
from termchat.cli.models.verify import verify


@click.group("models")
def command() -> None:
    """List, download, check and remove models.

    Everywhere, MODEL is a name of the list or a path. Exit codes: 0 done, 1 failed, 2 usage, 130 interrupted.
    """


for _one in (list_, show, pull, rm, verify, add):
    command.add_command(_one)
