"""What a shell offers after a flag or a command: names of models, saved chats, themes and settings.

A shell asks while a person types, so nothing here prints, raises, or imports more than it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import click

from termchat.text import one_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]

VARIABLE = "_TERMCHAT_COMPLETE"
"""Set by the completion scripts; click then answers with completions instead of running a command."""

_CHATS = 200
"""Saved chats offered at most, most recently used first."""
_PATHS = (".", "/", "~")
_LONGEST = 70


def completer_of(find: Callable[[], Iterable[tuple[str, str]]], *, paths: bool = False) -> Completer:
    """Make a completer of a function that returns names and descriptions; with `paths` it offers files once a path begins."""

    def complete(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        if paths and begun.startswith(_PATHS):
            return [CompletionItem(begun, type="file")]
        try:
            found = list(find())
        except Exception:  # noqa: BLE001  a traceback in the middle of a command line helps nobody
            return []
        return [
            CompletionItem(name, help=one_line(what, _LONGEST) or None)
            for name, what in found
            if name.startswith(begun) and name.isprintable()
        ]

    return complete


def _models() -> Iterable[tuple[str, str]]:
    from termchat.config import settings
    from termchat.models.listing import listing

    for row in listing(settings.load().model_folders).rows:
        if row.state != "broken":
            yield row.wanted, row.description


@partial(completer_of, paths=True)
def catalogued() -> Iterable[tuple[str, str]]:
    from termchat.models import catalogue

    return [(name, entry.description) for name, entry in catalogue.load().entries.items()]


@completer_of
def sessions() -> Iterable[tuple[str, str]]:
    from contextlib import closing

    from termchat import paths
    from termchat.conversation.store import database, search

    with closing(database.connect_to_read(paths.store_file())) as db:
        yield "last", "the latest chat"
        which = {"limit": _CHATS, "offset": 0, "deleted": False, "lessons": False}
        yield from [(one.id, one.title) for one in search.list_newest(db, which)]


@completer_of
def themes() -> Iterable[tuple[str, str]]:
    from termchat import paths
    from termchat.toml import TomlError, TomlFile

    names = {"auto": "matches the terminal's background"}
    for folder in (paths.shipped_folder("themes"), paths.themes_folder()):
        for file in sorted(folder.glob("*.toml")):
            try:
                table = TomlFile(file).table
            except TomlError:
                continue
            if isinstance(table.get("name"), str):
                names[table["name"]] = "dark" if table.get("dark") else "light"
    return names.items()


@partial(completer_of, paths=True)
def drafters() -> Iterable[tuple[str, str]]:
    """Words of the knob, and models."""
    from termchat.decoding.samplers import KNOBS

    return [*KNOBS["draft"].about.items(), *_models()]


@completer_of
def settings() -> Iterable[tuple[str, str]]:
    from termchat.config.fields import SETTINGS

    return [(name, setting.help) for name, setting in SETTINGS.items()]


@completer_of
def personas() -> Iterable[tuple[str, str]]:
    from termchat.config import personas

    return [(name, persona.description) for name, persona in personas.load().entries.items()]


@completer_of
def presets() -> Iterable[tuple[str, str]]:
    from termchat.config import presets

    return [(name, preset.description) for name, preset in presets.load().entries.items()]


@completer_of
def engines() -> Iterable[tuple[str, str]]:
    from termchat.config import settings
    from termchat.config.named_engines import ON_THIS_MACHINE

    return [(ON_THIS_MACHINE, "this machine"), *((one.name, one.url) for one in settings.load().engines.values())]


@completer_of
def rules() -> Iterable[tuple[str, str]]:
    from termchat.decoding.conditions import EXAMPLES

    return [(example, "") for example in EXAMPLES]


@completer_of
def lessons() -> Iterable[tuple[str, str]]:
    from termchat.lessons.lesson_file import read_shelf

    return [(lesson.id, lesson.title) for lesson in read_shelf().lessons]


@completer_of
def grids() -> Iterable[tuple[str, str]]:
    from termchat.decoding.plans import VARIABLE

    return [(f"{name}=", help) for name, help in VARIABLE.items()]


models = completer_of(_models, paths=True)


def words(*choices: str) -> Completer:
    return completer_of(lambda: [(word, "") for word in choices])


def folders(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(begun, type="dir")]


def of_setting(name: str) -> Completer | None:
    """Offer the values of a setting, if they can be listed."""
    from termchat.config.fields import SETTINGS

    named = {
        "model": models,
        "draft_model": models,
        "draft": drafters,
        "default_engine": engines,
        "theme": themes,
        "persona": personas,
        "preset": presets,
        "model_folders": folders,
    }
    setting = SETTINGS.get(name)
    if name in named or setting is None:
        return named.get(name)
    if setting.kind == "bool":
        return words("on", "off")
    if setting.kind == "choice":
        return words(*setting.choices)
    return words("fresh") if setting.kind == "seed" else None


def values(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offer the values of the setting named before it, as in `config set NAME VALUE`."""
    completer = of_setting(str(context.params.get("name")))
    return completer(context, parameter, begun) if completer is not None else []
