"""Presets: applied to the chat, saved from its chain, and listed with the changes by the highlighted one. And personas, which
start a chat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.content import Content

from termchat.chat.changes import Notice
from termchat.config import presets
from termchat.config.named_tables import NamedEntries, NameRefused
from termchat.config.presets import Preset
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.text import cells, home, one_line
from termchat.tui.context import ScreenContext
from termchat.tui.draw.dialog import KeyHints
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.list_dialog import ListDialog
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, prose
from termchat.tui.keys import tables
from termchat.tui.keys.tables import name_of
from termchat.tui.themes.theme_file import Palette

if TYPE_CHECKING:
    from termchat.config.personas import Persona

_CHOOSE: KeyHints = (
    ("list-up", "selects"), ("preset-apply", "applies"), ("preset-save", "saves the knobs as they are"),
)  # fmt: skip
_OWN: KeyHints = (("preset-rename", "renames"), ("preset-remove", "removes"))
_CANCEL = ("close", "cancels")
_MARKS = 5
"""Cells of a row that are neither name nor description."""
_LEAST_HELP = 20
"""Cells from which a knob's help is worth beginning."""
_VALUE = 8
"""Cells of the column with a persona's values, at least."""
_ASK: KeyHints = (
    ("persona-begin", "again starts a new chat with it"),
    ("persona-here", "applies its knobs to this chat from here on"),
    _CANCEL,
)


def list_changes(preset: Preset, now: Tuning) -> dict[str, str]:
    """Return the knobs that a preset would change, with both values, as "0.8 → 0"."""
    values = {name: (getattr(now, name), value) for name, value in preset.knobs.items()}
    return {name: " → ".join(map(KNOBS[name].show, both)) for name, both in values.items() if both[0] != both[1]}


def apply_preset(screen: ScreenContext, preset: Preset) -> None:
    """Set the chain, from the next token on."""
    changed = list_changes(preset, screen.chat.tuning)
    screen.knobs.apply(preset.knobs, dict.fromkeys(preset.knobs, preset.origin))
    undo = f"{name_of('tune')} {tables.name_of('tune-undo')} undoes it" if changed else ""
    screen.tell(Notice(f"{preset.origin}: {_join_changes(changed) or 'nothing changed'}", undo))


def keep_preset(tuning: Tuning, name: str, *, replacing: bool = False) -> Path:
    """Save the chain as the user's preset of that name; return the file.

    Raises:
        NameRefused: the name is none or taken, unless that one is to be replaced, or the file cannot be written.
    """
    taken = presets.load().entries.get(name)
    if taken is not None and not replacing:
        raise NameRefused(f"{name} {'exists' if taken.own else 'ships with termchat'}")
    description = taken.description if taken is not None and taken.own else ""
    return presets.save(presets.of_tuning(name, tuning, description))


def knob_lines(knobs: Sequence[tuple[str, str, str]], width: int) -> list[Line]:
    """Render names, values and helps in columns, the helps if they fit."""
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
        self._chat = screen.chat
        self._read_presets(None)
        at = (at for at, preset in enumerate(self.rows) if not list_changes(preset, self._chat.tuning))
        self.set_rows(self.rows, next(at, 0))

    def _read_presets(self, name: str | None) -> None:
        """Read the files, and highlight the preset of that name."""
        known = presets.load()
        self.problem = "\n".join(known.problems[:2])
        rows = list(known.entries.values())
        self._longest = max((cells(preset.name) for preset in rows), default=0)
        self._longest_about = max((cells(_describe_preset(preset)) for preset in rows), default=0)
        self.set_rows(rows, next((at for at, preset in enumerate(rows) if preset.name == name), None))

    def line(self, row: Preset, width: int, *, chosen: bool) -> Line:
        """Render its name, with the description where all fit: the details have it too. A dot marks the chat's own chain."""
        mark, dot = "▌" if chosen else " ", " " if list_changes(row, self._chat.tuning) else "●"
        about = _describe_preset(row) if self._longest_about <= width - self._longest - _MARKS else ""
        name = (f"{column(row.name, self._longest)}  ", STRONG if chosen else TEXT)
        return Line(((mark, ACCENT), (f"{dot} ", ACCENT), name, (about, TEXT if chosen else MUTED)))

    def render_details(self, row: Preset, width: int, height: int) -> list[Line]:
        """Render the description, then each knob that would change, with both values; on few lines they follow each other."""
        about = [*prose(row.description, width, MUTED), BLANK] if row.description else []
        changed = list_changes(row, self._chat.tuning)
        lines = knob_lines([(name, text, KNOBS[name].help) for name, text in changed.items()], width)
        if len(about) + len(lines) + 1 > height:
            lines = prose(_join_changes(changed), width)
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
        if self.row is not None:
            self.dismiss(self.row)

    def action_save(self) -> None:
        self.type_name("", self._save_as)

    def _save_as(self, name: str) -> None:
        taken = next((one for one in self.rows if one.name == name), None)
        if taken is not None and not self.confirm(f"replace {name}"):
            self.say(f"{name} {'exists' if taken.own else 'ships with termchat'}")
        elif name:
            self._change_file(lambda: keep_preset(self._chat.tuning, name, replacing=True), f"{name} is saved", name)
        else:
            self.end_naming()

    def action_rename(self) -> None:
        if (preset := self._find_own()) is not None:
            self.type_name(preset.name, lambda name: self._rename_preset(preset.name, name))

    def _rename_preset(self, before: str, name: str) -> None:
        if name:
            self._change_file(lambda: presets.rename(before, name), f"{before} is now {name}", name)
        else:
            self.end_naming()

    def action_drop(self) -> None:
        if (preset := self._find_own()) is None:
            return
        if self.confirm("remove"):
            self._change_file(lambda: presets.remove(preset.name), f"{preset.name} is removed", "")
        else:
            self.tell(f"remove {preset.name}?")

    def _find_own(self) -> Preset | None:
        """Return the highlighted preset if it is the user's, else refuse."""
        if self.row is None or self.row.own:
            return self.row
        self.withdraw()
        self.say(f"{self.row.name} ships with termchat: it can be neither renamed nor removed")
        return None

    def _change_file(self, change: Callable[[], Path], news: str, name: str) -> None:
        """Change the user's file, and highlight the preset of that name."""
        try:
            file = change()
        except NameRefused as error:
            self.withdraw()
            self.say(str(error))
            return
        self.end_naming()
        self._read_presets(name)
        self.tell(f"{news} in {home(file)}")


def _describe_preset(preset: Preset) -> str:
    return preset.description or ("your own" if preset.own else "")


def _join_changes(changed: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {both}" for name, both in changed.items())


def describe_persona(persona: Persona) -> str:
    """Return the preset and the knobs that it sets."""
    named = [persona.preset.origin] if persona.preset is not None else []
    return ", ".join([*named, *(f"{name} {KNOBS[name].show(value)}" for name, value in persona.knobs.items())])


class PersonasDialog(ListDialog["Persona", "tuple[Persona, bool]"]):
    """All personas. The result is one, and whether it is for a new chat, or for the knobs of this one.

    If a chat has `begun`, starting another is asked for twice; `asked` is the persona to ask about at once.
    """

    DEFAULT_CSS = """
    PersonasDialog #details { height: 9; }
    PersonasDialog.-beside #details { width: 60%; height: 1fr; }
    PersonasDialog > Vertical { max-height: 30; }
    """
    TITLE = "Personas"
    HINT = "/persona save NAME saves this chat's settings as a persona."
    HINTS = (("list-up", "selects"), ("persona-begin", "starts a chat"), ("close", "closes"))
    KEYS = "PERSONAS"
    BESIDE = 104

    def __init__(self, personas: NamedEntries[Persona], palette: Palette, *, begun: bool, asked: str = "") -> None:
        super().__init__(palette)
        names = list(personas.entries)
        self._begun, self._longest = begun, max(map(cells, names), default=0)
        self.problem = "\n".join(personas.problems[:2])
        self.asked = "begin" if asked else ""
        self.set_rows(list(personas.entries.values()), names.index(asked) if asked in names else 0)

    def hint(self) -> Content:
        return tables.hint(*_ASK) if self.asked else super().hint()

    def line(self, row: Persona, width: int, *, chosen: bool) -> Line:
        """Render its name, with its description where that fits: the details have it too."""
        about = row.description or row.system or "no description"
        if cells(about) > width - self._longest - 4:
            about = ""
        name = (f"{column(row.name, self._longest)}  ", STRONG if chosen else TEXT)
        return Line((("▌ " if chosen else "  ", ACCENT), name, (about, TEXT if chosen else MUTED)))

    def render_details(self, row: Persona, width: int, height: int) -> list[Line]:
        """Render description, system prompt and knobs; the system prompt is cut to the height."""
        about = [*prose(row.description, width, MUTED), BLANK] if row.description else []
        prompt = prose(row.system, width) if row.system else [Line((("none", MUTED),))]
        preset = [("preset", f"{row.preset.name:<{_VALUE}}", row.preset.description)] if row.preset is not None else []
        own = [(name, f"{KNOBS[name].show(value):<{_VALUE}}", KNOBS[name].help) for name, value in row.knobs.items()]
        knobs = knob_lines([*preset, *own], width) or [Line((("unchanged", MUTED),))]
        if len(prompt) + len(knobs) + 3 > height:
            knobs = prose(describe_persona(row), width)
        if len(about) + len(prompt) + len(knobs) + 3 > height:
            about = []
        room = max(height - len(knobs) - 3, 1)
        if len(prompt) > room:
            prompt = [*prompt[: room - 1], Line((("…", MUTED),))]
        titles = Line((("SYSTEM PROMPT", TITLE),)), Line((("KNOBS", TITLE),))
        return [*about, titles[0], *prompt, BLANK, titles[1], *knobs][:height]

    def action_begin(self) -> None:
        if not self._begun or self.confirm("begin"):
            self._choose_row(new=True)

    def action_here(self) -> None:
        if self._begun:
            self._choose_row(new=False)

    def _choose_row(self, *, new: bool) -> None:
        if self.row is not None:
            self.dismiss((self.row, new))
