"""`termchat config set`."""

from __future__ import annotations

import re
import sys

import click

from termchat.cli import completers
from termchat.cli.flags import config
from termchat.cli.help import Page
from termchat.cli.output import complain
from termchat.config import file as configfile
from termchat.config.options import OptionError, OptionValue
from termchat.config.settings import SETTINGS
from termchat.config.sources import KEYS
from termchat.decoding.samplers import KnobError, Value, unescape
from termchat.text import home, sanitize

_LINE = re.compile(r", line \d+")


@click.command(
    "set", cls=Page, short_help="Set NAME to VALUE in config.toml.", context_settings={"ignore_unknown_options": True}
)
@click.argument("name", shell_complete=completers.settings)
@click.argument("values", metavar="VALUE...", nargs=-1, required=True, shell_complete=completers.values)
def command(*, name: str, values: tuple[str, ...]) -> None:
    """Set NAME to VALUE in config.toml, and leave the rest of that file as it is.

    NAME is a setting of `termchat config show`, or keys.ID for a key. Only lists (stop, model_folders) take more than one
    VALUE. A mistake that only shows beside the rest, such as a key that is taken, is told; the file has it nevertheless.
    """
    before = _mistakes()
    try:
        file = configfile.put(name, _value(name, values))
    except (configfile.ConfigFileError, OptionError, KnobError) as error:
        complain(str(error))
        sys.exit(1)
    click.echo(f"{sanitize(name)} is set in {sanitize(home(file))}", err=True)
    wrong = [said for known, said in _mistakes().items() if known not in before]
    for said in wrong:
        complain(said)
    sys.exit(1 if wrong else 0)


def _mistakes() -> dict[str, str]:
    """What is wrong with all that is configured, by what it is whichever line it stands on."""
    from termchat.cli.config.checking import problems

    return {_LINE.sub("", said): said for said in problems(config({}))}


def _value(name: str, values: tuple[str, ...]) -> Value | OptionValue:
    """As the setting reads what is typed; that of a name which is none is refused later.

    Raises:
        OptionError, KnobError: the setting does not take it.
    """
    setting = SETTINGS.get(name)
    if setting is not None and setting.kind == "texts":
        return setting.check([unescape(value) if name == "stop" else value for value in values if value])
    if name.startswith(KEYS + "."):
        return ",".join(values)
    if len(values) > 1:
        raise click.UsageError(f"{name} takes one value; put quotes around one with spaces")
    return setting.parse(values[0]) if setting is not None else values[0]
