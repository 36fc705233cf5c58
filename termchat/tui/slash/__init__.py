"""Slash commands.

The composer gives what is typed behind a slash to `slash.Slash`, which completes it and does it. `parsing` says what is a
command and what a message. `commands` is the table, imported with the first slash: a row is a name, its help, the function
that does it with the screen's `Features`, and what completes its argument. Every key with a palette entry and every knob is
a row by itself.
"""
