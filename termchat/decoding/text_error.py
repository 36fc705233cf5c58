"""A fault in a text that a person wrote, with its place."""

from __future__ import annotations


class TextError(ValueError):
    """An error in a text: `message`, and `line` and `column` in characters from 1, or 0 if unknown."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"line {line}, column {column}: {message}" if line else message)
        self.message, self.line, self.column = message, line, column

    @classmethod
    def at(cls, text: str, offset: int, message: str) -> TextError:
        """Return the fault is at a character of `text`, counted from 0."""
        before = text[:offset]
        return cls(message, before.count("\n") + 1, offset - before.rfind("\n"))
