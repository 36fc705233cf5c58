"""The chain panel: every knob with its value, and how many tokens its stage left."""

from __future__ import annotations

from functools import lru_cache

from termchat.decoding.records import Token
from termchat.decoding.samplers import KNOBS, Tuning, Value
from termchat.decoding.stages import STAGES
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import MUTED, STRONG, TEXT, TITLE, bar, column, length, spread

_LABEL, _VALUE, _LEFT = 9, 8, 7
_STAGE_OF_LAST = {stage.knobs[-1]: stage.name for stage in STAGES.values() if stage.knobs}
"""The last knob of each stage, on whose line the survivors are, to the stage."""


def chain_lines(
    tuning: Tuning, token: Token | None, width: int, *, selected: str | None = None, typed: str | None = None
) -> list[Line]:
    """A title, then a line per knob. `selected` is the knob that TUNE is on, `typed` what is being typed for it."""
    survivors = {stage.name: stage.survivors for stage in token.stages} if token else {}
    before = max(survivors.values(), default=0)
    lines = [Line(spread([("CHAIN", TITLE)], [("left", MUTED)], width))]
    for name in KNOBS:
        left = survivors.get(_STAGE_OF_LAST.get(name, ""))
        cut = left is not None and left < before
        before = before if left is None else left
        chosen = name == selected
        runs = _knob(name, getattr(tuning, name), width, typed if chosen else None, chosen)
        tail: list[Run] = [] if left is None else [(str(left), STRONG if cut else MUTED)]
        lines.append(Line(spread(runs, tail, width), "panel" if name == selected else ""))
    return lines


@lru_cache(maxsize=256)
def _knob(name: str, value: Value, width: int, typed: str | None, chosen: bool) -> tuple[Run, ...]:
    knob = KNOBS[name]
    off = knob.is_off(value)
    head: list[Run] = [
        (knob.key + " ", Ink("accent", bold=chosen)),
        (column(knob.label, _LABEL), MUTED if off and not chosen else TEXT),
    ]
    room = width - length(head)
    ink = MUTED if off else STRONG if chosen else TEXT
    bars: list[Run] = []
    if typed is not None:
        head.append((column(typed + "▏", room), Ink("accent", bold=True)))
    elif knob.stage is None:
        head.append((column(knob.show(value), room).rstrip(), ink))
    else:
        head.append((column(knob.show(value), _VALUE), ink))
        bars = bar(0.0 if off else knob.fraction(value), room - _VALUE - _LEFT)
    return tuple((text, ink._replace(knob=name)) for text, ink in (*doing(f"tune_knob('{name}')", head), *bars))
