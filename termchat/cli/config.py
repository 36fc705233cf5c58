"""`termchat config`: show, check and change the settings, and write the file that documents them.

What a command works with is imported when it runs, so that `--help` and completion wait for none of it.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from termchat import paths
from termchat.cli import completers
from termchat.cli.flags import flags, read_settings
from termchat.cli.help import PageGroup
from termchat.cli.output import complain, print_json, print_path, table
from termchat.config import file as configfile
from termchat.config.fields import ENGINES, KEYS, SETTINGS
from termchat.config.named_engines import FIELDS, check_values
from termchat.config.named_tables import EntryRefused
from termchat.decoding.samplers import Value, unescape
from termchat.decoding.setting import SettingError
from termchat.external_editor import EditorError, editor_command
from termchat.text import guess_of, home, one_line, sanitize

if TYPE_CHECKING:
    from termchat.config.settings import Settings

_TITLES = ("NAME", "VALUE", "FROM", "DEFAULT", "ALLOWED")
_KEY_TITLES = ("KEY FOR", "KEYS", "FROM")
_ENGINE_TITLES = ("ENGINE", "URL", "MODEL", "KEY FROM", "FROM")

_LONGEST = 40
"""Characters of a value in the list of all settings."""
_LINE = re.compile(r", line \d+")


@click.group("config", cls=PageGroup)
def config() -> None:
    """Show, check and change the settings.

    The first of these that sets a value wins: a flag, a variable (TERMCHAT_TOP_K for top_k), the model's settings in the model
    list, config.toml, `termchat tune`, the model's own recommendation, the default.

    Environment: settings, folders
    Files: config, themes
    Examples:
      # Edit a documented config file
      $ termchat config edit
      # See what is set, and where
      $ termchat config show
      # Change one setting
      $ termchat config set theme light
    See also: doctor, locate
    """


# --- check, edit, init, path -----------------------------------------------------------------------------------------


@config.command("check")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def check(*, as_json: bool) -> None:
    """Check your configuration for mistakes.

    Checks config.toml and its keys, the TERMCHAT_ variables, and your own themes, presets, personas and models.toml. Mistakes
    never stop termchat: an invalid setting is ignored.

    With --json: `problems`, one string each.

    Environment: settings
    Files: config
    Exit codes:
      0: no mistakes
      1: mistakes were found and listed
      2, 130
    Examples:
      # Before committing dotfiles
      $ termchat config check
    See also: doctor
    """
    from termchat.cli.config_check import find_problems

    found = find_problems(read_settings({}))
    if as_json:
        print_json({"problems": found})
    else:
        _print_problems(found)
    sys.exit(1 if found else 0)


def _print_problems(found: list[str]) -> None:
    for problem in found:
        click.echo(one_line(problem, 1 << 16))
    if not found:
        file = paths.config_file()
        shown = home(file) if file.exists() else f"{home(file)} (does not exist)"
        click.echo(
            f"no mistakes in {one_line(shown, 1 << 16)}, your TERMCHAT_ variables, themes, presets, personas or models"
        )


@config.command("edit", short_help="Edit config.toml, then check it.")
def edit() -> None:
    """Open config.toml in your editor, and check it for mistakes afterwards.

    Creates a commented config.toml first if there is none. Uses $VISUAL, then $EDITOR.

    Environment:
      VISUAL, EDITOR: the editor, with any flags
    Files: config
    Exit codes:
      0: no mistakes
      1: mistakes were found and listed
      2, 130
    Examples:
      # Use another editor
      $ EDITOR=vim termchat config edit
    See also: config check, config set
    """
    import subprocess

    try:
        editor = editor_command()
    except EditorError as error:
        complain(error.message, error.hint)
        sys.exit(1)
    file = paths.config_file()
    if not file.exists():
        _write_template(file)
    try:
        code = subprocess.call([*editor, str(file)])
    except OSError as error:
        complain(f"the editor {shlex.join(editor)} cannot be run: {error.strerror}", "Check $VISUAL and $EDITOR.")
        sys.exit(1)
    if code:
        complain(f"the editor {shlex.join(editor)} exited with code {code}")
        sys.exit(1)
    from termchat.cli.config_check import find_problems

    found = find_problems(read_settings({}))
    _print_problems(found)
    sys.exit(1 if found else 0)


@config.command("init", short_help="Write a config.toml that documents every setting.")
@click.option("--print", "only_print", is_flag=True, help="print the file instead of writing it")
@click.option("--force", is_flag=True, help="replace an existing config.toml")
def init(*, only_print: bool, force: bool) -> None:
    """Write a config.toml that documents every setting and every key.

    Everything in it is commented out, so it changes nothing until you edit it.

    Files: config
    Examples:
      # Look at the file first
      $ termchat config init --print | less
    See also: config edit
    """
    if only_print:
        from termchat.cli.config_check import make_template

        click.echo(make_template(), nl=False)
        return
    file = paths.config_file()
    if file.exists() and not force:
        complain(f"{home(file)} already exists", "--force replaces it; --print shows what would be written.")
        sys.exit(1)
    _write_template(file)
    click.echo(f"wrote {sanitize(home(file))}", err=True)


def _write_template(file: Path) -> None:
    from termchat.cli.config_check import make_template

    try:
        configfile.write(file, make_template())
    except configfile.ConfigFileError as error:
        complain(str(error))
        sys.exit(1)


@config.command("path")
def path() -> None:
    """Print the path of config.toml, whether or not it exists.

    Environment: folders
    Files: config
    Examples:
      # Open the file by hand
      $ vim "$(termchat config path)"
    See also: locate
    """
    print_path(paths.config_file())


# --- set and unset ---------------------------------------------------------------------------------------------------


@config.command(
    "set", short_help="Set NAME to VALUE in config.toml.", context_settings={"ignore_unknown_options": True}
)
@click.argument("name", shell_complete=completers.settings)
@click.argument("values", metavar="VALUE...", nargs=-1, required=True, shell_complete=completers.values)
def set_(*, name: str, values: tuple[str, ...]) -> None:
    r"""Set NAME to VALUE in config.toml and leave the rest of the file unchanged.

    NAME is a setting of `termchat config show`, keys.ID for a key, or engines.NAME.url and the like for an engine. Only lists
    (stop, model_folders) take more than one VALUE. If the new value conflicts with other settings (for example a key already
    in use), termchat warns but still writes it.

    Files: config
    Examples:
      # Set a knob
      $ termchat config set temperature 0.2
      # Set stop sequences
      $ termchat config set stop "\n\n" END
      # Change a key
      $ termchat config set keys.tune ctrl+k
    See also: config unset, config show
    """
    before = _find_mistakes()
    try:
        file = configfile.put(name, _parse_value(name, values))
    except (configfile.ConfigFileError, SettingError, EntryRefused) as error:
        complain(str(error))
        sys.exit(1)
    click.echo(f"{sanitize(name)} is set in {sanitize(home(file))}", err=True)
    new = [problem for known, problem in _find_mistakes().items() if known not in before]
    for problem in new:
        complain(problem)
    sys.exit(1 if new else 0)


def _find_mistakes() -> dict[str, str]:
    """Find every mistake in the configuration, by its text without line numbers, which a change of the file shifts."""
    from termchat.cli.config_check import find_problems

    return {_LINE.sub("", problem): problem for problem in find_problems(read_settings({}))}


def _parse_value(name: str, values: tuple[str, ...]) -> Value:
    """Parse the value of a setting. An unknown name is refused later, when it is written.

    Raises:
        SettingError, EntryRefused: the setting refuses it.
    """
    setting = SETTINGS.get(name)
    if setting is not None and setting.kind in ("texts", "biases"):
        return setting.check([unescape(value) if name == "stop" else value for value in values if value])
    if name.startswith(KEYS + "."):
        return ",".join(values)
    if len(values) > 1:
        raise click.UsageError(f"{name} takes one value; quote it if it contains spaces")
    key = name.rpartition(".")[2]
    if name.startswith(ENGINES + ".") and key in FIELDS:
        return check_values({key: FIELDS[key].parse(values[0])})[key]  # type: ignore[no-any-return]
    return setting.parse(values[0]) if setting is not None else values[0]


@config.command("unset")
@click.argument("name", shell_complete=completers.settings)
def unset(*, name: str) -> None:
    """Remove NAME from config.toml, restoring its default.

    NAME is a setting of `termchat config show`, keys.ID for a key, or engines.NAME.url and the like for an engine.

    Files: config
    Examples:
      # Return to the default
      $ termchat config unset temperature
    See also: config set
    """
    try:
        removed = configfile.remove(name)
    except configfile.ConfigFileError as error:
        complain(str(error))
        sys.exit(1)
    file = sanitize(home(paths.config_file()))
    what = "is no longer set" if removed else "is not set"
    click.echo(f"{sanitize(name)} {what} in {file}", err=True)


# --- show ------------------------------------------------------------------------------------------------------------


@config.command("show", short_help="Print all settings and where they come from.")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=completers.settings)
@flags(only=("model",), knobs=False)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def show(*, names: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Print all settings, or the named ones, with their values and where they come from.

    Tuned, per-model and recommended values are those of the model you would chat with now.

    With --json: `settings`, each with name, table (in config.toml), value, origin (flag, picker, TERMCHAT_…, config.toml,
    preset NAME, persona NAME, tuned, model, default), place (origin with its line), default, range, help; `keys`, each with id,
    keys, place; `engines`, each as in config.toml, with place; and `problems`.

    Environment: settings
    Files: config
    Examples:
      # Print all settings
      $ termchat config show
      # See where temperature is set
      $ termchat config show temperature
    See also: config set, config check
    """
    chosen = _for_its_model(read_settings(given))
    unknown = next((name for name in names if name not in SETTINGS), None)
    if unknown is not None:
        raise click.UsageError(f"unknown setting {unknown!r}{guess_of(unknown, SETTINGS)}")
    wanted = {name: SETTINGS[name] for name in names or SETTINGS}
    if as_json:
        print_json(
            {
                "settings": [
                    {
                        "name": name,
                        "table": setting.table,
                        "value": chosen.value(name),
                        "origin": chosen.origin[name],
                        "place": chosen.places[name],
                        "default": setting.default,
                        "range": setting.range,
                        "help": setting.help,
                    }
                    for name, setting in wanted.items()
                ],
                "keys": [{"id": id, "keys": keys, "place": chosen.key_places[id]} for id, keys in chosen.keys.items()],
                "engines": [
                    {**msgspec.structs.asdict(engine), "place": chosen.engine_places[name]}
                    for name, engine in chosen.engines.items()
                ],
                "problems": chosen.problems,
            }
        )
        return
    rows = []
    for name, setting in wanted.items():
        values = (setting.show(chosen.value(name)), setting.show(setting.default))
        value, default = (one_line(text, 1 << 16 if names else _LONGEST) for text in values)
        rows.append((name, value, chosen.places[name], default, setting.range))
    table(_TITLES, rows)
    if chosen.keys and not names:
        click.echo()
        table(_KEY_TITLES, [(id, keys, chosen.key_places[id]) for id, keys in chosen.keys.items()])
    if chosen.engines and not names:
        click.echo()
        rows = []
        for name, engine in chosen.engines.items():
            key = engine.key_env or engine.key_file or engine.key_keyring
            texts = one_line(engine.model, _LONGEST), one_line(key, _LONGEST)
            rows.append((engine.name, engine.url, *texts, chosen.engine_places[name]))
        table(_ENGINE_TITLES, rows)
    for problem in chosen.problems:
        complain(problem)


def _for_its_model(chosen: Settings) -> Settings:
    """Return the settings with the tuned, picked and recommended values of their model; unchanged if there is no such model."""
    from termchat.chat.opening import find_model
    from termchat.models.errors import ModelError

    try:
        return find_model(chosen)[0]
    except ModelError:
        return chosen
