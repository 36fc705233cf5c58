"""`termchat config edit`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping

import click

from termchat import paths
from termchat.cli.config.check import told
from termchat.cli.config.init import write
from termchat.cli.flags import config
from termchat.cli.help import Page
from termchat.cli.output import complain

_USUAL = ("sensible-editor", "nano", "vim", "vi", "notepad")


@click.command("edit", cls=Page, short_help="Open config.toml in your editor, and check it after.")
def command() -> None:
    """Open config.toml in your editor, and look for mistakes when you are done.

    If there is no config.toml, one that explains every setting is written first. The editor is $VISUAL, else $EDITOR.
    """
    editor = _editor(os.environ)
    if not editor:
        complain("there is no editor", "Set $EDITOR, as in: export EDITOR=nano")
        sys.exit(1)
    file = paths.config_file()
    if not file.exists():
        write(file)
    try:
        code = subprocess.call([*editor, str(file)])
    except OSError as error:
        complain(f"the editor {shlex.join(editor)} cannot be run: {error.strerror}", "See $VISUAL and $EDITOR.")
        sys.exit(1)
    if code:
        complain(f"the editor {shlex.join(editor)} ended with {code}")
        sys.exit(1)
    from termchat.cli.config.checking import problems

    found = problems(config({}))
    told(found)
    sys.exit(1 if found else 0)


def _editor(environ: Mapping[str, str]) -> list[str]:
    """The command that edits a file; empty if there is none."""
    named = environ.get("VISUAL", "").strip() or environ.get("EDITOR", "").strip()
    named = named or next(filter(shutil.which, _USUAL), "")
    try:
        return shlex.split(named)
    except ValueError:  # a quote that is not closed
        return [named]
