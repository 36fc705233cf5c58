"""`termchat completion`: the script that has a shell complete our commands."""

from __future__ import annotations

import os
from importlib import import_module

import click

from termchat.cli.page import Page

VARIABLE = "_TERMCHAT_COMPLETE"
"""Set by the scripts when a shell asks; click answers, before anything else happens."""

_SHELLS = "termchat.cli.shells"

if VARIABLE in os.environ:
    import_module(_SHELLS)


@click.command("completion", cls=Page, short_help="Print what has a shell complete commands.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, /, *, shell: str) -> None:
    """Print a script that has SHELL complete commands, flags, models, chats, themes and settings."""
    from click.shell_completion import get_completion_class

    import_module(_SHELLS)
    made = get_completion_class(shell)
    if made is not None:
        click.echo(made(ctx.find_root().command, {}, "termchat", VARIABLE).source(), nl=False)
