"""Whether there is a terminal that the app can run in."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import click

_UNUSABLE = ("", "dumb", "unknown")
"""Values of TERM with which a terminal cannot position the cursor; "" is TERM not set."""


def check_terminal(what: str, instead: str) -> None:
    """Refuses to open the app where it cannot run; `instead` is a command line that can.

    Raises:
        click.UsageError: stdin or stdout is no terminal, or it cannot position the cursor.
    """
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        raise click.UsageError(f"{what} needs a terminal; in a script use: {instead}")
    if sys.platform != "win32" and os.environ.get("TERM", "") in _UNUSABLE:
        raise click.UsageError(
            f"this terminal cannot position the cursor, according to TERM. Use: {instead}. "
            "If TERM is wrong, try: TERM=xterm-256color termchat"
        )


def _is_terminal(stream: TextIO | None) -> bool:
    """Python has no stream at all where the descriptor was closed."""
    return stream is not None and stream.isatty()
