"""`termchat sessions rm`."""

from __future__ import annotations

import sys

import click

from termchat.cli import completers
from termchat.cli.help import Page
from termchat.cli.sessions.which import opened
from termchat.text import sanitize


@click.command("rm", cls=Page)
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True, shell_complete=completers.sessions)
@click.option("--now", is_flag=True, help="for good, at once; nothing brings it back")
@click.option("-y", "--yes", is_flag=True, help="with --now: do not ask")
def command(*, sessions: tuple[str, ...], now: bool, yes: bool) -> None:
    """Delete SESSION.

    `restore` brings it back; after a week it is gone for good.
    """
    with opened() as store:
        found = list(dict.fromkeys(store.find(session) for session in sessions))
        if now and not yes:
            if sys.stdin is None or not sys.stdin.isatty():
                raise click.UsageError("nobody can be asked here; give --yes to remove it for good")
            click.confirm(f"Remove {sanitize(', '.join(found))} for good?", abort=True, err=True)
        for session in found:
            if now:
                store.purge(session)
            else:
                store.delete(session)
    for session in map(sanitize, found):  # an id may be damaged, or of a file from elsewhere
        click.echo(f"removed {session}" if now else f"deleted {session}; termchat sessions restore {session}", err=True)
