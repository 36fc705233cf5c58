"""`termchat sessions import`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from termchat.cli.help import Page
from termchat.cli.output import complain
from termchat.cli.sessions.which import opened
from termchat.conversation.transcripts import FORMATS
from termchat.text import one_line

_READ = tuple(name for name, form in FORMATS.items() if form.signs)


@click.command("import", cls=Page, short_help="Take in the chats in FILE.")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
)
@click.option("--format", "form", type=click.Choice(_READ), help="instead of what the file looks like")
def command(*, files: tuple[Path, ...], form: str | None) -> None:
    """Take in the chats in FILE: termchat's own jsonl, OpenAI's messages or ShareGPT; - is standard input.

    Each becomes a new saved chat, whose id is printed, one a line. Of a file with a fault nothing is taken in, and the others
    are.
    """
    from termchat.conversation.transcripts import importing
    from termchat.conversation.transcripts.transcript import TranscriptError

    faults = 0
    with opened() as store:
        for file in files:
            try:
                with _readable(file) as path:
                    for transcript in importing.chats(path, FORMATS[form] if form else None):
                        session = importing.keep(store, transcript)
                        click.echo(session)
                        click.echo(f"took in {one_line(transcript.conversation.title or 'a chat', 60)}", err=True)
                        if transcript.halves:
                            click.echo(_of_halves(transcript.halves), err=True)
            except TranscriptError as error:
                complain(error.message, error.hint)
                faults += 1
    sys.exit(1 if faults else 0)


def _of_halves(count: int) -> str:
    said = "1 half character in it is" if count == 1 else f"{count:,} half characters in it are"
    return f"  {said} now U+FFFD, since nothing can keep one"


@contextmanager
def _readable(file: Path) -> Iterator[Path]:
    """The file, or what comes through stdin as one."""
    from termchat.conversation.transcripts import importing
    from termchat.conversation.transcripts.transcript import TranscriptError

    if str(file) != "-":
        yield file
        return
    if sys.stdin is None:
        raise TranscriptError("there is no stdin to read", "Give a file.")
    with importing.piped(sys.stdin.buffer) as path:
        yield path
