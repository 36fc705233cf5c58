"""A scroll view with a scroll bar that draws itself fast."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.events import Resize
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip

from termchat.tui.terminal.compositor import Settled


class QuickScrollBar(ScrollBar, Settled):
    """A vertical scroll bar one cell wide, drawn without a pass through Textual's styles for each row."""

    def render_lines(self, crop: Region) -> list[Strip]:
        bar = self.render()
        assert isinstance(bar, ScrollBarRender)
        style = bar.style
        assert isinstance(style, Style)
        cells = bar.render_bar(
            size=self.size.height,
            virtual_size=bar.virtual_size,
            window_size=bar.window_size,
            position=bar.position,
            back_color=style.bgcolor,  # type: ignore[arg-type]  # Rich's colours are what it uses
            bar_color=style.color,  # type: ignore[arg-type]
        )
        made: dict[Segment, Strip] = {}
        return [
            made.get(cell) or made.setdefault(cell, self._filtered(cell))
            for cell in cells.segments[crop.y : crop.bottom]
        ]

    def _filtered(self, cell: Segment) -> Strip:
        strip = Strip([cell], 1)
        for line_filter in self.get_line_filters():
            strip = strip.apply_filter(line_filter, Color(0, 0, 0))
        return strip


class QuickScrollView(ScrollView):
    """A scroll view with a `QuickScrollBar`, made when it is first needed. It hears of every size it gets (see `Sized`)."""

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        changed = super()._size_updated(size, virtual_size, container_size, layout)
        if changed:
            self.post_message(Resize(size, virtual_size, container_size))
        return changed

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        if self._vertical_scrollbar is None:
            self._vertical_scrollbar = bar = QuickScrollBar(vertical=True, name="vertical")
            bar.display = False
            self.app._start_widget(self, bar)
        return self._vertical_scrollbar
