"""Presets: applied to the chat, saved from its chain, and listed with the changes by the highlighted one. And personas, which
start a chat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

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

Named = TypeVar("Named", bound="Preset | Persona")
Result = TypeVar("Result")
_CHOOSE: KeyHints = (
    ("list-up", "selects"), ("preset-apply", "applies"), ("preset-save", "saves the knobs as they are"),
)  # fmt: skip
_OWN: KeyHints = (("preset-rename", "renames"), ("preset-remove", "removes"))
_CANCEL = ("close", "cancels")
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


class NamedDialog(ListDialog[Named, Result]):
    """Entries of two files: those that ship, and the user's own."""

    DEFAULT_CSS = """
    NamedDialog #details { height: 9; }
    NamedDialog.-beside #details { width: 60%; height: 1fr; }
    NamedDialog > Vertical { max-height: 30; }
    """
    BESIDE = 104

    def show_entries(self, known: NamedEntries[Named], name: str) -> None:
        """Show the entries, and highlight the one of that name."""
        names = list(known.entries)
        self.problem = "\n".join(known.problems[:2])
        self._longest = max(map(cells, names), default=0)
        self.set_rows(list(known.entries.values()), names.index(name) if name in names else None)

    def name_line(self, row: Named, sign: str, about: str, width: int, *, chosen: bool) -> Line:
        """Render a name, and a description that fits: the details have it too."""
        room = width - self._longest - len(sign) - 3
        name = (f"{column(row.name, self._longest)}  ", STRONG if chosen else TEXT)
        text = (about if cells(about) <= room else "", TEXT if chosen else MUTED)
        return Line((("▌" + sign if chosen else " " + sign, ACCENT), name, text))


class PresetsDialog(NamedDialog[Preset, Preset]):
    """All presets. The result is the one to apply."""

    DEFAULT_CSS = "PresetsDialog.-beside #details { width: 55%; }"
    TITLE = "Presets"
    KEYS = "PRESETS"
    NAME = "name of the preset"
    ON_ROW = ("apply", "rename", "drop")

    def __init__(self, screen: ScreenContext) -> None:
        super().__init__(screen.palette)
        self._chat = screen.chat
        known = presets.load()
        set_now = (name for name, preset in known.entries.items() if not list_changes(preset, self._chat.tuning))
        self.show_entries(known, next(set_now, ""))

    def line(self, row: Preset, width: int, *, chosen: bool) -> Line:
        """Render the name, with the description where all fit. A dot marks the chat's own chain."""
        longest = max(cells(_describe_preset(one)) for one in self.rows)
        about = _describe_preset(row) if longest <= width - self._longest - 5 else ""
        sign = "  " if list_changes(row, self._chat.tuning) else "● "
        return self.name_line(row, sign, about, width, chosen=chosen)

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
        self.dismiss(self.highlighted)

    def action_save(self) -> None:
        def save(name: str) -> None:
            taken = next((one for one in self.rows if one.name == name), None)
            if taken is None or self.confirm(f"replace {name}"):
                change = partial(keep_preset, self._chat.tuning, name, replacing=True)
                self._change_file(change, f"{name} is saved", name)
            else:
                self.say(f"{name} {'exists' if taken.own else 'ships with termchat'}")

        self.type_name("", save)

    def action_rename(self) -> None:
        before = self.highlighted.name
        if self._is_own():
            self.type_name(
                before,
                lambda name: self._change_file(partial(presets.rename, before, name), f"{before} is now {name}", name),
            )

    def action_drop(self) -> None:
        name = self.highlighted.name
        if not self._is_own():
            return
        if self.confirm("remove"):
            self._change_file(partial(presets.remove, name), f"{name} is removed")
        else:
            self.tell(f"remove {name}?")

    def _is_own(self) -> bool:
        """Return whether the highlighted preset is the user's; refuse others."""
        if not self.highlighted.own:
            self.withdraw()
            self.say(f"{self.highlighted.name} ships with termchat: it can be neither renamed nor removed")
        return self.highlighted.own

    def _change_file(self, change: Callable[[], Path], news: str, name: str | None = None) -> None:
        """Change the user's file, and highlight the preset of that name; without a typed name change nothing."""
        if name == "":
            self.end_naming()
            return
        try:
            file = change()
        except NameRefused as error:
            self.withdraw()
            self.say(str(error))
        else:
            self.end_naming()
            self.show_entries(presets.load(), name or "")
            self.tell(f"{news} in {home(file)}")


def _describe_preset(preset: Preset) -> str:
    return preset.description or ("your own" if preset.own else "")


def _join_changes(changed: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {both}" for name, both in changed.items())


def describe_persona(persona: Persona) -> str:
    """Return the preset and the knobs that it sets."""
    named = [persona.preset.origin] if persona.preset is not None else []
    return ", ".join([*named, *(f"{name} {KNOBS[name].show(value)}" for name, value in persona.knobs.items())])


class PersonasDialog(NamedDialog["Persona", "tuple[Persona, bool]"]):
    """All personas. The result is one, and whether it is for a new chat, or for the knobs of this one.

    If a chat has `begun`, starting another is asked for twice; `asked` is the persona to ask about at once.
    """

    TITLE = "Personas"
    HINT = "/persona save NAME saves this chat's settings as a persona."
    HINTS = (("list-up", "selects"), ("persona-begin", "starts a chat"), ("close", "closes"))
    KEYS = "PERSONAS"
    ON_ROW = ("begin", "here")

    def __init__(self, personas: NamedEntries[Persona], palette: Palette, *, begun: bool, asked: str = "") -> None:
        super().__init__(palette)
        self._begun = begun
        self.asked = "begin" if asked else ""
        self.show_entries(personas, asked)

    def hint(self) -> Content:
        return tables.hint(*_ASK) if self.asked else super().hint()

    def line(self, row: Persona, width: int, *, chosen: bool) -> Line:
        return self.name_line(row, " ", row.description or row.system or "no description", width, chosen=chosen)

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
            self.dismiss((self.highlighted, True))

    def action_here(self) -> None:
        if self._begun:
            self.dismiss((self.highlighted, False))
