"""The engine's settings of a model as lines: a setting a line, its value, where that is from and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from termchat.options import Option, OptionValue
from termchat.settings import DEFAULT, PICKER, Config
from termchat.text import one_line
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, prose
from termchat.tui.engineform import FIELDS, EngineForm

_NAME = 16


class _Columns(NamedTuple):
    """Cells of the columns; those that there is no room for have less, or none."""

    name: int
    value: int
    origin: int
    range: int

    @classmethod
    def of(cls, width: int) -> _Columns:
        """The columns of a list this wide."""
        value, origin = (12, 14) if width >= _NAME + 26 else (10, 8)
        name = min(_NAME, width)
        value = min(value, width - name)
        origin = min(origin, width - name - value)
        return cls(name, value, origin, width - name - value - origin)


def engine_heading(width: int) -> Line:
    """The names of the columns."""
    titles = zip(("SETTING", "VALUE", "FROM", "TAKES"), _Columns.of(width), strict=True)
    return Line((("".join(column(title, room) for title, room in titles), TITLE),), "surface")


def engine_lines(form: EngineForm, rows: range, width: int, running: Mapping[str, OptionValue]) -> list[Line]:
    """The settings in view; `running` are the values that the loaded model really has, where these are its settings."""
    config = form.config
    return [_line(FIELDS[at], config, form, width, running, chosen=at == form.at) for at in rows]


def engine_details(form: EngineForm, memory: str, width: int, height: int) -> list[Line]:
    """What the chosen setting is and takes, and what the model takes with all of them."""
    field = form.field
    said = prose(f"{field.name}: {field.help} ({field.range})", width, MUTED)
    return [*said[: max(height - 1, 1)], Line((("memory ", MUTED), (one_line(memory, width - 7), TEXT)))][:height]


def _line(
    field: Option,
    config: Config,
    form: EngineForm,
    width: int,
    running: Mapping[str, OptionValue],
    *,
    chosen: bool,
) -> Line:
    value, origin = config.engine[field.name], config.origin[field.name]
    picked, columns = origin == PICKER, _Columns.of(width)
    runs: list[Run] = [(column(field.name, columns.name), STRONG if chosen else TEXT)]
    if chosen and form.typed is not None:
        runs.append((column(form.typed + "▏", columns.value), Ink("error" if form.error else "accent", bold=True)))
    else:
        shown, really = one_line(field.show(value), columns.value), running.get(field.name, value)
        ink = Ink("accent", bold=True) if picked else MUTED if origin == DEFAULT else TEXT
        told = "" if really == value else f" → {field.show(really)}"
        runs += [(shown, ink), (column(told, columns.value - len(shown)), MUTED)]
    runs.append((column(origin, columns.origin), ACCENT if picked else MUTED))
    runs.append((column(field.range, columns.range), MUTED))
    return Line(tuple(runs), "panel" if chosen else "")
