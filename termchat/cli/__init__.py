"""The command line: from the words after `termchat` to one call into the screen or into `termchat.commands`.

`main` is the program. Without a command it reads the flags and starts the chat (`tui.start`); with one it imports the module of
that command, which reads its own flags, calls what does the work and prints the result. What does the work is imported when
the command runs, so that `--help`, completion and the first frame wait for none of it.

- `main`: the chat, and the table of all commands.
- `tasks`: run, replay, compare, tokens, tune and doctor, done by `termchat.commands`.
- `models`, `sessions`, `config`: groups of commands on `termchat.models`, `termchat.conversation` and `termchat.config`;
  `config_check` finds every mistake in a configuration.
- `learn`: lessons; what needs no screen is in `termchat.commands`.
- `locate`: the list of all files and folders.
- `constraint_flags`, `walk_flags`: the flags of `run` for a constraint, and for several replies at once (made from
  `decoding.plans`).
- `flags`: flags made from the tables of knobs and options, and from flags to settings.
- `help`: the classes of commands whose `--help` is a page of a manual: the docstring of the command, with its sections.
- `completers`, `shell_completion`: what a shell offers, and the scripts with which it asks.
- `output`: tables, JSON and complaints for all of them. `terminal_check`: whether the app can run.

A new command is a function in one of these modules, whose docstring is its page, and a line in the table of `main`.
"""

from __future__ import annotations

from termchat.cli.main import main

__all__ = ["main"]
