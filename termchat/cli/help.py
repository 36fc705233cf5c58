"""The classes of commands whose `--help` is a page of a manual, and `termchat help`.

A page is the docstring of its command. Behind the description come sections with a title: `Environment`, `Files` and
`Exit codes` (keys of `_SHARED`, or "NAME: text"), `Examples` (what a line does, and the line to type) and `See also`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

import click

_INDENT = "  "
_SECTIONS = re.compile(r"^(Environment|Files|Exit codes|Examples|See also):", re.MULTILINE)
_CODES = "0, 1, 2, 130"
"""The exit codes of a page that names none."""
_SHARED: dict[str, tuple[tuple[str, str], ...]] = {
    "settings": (("TERMCHAT_…", "any setting, for example TERMCHAT_TOP_K for --top-k; flags take precedence"),),
    "folders": (("XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME", "move the folders below out of the home folder"),),
    "hub": (
        ("HF_TOKEN", "access token for gated models"),
        ("HF_ENDPOINT", "mirror to use instead of https://huggingface.co"),
        ("HF_HUB_OFFLINE, TERMCHAT_OFFLINE", "1: stay offline"),
        ("HTTPS_PROXY, NO_PROXY", "proxy settings"),
    ),
    "config": (("~/.config/termchat/config.toml", "settings; see termchat config"),),
    "sessions": (("~/.local/share/termchat/sessions.db", "saved chats"),),
    "models": (("~/.local/share/termchat/models/", "downloaded models"),),
    "own models": (("~/.config/termchat/models.toml", "your own model catalogue"),),
    "presets": (("~/.config/termchat/presets.toml", "your own presets"),),
    "personas": (("~/.config/termchat/personas.toml", "your own personas"),),
    "themes": (("~/.config/termchat/themes/", "your own themes"),),
    "lessons": (("~/.local/share/termchat/lessons/", "your own lessons"),),
    "progress": (("~/.local/share/termchat/lessons.json", "your progress in lessons"),),
    "tuned": (("~/.local/state/termchat/tuned.json", "results of termchat tune"),),
    "0": (("0", "done"),),
    "1": (("1", "failed; the reason is on stderr"),),
    "2": (("2", "the command line is wrong"),),
    "130": (("130", "interrupted with Ctrl+C"),),
    "141": (("141", "the program reading the output closed the pipe"),),
}
"""Lines of several pages, by their keys."""


class Grouped(click.Option):
    """An option that `--help` lists in a group."""

    def __init__(self, *args: Any, group: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


class ManualPage(click.Command):
    """A command whose help is a page of the manual: options in groups, then the sections of its docstring."""

    def __init__(self, name: str | None = None, *, help: str | None = None, **kwargs: Any) -> None:
        text, *sections = _SECTIONS.split(cleandoc(help or ""))
        super().__init__(name, help=text.rstrip(), **kwargs)
        self.sections = dict(zip(sections[::2], sections[1::2], strict=True))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
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
        super().format_epilog(ctx, formatter)
        for title, default in (("Environment", ""), ("Files", ""), ("Exit codes", _CODES)):
            if pairs := list(_parse_pairs(self.sections.get(title, default))):
                with formatter.section(title):
                    formatter.write_dl(pairs)
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"{_INDENT}{line}\n" for line in self.examples))
        if names := self.see:
            with formatter.section("See also"):
                formatter.write_text(", ".join(f"termchat {name}" for name in names))

    @property
    def examples(self) -> list[str]:
        """The lines of its examples: "# " and what a command line does, then "$ " and that line."""
        return [line.strip() for line in self.sections.get("Examples", "").strip().splitlines()]

    @property
    def see(self) -> list[str]:
        """The commands to see also."""
        return [name.strip() for name in self.sections.get("See also", "").split(",") if name.strip()]


def _parse_pairs(section: str) -> Iterator[tuple[str, str]]:
    """Parse the lines of a section: "NAME: text", or keys of `_SHARED`."""
    for line in section.strip().splitlines():
        name, colon, text = line.strip().partition(": ")
        if colon:
            yield name, text
        else:
            for key in name.split(", "):
                yield from _SHARED[key]


class PageGroup(ManualPage, click.Group):
    """A group of commands whose help is a page of the manual: the commands first, then the options."""

    command_class = ManualPage

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from termchat.text import guess_of

            message = f"{error.message.removesuffix('.')}{guess_of(args[0], self.list_commands(ctx))}"
            raise click.UsageError(message, error.ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        ManualPage.format_options(self, ctx, formatter)


@click.command("help", cls=ManualPage, short_help="Print the manual page of a command.")
@click.argument("names", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_(ctx: click.Context, /, *, names: tuple[str, ...]) -> None:
    """Print the manual page of COMMAND, or of termchat itself.

    Examples:
      # Describe one command
      $ termchat help models pull
    """
    at = ctx.find_root()
    for name in names:
        found = at.command.get_command(at, name) if isinstance(at.command, click.Group) else None
        if found is None:
            raise click.UsageError(f"unknown command {' '.join(names)!r}")
        at = click.Context(found, at, name)
    click.echo(at.get_help())
