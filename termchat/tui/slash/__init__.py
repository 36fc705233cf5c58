"""Slash commands: what is typed behind a slash in the composer, completed and done.

    composer ─ text ─▶ Slash ─▶ a message: sent, or a command ─▶ its row in `commands` ─▶ the chat, the screen and its rooms

- `slash`: `Slash` completes commands in the composer, and takes what is sent before the chat does. What is a command
  says `composer.chat_composer.split_command`; `CommandRefused` is how a command says no: its text goes back into the composer.
- `commands`: the table, imported with the first slash. A row is a name, its help, the function that does it on the screen of
  the chat, and what completes its argument. Every key with a palette entry and every knob is a row by itself.

The room lies above the screen: the app puts a `Slash` on it.
"""
