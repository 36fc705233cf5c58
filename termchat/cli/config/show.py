"""`termchat config show`."""

from __future__ import annotations

from typing import Any

import click

from termchat.cli import completers
from termchat.cli.flags import config, flags
from termchat.cli.help import Page
from termchat.cli.output import complain, print_json, table
from termchat.settings import SETTINGS, TABLES, Config, range_of
from termchat.text import guess_of

_TITLES = ("NAME", "VALUE", "FROM", "DEFAULT", "TAKES")


@click.command("show", cls=Page, short_help="Print every setting, and where it comes from.")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=completers.settings)
@flags(only=("model",), knobs=False)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def command(*, names: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Print every setting, or those that are named: its value, and where that comes from.

    Of what was tuned, set or is recommended for a model, that of the model one would chat with counts.

    With --json: `settings`, each with name, table (in config.toml), value, origin (flag, picker, TERMCHAT_…, config.toml,
    tuned, model, default), place (origin with its line), default, range, help; `keys`, each with id, keys, place; and
    `problems`.
    """
    chosen = _for_its_model(config(given))
    unknown = next((name for name in names if name not in SETTINGS), None)
    if unknown is not None:
        raise click.UsageError(f"there is no setting {unknown!r}{guess_of(unknown, SETTINGS)}")
    wanted = names or tuple(SETTINGS)
    if as_json:
        print_json(
            {
                "settings": [_object(chosen, name) for name in wanted],
                "keys": [{"id": id, "keys": keys, "place": chosen.key_places[id]} for id, keys in chosen.keys.items()],
                "problems": chosen.problems,
            }
        )
        return
    table(_TITLES, [_row(chosen, name) for name in wanted])
    if chosen.keys and not names:
        click.echo()
        table(("KEY OF", "KEYS", "FROM"), [(id, keys, chosen.key_places[id]) for id, keys in chosen.keys.items()])
    for problem in chosen.problems:
        complain(problem)


def _for_its_model(chosen: Config) -> Config:
    """With what counts for the model that is configured; without it where there is none."""
    from termchat.chat.opening import find_model
    from termchat.models.errors import ModelError

    try:
        return find_model(chosen)[0]
    except ModelError:
        return chosen


def _row(chosen: Config, name: str) -> tuple[str, ...]:
    setting: Any = SETTINGS[name]
    return (
        name,
        setting.show(chosen.value(name)),
        _place(chosen, name),
        setting.show(setting.default),
        range_of(setting),
    )


def _object(chosen: Config, name: str) -> dict[str, Any]:
    setting = SETTINGS[name]
    return {
        "name": name,
        "table": TABLES[name],
        "value": chosen.value(name),
        "origin": chosen.origin[name],
        "place": _place(chosen, name),
        "default": setting.default,
        "range": range_of(setting),
        "help": setting.help,
    }


def _place(chosen: Config, name: str) -> str:
    """Where the value comes from, with its line where that is a file."""
    origin = chosen.origin[name]
    place = chosen.places.get(name, origin)
    return place if place.startswith(origin) else origin
