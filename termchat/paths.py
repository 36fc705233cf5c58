"""Where termchat keeps a user's files, by the platform's own rules; on Linux the XDG variables move them.

Nothing is made here: whoever writes first makes the folder.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import platformdirs

_NAME = "termchat"


def config_file() -> Path:
    """Your settings."""
    return platformdirs.user_config_path(_NAME, appauthor=False) / "config.toml"


def user_models_file() -> Path:
    """Your own model catalogue, in the same format as the bundled one."""
    return platformdirs.user_config_path(_NAME, appauthor=False) / "models.toml"


def personas_file() -> Path:
    """Your own personas, in the same format as the bundled ones."""
    return platformdirs.user_config_path(_NAME, appauthor=False) / "personas.toml"


def presets_file() -> Path:
    """Your own presets, in the same format as the bundled ones."""
    return platformdirs.user_config_path(_NAME, appauthor=False) / "presets.toml"


def models_folder() -> Path:
    """Downloaded models, each in its own folder."""
    return platformdirs.user_data_path(_NAME, appauthor=False) / "models"


def store_file() -> Path:
    """Saved chats (SQLite)."""
    return platformdirs.user_data_path(_NAME, appauthor=False) / "sessions.db"


def log_file() -> Path:
    """Log of termchat and llama.cpp."""
    return platformdirs.user_state_path(_NAME, appauthor=False) / "termchat.log"


def tuned_file() -> Path:
    """Results of `termchat tune` on this machine, and settings chosen for single models."""
    return platformdirs.user_state_path(_NAME, appauthor=False) / "tuned.json"


def opened_models_file() -> Path:
    """Models that were opened by their paths."""
    return platformdirs.user_state_path(_NAME, appauthor=False) / "opened-models.json"


def themes_folder() -> Path:
    """Your own themes."""
    return platformdirs.user_config_path(_NAME, appauthor=False) / "themes"


def lessons_folder() -> Path:
    """Your own lessons."""
    return platformdirs.user_data_path(_NAME, appauthor=False) / "lessons"


def lesson_progress_file() -> Path:
    """How far you are in each lesson."""
    return platformdirs.user_data_path(_NAME, appauthor=False) / "lessons.json"


def lesson_pictures_folder() -> Path:
    """Pictures of the screen at each step of a lesson."""
    return platformdirs.user_data_path(_NAME, appauthor=False) / "lesson-pictures"


_HERE = Path(__file__).resolve().parent
_PLACES = (_HERE / "_shipped", _HERE.parent)


class ShippedError(Exception):
    """A file that ships with termchat is missing: the installation is broken."""


def shipped_file(name: str) -> Path:
    """The shipped file of that name, such as "models.toml".

    Raises:
        ShippedError: it is in neither place.
    """
    return _find(name, Path.is_file)


def shipped_folder(name: str) -> Path:
    """The shipped folder of that name, such as "themes".

    Raises:
        ShippedError: it is in neither place.
    """
    return _find(name, Path.is_dir)


def _find(name: str, is_there: Callable[[Path], bool]) -> Path:
    for place in _PLACES:
        if is_there(place / name):
            return place / name
    looked = " and ".join(str(place) for place in _PLACES)
    raise ShippedError(f"termchat's own {name} is missing (looked in {looked}). Reinstall termchat.")
