"""All pictures there are, and how those of a page share its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from termchat.decoding.records import Token
from termchat.tui.draw.ink import BLANK, Ink, Line
from termchat.tui.draw.marks import MUTED, TITLE, prose
from termchat.tui.panels.plots.reply import entropy_plot, probability_plot, time_plot
from termchat.tui.panels.plots.step import distribution_plot, survivors_plot, temperature_plot
from termchat.tui.panels.plots.trace import Measure, Trace

Name = Literal["entropy", "probability", "time", "distribution", "temperature", "survivors"]

_WAITING = "waiting for the first token"
_UNRECORDED = "No candidates were recorded for this token."


class Subject(NamedTuple):
    """What is drawn: a reply, one of its steps with what that is called, and the temperature that the knob is on."""

    trace: Trace
    token: Token | None
    step: str
    temperature: float


class Picture(NamedTuple):
    """A plot: what draws it in so many cells and rows with such a title, how many rows it needs, whether more do it good, and
    for a plot over the reply, which measure."""

    draw: Callable[[Subject, int, int, Ink], list[Line]]
    least: int
    grows: bool = True
    measure: Measure | None = None


class Placed(NamedTuple):
    """A picture on a page: the row that it begins on, and its lines."""

    name: Name
    top: int
    lines: list[Line]


def _of_step(
    draw: Callable[[Token, Subject, int, int, Ink], list[Line]],
) -> Callable[[Subject, int, int, Ink], list[Line]]:
    """Draws a step that exists and was recorded with its candidates; else says why not."""

    def drawn(subject: Subject, width: int, rows: int, title: Ink) -> list[Line]:
        token = subject.token
        if token is None or not token.candidates:
            return prose(_UNRECORDED if token is not None else _WAITING, width, MUTED)
        return draw(token, subject, width, rows, title)

    return drawn


PICTURES: dict[Name, Picture] = {
    "entropy": Picture(
        lambda subject, width, rows, title: entropy_plot(subject.trace, width, rows, title), 5, measure="entropy"
    ),
    "probability": Picture(
        lambda subject, width, rows, title: probability_plot(subject.trace, width, rows, title), 5, measure="probability"
    ),
    "time": Picture(lambda subject, width, rows, title: time_plot(subject.trace, width, rows, title), 6, measure="time"),
    "distribution": Picture(
        _of_step(
            lambda token, subject, width, rows, title: distribution_plot(token, width, rows, title, subject.step)
        ), 8,
    ),
    "temperature": Picture(
        _of_step(
            lambda token, subject, width, rows, title: temperature_plot(token, subject.temperature, width, rows, title)
        ), 5,
    ),
    "survivors": Picture(
        _of_step(lambda token, _, width, rows, title: survivors_plot(token, width, rows, title)), 7, grows=False
    ),
}  # fmt: skip


def arranged(names: Sequence[Name], subject: Subject, width: int, rows: int) -> list[Placed]:
    """The pictures below each other, as many of them as there is room for, the first at least; the rest of the room is shared
    by those that grow, and what is left of it parts them."""
    shown: list[Name] = []
    for name in names:
        if not shown or sum(PICTURES[one].least for one in (*shown, name)) <= rows:
            shown.append(name)
    if any(PICTURES[name].measure is None for name in shown) and (
        subject.token is None or not subject.token.candidates
    ):
        shown = shown[:1]
    spare = max(rows - sum(PICTURES[name].least for name in shown), 0)
    more = spare // max(sum(PICTURES[name].grows for name in shown), 1)
    drawn = [
        PICTURES[name].draw(
            subject, width, PICTURES[name].least + more * PICTURES[name].grows, TITLE._replace(does=f"big('{name}')")
        )
        for name in shown
    ]
    gap = 1 if sum(map(len, drawn)) + len(drawn) - 1 <= rows else 0
    placed: list[Placed] = []
    top = 0
    for name, lines in zip(shown, drawn, strict=True):
        placed.append(Placed(name, top, lines))
        top += len(lines) + gap
    return placed


def stacked(placed: Sequence[Placed]) -> list[Line]:
    lines: list[Line] = []
    for one in placed:
        lines += [BLANK] * (one.top - len(lines)) + one.lines
    return lines
