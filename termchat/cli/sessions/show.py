"""`termchat sessions show`."""

from __future__ import annotations

from functools import partial

import click

from termchat.cli import completers
from termchat.cli.help import Page
from termchat.cli.output import tell_json
from termchat.cli.sessions.telling import stamp
from termchat.cli.sessions.which import opened
from termchat.text import sanitize


@click.command("show", cls=Page)
@click.argument("session", shell_complete=completers.sessions)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def command(*, session: str, as_json: bool) -> None:
    """Print the chat of SESSION, and what is known of it.

    With --json: id, title, named (a person gave the title), created and updated (UTC, ISO 8601), model (name, path, identity),
    system, raw, tuning (knobs), branches (ends of the tree), tokens (of all replies), turns (each with role and text). All of
    it, every token and branch, is what `export` writes.
    """
    from termchat.conversation.transcripts import FORMATS

    with opened() as store:
        stored = store.load(store.find(session))
        info, conversation = stored.info, stored.conversation
        if not as_json:
            for line in FORMATS["md"].writer(conversation, info, partial(store.records, info.id)):
                click.echo(sanitize(line))
            return
    import msgspec

    tell_json(
        {
            "id": info.id,
            "title": conversation.title,
            "named": info.named,
            "created": stamp(info.created),
            "updated": stamp(info.updated),
            "model": msgspec.to_builtins(info.model),
            "system": conversation.system,
            "raw": conversation.raw,
            "tuning": msgspec.to_builtins(info.tuning),
            "branches": len(conversation.leaves()),
            "tokens": sum(len(node.tokens) for node in conversation.nodes.values()),
            "turns": [{"role": role, "text": text} for role, text in conversation.turns()],
        }
    )
