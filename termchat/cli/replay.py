"""`termchat replay`: the replies of a saved chat, made again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from termchat.cli.flags import config, flags
from termchat.cli.help import Page
from termchat.cli.run import NOT_FOR_RUN

_ON_RECORD = (*NOT_FOR_RUN, "system", "persona", "fast_prefill")


@click.command("replay", cls=Page, short_help="Make saved replies again, token by token.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@flags(without=_ON_RECORD, knobs=False)
def command(*, file: Path, **given: Any) -> None:
    """Make every reply in FILE again and say whether each token is the same.

    FILE is a chat saved as .jsonl, or the output of termchat run --json. Model, threads and all that is on record are as they
    were then, but for what flags say.
    """
    chosen = config(given)
    from termchat.commands.replay import replay

    sys.exit(replay(chosen, file, click.echo, lambda line: click.echo(line, err=True)))
