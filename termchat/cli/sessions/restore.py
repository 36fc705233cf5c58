"""`termchat sessions restore`."""

from __future__ import annotations

import click

from termchat.cli import completers
from termchat.cli.page import Page
from termchat.cli.sessions.which import opened


@click.command("restore", cls=Page, short_help="Bring SESSION back.")
@click.argument("session", shell_complete=completers.sessions)
def command(*, session: str) -> None:
    """Bring SESSION back after `rm`; `list --deleted` says which can be."""
    with opened() as store:
        store.restore(store.find(session))
