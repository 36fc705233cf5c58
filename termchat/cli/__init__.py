"""The command line: each command is one module, and one call into the rooms below.

A new command is a module here and a name in `_COMMANDS`. What a command needs is imported when it runs, so that `--help`
and the first frame wait for none of it.
"""

from __future__ import annotations

from termchat.cli import completion, config, doctor, help, locate, models, replay, run, sessions, tune
from termchat.cli.chat import main

_COMMANDS = (completion, config, doctor, help, locate, models, replay, run, sessions, tune)

for _module in _COMMANDS:
    main.add_command(_module.command)

__all__ = ["main"]
