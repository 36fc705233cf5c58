"""The list of personas with the details of the highlighted one; choosing one starts a chat."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from textual.content import Content
from textual.widget import Widget

from termchat.config.personas import Persona, Personas
from termchat.decoding.samplers import KNOBS, Value
from termchat.text import cells, one_line
from termchat.tui.dialogs.base import ARROWS, DetailedListing
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, prose
from termchat.tui.keys import dialogs
from termchat.tui.themes.theme_file import Palette

_VALUE = 8


_CHOOSE = (("list-up", "selects"), ("persona-begin", "starts a chat"), ("close", "closes"))
_ASK = (
    ("persona-begin", "again starts a new chat with it"),
    ("persona-here", "applies its knobs to this chat from here on"),
    ("close", "cancels"),
)
_SAVES = "/persona save NAME saves this chat's settings as a persona."


def persona_line(persona: Persona, width: int, longest: int, *, chosen: bool) -> Line:
    """A name, with its description where that fits: the details have it too, and all of it."""
    name = column(persona.name, longest)
    about = persona.description or persona.system or "no description"
    mark = "▌ " if chosen else "  "
    if cells(about) > width - longest - 4:
        about = ""
    return Line(
        ((mark, ACCENT), (f"{name}  ", STRONG if chosen else TEXT), (about, TEXT if chosen else MUTED)),
        "panel" if chosen else "",
    )


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


class PersonasDialog(DetailedListing[Begin]):
    """All personas. If a chat has begun (`begun`), starting another asks first; `asked` is the persona to ask about at once."""

    DEFAULT_CSS = """
    PersonasDialog #body { margin-top: 1; }
    PersonasDialog #details { height: 9; }
    PersonasDialog.-beside #details { width: 60%; height: 1fr; margin: 0 0 0 2; }
    PersonasDialog > Vertical { max-height: 30; }
    """
    BINDINGS = [*ARROWS, *(key.binding for key in dialogs.PERSONAS)]  # noqa: RUF012
    TITLE = "Personas"
    KEYS = "PERSONAS"
    BESIDE = 104

    def __init__(self, personas: Personas, palette: Palette, *, begun: bool, asked: str = "") -> None:
        super().__init__(palette)
        self._all, self._begun = list(personas.entries.values()), begun
        self._longest = max((cells(persona.name) for persona in self._all), default=0)
        self.problem = "\n".join(personas.problems[:2])
        self.asking = bool(asked)
        self.picker.count = len(self._all)
        self.picker.chosen = next((at for at, persona in enumerate(self._all) if persona.name == asked), 0)

    def listed(self) -> Iterable[Widget]:
        return (self.picker,)

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        return [persona_line(self._all[at], width, self._longest, chosen=at == chosen) for at in rows]

    def action_move(self, how: str) -> None:
        super().action_move(how)
        self.details.show()
        self._ask(False)

    def action_begin(self) -> None:
        if self._begun and not self.asking:
            self._ask(True)
        else:
            self._end(new=True)

    def action_here(self) -> None:
        if self._begun:
            self._end(new=False)

    def action_close(self) -> None:
        if self.asking:
            self._ask(False)
        else:
            super().action_close()

    def _end(self, *, new: bool) -> None:
        if self._all and self.is_current:  # no second Enter in the same burst
            self.dismiss(Begin(self._all[self.picker.chosen], new))

    def _ask(self, asking: bool) -> None:
        self.asking = asking
        self.put(".hint", self.hint())

    def hint(self) -> Content:
        return dialogs.hint(*_ASK) if self.asking else dialogs.hint(*_CHOOSE, before=_SAVES)

    def detailed(self) -> list[Line]:
        if not self._all:
            return []
        return persona_lines(self._all[self.picker.chosen], self.details.room, self.details.size.height)
