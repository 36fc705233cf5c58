"""The line of keys, which is TUNE's while that is open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from textual import events

from termchat.decoding.samplers import KNOBS
from termchat.engine.port import ALL_FEATURES, Feature
from termchat.text import one_line
from termchat.tui.context import ScreenContext
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.lines_view import LinesView
from termchat.tui.draw.marks import ACCENT, LIGHT, LIT, MUTED, STRONG, length
from termchat.tui.keys import tables
from termchat.tui.keys.key import Label, Situation
from termchat.tui.pages.tune_mode import Tune
from termchat.tui.screen.ask_line import AskLine

_FULL_FROM = 98
"""Cells from which there is room for all keys of TUNE."""
_TELLING = 24
"""Cells from which a knob's help is worth beginning."""
_BADGE = Ink("background", ground="accent", bold=True)


def key_line(
    situation: Situation,
    width: int,
    offers: Collection[Feature] = ALL_FEATURES,
    *,
    thinking: bool = False,
    words: Mapping[str, str] = tables.NOT_OTHERWISE,
    lit: Sequence[str] = (),
) -> Line:
    """Render as many keys as fit; a click presses one. `words` and `lit`: see `working`."""
    others, important = tables.working(situation, offers, thinking=thinking, words=words, lit=lit)
    always = _fitting(important, width)
    return Line((*_fitting(others, width - length(always)), *always), "surface")


def asked_line(labels: Iterable[Label], width: int) -> Line:
    return Line(tuple(_fitting(labels, width)), "surface")


def tune_line(tune: Tune, width: int, *, editing: bool = False) -> Line:
    """Render the selected knob, its keys and its help, or the problem of its value. The letters of knobs are in the panel.
    `editing`: its texts are being written."""
    badge = f" TUNE {tune.name} " if tune.name else " TUNE "
    runs: list[Run] = [(badge, _BADGE), (f"  {tune.selected}  ", STRONG)]
    if tune.error:
        return Line((*runs, (one_line(tune.error, width - length(runs)), Ink("error"))), "surface")
    *moves, back = _tune_labels(tune, full=width >= _FULL_FROM, editing=editing)
    way_out = _fitting([back], width - length(runs))
    runs += [*_fitting(moves, width - length([*runs, *way_out])), *way_out]
    room = width - length(runs) - 2
    if room >= _TELLING and not editing:
        runs.append(("  " + one_line(KNOBS[tune.selected].help, room), MUTED))
    return Line(tuple(runs), "surface")


def _tune_labels(tune: Tune, *, full: bool, editing: bool) -> list[Label]:
    """List the keys of TUNE, the way out last."""
    labels = tables.labels
    if editing:
        on_empty = Label("Backspace", "when empty, removes the last", "backspace")
        adds = labels(("tune-accept", "add"), ("tune-stop-after", "add, keep the text"))
        return [*adds, on_empty, *labels(("back", "back"))]
    if tune.typed is not None:
        return labels(("tune-accept", "accept"), ("back", "drop"))
    if tune.is_text:
        return labels(("tune-accept", "edit"), ("tune-off", "none"), ("tune-undo", "undo"), ("back", "back"))
    coarse = [Label("⇧", "coarse")] if full else []
    others = labels(("tune-off", "off"), ("tune-default", "default"), ("tune-undo", "undo"), ("back", "back"))
    return [
        *([Label("a-z", "knob")] if full else []), *labels(("tune-less", "change")), *coarse, Label("0-9", "type"), *others,
    ]  # fmt: skip


def _fitting(labels: Iterable[Label], width: int) -> list[Run]:
    runs: list[Run] = []
    for name, words, key, refused, lit in labels:
        does = f"app.press({key!r})" if key else ""
        ink, muted = (MUTED if refused else ACCENT)._replace(does=does), MUTED._replace(does=does)
        pair = [(name, ink), (f" {words}", muted), ("  ", MUTED)]
        if lit:  # a mark for those who see no colours
            pair = [(f"{LIT}{name} {words} ", LIGHT._replace(does=does)), ("  ", MUTED)]
        if length([*runs, *pair]) > width + 2:
            break
        runs += pair
    return runs


class KeyLine(LinesView, can_focus=True):
    """What works now. In TUNE it has the keyboard, and its keys turn knobs."""

    GROUND = "surface"

    def __init__(self, context: ScreenContext, ask_line: AskLine) -> None:
        super().__init__()
        self.context, self._ask_line = context, ask_line

    def on_key(self, event: events.Key) -> None:
        tune = self.context.tune
        if tune is None:
            return
        if event.key == "enter" and tune.field.kind == "biases":
            self.context.action_dialog("bias")
        elif event.key == "enter" and tune.is_text:
            self._ask_line.ask_texts()
        elif not tune.press(event.key, event.character):
            return
        event.stop()
        event.prevent_default()
        self.context.show_knobs()
