"""A group of commands, each of which is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click

from termchat.cli.page import PageGroup


def group(package: str, modules: Mapping[str, str]) -> type[click.Group]:
    """A group whose commands are the `command` of modules of `package`, by the name of the command."""

    class Lazily(PageGroup):
        def list_commands(self, ctx: click.Context) -> list[str]:
            return [*modules]

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            if cmd_name not in modules:
                return None
            found: click.Command = import_module(f"{package}.{modules[cmd_name]}").command
            return found

    return Lazily
