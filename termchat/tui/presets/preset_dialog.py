"""The list of presets with what the highlighted one would change; choosing one applies it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from termchat.config import presets
from termchat.config.presets import Preset, PresetError
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.text import cells, home, one_line
from termchat.tui.context import ScreenContext
from termchat.tui.dialogs.list_dialog import KeyHints, ListDialog
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, prose
from termchat.tui.presets.applying import changes, differences, keep

_CHOOSE: KeyHints = (
    ("list-up", "selects"), ("preset-apply", "applies"), ("preset-save", "saves the knobs as they are"),
)  # fmt: skip
_OWN: KeyHints = (("preset-rename", "renames"), ("preset-remove", "removes"))
_CANCEL = ("close", "cancels")
_MARKS = 5
"""Cells of a row that are neither name nor description."""
_LEAST_HELP = 20
"""Cells from which a knob's help is worth beginning."""


def knob_lines(knobs: Sequence[tuple[str, str, str]], width: int) -> list[Line]:
    """Render names, values and helps in columns, the helps where there is room for them."""
    first = max((cells(name) for name, _, _ in knobs), default=0)
    second = max((cells(text) for _, text, _ in knobs), default=0)
    room = width - first - second - 4
    return [
        Line((
            (f"{column(name, first)}  ", MUTED),
            (column(one_line(text, max(width - first - 2, 4)), second), TEXT),
            (f"  {one_line(help, room)}" if room > _LEAST_HELP else "", MUTED),
        ))
        for name, text, help in knobs
    ]  # fmt: skip


class PresetsDialog(ListDialog[Preset, Preset]):
    """All presets. The result is the one to apply."""

    DEFAULT_CSS = """
    PresetsDialog #details { height: 9; }
    PresetsDialog.-beside #details { width: 55%; height: 1fr; }
    PresetsDialog > Vertical { max-height: 30; }
    """
    TITLE = "Presets"
    KEYS = "PRESETS"
    NAME = "name of the preset"
    BESIDE = 104

    def __init__(self, parts: ScreenContext) -> None:
        super().__init__(parts.palette)
        self._parts = parts
        self._read(None)
        at = (at for at, preset in enumerate(self.rows) if not differences(preset, self._tuning))
        self.set_rows(self.rows, next(at, 0))

    @property
    def _tuning(self) -> Tuning:
        return self._parts.chat.tuning

    def _read(self, name: str | None) -> None:
        """Read the files, and highlight the preset of that name."""
        known = presets.load()
        self.problem = "\n".join(known.problems[:2])
        rows = list(known.entries.values())
        self._longest = max((cells(preset.name) for preset in rows), default=0)
        self._longest_about = max((cells(_about(preset)) for preset in rows), default=0)
        self.set_rows(rows, next((at for at, preset in enumerate(rows) if preset.name == name), None))

    def line(self, row: Preset, width: int, *, chosen: bool) -> Line:
        """Render its name, with the description where all fit: the details have it too. A dot marks the chat's own chain."""
        mark, dot = "▌" if chosen else " ", " " if differences(row, self._tuning) else "●"
        about = _about(row) if self._longest_about <= width - self._longest - _MARKS else ""
        name = (f"{column(row.name, self._longest)}  ", STRONG if chosen else TEXT)
        return Line(((mark, ACCENT), (f"{dot} ", ACCENT), name, (about, TEXT if chosen else MUTED)))

    def render_details(self, row: Preset, width: int, height: int) -> list[Line]:
        """Render the description, then each knob that would change, with both values; on few lines they follow each other."""
        about = [*prose(row.description, width, MUTED), BLANK] if row.description else []
        changed = changes(row, self._tuning)
        lines = knob_lines([(name, text, KNOBS[name].help) for name, text in changed.items()], width)
        if len(about) + len(lines) + 1 > height:
            lines = prose(", ".join(differences(row, self._tuning)), width)
        if len(about) + len(lines) + 1 > height:
            about = []
        lines = lines or [Line((("nothing: the chain is set like this", MUTED),))]
        return [*about, Line((("CHANGES", TITLE),)), *lines][:height]

    def hints(self) -> KeyHints:
        if self.asked == "remove":
            return ("preset-remove", "again removes it"), _CANCEL
        if self.asked:
            return ("preset-apply", "again replaces it"), _CANCEL
        if self.is_naming:
            return ("preset-apply", "saves"), _CANCEL
        return *_CHOOSE, *(_OWN if self.row is not None and self.row.own else ()), ("close", "closes")

    def moved(self) -> None:
        self.withdraw()
        self.show_row()

    def action_apply(self) -> None:
        if self.row is not None and self.is_current:  # no second Enter in the same burst
            self.dismiss(self.row)

    def action_save(self) -> None:
        self.type_name("", self._save)

    def _save(self, name: str) -> None:
        taken = next((one for one in self.rows if one.name == name), None)
        if taken is not None and not self.confirm(f"replace {name}"):
            self.say(f"{name} {'exists' if taken.own else 'ships with termchat'}")
        elif name:
            self._change(lambda: keep(self._parts, name, replacing=True), f"{name} is saved", name)
        else:
            self.end_naming()

    def action_rename(self) -> None:
        if (preset := self._own()) is not None:
            self.type_name(preset.name, lambda name: self._rename(preset.name, name))

    def _rename(self, before: str, name: str) -> None:
        if name:
            self._change(lambda: presets.rename(before, name), f"{before} is now {name}", name)
        else:
            self.end_naming()

    def action_drop(self) -> None:
        if (preset := self._own()) is None:
            return
        if self.confirm("remove"):
            self._change(lambda: presets.remove(preset.name), f"{preset.name} is removed", "")
        else:
            self.tell(f"remove {preset.name}?")

    def _own(self) -> Preset | None:
        """Return the highlighted preset if it is the user's, else refuse."""
        if self.row is None or self.row.own:
            return self.row
        self.withdraw()
        self.say(f"{self.row.name} ships with termchat: it can be neither renamed nor removed")
        return None

    def _change(self, change: Callable[[], Path], news: str, name: str) -> None:
        """Change the user's file, and highlight the preset of that name."""
        try:
            file = change()
        except PresetError as error:
            self.withdraw()
            self.say(str(error))
            return
        self.end_naming()
        self._read(name)
        self.tell(f"{news} in {home(file)}")


def _about(preset: Preset) -> str:
    return preset.description or ("your own" if preset.own else "")
