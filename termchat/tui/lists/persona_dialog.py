"""The list of personas with the details of the highlighted one; choosing one starts a chat."""

from __future__ import annotations

from textual.content import Content

from termchat.config.named_tables import NamedEntries
from termchat.config.personas import Persona
from termchat.decoding.samplers import KNOBS
from termchat.text import cells
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.list_dialog import ListDialog
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, prose
from termchat.tui.keys import tables
from termchat.tui.lists.preset_dialog import knob_lines
from termchat.tui.themes.theme_file import Palette

_VALUE = 8
"""Cells of the column with values, at least."""
_ASK = (
    ("persona-begin", "again starts a new chat with it"),
    ("persona-here", "applies its knobs to this chat from here on"),
    ("close", "cancels"),
)


def describe_persona(persona: Persona) -> str:
    """Return the preset and the knobs that it sets."""
    named = [persona.preset.origin] if persona.preset is not None else []
    return ", ".join([*named, *(f"{name} {KNOBS[name].show(value)}" for name, value in persona.knobs.items())])


class PersonasDialog(ListDialog[Persona, tuple[Persona, bool]]):
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
        """Render description, system prompt and knobs; where there is no room for all, the system prompt is cut."""
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
            self._end(new=True)

    def action_here(self) -> None:
        if self._begun:
            self._end(new=False)

    def _end(self, *, new: bool) -> None:
        if self.row is not None and self.is_current:  # no second Enter in the same burst
            self.dismiss((self.row, new))
