"""The command line: each command is one module, and one call into the rooms below.

A new command is a module here and a name in `chat`. It is imported when it is asked for, and what it needs when it runs, so
that `--help` and the first frame wait for none of it.
"""

from __future__ import annotations

from termchat.cli.main import main

__all__ = ["main"]
