"""What screens send to the terminal, and when; views that scroll on them, and what a selection on them takes.

Textual's compositor asks every widget near a change for all its lines, cuts each where any widget of the row begins, and puts
the pieces together again. `FrameCompositor` asks for the lines that changed, front to back, until every cell is there.

What it is worth while a reply streams: the compositor an eighth of a frame, `touch` a tenth of the time until it is drawn,
`draw_now` up to 1/60 s of waiting, and the scroll bar a thirtieth of a frame; `Settled` and `_screen_resized` a tenth each of a
new size.

Terminals do not agree on how many cells a family of emoji, a flag or some scripts take. Behind such text the cursor is put
where it has to be, so that nothing else of the line moves, whatever the terminal makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, TypeVar

from rich.cells import cell_len, get_character_cell_size
from rich.console import Console, RenderableType
from rich.segment import Segment
from textual._compositor import ChopsUpdate, Compositor, CompositorMap, CompositorUpdate, LayoutUpdate, ReflowResult
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.color import Color
from textual.geometry import Offset, Region, Size
from textual.screen import ModalScreen, Screen
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.selection import SelectEnd
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

_SURE = frozenset(
    map(chr, (*range(0x20, 0x300), *range(0x370, 0x483), *range(0x2010, 0x20D0), *range(0x2100, 0x2600)))
).issuperset
"""Whether every terminal agrees on a text: European letters, punctuation, and what we draw with."""
_MARKED = "\u0300-\u036f\u0483-\u0489\u0590-\u109f\u1ab0-\u1aff\u200c\u200d\u20d0-\u20ff\ufb1d-\ufdff\ufe00-\ufe0f\ufe70-\ufefc"
"""Combining marks, joiners, scripts of joined letters, and those that are written from right to left."""
_UNSURE = f"[{_MARKED}\u2600-\u27bf\U0001f000-\U0001faff]"
"""The same, and emoji."""


@cache
def _unsure_words() -> re.Pattern[str]:
    """Compile when the first character comes that nobody can be sure of."""
    return re.compile(rf"(\S*{_UNSURE}\S*)")


# --- what is drawn ---------------------------------------------------------------------------------------------------


class LinesUpdate(CompositorUpdate):
    """Pieces of lines, each with its column and row."""

    def __init__(self, lines: list[tuple[int, int, Strip]]) -> None:
        self.lines = lines

    def render_segments(self, console: Console) -> str:
        return "".join(
            [
                f"{_move_to(x, y)}{strip.render(console)}"
                if _SURE(strip.text) or _unsure_words().search(strip.text) is None
                else _place_words(strip, x, y, console)
                for x, y, strip in self.lines
            ]
        )

    def __rich_console__(self, console: Console, options: object) -> Iterable[Segment]:
        """Yield whole lines for a screenshot, in which no cursor can be moved."""
        row = 0
        for _, y, strip in sorted(self.lines, key=lambda line: (line[1], line[0])):
            yield from [Segment.line()] * (y - row)
            yield from strip
            row = y


def _move_to(x: int, y: int) -> str:
    return f"\x1b[{y + 1};{x + 1}H"


def _place_words(strip: Strip, x: int, y: int, console: Console) -> str:
    """Draw a line piece by piece: below a word of unsure width there are blanks, and the cursor is put behind it."""
    drawn = [_move_to(x, y)]
    for text, style, _ in strip:
        for number, piece in enumerate(_unsure_words().split(text)):
            size = cell_len(piece)
            word = Strip([Segment(piece, style)], size).render(console)
            if number % 2:
                blank = Strip([Segment(" " * size, style)], size).render(console)
                word = f"{blank}{_move_to(x, y)}{word}{_move_to(x + size, y)}"
            drawn.append(word)
            x += size
    return "".join(drawn)


class FrameCompositor(Compositor):
    """Textual's compositor, which draws the lines that changed.

    Asked where a widget is that was just shown, it arranges all widgets at once. Textual then takes that for what the terminal
    shows, and draws nothing of it; here a layout begins with the arrangement that the layout before it left.
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
        if simplify:
            return super().render_full_update(simplify)
        self._dirty_regions = {self.size.region}
        return self._render_dirty()  # type: ignore[return-value]

    def render_partial_update(self) -> ChopsUpdate | None:
        update = self._render_dirty()
        return update if update.lines else None  # type: ignore[return-value]

    def _render_dirty(self) -> LinesUpdate:
        """Render each cell of the dirty regions by the widget in front."""
        regions = set(filter(None, map(self.size.region.intersection, self._dirty_regions)))
        dirty = [one for one in regions if not any(one != other and other.contains_region(one) for other in regions)]
        self._dirty_regions.clear()
        lines: list[tuple[int, int, Strip]] = []
        for widget, (region, clip) in self.visible_widgets.items():
            if not dirty:
                break
            shown, behind = region.intersection(clip), list[Region]()
            for part in dirty:
                left, top, width, height = here = part.intersection(shown)
                if not here:
                    behind.append(part)
                    continue
                strips = widget.render_lines(here.translate(-region.offset))
                lines += [(left, y, strip) for y, strip in enumerate(strips, top)]
                if here != part:
                    rest = (
                        Region(part.x, part.y, part.width, top - part.y),
                        Region(part.x, top, left - part.x, height),
                        Region(left + width, top, part.right - left - width, height),
                        Region(part.x, top + height, part.width, part.bottom - top - height),
                    )
                    behind += filter(None, rest)
            dirty = behind
        return LinesUpdate(lines)


def touch(widget: Widget, *regions: Region) -> None:
    """Have regions of a widget drawn again, without the two messages that `refresh` sends for it through two queues."""
    if not widget.is_mounted:
        widget.refresh(*regions)
        return
    widget._set_dirty(*regions)
    screen = widget.screen
    screen._dirty_widgets.add(widget)
    screen.check_idle()


# --- when ------------------------------------------------------------------------------------------------------------


class Settled(Widget):
    """A widget that scrolls nothing: once a layout has given it another size, Textual need not lay out everything again.

    It is the last of the bases: style sheets see the first only.
    """

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        return super()._size_updated(size, virtual_size, container_size, layout=False)


def frame_is_due(screen: Screen[Any]) -> bool:
    return bool(screen._dirty_widgets)


def draw_now(screen: Screen[Any]) -> None:
    """Draw the frame that is due, if one is, without the wait for the timer that Textual sets for it."""
    if frame_is_due(screen):
        screen._on_timer_update()


class LeavingApp(App[None]):
    """An app on whose way out nothing fails: its widgets go one by one, and what is in the queue of another asks for them."""

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """End the app; the first return code stays."""
        if not self._exit:
            super().exit(result, return_code, message)

    def leave(self, code: int = 0) -> None:
        """End the app in good order."""
        self.exit(return_code=code)

    def _handle_exception(self, error: Exception) -> None:
        if not self._exit:
            super()._handle_exception(error)


Result = TypeVar("Result")


class ClosedOnce(ModalScreen[Result]):
    """A dialog that two clicks at once do not close twice: the second would close what is beneath it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._compositor = FrameCompositor()

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        return super().dismiss(result) if self.is_active else AwaitComplete.nothing()  # type: ignore[no-untyped-call]


class LiveScreen(Screen[None], Settled):
    """A screen that shows a state which changes often: once a frame, after the one that is due.

    `_stale` says whether the state changed since it was shown; `_show_state` shows it, and sets that to False. A selection in a
    `QuickScrollView` on it is exactly what the mouse went over.
    """

    _stale = False

    def __init__(self) -> None:
        super().__init__()
        self._compositor = FrameCompositor()

    def _show_state(self) -> None:
        raise NotImplementedError

    def show_soon(self) -> None:
        """Have the state shown once, however much of it changes until then."""
        if not self._stale:
            self._stale = True
            self.call_after_refresh(lambda: self._show_state() if self._stale else None)

    def _screen_resized(self, size: Size) -> None:
        if size != self._compositor.size:  # else it was laid out for this size just now
            super()._screen_resized(size)

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Return the character on a cell; Textual takes the second cell of a wide one for the next character."""
        widget, offset = super().get_widget_and_offset_at(x, y)
        if isinstance(widget, QuickScrollView) and offset is not None:
            region = self.find_widget(widget).region
            text = widget.render_line(y - region.y).text
            if not text.isascii():
                index, end = 0, 0
                while index < len(text) and (end := end + get_character_cell_size(text[index])) <= x - region.x:
                    index += 1
                offset = Offset(index, offset.y)
        return widget, offset

    def _update_select(self) -> None:
        # While the view scrolls under the mouse, the selection grows to the text that is there now.
        state = self._select_state
        if state is not None and state.end is not None and isinstance(state.end.content_widget, QuickScrollView):
            mouse = self.app.mouse_position
            widget, offset = self.get_widget_and_offset_at(*mouse)
            if widget is state.end.content_widget and offset is not None:
                self._select_state = state.update_end(mouse, SelectEnd(state.end.container, widget, offset))
        super()._update_select()


class WordInput(Input):
    """Textual's input, for which a mark within a word does not begin another one."""

    _WORD_START = re.compile(rf"(?<=[^\w{_MARKED}])\w")


# --- views that scroll -----------------------------------------------------------------------------------------------


class QuickScrollBar(ScrollBar, Settled):
    """A vertical scroll bar one cell wide, drawn without a pass through Textual's styles for each row."""

    def render_lines(self, crop: Region) -> list[Strip]:
        bar: Any = self.render()
        cells = bar.render_bar(
            size=self.size.height,
            virtual_size=bar.virtual_size,
            window_size=bar.window_size,
            position=bar.position,
            back_color=bar.style.bgcolor,
            bar_color=bar.style.color,
        )
        rows = cells.segments[crop.y : crop.bottom]
        drawn = {cell: Strip([cell], 1) for cell in set(rows)}
        for line_filter in self.get_line_filters():
            drawn = {cell: strip.apply_filter(line_filter, Color(0, 0, 0)) for cell, strip in drawn.items()}
        return [drawn[cell] for cell in rows]


class QuickScrollView(ScrollView):
    """A scroll view with a `QuickScrollBar`, made when it is first needed."""

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        if self._vertical_scrollbar is None:
            self._vertical_scrollbar = bar = QuickScrollBar(vertical=True, name="vertical")
            bar.display = False
            self.app._start_widget(self, bar)
        return self._vertical_scrollbar
