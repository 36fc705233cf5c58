"""The flags that commands share, made from the tables of options and knobs, and the settings that result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import click

from termchat.cli import completers
from termchat.cli.help import Grouped
from termchat.config.fields import OPTIONS, SETTINGS
from termchat.decoding.samplers import KNOBS
from termchat.decoding.setting import Setting

if TYPE_CHECKING:
    from termchat.config.settings import Settings

_METAVARS = {
    "float": "X",
    "int": "N",
    "seed": "N",
    "choice": "WORD",
    "text": "TEXT",
    "texts": "FOLDERS",
    "biases": "ID_OR_TEXT=X|ban",
    "order": "LIST",
    "switch": "ON|OFF",
}

FOLDERS = ("model_folders",)
"""The option with extra folders to search, for commands that look for models."""


def flags(
    *, without: Collection[str] = (), only: Collection[str] | None = None, knobs: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a flag for every option and knob to a function or a finished command.

    Values are checked by `settings`, so that a refusal has the same words everywhere.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        wanted = [OPTIONS[name] for name in OPTIONS if (only is None or name in only) and name not in without]
        every = [*wanted, *(KNOBS.values() if knobs else ())]
        for setting in every if isinstance(command, click.Command) else reversed(every):
            command = _make_option(setting)(command)
        return command

    return add


def _make_option(setting: Setting) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the flag of a setting; its help ends with the allowed values and the default."""
    name, names = setting.name, (*flag_names(setting), setting.name)
    shown = f"{setting.help}  [{'; '.join(_describe_limits(setting))}]"
    how: dict[str, Any] = {"cls": Grouped, "group": _group_of(setting), "shell_complete": completers.of_setting(name)}
    if setting.kind in ("texts", "biases") and not setting.separator:
        metavar = "TEXT" if setting.kind == "texts" else _METAVARS[setting.kind]
        return click.option(*names, multiple=True, metavar=metavar, help=f"{shown} (may be repeated)", **how)
    if setting.kind == "bool":
        return click.option(f"{names[0]}/--no-{names[0][2:]}", name, default=None, help=shown, **how)
    return click.option(*names, metavar=setting.metavar or _METAVARS[setting.kind], help=shown, **how)


def flag_names(setting: Setting) -> list[str]:
    """Return the flag of a setting, then its other names: those of llama.cpp, and of a knob its slash command."""
    own = (setting.name,) if setting.table == "sampling" else ()
    names = dict.fromkeys((setting.flag or setting.name, *setting.also, *own))
    return [f"{'-' if len(name) == 1 else '--'}{name.replace('_', '-')}" for name in names]


def flag_of(name: str) -> str:
    """Return the flag of a setting, which may have another name."""
    return "--" + ((SETTINGS[name].flag if name in SETTINGS else "") or name).replace("_", "-")


def _describe_limits(setting: Setting) -> Iterator[str]:
    if setting.kind not in ("text", "texts", "biases", "bool", "order", "switch"):
        yield setting.range
    yield f"default {setting.show(setting.default) or 'none'}"


def _group_of(setting: Setting) -> str:
    if setting.table == "sampling":
        return "Sampling" if setting.stage else "Reply"
    return "Engine" if setting.table == "engine" else "Chat"


def read_settings(given: dict[str, Any]) -> Settings:
    """Read the settings; the flags given override everything else.

    Raises:
        click.BadParameter: the value of a flag is invalid.
    """
    from termchat.config.settings import load
    from termchat.config.sources import FlagError

    given = {name: value for name, value in given.items() if value not in (None, ())}
    try:
        return load(given)
    except FlagError as error:
        raise click.BadParameter(str(error), param_hint=flag_of(error.name)) from None
