"""`termchat sessions restore`."""

from __future__ import annotations

import sys

import click

from termchat.cli import completers
from termchat.cli.help import Page
from termchat.cli.output import complain
from termchat.cli.sessions.which import MOST, opened


@click.command("restore", cls=Page, short_help="Bring SESSION back.")
@click.argument("session", shell_complete=completers.sessions)
def command(*, session: str) -> None:
    """Bring SESSION back after `rm`; `list --deleted` says which can be."""
    with opened() as store:
        found = store.find(session)
        if all(one.id != found for one in store.sessions(MOST, deleted=True)):
            complain(f"{found} is not deleted", "termchat sessions list --deleted says which are.")
            sys.exit(1)
        store.restore(found)
