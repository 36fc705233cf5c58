"""The editor that a person wants: for `config edit` and for the message."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping

_USUAL = ("sensible-editor", "nano", "vim", "vi", "notepad")
"""In this order, where no variable names one."""


class EditorError(Exception):
    """No editor can be run; the message says why, `hint` what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def editor_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The command in $VISUAL or else $EDITOR, split as a shell would; without both, an editor that is usual.

    Raises:
        EditorError: no editor is named or found, or a quote in the variable is not closed.
    """
    for variable in ("VISUAL", "EDITOR"):
        if command := environ.get(variable, "").strip():
            try:
                return shlex.split(command)
            except ValueError as error:
                raise EditorError(f"${variable} cannot be read: {error}", f"correct it: {command}") from error
    if found := next(filter(shutil.which, _USUAL), ""):
        return [found]
    raise EditorError("no editor found", "set $EDITOR, as in: export EDITOR=nano")
