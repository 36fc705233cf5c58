"""TUNE: turning knobs from the keyboard. What each key does, without a screen."""

from __future__ import annotations

from collections.abc import Callable

from textual.actions import parse

from termchat.chat.service import Chat
from termchat.decoding.samplers import KNOBS, KnobError, Value

_NAMES = tuple(KNOBS)
_TYPED = frozenset("0123456789.-")


class Tune:
    """The knob that is selected, what is being typed for it, and the way back.

    `typed` is None while nothing is typed; `error` is what the knob said to the last value it refused; `editing` is
    whether stop sequences are being written elsewhere.
    """

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._undo: list[tuple[str, Value]] = []
        self.selected = "temperature"
        self.typed: str | None = None
        self.error = ""
        self.editing = False
        self._actions: dict[str, str] = {}
        self._before_slide = 0

    def press(self, key: str, character: str | None) -> bool:
        """Does what a key stands for; False if it stands for nothing here. `character` is what it would write."""
        from termchat.tui.keys.dialogs import TUNE, actions  # not needed before the first frame

        self.error = ""
        self._actions = self._actions or actions(TUNE)
        if key in self._actions:
            _, does, parameters = parse(self._actions[key])
            self._DOES[does](self, *parameters)
        elif character is not None and character in _TYPED:
            self._type(character)
        else:
            return False
        return True

    def select(self, name: str) -> None:
        """Goes to a knob; a value being typed for another is dropped."""
        self.selected, self.typed, self.error = name, None, ""

    def turn(self, name: str, steps: int, *, coarse: bool = False) -> None:
        self.select(name)
        self._move(steps, coarse)

    def slide(self, name: str, fraction: float, *, begins: bool) -> None:
        """Goes to a knob and sets it to what stands at a fraction of its bar, 0 to 1. What follows one that `begins` is taken
        back with it."""
        self.select(name)
        if begins:
            self._before_slide = len(self._undo)
        self._set(name, KNOBS[name].at(fraction))
        del self._undo[self._before_slide + 1 :]

    def back(self) -> bool:
        """Drops what is being typed or an error; False if there was neither."""
        open_ = self.typed is not None or bool(self.error)
        self.typed, self.error = None, ""
        return open_

    def toggle_stop(self, text: str) -> None:
        r"""Adds a stop sequence as typed, with `\n` and the like; one that is there goes."""
        self.error = ""
        try:
            sequences = KNOBS["stop"].parse(text)
            assert isinstance(sequences, tuple)
            kept = tuple(stop for stop in self._chat.tuning.stop if stop not in sequences)
            added = tuple(stop for stop in sequences if stop not in self._chat.tuning.stop)
        except KnobError as error:
            self.error = str(error)
        else:
            self._set("stop", kept + added)

    def drop_stop(self) -> None:
        """Removes the last stop sequence, if there is one."""
        self.error = ""
        self._set("stop", self._chat.tuning.stop[:-1])

    @property
    def _value(self) -> Value:
        value: Value = getattr(self._chat.tuning, self.selected)
        return value

    def _move(self, steps: int, coarse: bool = False) -> None:
        self.typed, value = None, self._value
        if not isinstance(value, (int, float)):
            self.error = f"{self.selected} cannot be stepped; " + (
                "Enter edits it" if self._is_text() else "type a number"
            )
            return
        self._set(self.selected, KNOBS[self.selected].moved(value, steps, coarse=coarse))

    def _is_text(self) -> bool:
        return KNOBS[self.selected].kind == "texts"

    def _type(self, character: str) -> None:
        if self._is_text():
            self.error = f"Enter edits {self.selected}"
        else:
            self.typed = (self.typed or "") + character

    def _erase(self) -> None:
        if self.typed is not None:
            self.typed = self.typed[:-1] or None

    def _accept(self) -> None:
        if self.typed is None:
            return
        try:
            value = KNOBS[self.selected].parse(self.typed)
        except KnobError as error:
            self.error = str(error)
        else:
            self.typed = None
            self._set(self.selected, value)

    def _off(self) -> None:
        knob = KNOBS[self.selected]
        if knob.off is None and knob.kind != "seed":
            self.error = f"{self.selected} has no off value"
        else:
            self._set(self.selected, knob.off)

    def _default(self) -> None:
        self._set(self.selected, KNOBS[self.selected].default)

    def _take_back(self) -> None:
        if not self._undo:
            self.error = "nothing to undo"
            return
        self.selected, value = self._undo.pop()
        self.typed = None
        self._chat.adjust(self.selected, value)

    def _step(self, by: int) -> None:
        self.select(_NAMES[(_NAMES.index(self.selected) + by) % len(_NAMES)])

    def _set(self, name: str, value: Value) -> None:
        self.typed = None
        before: Value = getattr(self._chat.tuning, name)
        try:
            self._chat.adjust(name, value)
        except KnobError as error:
            self.error = str(error)
            return
        if value != before:
            self._undo.append((name, before))

    _DOES: dict[str, Callable[..., None]] = {  # noqa: RUF012 - a table, never changed
        "move": _move,
        "step": _step,
        "accept": _accept,
        "erase": _erase,
        "off": _off,
        "default": _default,
        "take_back": _take_back,
        "select": select,
    }
