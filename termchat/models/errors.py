"""What goes wrong before a model is loaded."""

from __future__ import annotations


class ModelError(Exception):
    """A model cannot be used: `message` says what is wrong and where, `hint` what to do.

    Both may hold foreign text (file names, metadata): sanitise them before they are shown.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class NotHere(ModelError):
    """A model of the catalogue whose file is not on this machine yet; `hint` says how to get it."""
