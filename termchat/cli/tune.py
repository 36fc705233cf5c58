"""`termchat tune`: the fastest settings for a model on this machine, measured and kept."""

from __future__ import annotations

import sys
from typing import Any

import click

from termchat.cli import completers
from termchat.cli.flags import config, flags
from termchat.cli.help import Page

_MEASURED = (
    "theme",
    "persona",
    "glyphs",
    "on_full",
    "system",
    "model",
    "threads",
    "threads_batch",
    "prefill_batch",
    "fast_prefill",
)


@click.command("tune", cls=Page, short_help="Measure what runs a model fastest here.")
@click.argument("model", required=False, shell_complete=completers.models)
@click.option(
    "--seconds", type=click.IntRange(5, 3600), default=60, show_default=True, help="about how long to measure"
)
@click.option("--dry-run", is_flag=True, help="measure, but keep nothing")
@click.option("--json", "as_json", is_flag=True, help="print all that was measured as one JSON object")
@flags(without=_MEASURED, knobs=False)
def command(*, model: str | None, seconds: int, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Measure how MODEL (a name or a file) runs fastest on this machine, and keep that for the chats to come.

    Tried are threads for decoding, threads for prompts, and prompt batches that leave the numbers exact. Flags, what
    is set for it in the list of models, and config.toml go before what is kept.
    """
    chosen = config({**given, "model": model})
    from termchat.commands.tune import tune

    sys.exit(tune(chosen, seconds=seconds, dry_run=dry_run, as_json=as_json))
