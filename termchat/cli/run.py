"""`termchat run`: one answer on stdout."""

from __future__ import annotations

import sys
from typing import Any

import click

from termchat.cli.flags import config, flags
from termchat.cli.help import Page
from termchat.decoding.samplers import well_formed

NOT_FOR_RUN = ("theme", "glyphs", "on_full")


@click.command("run", cls=Page, short_help="Answer a prompt, and leave.")
@click.argument("prompt", required=False)
@click.option("--raw", is_flag=True, help="complete PROMPT without the model's chat template")
@click.option("--prefill", default="", metavar="TEXT", help="how the reply begins; the model goes on from there")
@click.option("--json", "as_json", is_flag=True, help="print the record stream, one JSON object a line")
@click.option(
    "--candidates", type=click.IntRange(1, 1000), default=20, show_default=True, help="candidates recorded a step"
)
@flags(without=NOT_FOR_RUN)
def command(*, prompt: str | None, prefill: str, raw: bool, as_json: bool, candidates: int, **given: Any) -> None:
    """Answer PROMPT and leave: the reply's text on stdout, nothing else.

    PROMPT is read from stdin when it is absent or "-".
    """
    chosen = config(given)
    if prompt is None or prompt == "-":
        if sys.stdin is None or (prompt is None and sys.stdin.isatty()):
            raise click.UsageError("give a PROMPT, or pipe one in")
        prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not prompt:
        raise click.UsageError("the prompt is empty")
    from termchat.commands.run import answer

    sys.exit(
        answer(
            chosen,
            well_formed(prompt),
            prefill=well_formed(prefill),
            raw=raw,
            as_json=as_json,
            candidates=candidates,
        )
    )
