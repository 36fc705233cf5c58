"""Personas, as lines: a row of the list, and one of them in full."""

from __future__ import annotations

from collections.abc import Mapping

from termchat.config.personas import Persona
from termchat.decoding.samplers import KNOBS, Value
from termchat.text import one_line
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, prose

_VALUE = 8


def persona_line(persona: Persona, width: int, longest: int, *, chosen: bool) -> Line:
    """Its name and what it is for."""
    name = column(persona.name, longest)
    about = persona.description or persona.system or "no description"
    mark = "▌ " if chosen else "  "
    room = max(width - longest - 4, 0)
    return Line(
        ((mark, ACCENT), (f"{name}  ", STRONG if chosen else TEXT), (one_line(about, room), TEXT if chosen else MUTED)),
        "panel" if chosen else "",
    )


def persona_lines(persona: Persona, width: int, rows: int) -> list[Line]:
    """What it is for, system prompt, knobs and stop sequences, in as few lines as there are rows; cut is the system prompt."""
    about = [*prose(persona.description, width, MUTED), BLANK] if persona.description else []
    said = prose(persona.system, width) if persona.system else [Line((("none", MUTED),))]
    knobs = _knobs(persona.knobs, width)
    if len(said) + len(knobs) + 3 > rows:
        knobs = prose(told(persona.knobs), width)
    if len(about) + len(said) + len(knobs) + 3 > rows:
        about = []
    room = max(rows - len(knobs) - 3, 1)
    if len(said) > room:
        said = [*said[: room - 1], Line((("…", MUTED),))]
    prompt = [Line((("SYSTEM PROMPT", TITLE),)), *said, BLANK]
    return [*about, *prompt, Line((("KNOBS", TITLE),)), *knobs][:rows]


def told(knobs: Mapping[str, Value]) -> str:
    """The knobs in a few words."""
    return ", ".join(f"{name} {_shown(name, value)}" for name, value in knobs.items())


def _knobs(knobs: Mapping[str, Value], width: int) -> list[Line]:
    if not knobs:
        return [Line((("as they are", MUTED),))]
    longest = max(map(len, knobs))
    lines = []
    for name, value in knobs.items():
        shown = _shown(name, value)
        known = [(f"{name:<{longest}}  ", MUTED), (f"{one_line(shown, max(width - longest - 2, 4)):<{_VALUE}}", TEXT)]
        room = width - longest - 4 - max(len(shown), _VALUE)
        lines.append(Line((*known, (f"  {one_line(KNOBS[name].help, room)}" if room > 20 else "", MUTED))))
    return lines


def _shown(name: str, value: Value) -> str:
    return KNOBS[name].show(value)
