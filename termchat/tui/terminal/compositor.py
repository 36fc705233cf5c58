"""Draws lines that nothing covers straight to the terminal.

Textual's compositor asks every widget near a change for all its lines, cuts each where any widget of the row begins, and puts
the pieces together again. Where the changed widgets stand beside each other, as here, all of that gives back the very lines
that went in, at twice the cost of the rest of a frame. What is covered, clipped or unknown goes Textual's way.

Terminals do not agree on how many cells a family of emoji, a flag or some scripts take. Behind such text the cursor is put
where it has to be, so that nothing else of the line moves, whatever the terminal makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.control import Control
from rich.segment import Segment
from textual._compositor import ChopsUpdate, Compositor, CompositorMap, CompositorUpdate, LayoutUpdate, ReflowResult
from textual.events import Resize
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

_SURE = frozenset(
    map(chr, (*range(0x20, 0x300), *range(0x370, 0x483), *range(0x2010, 0x20D0), *range(0x2100, 0x2600)))
).issuperset
"""Whether every terminal agrees on a text: European letters, punctuation, and what we draw with."""
_UNSURE = (
    "[\u0300-\u036f\u0483-\u0489\u0590-\u109f\u1ab0-\u1aff\u200c\u200d\u20d0-\u20ff\u2600-\u27bf\ufb1d-\ufdff"
    "\ufe00-\ufe0f\ufe70-\ufefc\U0001f000-\U0001faff]"
)
"""Combining marks, joiners, emoji, scripts of joined letters, and those that are written from right to left."""


@cache
def _unsure_words() -> re.Pattern[str]:
    """Compiled when the first character comes that nobody can be sure of."""
    return re.compile(rf"(\S*{_UNSURE}\S*)")


class Area(NamedTuple):
    """A widget that can be drawn alone: where on the screen its first columns are, which nothing covers."""

    widget: Widget
    region: Region


class Settled(Widget):
    """A widget that scrolls nothing: once a layout has given it another size, Textual need not lay out everything again.

    It is the last of the bases: style sheets see the first only.
    """

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        return super()._size_updated(size, virtual_size, container_size, layout=False)


class Sized(Settled):
    """A widget that hears of every size it gets. Textual tells a widget only a size that is news to the compositor; but that
    finds out by itself as soon as anybody asks for the size of a widget that was just mounted or is shown again."""

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        changed = super()._size_updated(size, virtual_size, container_size, layout)
        if changed:
            self.post_message(Resize(size, virtual_size, container_size))  # the queue makes one of several
        return changed


class LinesUpdate(CompositorUpdate):
    """Whole lines of widgets, each with its column and row; `whole` makes the same as one picture, for what is no terminal."""

    def __init__(
        self, lines: list[tuple[int, int, Strip]], whole: Callable[[], CompositorUpdate] | None = None
    ) -> None:
        self.lines, self._whole = lines, whole

    def render_segments(self, console: Console) -> str:
        return "".join(
            [
                f"{_to(x, y)}{strip.render(console)}" if _is_sure(strip.text) else _placed(strip, x, y, console)
                for x, y, strip in self.lines
            ]
        )

    def __rich_console__(self, console: Console, options: object) -> Iterable[object]:
        # For whoever prints it with Rich, which makes screenshots: there is no cursor to be moved there.
        if self._whole is not None:
            yield self._whole()
            return
        for x, y, strip in self.lines:
            yield Control.move_to(x, y).segment
            yield from strip


def _is_sure(text: str) -> bool:
    return _SURE(text) or _unsure_words().search(text) is None


def _to(x: int, y: int) -> str:
    return f"\x1b[{y + 1};{x + 1}H"


def _placed(strip: Strip, x: int, y: int, console: Console) -> str:
    """A line piece by piece: below a word of unsure width there are blanks, and the cursor is put behind it."""
    drawn = [_to(x, y)]
    for text, style, _ in strip:
        for number, piece in enumerate(_unsure_words().split(text)):
            size = cell_len(piece)
            here = Strip([Segment(piece, style)], size).render(console)
            if number % 2:
                blank = Strip([Segment(" " * size, style)], size).render(console)
                here = f"{blank}{_to(x, y)}{here}{_to(x + size, y)}"
            drawn.append(here)
            x += size
    return "".join(drawn)


class PlacingCompositor(Compositor):
    """Textual's compositor; the terminal is sent its lines with the cursor put behind what nobody can be sure of.

    Who asks where a widget is that was just shown has it arrange all widgets at once. Textual then takes that for what the
    terminal shows, and draws nothing of it; here a layout begins with the arrangement that the layout before it left.
    """

    def __init__(self) -> None:
        super().__init__()
        self._laid_out: CompositorMap | None = None

    @property
    def full_map(self) -> CompositorMap:
        if self._full_map_invalidated and self._laid_out is None:
            self._laid_out = self._full_map
        return super().full_map

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        if self._laid_out is not None:
            self._full_map = self._laid_out
        result = super().reflow(parent, size)
        self._laid_out = None  # also where somebody asked meanwhile
        return result

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        update = super().render_full_update(simplify)
        if simplify:
            return update
        rows = enumerate(update.strips, update.region.y)
        lines = [(update.region.x, y, Strip.join(strips)) for y, strips in rows]
        return LinesUpdate(lines, lambda: update)  # type: ignore[return-value]

    def render_partial_update(self) -> ChopsUpdate | None:
        update = super().render_partial_update()
        if update is None:
            return None
        lines = [
            (x, y, strip if end <= last else strip.crop(0, last - x))
            for y, first, last in update.spans
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False)
            if strip is not None and x < last and end > first
        ]
        return LinesUpdate(lines, lambda: update)  # type: ignore[return-value]


class LineCompositor(PlacingCompositor):
    """With a short way for lines that stand alone."""

    def __init__(self) -> None:
        super().__init__()
        self._areas: list[Area] = []
        self._areas_of: object = None

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        # Widget by widget, where those that stand alone cover the screen.
        areas = self._all_areas()
        if simplify or sum(area.region.area for area in areas) != self.size.area:
            return super().render_full_update(simplify)
        self._dirty_regions.clear()
        lines = [
            (area.region.x, area.region.y + row, strip)
            for area in areas
            for row, strip in enumerate(area.widget.render_lines(area.region.size.region))
        ]
        return LinesUpdate(lines, super().render_full_update)  # type: ignore[return-value]

    def render_partial_update(self) -> ChopsUpdate | None:
        rows: dict[Area, set[int]] = {}
        for dirty in self._dirty_regions:
            missing = (dirty := dirty.intersection(self.size.region)).area
            for area in self._all_areas() if missing else ():
                part = area.region.intersection(dirty)
                if part:
                    missing -= part.area
                    rows.setdefault(area, set()).update(part.line_range)
                    if not missing:
                        break
            if missing:
                return super().render_partial_update()
        self._dirty_regions.clear()
        lines: list[tuple[int, int, Strip]] = []
        for (widget, region), wanted in rows.items():
            for first, count in _runs(wanted):
                strips = widget.render_lines(Region(0, first - region.y, region.width, count))
                lines += [(region.x, first + i, strip) for i, strip in enumerate(strips)]
        return LinesUpdate(lines) if lines else None  # type: ignore[return-value]

    def _all_areas(self) -> list[Area]:
        visible = self.visible_widgets
        if visible is not self._areas_of:
            self._areas, self._areas_of = _areas(visible), visible
        return self._areas


def touch(widget: Widget, *regions: Region) -> None:
    """Has regions of a widget drawn again, without the two messages that `refresh` sends for it through two queues."""
    if not widget.is_mounted:
        widget.refresh(*regions)
        return
    widget._set_dirty(*regions)
    screen = widget.screen
    screen._dirty_widgets.add(widget)
    screen.check_idle()


def _areas(visible: dict[Widget, tuple[Region, Region]]) -> list[Area]:
    """The widgets that stand alone, of all, front to back."""
    areas: list[Area] = []
    front: list[Region] = []
    for widget, (region, clip) in visible.items():
        if clip.contains_region(region):
            width = region.width
            for other in front:
                if not other.overlaps(region):
                    continue
                # A scroll bar: all of the last columns.
                beside = other.y <= region.y and other.bottom >= region.bottom and other.right >= region.right
                width = min(width, max(other.x - region.x, 0)) if beside else 0
            if width > 0:
                areas.append(Area(widget, Region(region.x, region.y, width, region.height)))
        front.append(region.intersection(clip))
    return areas


def _runs(rows: set[int]) -> Iterable[tuple[int, int]]:
    """Rows that follow each other, as the first and how many."""
    first = last = -2
    for row in sorted(rows):
        if row != last + 1:
            if first >= 0:
                yield first, last - first + 1
            first = row
        last = row
    if first >= 0:
        yield first, last - first + 1
