"""The flags that commands share, made from the tables of options and knobs, and the settings they add up to."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import click

from termchat import settings
from termchat.cli import completers
from termchat.decoding.samplers import KNOBS
from termchat.options import OPTIONS

FOLDERS = ("model_folders",)
"""The option that says where else models lie, for commands that look for them."""


def flags(
    *, without: Collection[str] = (), only: Collection[str] = tuple(OPTIONS), knobs: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A flag for every option and knob; values are checked by `settings`, so that a refusal is worded the same anywhere."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        made = []
        for name, option in OPTIONS.items():
            if name in without or name not in only:
                continue
            flag = "--" + name.replace("_", "-")
            if option.kind == "bool":
                made.append(click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=option.help))
            else:
                metavar = "|".join(option.choices) if option.choices else option.kind.upper()
                complete = completers.of_setting(name)
                made.append(click.option(flag, name, metavar=metavar, help=option.help, shell_complete=complete))
        for name, knob in KNOBS.items() if knobs else ():
            flag = "--" + name.replace("_", "-")
            shown = f"{knob.help}  [{knob.show(knob.default)}]"
            if knob.kind == "texts":
                made.append(click.option(flag, name, multiple=True, metavar="TEXT", help=shown + " (may be repeated)"))
            else:
                kind, complete = "X" if knob.kind == "float" else "N", completers.of_setting(name)
                made.append(click.option(flag, name, metavar=kind, help=shown, shell_complete=complete))
        for option_ in reversed(made):
            command = option_(command)
        return command

    return add


def config(given: dict[str, Any]) -> settings.Config:
    """The settings, with the flags that were given before all else.

    Raises:
        click.BadParameter: a flag's value is refused.
    """
    given = {name: value for name, value in given.items() if value not in (None, ())}
    try:
        return settings.load(given)
    except settings.FlagError as error:
        raise click.BadParameter(str(error), param_hint="--" + error.name.replace("_", "-")) from None
