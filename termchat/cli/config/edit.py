"""`termchat config edit`."""

from __future__ import annotations

import shlex
import subprocess
import sys

import click

from termchat import paths
from termchat.cli.config.check import told
from termchat.cli.config.init import write
from termchat.cli.flags import config
from termchat.cli.help import Page
from termchat.cli.output import complain
from termchat.external_editor import EditorError, editor_command


@click.command("edit", cls=Page, short_help="Open config.toml in your editor, and check it after.")
def command() -> None:
    """Open config.toml in your editor, and look for mistakes when you are done.

    If there is no config.toml, one that explains every setting is written first. The editor is $VISUAL, else $EDITOR.
    """
    try:
        editor = editor_command()
    except EditorError as error:
        complain(error.message, error.hint)
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
