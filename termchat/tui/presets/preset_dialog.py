"""The list of presets with what the highlighted one would change; choosing one applies it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from termchat.config import presets
from termchat.config.presets import Preset, PresetError
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.text import cells, home, one_line
from termchat.tui.dialogs.base import ARROWS, DetailedListing
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, prose
from termchat.tui.keys import dialogs
from termchat.tui.presets.applying import differences, keep
from termchat.tui.screen.parts import Parts

_CHOOSE = (("list-up", "selects"), ("preset-apply", "applies"), ("preset-save", "saves the knobs as they are"))
_OWN = (("preset-rename", "renames"), ("preset-remove", "removes"))
_CLOSE = ("close", "closes")
_NAME = (("preset-apply", "saves"), ("close", "cancels"))
_AGAIN = {
    "save": (("preset-apply", "again replaces it"), ("close", "cancels")),
    "remove": (("preset-remove", "again removes it"), ("close", "cancels")),
}
_MARKS = 5
"""Cells of a row that are neither name nor description."""
_TELLING = 20
"""Cells from which a knob's help is worth beginning."""


def preset_rows(presets: Sequence[Preset], now: Tuning, rows: range, chosen: int, width: int) -> list[Line]:
    """A name each, with the descriptions where all fit: the details have them too. A dot marks one whose chain the chat has."""
    longest = max((cells(preset.name) for preset in presets), default=0)
    about = [preset.description or ("your own" if preset.own else "") for preset in presets]
    told = max(map(cells, about), default=0) <= width - longest - _MARKS
    lines = []
    for at in rows:
        preset, here = presets[at], at == chosen
        mark, dot = "▌" if here else " ", " " if differences(preset, now) else "●"
        name = (f"{column(preset.name, longest)}  ", STRONG if here else TEXT)
        said = (about[at] if told else "", TEXT if here else MUTED)
        lines.append(Line(((mark, ACCENT), (f"{dot} ", ACCENT), name, said), "panel" if here else ""))
    return lines


def preset_lines(preset: Preset, now: Tuning, width: int, rows: int) -> list[Line]:
    """The description, then each knob that would change, from what to what; on few lines they follow each other."""
    about = [*prose(preset.description, width, MUTED), BLANK] if preset.description else []
    changed = {name: value for name, value in preset.knobs.items() if getattr(now, name) != value}
    shown = {
        name: f"{KNOBS[name].show(getattr(now, name))} → {KNOBS[name].show(value)}" for name, value in changed.items()
    }
    first, second = (max(map(cells, texts), default=0) for texts in (shown.keys(), shown.values()))
    room = width - first - second - 4
    lines = [
        Line((
            (f"{column(name, first)}  ", MUTED),
            (column(one_line(text, width - first - 2), second), TEXT),
            (f"  {one_line(KNOBS[name].help, room)}" if room > _TELLING else "", MUTED),
        ))
        for name, text in shown.items()
    ]  # fmt: skip
    if len(about) + len(lines) + 1 > rows:
        lines = prose(", ".join(differences(preset, now)), width)
    if len(about) + len(lines) + 1 > rows:
        about = []
    lines = lines or [Line((("nothing: the chain is set like this", MUTED),))]
    return [*about, Line((("CHANGES", TITLE),)), *lines][:rows]


class PresetsDialog(DetailedListing[Preset]):
    """All presets. The result is the one to apply.

    `asking` is what the field's name is for, or what is done if the same key is pressed again.
    """

    DEFAULT_CSS = """
    PresetsDialog #body { margin-top: 1; }
    PresetsDialog #details { height: 9; }
    PresetsDialog.-beside #details { width: 55%; height: 1fr; margin: 0 0 0 2; }
    PresetsDialog > Vertical { max-height: 30; }
    """
    BINDINGS = [*ARROWS, *(key.binding for key in dialogs.PRESETS)]  # noqa: RUF012
    TITLE = "Presets"
    KEYS = "PRESETS"
    AUTO_FOCUS = ""  # the field has the keyboard only while a name is typed
    BESIDE = 104

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts.palette())
        self._parts = parts
        self._field = Field(id="name", classes="-off", placeholder="name of the preset", select_on_focus=False)
        self._asking: Literal["", "save", "rename"] = ""
        self._again = ""
        self._read()
        self.picker.chosen = next((at for at, preset in enumerate(self._all) if not differences(preset, self._now)), 0)

    def inputs(self) -> Iterable[Widget]:
        yield self._field

    def listed(self) -> Iterable[Widget]:
        return (self.picker,)

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        return preset_rows(self._all, self._now, rows, chosen, width)

    def detailed(self) -> list[Line]:
        if not self._all:
            return []
        return preset_lines(self._all[self.picker.chosen], self._now, self.details.room, self.details.size.height)

    def hint(self) -> Content:
        if self._again:
            return dialogs.hint(*_AGAIN["remove" if self._again == "remove" else "save"])
        if self._asking:
            return dialogs.hint(*_NAME)
        own = bool(self._all) and self._all[self.picker.chosen].own
        return dialogs.hint(*_CHOOSE, *(_OWN if own else ()), _CLOSE)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a name is typed nothing else is done."""
        return action == "close" if self._asking else True

    def action_move(self, how: str) -> None:
        super().action_move(how)
        self.details.show()
        self._rest()

    def action_apply(self) -> None:
        if self._all and self.is_current:  # no second Enter in the same burst
            self.dismiss(self._all[self.picker.chosen])

    def action_save(self) -> None:
        self._type("save", "")

    def action_rename(self) -> None:
        if (preset := self._own()) is not None:
            self._type("rename", preset.name)

    def action_drop(self) -> None:
        preset = self._own()
        if preset is None:
            return
        if self._again != "remove":
            self._rest("remove")
            self.tell(f"remove {preset.name}?")
            return
        self._do(lambda: presets.remove(preset.name), f"{preset.name} is removed", "")

    def action_close(self) -> None:
        if self._asking:
            self._type("", "")
        elif self._again:
            self._rest()
        else:
            super().action_close()

    def on_input_changed(self) -> None:
        if self._asking:
            self._rest()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        name = " ".join(event.value.split())
        if not name:
            self._type("", "")
        elif self._asking == "rename":
            preset = self._own()
            assert preset is not None
            self._do(lambda: presets.rename(preset.name, name), f"{preset.name} is now {name}", name)
        elif self._again != name and (taken := next((one for one in self._all if one.name == name), None)) is not None:
            self._rest(name)
            self.say(f"{name} {'exists' if taken.own else 'ships with termchat'}")
        else:
            self._do(lambda: keep(self._parts, name, replacing=True), f"{name} is saved", name)

    # --- how it is done ----------------------------------------------------------------------------------------------

    @property
    def _now(self) -> Tuning:
        return self._parts.chat.tuning

    def _own(self) -> Preset | None:
        """The highlighted one, if it is the user's."""
        preset = self._all[self.picker.chosen] if self._all else None
        if preset is None or preset.own:
            return preset
        self._rest()
        self.say(f"{preset.name} ships with termchat: it can be neither renamed nor removed")
        return None

    def _read(self) -> None:
        known = presets.load()
        self._all = list(known.entries.values())
        self.problem = "\n".join(known.problems[:2])
        self.picker.count = len(self._all)
        self.picker.chosen = min(self.picker.chosen, max(len(self._all) - 1, 0))

    def _do(self, change: Callable[[], Path], told: str, name: str) -> None:
        """Changes the user's file, and highlights the preset of that name."""
        try:
            file = change()
        except PresetError as error:
            self._rest()
            self.say(str(error))
            return
        self._read()
        self._type("", "")
        at = next((at for at, preset in enumerate(self._all) if preset.name == name), self.picker.chosen)
        self.picker.show(len(self._all), at)
        self.details.show()
        self._rest()
        self.tell(f"{told} in {home(file)}")

    def _type(self, asking: Literal["", "save", "rename"], name: str) -> None:
        self._asking = asking
        self._field.set_class(not asking, "-off")
        self._field.value = name
        self._field.cursor_position = len(name)
        self.set_focus(self._field if asking else None)
        self._rest()

    def _rest(self, again: str = "") -> None:
        """Nothing is asked twice any more, but for what is named."""
        self._again = again
        self.say("")
        self.put(".hint", self.hint())
