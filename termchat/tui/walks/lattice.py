"""The lattice of a beam search: its last steps, where each beam came from, which died and by how much. No widget.

A row is a way from left to right; what a row shares with the one above it is drawn there alone. The beams that go on come
first, each with its score and how near it is to the best; then those that ended; then what was dropped, with the gap to the
last one kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from termchat.decoding.group import BeamSettings
from termchat.decoding.records import Beam, Beams
from termchat.text import cells, one_line, show_piece
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import (
    ACCENT,
    FAINT,
    MUTED,
    STRONG,
    TEXT,
    bar,
    column,
    fitting,
    length,
    number,
    percent,
)

LatticeMove = Literal["up", "down", "left", "right", "first", "last"]

_MARK, _LINK = 2, 4
"""Cells before a row, and between two steps."""
_SHORTEST, _LONGEST = 4, 12
"""Cells of a token."""
_SCORE, _SHARE, _ENDED = 7, 5, 6
"""Cells of a score, of a percentage, and of the word that a beam has ended."""
_LOOKED_AT = 6
"""Steps on either side of the cursor's that say how wide tokens are."""
_BAR_FROM, _LONG_FROM = 60, 100
"""Cells from which there is a bar, and from which tokens may be long."""
_HERE = Ink("background", ground="accent", bold=True)
_DEAD = Ink("muted", strike=True)
_SMALL = 0.1
"""From here down differences have a digit more."""
_ENDING = Ink("success")
_LOST = "✕"


class BeamSpot(NamedTuple):
    """A token of the lattice: its step, and its place there, as in `Beam.walk`."""

    step: int
    place: int


class _Row(NamedTuple):
    """`spots` are the tokens that it draws. `links` stand before each of its steps in the window, from the second on, up to
    the last token's."""

    spots: tuple[BeamSpot, ...]
    links: tuple[str, ...]


class Lattice:
    """`steps` grows while the search runs. The cursor follows the best beam of the newest step until it is moved."""

    def __init__(self, steps: Sequence[Beams], settings: BeamSettings) -> None:
        self.steps, self._settings = steps, settings
        self._spot: BeamSpot | None = None
        self._wanted: int | None = None
        self._drawn: list[_Row] = []
        self._children_of: dict[int, dict[int, list[BeamSpot]]] = {}
        self._heirs: dict[BeamSpot, int] = {}
        self._best, self._looked, self._top_score = -math.inf, 0, 0.0
        self._top = 0

    @property
    def spot(self) -> BeamSpot | None:
        """What is under the cursor; None before the first step."""
        return self._spot or (BeamSpot(len(self.steps) - 1, 0) if self.steps else None)

    def beam(self, spot: BeamSpot) -> Beam:
        step = self.steps[spot.step]
        kept = len(step.beams)
        return step.beams[spot.place] if spot.place < kept else step.dropped[spot.place - kept]

    def is_dropped(self, spot: BeamSpot) -> bool:
        """Whether it is something the search did not keep."""
        return spot.place >= len(self.steps[spot.step].beams)

    def way(self, spot: BeamSpot) -> list[BeamSpot]:
        """The spots from the first step to this one."""
        way = [spot]
        while way[-1].step > 0:
            way.append(BeamSpot(way[-1].step - 1, self.beam(way[-1]).parent))
        return way[::-1]

    def text(self, spot: BeamSpot) -> str:
        """What a beam says, up to a spot."""
        return "".join(self.beam(one).text for one in self.way(spot))

    def point(self, spot: BeamSpot) -> None:
        """Puts the cursor there."""
        self._spot, self._wanted = spot, None

    def move(self, how: LatticeMove) -> None:
        """Up and down go by row, left and right by step; `last` follows the search again."""
        spot = self.spot
        if spot is None:
            return
        if how == "last":
            self._spot = self._wanted = None
        elif how == "first":
            self._spot, self._wanted = self.way(spot)[0], None
        elif how == "left":
            self._spot, self._wanted = (
                BeamSpot(max(spot.step - 1, 0), self.way(spot)[max(spot.step - 1, 0)].place),
                None,
            )
        elif how == "right":
            self._spot, self._wanted = self._next(spot), None
        else:
            self._by_row(spot, -1 if how == "up" else 1)

    def facts(self, width: int) -> Line:
        """The numbers of what is under the cursor."""
        if (spot := self.spot) is None:
            return Line((("waiting for the first step", MUTED),))
        beam, lost = self.beam(spot), self._lost(spot).removeprefix(_LOST).strip(" −")
        by = f" by {lost}" if lost else ""
        if self.is_dropped(spot):
            what = f"dropped{by}"
        elif beam.finished:
            what = "ended here"
        else:
            live = sum(not one.finished for one in self.steps[spot.step].beams)
            what = f"beam {spot.place + 1} of {live}" + (f", died in the next step{by}" if self._lost(spot) else "")
        runs: list[Run] = [(f"step {spot.step + 1} ", MUTED), (_word(beam), STRONG), (f"  {what}", TEXT)]
        runs += [
            ("  after " if self._settings.after_chain else "  model ", MUTED),
            (percent(math.exp(min(beam.logprob, 0.0))), TEXT),
        ]
        runs += [("  logprob ", MUTED), (_score(beam.logprob), TEXT), ("  score ", MUTED), (_score(beam.score), TEXT)]
        return Line(fitting(runs, width))

    def lines(self, width: int, rows: int) -> list[Line]:
        """A line with the numbers of the steps, then at most `rows` - 1 rows, with that of the cursor among them."""
        spot = self.spot
        if spot is None or rows < 2:
            return []
        right = _right(width)
        word = self._word_width(width)
        first, last = self._window(spot, (width - right - _MARK - word - 1) // (word + 1 + _LINK) + 1)
        self._find_heirs(first, last)
        self._top_score = self._best_score()
        self._drawn = self._rows(first, last, spot, rows - 1)
        at = self._row_of(spot)
        self._top = min(max(self._top, at - rows + 2), at, max(len(self._drawn) - rows + 1, 0))
        shown = self._drawn[self._top : self._top + rows - 1]
        room = width - right
        return [
            self._head(first, last, word, room, width),
            *(self._line(row, first, last, word, room, width, spot) for row in shown),
        ]

    # --- what is in the window -------------------------------------------------------------------------------------------

    def _window(self, spot: BeamSpot, most: int) -> tuple[int, int]:
        """The newest steps; older ones where the cursor is there, with a step before it."""
        newest = len(self.steps) - 1
        first = max(newest - max(most, 1) + 1, 0)
        if spot.step < first + (1 if first else 0):
            first = max(spot.step - 1, 0)
        return first, min(first + max(most, 1) - 1, newest)

    def _children(self, spot: BeamSpot) -> list[BeamSpot]:
        """Kept or not, best first."""
        after = spot.step + 1
        if after >= len(self.steps):
            return []
        if after not in self._children_of:
            of = self._children_of[after] = {}
            for place, beam in enumerate([*self.steps[after].beams, *self.steps[after].dropped]):
                of.setdefault(beam.parent, []).append(BeamSpot(after, place))
        return self._children_of[after].get(spot.place, [])

    def _lost(self, spot: BeamSpot) -> str:
        """A mark on what was dropped, and on a beam of which no child was kept, with what it or its best child lacked to the
        last one kept, as far as that is on record; "" on all others."""
        beam = self.beam(spot)
        if not self.is_dropped(spot):
            children = self._children(spot)
            if beam.finished or spot.step + 1 >= len(self.steps) or any(not self.is_dropped(one) for one in children):
                return ""
            return self._lost(children[0]) if children else _LOST
        worst = min((kept.score for kept in self.steps[spot.step].beams if not kept.finished), default=None)
        return f"{_LOST} {_score(beam.score - worst)}" if worst is not None else _LOST

    def _best_score(self) -> float:
        """So far, of all that ended and the newest ones."""
        for step in self.steps[self._looked :]:
            self._best = max((self._best, *(beam.score for beam in step.beams if beam.finished)))
        self._looked = len(self.steps)
        return max((self._best, *(beam.score for beam in self.steps[-1].beams)))

    def _find_heirs(self, first: int, last: int) -> None:
        """Finds for each beam of these steps the best place in the last of them to which it leads."""
        self._heirs = {
            BeamSpot(last, place): place for place, beam in enumerate(self.steps[last].beams) if not beam.finished
        }
        for step in range(last - 1, first - 1, -1):
            for place in range(len(self.steps[step].beams)):
                spot = BeamSpot(step, place)
                led = [self._heirs[child] for child in self._children(spot) if child in self._heirs]
                if led:
                    self._heirs[spot] = min(led)

    def _next(self, spot: BeamSpot) -> BeamSpot:
        kept = [child for child in self._children(spot) if not self.is_dropped(child)]
        return min(kept, key=self._rank, default=spot)

    def _rank(self, spot: BeamSpot) -> tuple[int, int, float]:
        """For the order of rows: by the best beam of the last step to which it leads; then what ended, then what died."""
        beam = self.beam(spot)
        if spot in self._heirs:
            return 0, self._heirs[spot], 0.0
        return 2 if self.is_dropped(spot) else 1, int(not beam.finished), -beam.score

    def _rows(self, first: int, last: int, spot: BeamSpot, room: int) -> list[_Row]:
        """All that was kept; all that was dropped in the cursor's step; and what else was dropped last, where there is room."""
        shown, count = {spot.step}, len(rows := self._drawn_from(first, last, {spot.step}))
        for step in range(last, first - 1, -1):
            more = self._rows_of_dropped(step, first)
            if step not in shown and count + more <= room:
                shown.add(step)
                count += more
        return rows if len(shown) == 1 else self._drawn_from(first, last, shown)

    def _rows_of_dropped(self, step: int, first: int) -> int:
        """How many rows are more with what was dropped in a step: the first child of a beam has the beam's own row."""
        if step == first:
            return len(self.steps[step].dropped)
        kept = {beam.parent for beam in self.steps[step].beams}
        dropped = [beam.parent for beam in self.steps[step].dropped]
        return len(dropped) - len({*dropped} - kept)

    def _drawn_from(self, first: int, last: int, with_dropped: set[int]) -> list[_Row]:
        rows: list[_Row] = []

        def shown(spots: Sequence[BeamSpot], step: int) -> list[BeamSpot]:
            there = [spot for spot in spots if step in with_dropped or not self.is_dropped(spot)]
            return sorted(there, key=self._rank)

        def draw(spot: BeamSpot, drawn: tuple[BeamSpot, ...], links: tuple[str, ...], below: tuple[str, ...]) -> None:
            """`links` are those of this row so far, `below` what stands in their place under it."""
            children = shown(self._children(spot), spot.step + 1) if spot.step < last else []
            if not children:
                rows.append(_Row((*drawn, spot), links))
            for at, child in enumerate(children):
                only, ends = len(children) == 1, at == len(children) - 1
                link = "─── " if only else "┬── " if at == 0 else "└── " if ends else "├── "
                under = (*below, "    " if ends else "│   ")
                if at == 0:
                    draw(child, (*drawn, spot), (*links, link), under)
                else:
                    draw(child, (), (*below, link), under)

        step = self.steps[first]
        every = [BeamSpot(first, place) for place in range(len(step.beams) + len(step.dropped))]
        for root in shown(every, first):
            draw(root, (), (), ())
        return rows

    def _row_of(self, spot: BeamSpot) -> int:
        return next((at for at, row in enumerate(self._drawn) if spot in row.spots), 0)

    def _by_row(self, spot: BeamSpot, by: int) -> None:
        if not self._drawn:
            return
        at = min(max(self._row_of(spot) + by, 0), len(self._drawn) - 1)
        spots = self._drawn[at].spots
        self._wanted = spot.step if self._wanted is None else self._wanted
        step = min(max(self._wanted, spots[0].step), spots[-1].step)
        self._spot = spots[step - spots[0].step]

    # --- how it is drawn -------------------------------------------------------------------------------------------------

    def _word_width(self, width: int) -> int:
        """Cells of a token: as many as those of the last steps need, within limits."""
        spot = self.spot
        steps = self.steps[max(spot.step - _LOOKED_AT, 0) : spot.step + _LOOKED_AT] if spot is not None else ()
        need = max((cells(_word(beam)) for step in steps for beam in (*step.beams, *step.dropped)), default=_SHORTEST)
        return min(max(need, _SHORTEST), _LONGEST if width >= _LONG_FROM else 8)

    def _head(self, first: int, last: int, word: int, room: int, width: int) -> Line:
        runs: list[Run] = [("  ", TEXT)]
        for step in range(first, last + 1):
            name = f"step {step + 1}" if step == first and word > len("step 99") else str(step + 1)
            name = f"… {name}" if step == first and first else name
            runs.append((column(name, word + 1 + (_LINK if step < last else 0)), MUTED))
        runs.append((" " * max(room - length(runs), 0), TEXT))
        heads = f"{'score':>{_SCORE}}" + ("  of the best" if width >= _BAR_FROM else "")
        return Line((*runs, (heads, MUTED)))

    def _line(self, row: _Row, first: int, last: int, word: int, room: int, width: int, here: BeamSpot) -> Line:
        runs: list[Run] = [("▌ " if here in row.spots else "  ", ACCENT)]
        begin = row.spots[0].step
        for link in row.links[: max(begin - first - 1, 0)]:
            runs += [(" " * (word + 1), TEXT), (link, FAINT)]
        if begin > first:
            runs += [(" " * (word + 1), TEXT), (row.links[begin - first - 1], FAINT)]
        leaf = row.spots[-1]
        for spot in row.spots:
            if spot.step > begin:
                runs.append((row.links[spot.step - first - 1], FAINT))
            runs += self._token(spot, word, here, ends=spot == leaf)
        inside = leaf.step < last
        if inside:
            beam, lost = self.beam(leaf), self._lost(leaf)
            runs.append((lost, MUTED) if lost else ("ended" if beam.finished else "", _ENDING))
        runs = [*fitting(runs, room)]
        runs.append((" " * max(room - length(runs), 0), TEXT))
        runs += self._numbers(leaf, inside=inside, width=width)
        return Line(tuple(runs), "panel" if here in row.spots else "")

    def _token(self, spot: BeamSpot, word: int, here: BeamSpot, *, ends: bool) -> list[Run]:
        beam = self.beam(spot)
        ink = _HERE if spot == here else _DEAD if self.is_dropped(spot) else _ENDING if beam.finished else TEXT
        text = one_line(_word(beam), word)
        left = word - cells(text)
        ink = ink._replace(does=f"walks('point', ({spot.step}, {spot.place}))")
        return [(text, ink), (" " + (" " if ends else "─") * left, FAINT)]

    def _numbers(self, spot: BeamSpot, *, inside: bool, width: int) -> list[Run]:
        """The score of a beam, and how near it is to the best: e to the power of the difference, which for a mean is the ratio
        of two geometric mean probabilities."""
        beam = self.beam(spot)
        if lost := self._lost(spot):
            return [] if inside else [(f"{lost:>{_SCORE}}", MUTED)]
        runs: list[Run] = [(f"{_score(beam.score):>{_SCORE}}", TEXT)]
        if width >= _BAR_FROM:
            share = math.exp(min(beam.score - self._top_score, 0.0))
            runs += [("  ", TEXT), *bar(share, _right(width) - _SCORE - 2 - _SHARE - _ENDED)]
            runs += [(f"{percent(share, 0):>{_SHARE}}", MUTED), (" ended" if beam.finished else "", _ENDING)]
        return runs


def _right(width: int) -> int:
    """Cells of the numbers at the right."""
    return _SCORE + 2 + min(max(width // 8, 8), 20) + _SHARE + _ENDED if width >= _BAR_FROM else _SCORE


def _word(beam: Beam) -> str:
    """An end token has no text."""
    return "end" if beam.finished and not beam.text else show_piece(beam.text)


def _score(value: float) -> str:
    return number(value, 2 if abs(value) >= _SMALL else 3)
