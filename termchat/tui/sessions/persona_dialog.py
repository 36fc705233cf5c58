"""The list of personas with the details of the highlighted one; choosing one starts a chat."""

from __future__ import annotations

from typing import NamedTuple

from textual.content import Content

from termchat.config.personas import Persona, Personas
from termchat.decoding.samplers import KNOBS, Value
from termchat.text import cells, one_line
from termchat.tui.dialogs.list_dialog import ListDialog
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, prose
from termchat.tui.keys import dialogs
from termchat.tui.themes.theme_file import Palette

_VALUE = 8
_ASK = (
    ("persona-begin", "again starts a new chat with it"),
    ("persona-here", "applies its knobs to this chat from here on"),
    ("close", "cancels"),
)


def persona_line(persona: Persona, width: int, longest: int, *, chosen: bool) -> Line:
    """A name, with its description where that fits: the details have it too, and all of it."""
    name = column(persona.name, longest)
    about = persona.description or persona.system or "no description"
    mark = "▌ " if chosen else "  "
    if cells(about) > width - longest - 4:
        about = ""
    return Line(((mark, ACCENT), (f"{name}  ", STRONG if chosen else TEXT), (about, TEXT if chosen else MUTED)))


def persona_lines(persona: Persona, width: int, rows: int) -> list[Line]:
    """Description, system prompt, knobs and stop sequences, in at most `rows` lines; the system prompt is cut first."""
    about = [*prose(persona.description, width, MUTED), BLANK] if persona.description else []
    said = prose(persona.system, width) if persona.system else [Line((("none", MUTED),))]
    knobs = _knobs(persona, width)
    if len(said) + len(knobs) + 3 > rows:
        knobs = prose(told(persona), width)
    if len(about) + len(said) + len(knobs) + 3 > rows:
        about = []
    room = max(rows - len(knobs) - 3, 1)
    if len(said) > room:
        said = [*said[: room - 1], Line((("…", MUTED),))]
    prompt = [Line((("SYSTEM PROMPT", TITLE),)), *said, BLANK]
    return [*about, *prompt, Line((("KNOBS", TITLE),)), *knobs][:rows]


def told(persona: Persona) -> str:
    named = [persona.preset.origin] if persona.preset is not None else []
    return ", ".join([*named, *(f"{name} {_shown(name, value)}" for name, value in persona.knobs.items())])


def _knobs(persona: Persona, width: int) -> list[Line]:
    preset = persona.preset
    told = [("preset", preset.name, preset.description)] if preset is not None else []
    told += [(name, _shown(name, value), KNOBS[name].help) for name, value in persona.knobs.items()]
    if not told:
        return [Line((("unchanged", MUTED),))]
    longest = max(len(name) for name, _, _ in told)
    lines = []
    for name, shown, help in told:
        known = [(f"{name:<{longest}}  ", MUTED), (f"{one_line(shown, max(width - longest - 2, 4)):<{_VALUE}}", TEXT)]
        room = width - longest - 4 - max(len(shown), _VALUE)
        lines.append(Line((*known, (f"  {one_line(help, room)}" if room > 20 else "", MUTED))))
    return lines


def _shown(name: str, value: Value) -> str:
    return KNOBS[name].show(value)


class Begin(NamedTuple):
    """A chosen persona: for a new chat, or from here on with its knobs."""

    persona: Persona
    new: bool


class PersonasDialog(ListDialog[Persona, Begin]):
    """All personas. If a chat has `begun`, starting another is asked for twice; `asked` is the persona to ask about at once."""

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

    def __init__(self, personas: Personas, palette: Palette, *, begun: bool, asked: str = "") -> None:
        super().__init__(palette)
        names = list(personas.entries)
        self._begun, self._longest = begun, max(map(cells, names), default=0)
        self.problem = "\n".join(personas.problems[:2])
        self.asked = "begin" if asked else ""
        self.set_rows(list(personas.entries.values()), names.index(asked) if asked in names else 0)

    def hint(self) -> Content:
        return dialogs.hint(*_ASK) if self.asked else super().hint()

    def line(self, row: Persona, width: int, *, chosen: bool) -> Line:
        return persona_line(row, width, self._longest, chosen=chosen)

    def render_details(self, row: Persona, width: int, height: int) -> list[Line]:
        return persona_lines(row, width, height)

    def action_begin(self) -> None:
        if not self._begun or self.confirm("begin"):
            self._end(new=True)

    def action_here(self) -> None:
        if self._begun:
            self._end(new=False)

    def _end(self, *, new: bool) -> None:
        if self.row is not None and self.is_current:  # no second Enter in the same burst
            self.dismiss(Begin(self.row, new))
