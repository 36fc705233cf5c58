"""The beams of a search, step by step: the text of the one under the cursor, and a table of the beams of its step with their
parents; above that, as far as there is room, the tables of the steps before.

In a table the beams that go on come first, best first; then those that ended; then the dropped ones, each with its gap to the
last one kept. Only the steps that are drawn are read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from termchat.chat.changes import Notice
from termchat.decoding.records import Beam, Beams
from termchat.text import show_piece
from termchat.tui.draw.ink import BLANK, Ink, Line
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, TEXT, bar, format_number, percent, prose
from termchat.tui.keys.tables import name_of
from termchat.tui.pages.grid_table import Cell, GridColumn, GridTable
from termchat.tui.pages.scene import Scene, by_of
from termchat.tui.pages.shown_group import GroupPage, ShownGroup

_TEXT = 3
"""Rows of text."""
_TOKEN, _NUMBER, _SHARE, _END = 12, 7, 4, 8
"""Cells of a token, a number, a percentage, and of what became of a beam, at least."""
_READ = 400
"""Steps whose texts are read for the text of a beam, at most."""
_SMALL = 0.1
"""The difference from which down a score has a digit more."""
_DEAD, _ENDED, _WAY = Ink("muted", strike=True), Ink("success"), Ink("accent", bold=True)
_LOST = "✕"
"""Marks dropped beams, and kept ones from which none continues."""
_OF_REPLIES = ("choose", "keep_all", "stop", "tune", "fork")
"""What keys do to one of several replies."""


class BeamSpot(NamedTuple):
    """A beam at a step: its place there is as in `Beam.walk`; dropped beams come behind the kept ones."""

    step: int
    place: int


class BeamsPage(GroupPage):
    """The cursor follows the best beam of the newest step until it is moved. Enter makes a branch of the beam under it, dropped
    or not."""

    name = "beams"
    words: Mapping[str, str] = {
        "walk-keep": "branch", "walk-left": "step", "walk-up": "beam",
        **dict.fromkeys(("walk-1", "walk-keep-all", "walk-stop", "walk-tune", "walk-fork"), ""),
    }  # fmt: skip

    def __init__(self, shown: ShownGroup) -> None:
        super().__init__(shown)
        self._spot: BeamSpot | None = None

    @property
    def _steps(self) -> Sequence[Beams]:
        return self._shown.group.beams

    @property
    def spot(self) -> BeamSpot | None:
        """The beam under the cursor; None before the first step."""
        return self._spot or (BeamSpot(len(self._steps) - 1, 0) if self._steps else None)

    def beam(self, spot: BeamSpot) -> Beam:
        step = self._steps[spot.step]
        return [*step.beams, *step.dropped][spot.place]

    def lines(self, scene: Scene) -> list[Line]:
        if (spot := self.spot) is None:
            return [Line((("waiting for the first step", MUTED),))]
        way = [spot]
        while way[-1].step > max(spot.step - _READ, 0):
            way.append(self._find_parent(way[-1]))
        text = prose("".join(self.beam(one).text for one in reversed(way)).strip(), scene.width)[-_TEXT:]
        head = [*text, *[BLANK] * (_TEXT + 1 - len(text))]
        room = scene.rows - len(head)
        lines = self._make_table(spot, spot.place, scene.width).lines(scene.width, room)
        for one in way[1:]:
            table = self._make_table(one, -1, scene.width).lines(scene.width)
            if len(lines) + len(table) + 1 > room:
                break
            lines = [*table, BLANK, *lines]
        return [*head, *lines]

    def act(self, what: str, *arguments: object) -> bool:
        by, spot = by_of(arguments), self.spot
        if what not in ("go", "line", "jump", "point", "keep", *_OF_REPLIES):
            return False
        if what in _OF_REPLIES:
            ways = f"{name_of('walk-keep')} makes a branch of it. {name_of('back')} ends the search."
            self._shown.chat.add_changes(Notice("a beam is not a reply yet", ways))
        elif spot is None:
            return what != "keep"
        elif what == "point" and isinstance(arguments[0], tuple):
            self._spot = BeamSpot(*arguments[0])
        elif what == "keep":
            step = self._steps[spot.step]
            dropped = spot.place >= len(step.beams)
            self._shown.chat.walks.branch_of_beam(step.step, self.beam(spot).walk, dropped=dropped)
        elif what == "line":
            step = self._steps[spot.step]
            self._spot = spot._replace(place=min(max(spot.place + by, 0), len(step.beams) + len(step.dropped) - 1))
        elif what == "go":
            self._spot = self._find_parent(spot) if by < 0 else next(iter(self._find_children(spot)), spot)
        elif by > 0:
            self._spot = None
        else:
            while spot.step:
                spot = self._find_parent(spot)
            self._spot = spot
        return True

    def _find_parent(self, spot: BeamSpot) -> BeamSpot:
        return BeamSpot(spot.step - 1, self.beam(spot).parent) if spot.step else spot

    def _find_children(self, spot: BeamSpot) -> list[BeamSpot]:
        """Find the kept beams that continue from one, best first."""
        is_kept = spot.place < len(self._steps[spot.step].beams)
        after = self._steps[spot.step + 1].beams if is_kept and spot.step + 1 < len(self._steps) else ()
        children = [BeamSpot(spot.step + 1, place) for place, beam in enumerate(after) if beam.parent == spot.place]
        return sorted(children, key=lambda one: -self.beam(one).score)

    def _make_table(self, at: BeamSpot, cursor: int, width: int) -> GridTable[BeamSpot]:
        """Make a table of the beams of one step. The beam `at` is marked: by the cursor, or as the parent of the beam below."""
        step = self._steps[at.step]
        best = max(beam.score for beam in (*step.beams, *step.dropped))
        size = min(max(width // 8, 8), 20)

        def token(spot: BeamSpot) -> Cell:
            beam = self.beam(spot)
            ink = _DEAD if spot.place >= len(step.beams) else _ENDED if beam.finished else TEXT
            return [(_show_beam(beam), _WAY if spot == at else ink)]

        def parent(spot: BeamSpot) -> Cell:
            before = self._find_parent(spot)
            return [(f"{before.place + 1} {_show_beam(self.beam(before))}" if spot.step else "", MUTED)]

        def share(spot: BeamSpot) -> Cell:
            """Render how near a beam is to the best of its step: e to the power of the difference of the scores, which for a
            mean is the ratio of two geometric mean probabilities."""
            part = math.exp(min(self.beam(spot).score - best, 0.0))
            ink = FAINT if spot.place >= len(step.beams) else ACCENT
            return [*bar(part, size, ink), (f"{percent(part, 0):>5}", MUTED)]

        def end(spot: BeamSpot) -> Cell:
            if spot.place >= len(step.beams):
                worst = min((kept.score for kept in step.beams if not kept.finished), default=math.nan)
                return [(f"{_LOST} {_format_score(self.beam(spot).score - worst)}", MUTED)]
            if self.beam(spot).finished:
                return [("ended", _ENDED)]
            return [("" if spot.step + 1 == len(self._steps) or self._find_children(spot) else _LOST, MUTED)]

        columns = [
            GridColumn[BeamSpot](f"step {at.step + 1}", lambda spot: str(spot.place + 1), right=True),
            GridColumn("token", token, _TOKEN),
            GridColumn("from", parent, _TOKEN),
            GridColumn("logprob", lambda spot: _format_score(self.beam(spot).logprob), _NUMBER, right=True, rank=2),
            GridColumn("score", lambda spot: _format_score(self.beam(spot).score), _NUMBER, right=True),
            GridColumn("of the best", share, size + _SHARE + 1, rank=1),
            GridColumn("", end, _END),
        ]
        spots = [BeamSpot(at.step, place) for place in range(len(step.beams) + len(step.dropped))]
        return GridTable(columns, spots, cursor, lambda spot: f"walks('point', ({spot.step}, {spot.place}))")


def _show_beam(beam: Beam) -> str:
    """Show the token of a beam; an end token has no text."""
    return "end" if beam.finished and not beam.text else show_piece(beam.text)


def _format_score(value: float) -> str:
    return format_number(value, 2 if abs(value) >= _SMALL else 3)
