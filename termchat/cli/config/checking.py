"""All that can be wrong with what is configured, from the config file to the themes."""

from __future__ import annotations

from collections.abc import Iterator

from termchat.config.origins import DEFAULT
from termchat.config.settings import Settings
from termchat.text import guess_of


def problems(config: Settings) -> list[str]:
    """One line each; they may hold foreign text. The terminal's own side of it is what `termchat doctor` looks at."""
    found = (*config.problems, *_keys(config), *_engine(config), *_theme(config), *_model(config), *_lists())
    return list(dict.fromkeys(found))


def _keys(config: Settings) -> Iterator[str]:
    from termchat.tui.keys.remap import checked

    yield from checked(config.keys, config.key_places)[1]


def _engine(config: Settings) -> Iterator[str]:
    if odds := config.engine.at_odds:
        yield f"{_place(config, 'kv_type')}: {odds}"


def _theme(config: Settings) -> Iterator[str]:
    from termchat import paths
    from termchat.tui.themes.theme_file import AUTO, load_themes

    themes, bad = load_themes([paths.shipped_folder("themes"), paths.themes_folder()])
    yield from map(str, bad)
    if config.theme not in (AUTO, *themes):
        guess = guess_of(config.theme, themes)
        yield f"{_place(config, 'theme')}: there is no theme {config.theme!r}{guess}; the default is taken"


def _model(config: Settings) -> Iterator[str]:
    if config.origin["model"] == DEFAULT:
        return
    from termchat.models import catalogue
    from termchat.models.errors import ModelError

    try:
        catalogue.resolve(config.model, folders=config.model_folders)
    except ModelError as error:
        yield f"{_place(config, 'model')}: {error.message}. {error.hint}".rstrip()


def _lists() -> Iterator[str]:
    """What is wrong in the user's own lists of models and of personas."""
    from termchat.config import personas
    from termchat.models import catalogue

    yield from catalogue.load().problems
    yield from personas.load().problems


def _place(config: Settings, name: str) -> str:
    return config.places.get(name, config.origin[name])
