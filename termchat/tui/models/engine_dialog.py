"""The engine settings of one model: a form without a screen, its lines, and the dialog around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Label

from termchat.chat.service import Chat
from termchat.config.fields import OPTIONS
from termchat.config.origins import DEFAULT, PICKER
from termchat.config.per_model import Picked, RunSettings
from termchat.config.settings import Settings
from termchat.decoding.setting import Setting, Value
from termchat.text import one_line
from termchat.tui.dialogs.list_dialog import ListDialog
from termchat.tui.draw.form import Form, FormKeys
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.lines_view import Sheet
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, prose
from termchat.tui.keys.dialogs import ENGINE, hint, name_of
from termchat.tui.themes.theme_file import Palette

FIELDS = tuple(option for option in OPTIONS.values() if option.table == "engine" and option.kind != "texts")
"""The engine settings that a model can have of its own, in the order of their declaration."""


_NAME = 16


def _columns(width: int) -> tuple[int, int, int, int]:
    """Return the widths of name, value, origin and range in cells; 0 where there is no room."""
    value, origin = (12, 14) if width >= _NAME + 26 else (10, 8)
    name = min(_NAME, width)
    value = min(value, width - name)
    origin = min(origin, width - name - value)
    return name, value, origin, width - name - value - origin


def engine_heading(width: int) -> Line:
    titles = zip(("SETTING", "VALUE", "FROM", "ALLOWED"), _columns(width), strict=True)
    return Line((("".join(column(title, room) for title, room in titles), TITLE),), "surface")


class EngineForm(Form):
    """`run` has the values so far."""

    KEYS = "MODEL SETTINGS"

    def __init__(self, run: RunSettings) -> None:
        super().__init__()
        self.run = run

    @property
    def fields(self) -> tuple[Setting, ...]:
        return FIELDS

    @property
    def config(self) -> Settings:
        return self.run.config

    def takes(self, text: str) -> bool:
        is_path = self.field.kind == "text"
        return all(one.isalnum() or one in "-_" or (is_path and one.isprintable()) for one in text)

    def choose(self, at: int) -> bool:
        """Select a field; False if the field before it refuses what was typed there."""
        if at != self.at:
            if not self.accept():
                return False
            self.error = ""
        self.at = at
        return True

    def finish(self) -> bool:
        """Accept what is typed; False if the model cannot run with the values, with the reason in `error`."""
        if not self.accept():
            return False
        self.error = self.config.engine.conflict
        return not self.error

    def set(self, value: Value) -> None:
        """Set the value of the field; the one that it would have anyway counts as not set."""
        self.error = ""
        name, unset = self.field.name, self.run.unset(self.field.name)
        self.run = unset if value == getattr(unset.config.engine, name) else self.run.set(name, value)

    def do_move(self, steps: int) -> None:
        if self.accept():
            self.set(self.field.moved(getattr(self.config.engine, self.field.name), steps, around=True))

    def do_unset(self) -> None:
        name = self.field.name
        if self.drop():
            return
        if name in self.run.picked.settings:
            self.run = self.run.unset(name)
        else:
            self.error = f"{name} is not set for this model; its value comes from {self.config.origin[name]}"

    def lines(self, rows: range, width: int, running: Mapping[str, Value]) -> list[Line]:
        """Draw some rows; `running` are the values in effect in the loaded model, where it has these settings."""
        return [self._line(FIELDS[at], width, running, chosen=at == self.at) for at in rows]

    def details(self, memory: str, width: int, height: int) -> list[Line]:
        """Draw the help of the selected field, and the memory that the model takes."""
        field = self.field
        help_lines = prose(f"{field.name}: {field.help} ({field.range})", width, MUTED)
        last = Line((("memory ", MUTED), (one_line(memory, width - 7), TEXT)))
        return [*help_lines[: max(height - 1, 1)], last][:height]

    def _line(self, field: Setting, width: int, running: Mapping[str, Value], *, chosen: bool) -> Line:
        value, origin = getattr(self.config.engine, field.name), self.config.origin[field.name]
        picked = origin == PICKER
        name_room, value_room, origin_room, range_room = _columns(width)
        runs: list[Run] = [(column(field.name, name_room), STRONG if chosen else TEXT)]
        if chosen and self.typed is not None:
            runs.append((column(self.typed + "▏", value_room), Ink("error" if self.error else "accent", bold=True)))
        else:
            shown, effective = one_line(field.show(value) or "none", value_room), running.get(field.name, value)
            ink = Ink("accent", bold=True) if picked else MUTED if origin == DEFAULT else TEXT
            arrow = "" if effective == value else f" → {field.show(effective)}"
            runs += [(shown, ink), (column(arrow, value_room - len(shown)), MUTED)]
        runs.append((column(origin, origin_room), ACCENT if picked else MUTED))
        runs.append((column(field.range, range_room), MUTED))
        return Line(tuple(runs), "panel" if chosen else "")


_LOW = 20
"""Rows below which the help has one line."""


class EngineDialog(FormKeys[EngineForm], ListDialog[object, Picked]):
    """The engine settings of one model. The result is what a person set for it, to load it with.

    Args:
        running: the values in effect, if the model is loaded.
        memory: tells the memory that the model takes with some settings.
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
    KEYS = EngineForm.KEYS
    TWICE = "space"
    BINDINGS = [key.binding for key in ENGINE if key.id == "engine-load"]  # noqa: RUF012

    def __init__(
        self,
        palette: Palette,
        name: str,
        run: RunSettings,
        chat: Chat,
        running: Mapping[str, Value],
        memory: Callable[[RunSettings], str],
    ) -> None:
        super().__init__(palette)
        self._model, self._chat, self._memory = name, chat, memory
        self._before, self._really = run.config.engine, running
        self.form = EngineForm(run)
        self.picker.count = len(FIELDS)
        self._heading = Sheet(lambda: [engine_heading(self._heading.room)], id="heading")
        self._details = Sheet(self._detailed, id="details")

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(f"Settings for {one_line(self._model, 48)}", classes="title", markup=False)
            yield self._heading
            yield self.picker
            yield self._details
            yield Label("", classes="problem", markup=False)
            yield Label(self._hint(), classes="hint", markup=False)

    def _hint(self) -> Content:
        keeps = "until the lesson ends" if self._chat.lesson else "and saves"
        return hint(
            ("engine-less", f"{name_of('engine-next')} or typing changes the value"), ("engine-unset", "resets"),
            ("engine-load", f"reloads the model {keeps}"), ("close", "closes"),
        )  # fmt: skip

    def on_mount(self) -> None:
        super().on_mount()
        self._heading.paint_with(self._palette)
        self._details.paint_with(self._palette)

    def on_resize(self) -> None:
        self.set_class(self.app.size.height < _LOW, "-low")

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        now = self.form.config.engine
        running = {
            name: value for name, value in self._really.items() if getattr(now, name) == getattr(self._before, name)
        }
        return self.form.lines(rows, width, running)

    def action_move(self, how: str) -> None:
        before = self.picker.chosen
        super().action_move(how)
        if not self.form.choose(self.picker.chosen):
            self.picker.show(len(FIELDS), before)
        self.show_form()

    def action_close(self) -> None:
        if self.form.drop():
            self.show_form()
        else:
            super().action_close()

    def action_load(self) -> None:
        taken = self.form.finish()
        self.show_form()
        if taken and self._chat.busy:
            self.say("a reply is running; stop it first")
        elif taken and self.is_current:  # a second Enter in the same burst does nothing
            self.dismiss(self.form.run.picked)

    def show_form(self) -> None:
        self.picker.show(len(FIELDS), self.form.at)
        self._details.show()
        self.say(self.form.error)

    def _detailed(self) -> list[Line]:
        view = self._details
        return self.form.details(self._memory(self.form.run), view.room, view.size.height)
