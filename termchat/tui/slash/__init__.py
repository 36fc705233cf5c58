"""Slash commands: what is typed behind a slash in the composer, completed and done.

    composer ─ text ─▶ Slash ─ parsing ─▶ a message: sent, or a command ─▶ its row in `commands` ─ Features ─▶ chat, dialogs

- `slash`: `Slash` is a source of completions for the composer, and takes what is sent before the chat does.
- `parsing`: what is a command and what a message; the sending of queued messages asks it too. `CommandRefused` is how a command
  says no: its text goes back into the composer.
- `commands`: the table, imported with the first slash. A row is a name, its help, the function that does it with the screen's
  `Features`, and what completes its argument. Every key with a palette entry and every knob is a row by itself.
"""
