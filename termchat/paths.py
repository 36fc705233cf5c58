"""Where termchat keeps a user's files, by the platform's own rules; on Linux the XDG variables move them.

Nothing is made here: whoever writes first makes the folder.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import platformdirs

_NAME = "termchat"


def config_file() -> Path:
    """What the user set."""
    return platformdirs.user_config_path(_NAME, appauthor=False) / "config.toml"


def user_models_file() -> Path:
    """The user's own catalogue of models, in the format of the one that ships."""
    return platformdirs.user_config_path(_NAME, appauthor=False) / "models.toml"


def personas_file() -> Path:
    """The user's own personas, in the format of those that ship."""
    return platformdirs.user_config_path(_NAME, appauthor=False) / "personas.toml"


def models_folder() -> Path:
    """Where downloaded models lie, each in a folder of its own name."""
    return platformdirs.user_data_path(_NAME, appauthor=False) / "models"


def store_file() -> Path:
    """The database of chats."""
    return platformdirs.user_data_path(_NAME, appauthor=False) / "sessions.db"


def log_file() -> Path:
    """What llama.cpp and termchat have to say beside the screen."""
    return platformdirs.user_state_path(_NAME, appauthor=False) / "termchat.log"


def tuned_file() -> Path:
    """What `termchat tune` measured on this machine."""
    return platformdirs.user_state_path(_NAME, appauthor=False) / "tuned.json"


def themes_folder() -> Path:
    """The user's own themes, beside the ones that ship."""
    return platformdirs.user_config_path(_NAME, appauthor=False) / "themes"


_HERE = Path(__file__).resolve().parent
_PLACES = (_HERE / "_shipped", _HERE.parent)


class ShippedError(Exception):
    """A part of termchat itself is not there: the installation is broken."""


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
    looked = " nor ".join(str(place) for place in _PLACES)
    raise ShippedError(f"termchat's own {name} is in neither {looked}. Install termchat again.")
