"""What forms have in common: settings, one of them selected, whose value keys type, move and erase. No widget."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from textual.actions import parse

from termchat.decoding.setting import Setting
from termchat.text import erase_last
from termchat.tui.keys.dialogs import actions
from termchat.tui.keys.key import Key


class Form:
    """A form without a screen. Its methods `do_NAME` are the actions of the table of its keys.

    `at` is the selected field. `typed` is the text being typed for it, None while there is none; `error` is why the last value
    was refused.
    """

    KEYS: tuple[Key, ...] = ()

    def __init__(self) -> None:
        self.at = 0
        self.typed: str | None = None
        self.error = ""

    @cached_property
    def _actions(self) -> dict[str, str]:
        return actions(self.KEYS)

    @property
    def fields(self) -> Sequence[Setting]:
        raise NotImplementedError

    @property
    def field(self) -> Setting:
        return self.fields[self.at]

    def press(self, key: str, character: str | None) -> bool:
        """Do what a key stands for; False if the form does nothing with it. `character` is what it would type."""
        _, action, parameters = parse(self._actions.get(key, ""))
        do = getattr(self, f"do_{action}", None)
        if do is not None:
            do(*parameters)
        elif character is not None and self.takes(character):
            self.write(character)
        else:
            return False
        return True

    def takes(self, text: str) -> bool:
        """Return whether a text can be typed as a value of the selected field; see `KeyGroup.takes`."""
        raise NotImplementedError

    def write(self, text: str) -> None:
        """Type a text behind what is typed already."""
        self.typed, self.error = (self.typed or "") + text, ""

    def do_erase(self) -> None:
        self.error = ""
        if self.typed is not None:
            self.typed = erase_last(self.typed) or None
