"""What is a command and what a message."""

from __future__ import annotations


class CommandRefused(ValueError):
    """A command cannot be done; its text stays in the composer. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def parted(text: str) -> tuple[str, str] | None:
    """The name and the argument of a command, None where the text is a message.

    A first word with a second slash in it is a path, and with nothing behind its slash it is no name: both are messages.
    """
    word, _, rest = text[1:].partition("\n" if "\n" in text.split(" ", 1)[0] else " ")
    if not text.startswith("/") or "/" in word or (not word and rest.strip()):
        return None
    return word.strip(), rest.strip()


def message_of(text: str) -> str:
    """The message in a text that is not a command: a second slash at its start says that the first is part of it."""
    return text[1:] if text.startswith("//") and parted(text[1:]) is not None else text
