"""Help as a manual has it: what a command does, its options in groups, and what else there is to know about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

_INDENT = 2


class Grouped(click.Option):
    """An option that stands in a group of the help."""

    def __init__(self, *args: Any, group: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


class Page(click.Command):
    """A command whose help is a page of `termchat.cli.manual`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, group by group; those that are the command's own first."""
        groups: dict[str, list[tuple[str, str]]] = {"": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                groups.setdefault(getattr(parameter, "group", ""), []).append(record)
        for group, records in groups.items():
            if records:
                with formatter.section(f"{group} options" if group else "Options"):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the epilog, and what the manual has besides."""
        super().format_epilog(ctx, formatter)
        from termchat.cli import manual

        page = manual.page_of(ctx.command_path)
        _pairs(formatter, "Environment", page.environment)
        _pairs(formatter, "Files", page.files)
        _pairs(formatter, "Exit codes", page.codes)
        if page.examples:
            with formatter.section("Examples"):
                for what, line in page.examples:
                    formatter.write(f"{'':{_INDENT}}# {what}\n{'':{_INDENT}}$ {line}\n")
        if page.see:
            with formatter.section("See also"):
                formatter.write_text(", ".join(f"termchat {name}" for name in page.see))


def _pairs(formatter: click.HelpFormatter, title: str, pairs: Sequence[tuple[str, str]]) -> None:
    if pairs:
        with formatter.section(title):
            formatter.write_dl(pairs)


class PageGroup(Page, click.Group):
    """A group of commands whose help is a page of the manual: the commands first, then the options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands and the options."""
        self.format_commands(ctx, formatter)
        Page.format_options(self, ctx, formatter)
