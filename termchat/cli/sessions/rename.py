"""`termchat sessions rename`."""

from __future__ import annotations

import click

from termchat.cli import completers
from termchat.cli.help import Page
from termchat.cli.sessions.which import opened


@click.command("rename", cls=Page)
@click.argument("session", shell_complete=completers.sessions)
@click.argument("title")
def command(*, session: str, title: str) -> None:
    """Give SESSION another title."""
    if not title.split():
        raise click.UsageError("a title has to say something")
    with opened() as store:
        store.rename(store.find(session), title)
