"""Deeds: what "do it for me" does, one a line: keys, texts and slash commands, as a reader would use them."""

from __future__ import annotations

from typing import Literal, get_args

from termchat.text import guess_of

DeedKind = Literal["press", "keys", "type", "say", "row", "wait", "command"]
_NEEDS: dict[DeedKind, str] = {
    "press": "the id of one key, for example: press tune",
    "keys": "names of keys, for example: keys down enter",
    "type": "a text, for example: type blue",
    "say": "a message, for example: say Hello",
    "row": "the name of a row in the open list, for example: row fast_prefill",
}


class DeedError(ValueError):
    """Text that is no deed; the message says why, and how it is written."""


class Deed:
    """One deed: its `kind`, and `what` it is done with: the id of a key, keys by name, a text, or a whole command.

    Raises:
        DeedError: the line is no deed.
    """

    def __init__(self, written: str) -> None:
        text = written.strip("\n")
        if text.startswith("/") and text[1:2].strip():
            self.kind: DeedKind = "command"
            self.what = text
            return
        word, _, rest = text.strip().partition(" ")
        kind: DeedKind | None = next((kind for kind in get_args(DeedKind) if kind == word and kind != "command"), None)
        if kind is None:
            known = "press ID, keys NAMES, type TEXT, say MESSAGE, row NAME, wait, and commands such as /temperature 0"
            raise DeedError(f"unknown deed {word!r}{guess_of(word, (*_NEEDS, 'wait'))}; known deeds: {known}")
        self.kind, self.what = kind, rest if kind in ("type", "say") else " ".join(rest.split())
        if kind == "wait" and self.what:
            raise DeedError("wait stands alone")
        if kind in _NEEDS and (not self.what or (kind == "press" and " " in self.what)):
            raise DeedError(f"{kind} needs {_NEEDS[kind]}")

    @property
    def sends(self) -> bool:
        """Whether it sends the text in the composer."""
        return (self.kind, self.what) == ("press", "send")

    @property
    def steers(self) -> bool:
        """Whether it is done at once while a reply runs; others wait for its end."""
        return self.kind in ("press", "keys", "type") and not self.sends
