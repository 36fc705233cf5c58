"""The engine settings of one model: a form without a screen, and the list of its fields."""

from __future__ import annotations

from dataclasses import replace

from termchat.chat.service import Chat
from termchat.config.fields import OPTIONS
from termchat.config.origins import DEFAULT, PICKER
from termchat.config.per_model import Picked, RunSettings
from termchat.config.settings import Settings
from termchat.decoding.setting import Setting, Value
from termchat.text import one_line
from termchat.tui.draw.dialog import KeyHints
from termchat.tui.draw.form import Form, FormKeys
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.list_dialog import ListColumn, ListDialog, fill_columns
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, column, prose
from termchat.tui.keys.tables import ENGINE, name_of
from termchat.tui.lists.gather import Facts
from termchat.tui.lists.model_lines import Item, memory_text
from termchat.tui.themes.theme_file import Palette

FIELDS = tuple(option for option in OPTIONS.values() if option.table == "engine" and option.kind != "texts")
"""The engine settings that a model can have of its own, in the order of their declaration."""
_NAME = 16


class EngineForm(Form):
    """`run` has the values so far."""

    KEYS = "MODEL SETTINGS"

    def __init__(self, run: RunSettings) -> None:
        super().__init__()
        self.run = run

    @property
    def field(self) -> Setting:
        return FIELDS[self.at]

    @property
    def config(self) -> Settings:
        return self.run.config

    def takes(self, text: str) -> bool:
        is_path = self.field.kind == "text"
        return all(one.isalnum() or one in "-_" or (is_path and one.isprintable()) for one in text)

    def choose(self, at: int) -> bool:
        """Select a field; False if the field before it refuses its typed text."""
        if at != self.at:
            if not self.accept():
                return False
            self.error = ""
        self.at = at
        return True

    def finish(self) -> bool:
        """Accept the typed text; False if the model cannot run with the values, with the reason in `error`."""
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


class EngineDialog(FormKeys[EngineForm], ListDialog[Setting, Picked]):
    """The engine settings of one model. The result are a person's settings for it, to load it with.

    Args:
        item: the model, whose file is read.
    """

    DEFAULT_CSS = """
    EngineDialog > Vertical { width: 84; height: 24; max-height: 100%; }
    EngineDialog #details { height: 3; }
    EngineDialog.-detailed.-low #details { display: block; height: 2; margin-top: 0; }
    """
    AUTO_FOCUS = ""
    KEYS = EngineForm.KEYS
    TWICE = "space"
    INDENT = ""
    BESIDE = 1 << 20
    BINDINGS = [key.binding for key in ENGINE if key.id == "engine-load"]  # noqa: RUF012

    def __init__(
        self,
        palette: Palette,
        item: Item,
        chat: Chat,
    ) -> None:
        super().__init__(palette)
        assert isinstance(item.facts, Facts)
        self._item, self._chat, self._facts = item, chat, item.facts
        self.form = EngineForm(item.facts.run)
        self.set_rows(FIELDS)

    def title_line(self) -> str:
        return f"Settings for {one_line(self._item.row.name, 48)}"

    def hints(self) -> KeyHints:
        keeps = "until the lesson ends" if self._chat.lesson else "and saves"
        return (
            ("engine-less", f"{name_of('engine-next')} or typing changes the value"), ("engine-unset", "resets"),
            ("engine-load", f"reloads the model {keeps}"), ("close", "closes"),
        )  # fmt: skip

    def columns(self, width: int) -> list[ListColumn]:
        value, origin = (12, 14) if width >= _NAME + 26 else (10, 8)
        widths: list[int] = []
        for wanted in (_NAME, value, origin, width):
            widths.append(min(wanted, width - sum(widths)))
        return [ListColumn(*column) for column in zip(("SETTING", "VALUE", "FROM", "ALLOWED"), widths, strict=True)]

    def line(self, row: Setting, width: int, *, chosen: bool) -> Line:
        """Render a setting with its value; an arrow leads to the one in effect in the loaded model, where that differs."""
        form, config = self.form, self.form.config
        value, origin = getattr(config.engine, row.name), config.origin[row.name]
        columns = self.columns(width)
        room = columns[1].width
        if chosen and form.typed is not None:
            shown: Run | list[Run] = (form.typed + "▏", Ink("error" if form.error else "accent", bold=True))
        else:
            is_changed = value != getattr(self._facts.run.config.engine, row.name)
            effective = value if is_changed else getattr(self._item.running, row.name, value)
            text = one_line(row.show(value) or "none", room)
            ink = Ink("accent", bold=True) if origin == PICKER else MUTED if origin == DEFAULT else TEXT
            arrow = "" if effective == value else f" → {row.show(effective)}"
            shown = [(text, ink), (column(arrow, room - len(text)), MUTED)]
        cells: dict[str, Run | list[Run]] = {
            "SETTING": (row.name, STRONG if chosen else TEXT),
            "VALUE": shown,
            "FROM": (origin, ACCENT if origin == PICKER else MUTED),
            "ALLOWED": (row.range, MUTED),
        }
        return Line(tuple(fill_columns(columns, cells)))

    def render_details(self, row: Setting, width: int, height: int) -> list[Line]:
        """Render the help of the setting, and the memory that the model takes."""
        help_lines = prose(f"{row.name}: {row.help} ({row.range})", width, MUTED)
        needed = memory_text(self._item._replace(facts=replace(self._facts, run=self.form.run)))
        memory = Line((("memory ", MUTED), (one_line(needed, width - 7), TEXT)))
        return [*help_lines[: max(height - 1, 1)], memory][:height]

    def moved(self) -> None:
        """Select the highlighted setting, unless the one before it refuses its typed text."""
        self.form.choose(self.picker.chosen)
        self.show_form()

    def action_close(self) -> None:
        if self.form.drop():
            self.show_form()
        else:
            super().action_close()

    def action_load(self) -> None:
        accepted = self.form.finish()
        self.show_form()
        if accepted and self._chat.busy:
            self.say("a reply is running; stop it first")
        elif accepted:
            self.dismiss(self.form.run.picked)

    def show_form(self) -> None:
        self.set_rows(FIELDS, self.form.at)
        self.say(self.form.error)
