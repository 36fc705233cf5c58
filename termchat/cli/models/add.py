"""`termchat models add`."""

from __future__ import annotations

import click

from termchat.cli.help import Page
from termchat.cli.output import fail
from termchat.models.errors import ModelError
from termchat.text import home, sanitize


@click.command("add", cls=Page)
@click.argument("name")
@click.argument("source")
@click.option("--description", default="", metavar="TEXT", help="one line for the list  [what the source calls itself]")
@click.option("--license", default="", metavar="TEXT", help="its licence")
def command(*, name: str, source: str, description: str, license: str) -> None:
    """Give SOURCE a NAME in your own models.toml.

    That file lies in the config folder. Nothing is downloaded.

    SOURCE is a path to a GGUF file; owner/repo, owner/repo:QUANT or owner/repo/file.gguf on Hugging Face; or an http(s)
    address.
    """
    from termchat.models import manage

    try:
        file = manage.add(name, source, description=description, license=license)
    except ModelError as error:
        fail(error)
    click.echo(f"{sanitize(name)} is in {sanitize(home(file))}", err=True)
