"""A group of commands, each of which is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import ClassVar

import click

from termchat.cli.page import PageGroup
from termchat.text import guess_of


class Lazily(PageGroup):
    """A group whose commands are the `command` of `modules` of `package`, by the name of the command."""

    package: ClassVar[str]
    modules: ClassVar[Mapping[str, str]]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return [*self.modules]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The one of that name, imported now."""
        if cmd_name not in self.modules:
            return None
        found: click.Command = import_module(f"{self.package}.{self.modules[cmd_name]}").command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant, and the rest. Raises UsageError, with a guess, where there is none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            said = f"{error.message.removesuffix('.')}{guess_of(args[0], self.modules)}"
            raise click.UsageError(said, error.ctx) from None


def group(package: str, modules: Mapping[str, str]) -> type[Lazily]:
    """Such a group."""
    return type("Lazily", (Lazily,), {"package": package, "modules": modules})
