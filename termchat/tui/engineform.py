"""The engine's settings for one model, as a form: what each key does to it, without a screen."""

from __future__ import annotations

from collections.abc import Callable

from textual.actions import parse

from termchat.config.per_model import RunSettings
from termchat.options import OPTIONS, Option, OptionError, OptionValue, at_odds
from termchat.settings import Config
from termchat.tui.keys.dialogs import ENGINE, actions

FIELDS = tuple(option for option in OPTIONS.values() if option.table == "engine")
"""One for each setting of the engine, in the order they are declared in."""


class EngineForm:
    """`run` is how the model would be run. `typed` is what is being typed for the chosen field, None while nothing is; `error`
    is what the field said to the last value that it refused.
    """

    def __init__(self, run: RunSettings) -> None:
        self.run = run
        self.at = 0
        self.typed: str | None = None
        self.error = ""
        self._actions = actions(ENGINE)

    @property
    def field(self) -> Option:
        """The chosen one."""
        return FIELDS[self.at]

    @property
    def config(self) -> Config:
        """What comes of all fields, and where each value is from."""
        return self.run.config

    def press(self, key: str, character: str | None) -> bool:
        """Does what a key stands for; False if it stands for nothing here. `character` is what it would write."""
        _, does, parameters = parse(self._actions.get(key, ""))
        if does in self._DOES:
            self._DOES[does](self, *parameters)
        elif character is not None and (character.isalnum() or character in "-_"):
            self.typed, self.error = (self.typed or "") + character, ""
        else:
            return False
        return True

    def choose(self, at: int) -> bool:
        """Goes to a field, once the one that is left takes what was typed; whether it did."""
        if at != self.at:
            if not self.accept():
                return False
            self.error = ""
        self.at = at
        return True

    def accept(self) -> bool:
        """Takes what was typed; False if the field refuses it, which `error` tells."""
        if self.typed is None:
            return True
        try:
            value = self.field.parse(self.typed)
        except OptionError as error:
            self.error = str(error)
            return False
        self._set(value)
        return True

    def finish(self) -> bool:
        """Takes what was typed, if the model can be run with all of it; else `error` tells why not."""
        if not self.accept():
            return False
        self.error = at_odds(self.config.engine)
        return not self.error

    def drop(self) -> bool:
        """Forgets what is being typed; False if nothing is."""
        typing = self.typed is not None
        self.typed, self.error = None, ""
        return typing

    def _move(self, steps: int) -> None:
        if self.accept():
            value: OptionValue = self.config.engine[self.field.name]
            self._set(self.field.moved(value, steps))

    def _set(self, value: OptionValue) -> None:
        """Takes a value; one that it would have anyway counts as not set."""
        self.typed, self.error = None, ""
        name, unset = self.field.name, self.run.unset(self.field.name)
        self.run = unset if value == unset.config.engine[name] else self.run.set(name, value)

    def _unset(self) -> None:
        name = self.field.name
        if self.drop():
            return
        if name in self.run.picked.settings:
            self.run = self.run.unset(name)
        else:
            self.error = f"{name} is not set for this model: its value is from {self.config.origin[name]}"

    def _erase(self) -> None:
        self.error = ""
        if self.typed is not None:
            self.typed = self.typed[:-1] or None

    _DOES: dict[str, Callable[..., None]] = {  # noqa: RUF012 - a table, never changed
        "move": _move,
        "unset": _unset,
        "erase": _erase,
    }
