"""The beams of a search: the text of the one under the cursor, and below it the lattice."""

from __future__ import annotations

from collections.abc import Mapping

from termchat.chat.changes import Notice
from termchat.decoding.group import BeamSettings
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.marks import TEXT
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.keys.tables import name_of
from termchat.tui.walks.lattice import BeamSpot, Lattice, LatticeMove
from termchat.tui.walks.walk_scene import WalksScene

_TEXT = 3
"""Rows of text, at most."""
_MOVES: dict[str, tuple[LatticeMove, LatticeMove]] = {
    "go": ("left", "right"),
    "line": ("up", "down"),
    "jump": ("first", "last"),
}
_OF_REPLIES = ("choose", "keep_all", "stop", "tune", "fork")
"""What keys do to one of several replies."""


class BeamsPage:
    """Enter makes a branch of what is under the cursor, dropped or not."""

    words: Mapping[str, str] = {
        "walk-keep": "branch", "walk-left": "step", "walk-up": "beam",
        **dict.fromkeys(("walk-1", "walk-keep-all", "walk-stop", "walk-tune", "walk-fork"), ""),
    }  # fmt: skip

    def __init__(self) -> None:
        self.line_in_view: int | None = 0
        self._lattice: Lattice | None = None
        self._rows = 0

    def draw(self, scene: WalksScene) -> list[Line]:
        lattice = self._of(scene)
        spot = lattice.spot
        if spot is None:
            return [lattice.facts(scene.width)]
        wrapper = Wrapper(scene.width)
        wrapper.feed(lattice.text(spot).strip(), TEXT)
        text = wrapper.lines[-_TEXT:]
        self._rows = max(self._rows, len(text))  # it never shrinks, so that nothing moves
        lines = [*text, *[BLANK] * (self._rows - len(text)), BLANK]
        return [*lines, *lattice.lines(scene.width, scene.rows - len(lines) - 1), lattice.facts(scene.width)]

    def act(self, scene: WalksScene, what: str, *arguments: object) -> bool:
        lattice, by = self._of(scene), arguments[0] if arguments else 0
        spot = lattice.spot
        if what in _MOVES and isinstance(by, int):
            lattice.move(_MOVES[what][by > 0])
        elif what == "point" and isinstance(by, tuple):
            lattice.point(BeamSpot(*by))
        elif what == "keep" and spot is not None:
            step, place, dropped = lattice.steps[spot.step].step, lattice.beam(spot).walk, lattice.is_dropped(spot)
            scene.chat.walks.branch_of_beam(step, place, dropped=dropped)
        elif what in _OF_REPLIES:
            ways = f"{name_of('walk-keep')} makes a branch of it. {name_of('back')} ends the search."
            scene.chat.add_changes(Notice("a beam is not a reply yet", ways))
        else:
            return False
        return True

    def _of(self, scene: WalksScene) -> Lattice:
        if self._lattice is None:
            self._lattice = Lattice((), scene.group.group.beams or BeamSettings(1))
        self._lattice.steps = scene.group.beams
        return self._lattice
