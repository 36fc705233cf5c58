"""Every mistake in a configuration, and the config file that documents every setting and every key.

Both are made from the tables in which settings, keys, themes, models, presets and personas are declared.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING

from termchat.config.fields import ENGINES, KEYS, SETTINGS, TABLES
from termchat.config.named_engines import FIELDS
from termchat.config.origins import DEFAULT
from termchat.text import guess_of
from termchat.toml import literal

if TYPE_CHECKING:
    from termchat.config.settings import Settings

_WIDTH = 100
_FOREWORD = """\
termchat settings. A line that starts with # and no space shows a default: remove the # and change the value.

Flags, variables (TERMCHAT_TOP_K for top_k) and what is saved for a model in the list of models override this file. A setting
that is not set anywhere takes the model's own recommendation, then the default. A preset sets the whole sampler chain; what
is under [sampling] overrides the preset that this file names. Run termchat config show to see where each value comes from,
and termchat config check to find mistakes.\
"""
_TABLES = {
    "engine": "How the engine runs the model.",
    "sampling": "Knobs that every new chat starts with. Ctrl+T changes them during a chat.",
    KEYS: 'Key bindings: one key ("ctrl+k") or several separated by commas ("ctrl+k,f8"). "" removes the key.',
    ENGINES: "Engines on other machines, each a table [engines.NAME]; --engine NAME uses one for a run, default_engine for all "
    "runs. A key is never written here: say where it is.",
}
"""The comment at the head of each table."""
_ENGINES = """\
[engines.lab]
url = "ssh://lab"
model = "qwen3-4b"

[engines.server]
url = "https://server.example:8080"
key_env = "SERVER_KEY"
"""
"""Examples: these have no defaults."""


def find_problems(config: Settings) -> list[str]:
    """Find every mistake but the terminal's own, which `termchat doctor` finds: one line each, which may hold foreign text."""
    found = (
        *config.problems,
        *_check_keys(config),
        *_check_engine(config),
        *_check_access_keys(config),
        *_check_theme(config),
        *_check_model(config),
        *_check_lists(),
    )
    return list(dict.fromkeys(found))


def _check_keys(config: Settings) -> Iterator[str]:
    from termchat.tui.keys.remap import checked

    yield from checked(config.keys, config.key_places)[1]


def _check_engine(config: Settings) -> Iterator[str]:
    if odds := config.engine.conflict:
        yield f"{config.places['kv_type']}: {odds}"


def _check_access_keys(config: Settings) -> Iterator[str]:
    from termchat.engine.access_key import read_key
    from termchat.engine.port import EngineError

    for name, engine in config.engines.items():
        try:
            read_key(engine)
        except EngineError as error:
            yield f"{config.engine_places[name]}: {error.message}: {error.hint}"


def _check_theme(config: Settings) -> Iterator[str]:
    from termchat import paths
    from termchat.tui.themes.theme_file import AUTO, load_themes

    themes, bad = load_themes([paths.shipped_folder("themes"), paths.themes_folder()])
    yield from map(str, bad)
    if config.theme not in (AUTO, *themes):
        guess = guess_of(config.theme, themes)
        yield f"{config.places['theme']}: unknown theme {config.theme!r}{guess}; using the default"


def _check_model(config: Settings) -> Iterator[str]:
    if config.origin["model"] == DEFAULT or config.address.url:
        return
    from termchat.models import catalogue
    from termchat.models.errors import ModelError

    try:
        catalogue.resolve(config.model, folders=config.model_folders)
    except ModelError as error:
        yield f"{config.places['model']}: {error.message}. {error.hint}".rstrip()


def _check_lists() -> Iterator[str]:
    from termchat.config import personas, presets
    from termchat.models import catalogue

    yield from catalogue.load().problems
    yield from presets.load().problems
    yield from personas.load().problems


def make_template() -> str:
    """Write a config.toml in which every setting is commented out with a # and no space, as in sshd_config; without these, the
    file sets the defaults."""
    return "\n".join((*_wrap_comment(_FOREWORD), "", *_write_settings(), *_write_engines(), *_write_keys(), ""))


def _write_settings() -> Iterator[str]:
    for table, names in groupby(sorted(SETTINGS, key=lambda name: TABLES[name] != ""), key=lambda name: TABLES[name]):
        if table:
            yield from (f"[{table}]", *_wrap_comment(_TABLES[table]), "")
        for name in names:
            setting = SETTINGS[name]
            allowed = "true false" if setting.kind == "bool" else setting.range
            yield from _wrap_comment(f"{setting.help} ({allowed})")
            default = "fresh" if setting.default is None else setting.default
            yield from (f"#{name} = {literal(default)}", "")


def _write_engines() -> Iterator[str]:
    yield from _wrap_comment(_TABLES[ENGINES])
    for name, field in FIELDS.items():
        yield from (f"#   {line}" for line in wrap(f"{name}: {field.help}", _WIDTH - 2, subsequent_indent="  "))
    yield from ("#", *(f"# {line}".rstrip() for line in _ENGINES.splitlines()), "")


def _write_keys() -> Iterator[str]:
    from termchat.tui.keys.tables import GROUPS

    yield from (f"[{KEYS}]", *_wrap_comment(_TABLES[KEYS]))
    for group in GROUPS:
        yield from ("", f"# {group.title}")
        for key in group.table:
            if key.action:
                yield from _wrap_comment(key.help) if key.help else ()
                yield f"#{key.id} = {literal(key.keys)}"


def _wrap_comment(text: str) -> list[str]:
    return [f"# {line}".rstrip() for paragraph in text.split("\n\n") for line in (*wrap(paragraph, _WIDTH), "")][:-1]
