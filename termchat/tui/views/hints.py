"""The bottom line: what works now; in TUNE, the knobs and how they turn."""

from __future__ import annotations

from collections.abc import Iterable

from termchat.decoding.samplers import KNOBS
from termchat.text import one_line
from termchat.tui import keys
from termchat.tui.transcript.ink import Ink, Line, Run
from termchat.tui.tune import Tune
from termchat.tui.views.marks import ACCENT, MUTED, STRONG, length

_TUNE_KEYS = (
    ("a-z", "knob"), ("←→", "change"), ("⇧", "coarse"), ("0-9", "type"), ("x", "off"), ("d", "default"), ("z", "undo"),
    ("Esc", "back"),
)  # fmt: skip
_TUNE_SHORT = tuple(pair for pair in _TUNE_KEYS if pair[0] not in ("a-z", "⇧"))
_FULL_FROM = 98
"""Cells from which there is room for all of them."""
_TYPING = (("Enter", "accept"), ("Esc", "drop"))
_STOP = (("Enter", "edit"), ("x", "none"), ("z", "undo"), ("Esc", "back"))
_EDITING = (("Enter", "add"), ("Esc", "back"), ("Backspace", "on empty removes the last"))
_TELLING = 24
"""Cells from which a knob's help is worth beginning."""
_BADGE = Ink("background", ground="accent", bold=True)


def key_line(situation: keys.Situation, width: int) -> Line:
    """Keys and what they do, as many as there is room for."""
    others, important = keys.working(situation)
    always = _fitting(important, width)
    return Line((*_fitting(others, width - length(always)), *always), "surface")


def tune_line(tune: Tune, width: int) -> Line:
    """The selected knob, the keys that turn it and what it does; or what is wrong with the value. The panel has the letters."""
    runs: list[Run] = [(" TUNE ", _BADGE), (f"  {tune.selected}  ", STRONG)]
    if tune.error:
        return Line((*runs, (one_line(tune.error, width - length(runs)), Ink("error"))), "surface")
    turning = _TUNE_KEYS if width >= _FULL_FROM else _TUNE_SHORT
    if tune.editing:
        return Line((*runs, *_fitting(_EDITING, width - length(runs))), "surface")
    moves = _TYPING if tune.typed is not None else _STOP if tune.selected == "stop" else turning
    runs += _fitting(moves, width - length(runs))
    room = width - length(runs) - 2
    if room >= _TELLING:
        runs.append(("  " + one_line(KNOBS[tune.selected].help, room), MUTED))
    return Line(tuple(runs), "surface")


def _fitting(pairs: Iterable[tuple[str, str]], width: int) -> list[Run]:
    runs: list[Run] = []
    for key, label in pairs:
        pair: list[Run] = [(key, ACCENT), (f" {label}  ", MUTED)]
        if length([*runs, *pair]) > width + 2:
            break
        runs += pair
    return runs
