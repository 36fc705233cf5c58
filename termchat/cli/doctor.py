"""`termchat doctor`: what there is, what is wrong with it, and what to do."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from termchat.cli.flags import config, flags
from termchat.cli.help import Page


@click.command("doctor", cls=Page, short_help="Say what is wrong here, and what to do.")
@click.option("--json", "as_json", is_flag=True, help="print the report as one JSON object")
@flags(knobs=False)
def command(*, as_json: bool, **given: Any) -> None:
    """Look at versions, build, devices, files, settings, terminal, models and chats, and say what to do.

    Made to be pasted into a bug report: no secrets, no user name, the home folder is ~.
    """
    chosen = config(given)
    from termchat.commands.doctor import examine

    report = examine(chosen)
    if as_json:
        click.echo(json.dumps(report.as_dict()))
    else:
        for line in report.lines():
            click.echo(line)
    sys.exit(1 if report.todo else 0)
