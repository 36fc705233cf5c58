"""What forms have in common: a selected setting, whose value keys type, move and erase; and the dialogs around them."""

from __future__ import annotations

from typing import Generic, TypeVar

from textual import events
from textual.actions import parse

from termchat.decoding.setting import Setting, SettingError, Value
from termchat.text import erase_last
from termchat.tui.keys.tables import actions, group_of


class Form:
    """A form without a screen. Its methods `do_NAME` are the actions of the table of its keys.

    `at` is the selected row; `typed` is the text being typed for its setting, None while there is none; `error` is why the last
    value was refused.
    """

    KEYS = ""
    """The title of the group of its keys, see `keys.tables.GROUPS`."""

    def __init__(self) -> None:
        self.at = 0
        self.typed: str | None = None
        self.error = ""

    @property
    def field(self) -> Setting:
        """The selected setting."""
        raise NotImplementedError

    def set(self, value: Value) -> None:
        """Set the value of the selected setting."""
        raise NotImplementedError

    def takes(self, text: str) -> bool:
        """Return whether a text can be typed for the selected setting; see `KeyGroup.takes`."""
        raise NotImplementedError

    def type_text(self, text: str) -> None:
        """Type a text behind what is typed already."""
        self.typed, self.error = (self.typed or "") + text, ""

    def press(self, key: str, character: str | None) -> bool:
        """Do what a key stands for; False if the form does nothing with it. `character` is what it would type."""
        group = group_of(self.KEYS)
        _, action, parameters = parse(actions(group.table).get(key, "") if group is not None else "")
        do = getattr(self, f"do_{action}", None)
        if do is not None:
            do(*parameters)
        elif character is not None and self.takes(character):
            self.type_text(character)
        else:
            return False
        return True

    def accept(self) -> bool:
        """Set what is typed; False if the setting refuses it, with the reason in `error`."""
        if self.typed is None:
            return True
        try:
            value = self.field.parse(self.typed)
        except SettingError as error:
            self.error = str(error)
            return False
        self.typed = None
        self.set(value)
        return True

    def drop(self) -> bool:
        """Drop what is being typed; False if that is nothing."""
        is_typing = self.typed is not None
        self.typed, self.error = None, ""
        return is_typing

    def do_erase(self) -> None:
        self.error = ""
        if self.typed is not None:
            self.typed = erase_last(self.typed) or None


AnyForm = TypeVar("AnyForm", bound=Form)


class FormKeys(Generic[AnyForm]):
    """A dialog whose form takes keys first."""

    form: AnyForm

    def show_form(self) -> None:
        """Show what a key has changed."""
        raise NotImplementedError

    def takes(self, text: str) -> bool:
        """See `KeyGroup.takes`."""
        return self.form.takes(text)

    def on_key(self, event: events.Key) -> None:
        if self.form.press(event.key, event.character):
            event.stop()
            event.prevent_default()
            self.show_form()
