"""`termchat sessions search`."""

from __future__ import annotations

import click

from termchat.cli.help import Page
from termchat.cli.output import table, tell_json
from termchat.cli.sessions.telling import as_objects, plain, rows
from termchat.cli.sessions.which import MOST, opened


@click.command("search", cls=Page, short_help="Find the saved chats in which all WORDS stand.")
@click.argument("words", nargs=-1, required=True)
@click.option("-n", "--limit", type=click.IntRange(1, MOST), default=20, show_default=True, help="at most so many")
@click.option("--deleted", is_flag=True, help="those that were deleted, and can come back")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def command(*, words: tuple[str, ...], limit: int, deleted: bool, as_json: bool) -> None:
    """Find the saved chats in which all WORDS stand, or words that begin with them; the best match first.

    They are looked for in titles, messages and replies. With --json: `sessions`, as `list` gives them; what matches in a
    snippet is between U+0002 and U+0003.
    """
    with opened() as store:
        found = store.sessions(limit, search=" ".join(words), deleted=deleted)
    if as_json:
        tell_json({"sessions": as_objects(found)})
        return
    titles, made, right = rows(found)
    table((*titles, "FOUND"), [(*row, plain(one.snippet)) for row, one in zip(made, found, strict=True)], right)
