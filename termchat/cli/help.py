"""`termchat help`: the help of a command, as its --help says it."""

from __future__ import annotations

import click

from termchat.cli.page import Page


@click.command("help", cls=Page, short_help="Print the help of a command.")
@click.argument("names", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def command(ctx: click.Context, /, *, names: tuple[str, ...]) -> None:
    """Print the help of COMMAND, or of termchat itself."""
    at = ctx.find_root()
    for name in names:
        found = at.command.get_command(at, name) if isinstance(at.command, click.Group) else None
        if found is None:
            raise click.UsageError(f"there is no command {' '.join(names)!r}")
        at = click.Context(found, at, name)
    click.echo(at.get_help())
