"""What comes with termchat and is not code: the themes and the catalogue of models.

In a wheel they lie beside the code, in `termchat/_shipped/`; in a checkout (editable or not) they lie at its root. The
wheel's place is looked at first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_PLACES = (_HERE / "_shipped", _HERE.parent)


class ShippedError(Exception):
    """A part of termchat itself is not there: the installation is broken."""


def file(name: str) -> Path:
    """The shipped file of that name, such as "models.toml".

    Raises:
        ShippedError: it is in neither place.
    """
    return _find(name, Path.is_file)


def folder(name: str) -> Path:
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
