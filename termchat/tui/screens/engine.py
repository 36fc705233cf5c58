"""How one model is run: the engine's settings, changed before it is loaded with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Label

from termchat.chat.service import Chat
from termchat.config.per_model import Picked, RunSettings
from termchat.options import OptionValue
from termchat.text import one_line
from termchat.tui.draw.ink import Line
from termchat.tui.draw.lines_view import Sheet
from termchat.tui.engineform import FIELDS, EngineForm
from termchat.tui.keys.dialogs import ENGINE, hint
from termchat.tui.screens.listing import ARROWS, Listing
from termchat.tui.themes.theme_file import Palette
from termchat.tui.views.engine import engine_details, engine_heading, engine_lines

_LOW = 20
"""Rows below which help takes one line."""


class EngineDialog(Listing[Picked]):
    """The settings of one model. The result is what a person set for it, with which it is to be loaded.

    Args:
        running: the values that the model really has, if it is loaded.
        memory: says what the model takes if it is run in some way.
    """

    DEFAULT_CSS = """
    EngineDialog > Vertical { width: 84; height: 24; max-height: 100%; }
    EngineDialog Picker { margin-top: 0; }
    EngineDialog #heading { margin-top: 1; }
    EngineDialog #details { height: 3; margin-top: 1; }
    EngineDialog.-low #heading, EngineDialog.-low #details { margin-top: 0; }
    EngineDialog.-low #details { height: 2; }
    """
    AUTO_FOCUS = ""
    HINTS = (
        ("engine-less", "or typing changes"), ("engine-unset", "takes back"),
        ("engine-load", "loads the model so and keeps it"), ("close", "closes"),
    )  # fmt: skip
    KEYS = "HOW A MODEL IS RUN"
    TWICE = "space"
    BINDINGS = [*ARROWS, *(key.binding for key in ENGINE if key.id == "engine-load")]  # noqa: RUF012

    def __init__(
        self,
        palette: Palette,
        name: str,
        run: RunSettings,
        chat: Chat,
        running: Mapping[str, OptionValue],
        memory: Callable[[RunSettings], str],
    ) -> None:
        super().__init__(palette)
        self._model, self._chat, self._memory = name, chat, memory
        self._before, self._really = run.config.engine, running
        self._form = EngineForm(run)
        self.picker.count = len(FIELDS)
        self._heading = Sheet(lambda: [engine_heading(self._heading.room)], id="heading")
        self._details = Sheet(self._detailed, id="details")

    def compose(self) -> ComposeResult:
        """Title, settings, what the chosen one is, problem, hint."""
        with Vertical():
            yield Label(f"How {one_line(self._model, 48)} is run", classes="title", markup=False)
            yield self._heading
            yield self.picker
            yield self._details
            yield Label("", classes="problem", markup=False)
            yield Label(hint(*self.HINTS), classes="hint", markup=False)

    def on_mount(self) -> None:
        """Colours."""
        super().on_mount()
        self._heading.paint_with(self._palette)
        self._details.paint_with(self._palette)

    def on_resize(self) -> None:
        """Arranges everything for the size."""
        self.set_class(self.app.size.height < _LOW, "-low")

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        """The settings in view."""
        now = self._form.config.engine
        running = {name: value for name, value in self._really.items() if now[name] == self._before[name]}
        return engine_lines(self._form, rows, width, running)

    def on_key(self, event: events.Key) -> None:
        """Changes the chosen setting."""
        if self._form.press(event.key, event.character):
            event.stop()
            event.prevent_default()
            self._show()

    def action_move(self, how: str) -> None:
        """Goes to another setting."""
        before = self.picker.chosen
        super().action_move(how)
        if not self._form.choose(self.picker.chosen):
            self.picker.show(len(FIELDS), before)
        self._show()

    def action_close(self) -> None:
        """Drops what is being typed, then closes."""
        if self._form.drop():
            self._show()
        else:
            super().action_close()

    def action_load(self) -> None:
        """Has the model loaded with what is set."""
        taken = self._form.finish()
        self._show()
        if taken and self._chat.busy:
            self.say("a reply is running: stop it first")
        elif taken and self.is_current:  # no second Enter in the same burst
            self.dismiss(self._form.run.picked)

    def _show(self) -> None:
        self.picker.show(len(FIELDS), self._form.at)
        self._details.show()
        self.say(self._form.error)

    def _detailed(self) -> list[Line]:
        view = self._details
        return engine_details(self._form, self._memory(self._form.run), view.room, view.size.height)
