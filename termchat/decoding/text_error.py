"""A fault in a text that a person wrote, with its place."""

from __future__ import annotations


class TextError(ValueError):
    """`message` says what is wrong; `line` and `column` count characters from 1 and are 0 where the place is unknown."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"line {line}, column {column}: {message}" if line else message)
        self.message, self.line, self.column = message, line, column

    @classmethod
    def at(cls, text: str, offset: int, message: str) -> TextError:
        """The fault is at a character of `text`, counted from 0."""
        before = text[:offset]
        return cls(message, before.count("\n") + 1, offset - before.rfind("\n"))
