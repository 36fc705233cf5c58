"""`termchat sessions export`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from termchat.cli import completers
from termchat.cli.help import Page
from termchat.cli.output import complain
from termchat.cli.sessions.which import opened
from termchat.conversation.transcripts import FORMATS
from termchat.text import sanitize

if TYPE_CHECKING:
    from termchat.decoding.records import Record

_USUAL = "jsonl"
_ENDINGS = ", ".join(f"{form.endings[0]} ({form.what})" for form in FORMATS.values())


@click.command("export", cls=Page, epilog=f"Endings of files: {_ENDINGS}.")
@click.argument("session", shell_complete=completers.sessions)
@click.option("--format", "form", type=click.Choice(tuple(FORMATS)), help="instead of the one that FILE ends in")
@click.option("-o", "--output", metavar="FILE", default="-", help="where to; - is standard output, as without it")
@click.option("--force", is_flag=True, help="replace FILE if it exists")
def command(*, session: str, form: str | None, output: str, force: bool) -> None:
    """Write SESSION to a file, or to standard output.

    The format is the one that FILE ends in; on standard output it is jsonl, which holds every record and can be taken in
    again. FILE is there whole or not at all.
    """
    from termchat.conversation.transcripts import export
    from termchat.conversation.transcripts.transcript import TranscriptError, held

    if output == "-" and sys.stdout is None:
        complain("there is no stdout to write the chat to")
        sys.exit(1)
    with opened() as store:
        found = store.find(session)
        store.read_through(found)  # what was written before damage was found would not fit to what is written after it
        stored = store.load(found)
        nodes = stored.conversation.nodes

        def records(number: int) -> Iterator[Record]:
            return held(nodes[number], store.records(found, number))

        if output == "-":
            out = sys.stdout.buffer
            for line in FORMATS[form or _USUAL].writer(stored.conversation, stored.info, records):
                out.write(line.encode("utf-8", "replace") + b"\n")
            out.flush()
            return
        chosen = FORMATS[form] if form else None
        try:
            path = export.write(Path(output), stored.conversation, stored.info, records, form=chosen, replace=force)
        except TranscriptError as error:
            complain(error.message, error.hint)
            sys.exit(1)
    click.echo(f"saved {sanitize(str(path), keep='')}", err=True)
