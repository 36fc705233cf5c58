"""Presets: applied to the chat, saved from its chain, and listed with what the highlighted one would change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from termchat.chat.changes import Notice
from termchat.config import presets
from termchat.config.named_tables import NameRefused
from termchat.config.presets import Preset
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.text import cells, home, one_line
from termchat.tui.context import ScreenContext
from termchat.tui.draw.dialog import KeyHints
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.list_dialog import ListDialog
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, prose
from termchat.tui.keys.tables import name_of

_CHOOSE: KeyHints = (
    ("list-up", "selects"), ("preset-apply", "applies"), ("preset-save", "saves the knobs as they are"),
)  # fmt: skip
_OWN: KeyHints = (("preset-rename", "renames"), ("preset-remove", "removes"))
_CANCEL = ("close", "cancels")
_MARKS = 5
"""Cells of a row that are neither name nor description."""
_LEAST_HELP = 20
"""Cells from which a knob's help is worth beginning."""


def changes(preset: Preset, now: Tuning) -> dict[str, str]:
    """Return the knobs that a preset would change, with both values, as "0.8 → 0"."""
    values = {name: (getattr(now, name), value) for name, value in preset.knobs.items()}
    return {name: " → ".join(map(KNOBS[name].show, both)) for name, both in values.items() if both[0] != both[1]}


def differences(preset: Preset, now: Tuning) -> list[str]:
    """Return the changes as texts, as "temperature 0.8 → 0"."""
    return [f"{name} {both}" for name, both in changes(preset, now).items()]


def apply_preset(screen: ScreenContext, preset: Preset) -> None:
    """Set the chain, from the next token on."""
    changed = differences(preset, screen.chat.tuning)
    screen.knobs.apply(preset.knobs, dict.fromkeys(preset.knobs, preset.origin))
    undo = f"{name_of('tune')} {name_of('tune-undo')} undoes it" if changed else ""
    screen.tell(Notice(f"{preset.origin}: {', '.join(changed) or 'nothing changed'}", undo))


def keep_preset(screen: ScreenContext, name: str, *, replacing: bool = False) -> Path:
    """Save the chain as the user's preset of that name; return the file.

    Raises:
        NameRefused: the name is none or taken, unless that one is to be replaced, or the file cannot be written.
    """
    taken = presets.load().entries.get(name)
    if taken is not None and not replacing:
        raise NameRefused(f"{name} {'exists' if taken.own else 'ships with termchat'}")
    description = taken.description if taken is not None and taken.own else ""
    return presets.save(presets.of_tuning(name, screen.chat.tuning, description))


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

    def __init__(self, screen: ScreenContext) -> None:
        super().__init__(screen.palette)
        self._chat_screen = screen
        self._read(None)
        at = (at for at, preset in enumerate(self.rows) if not differences(preset, self._tuning))
        self.set_rows(self.rows, next(at, 0))

    @property
    def _tuning(self) -> Tuning:
        return self._chat_screen.chat.tuning

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
            self._change(lambda: keep_preset(self._chat_screen, name, replacing=True), f"{name} is saved", name)
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
        except NameRefused as error:
            self.withdraw()
            self.say(str(error))
            return
        self.end_naming()
        self._read(name)
        self.tell(f"{news} in {home(file)}")


def _about(preset: Preset) -> str:
    return preset.description or ("your own" if preset.own else "")
