"""`termchat sessions list`."""

from __future__ import annotations

import click

from termchat.cli.help import Page
from termchat.cli.output import table, tell_json
from termchat.cli.sessions.telling import as_objects, rows
from termchat.cli.sessions.which import MOST, opened


@click.command("list", cls=Page)
@click.option("-n", "--limit", type=click.IntRange(1, MOST), default=100, show_default=True, help="at most so many")
@click.option("--deleted", is_flag=True, help="those that were deleted, and can come back")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def command(*, limit: int, deleted: bool, as_json: bool) -> None:
    """List the saved chats, the last used first.

    With --json: `sessions`, each with id, title, created and updated (UTC, ISO 8601), turns (messages of the person),
    tokens (of the replies), model, snippet ("").
    """
    with opened() as store:
        found = store.sessions(limit, deleted=deleted)
    if as_json:
        tell_json({"sessions": as_objects(found)})
    else:
        table(*rows(found))
