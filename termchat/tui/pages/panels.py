"""The panels: one page of `panel_pages` at a time, beside the chat, as a drawer over it, or full size. One widget, since one
costs the compositor least.

In its lines the mouse turns knobs (see `Ink.knob`): the wheel turns the one under it; bars are dragged, and stages to another
row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len
from textual import events
from textual.dom import DOMNode
from textual.message import Message
from textual.timer import Timer

from termchat.conversation.tree import Span
from termchat.tui.draw.background import FRAMES
from termchat.tui.draw.ink import BLANK, MARGIN, Ink, Line, Run
from termchat.tui.draw.lines_view import LinesView
from termchat.tui.draw.marks import LIGHT, LIT, MUTED, flowing, length, spread
from termchat.tui.keys.tables import BIG, name_of
from termchat.tui.pages.panel_pages import PAGES, ShownReply
from termchat.tui.pages.scene import Scene
from termchat.tui.pages.token_bar import Tokens
from termchat.tui.pages.tune_mode import Tune
from termchat.tui.transcript.tokens import TokenRef

_BESIDE = 100
"""Columns from which the panels stand beside the chat unasked; on a narrower screen they are a drawer."""
_WIDE, _WIDTH = 150, 60
"""Columns from which they are wider, and how wide they are then."""
ALONE = 80
"""Columns below which an open drawer takes the chat's place."""
_ASIDE = 7
"""Cells beside the way back that are kept for the head of a column, so that the names stay the same on all pages."""
_EDGE = ("│ ", Ink("border", ground="background"))
_HERE = Ink("text", ground="panel", bold=True)
_LIT_HERE = Ink("warning", ground="panel", bold=True)


class Panels(LinesView):
    """`page` is the name of what they show; `big` that they have all the room there is, and the keyboard.

    Wide and narrow screens each remember whether their panels are shown; `beside` says which of them this one is. With `asked`
    neither has them until they are asked for. The style sheet of the screen does the rest, by its classes `-panels`, `-wide`
    and `-alone`.
    """

    DEFAULT_CSS = "Panels { width: 47; height: 1fr; }"
    BINDINGS = [key.binding for key in BIG]  # noqa: RUF012

    class Pointed(Message):
        """A token was clicked: in a plot over the reply, the outstanding one of that column."""

        def __init__(self, ref: TokenRef) -> None:
            super().__init__()
            self.ref = ref

    class Computed(Message):
        """A computation has ended, whose result can be shown."""

    class Turned(Message):
        """The mouse turned a knob."""

    def __init__(self, knobs: Tune, *, asked: bool = False) -> None:
        super().__init__()
        self.beside = True
        self._columns = self._needed = 0
        self._open = {True: not asked, False: False}
        """Whether a person wants them, beside the chat and as a drawer."""
        self._asked = asked
        self._needs: set[str] = set()
        """Who needs them besides."""
        self.page = "chain"
        self.big = False
        self.shown = ShownReply(lambda: self.call_later(self.post_message, self.Computed()), knobs)
        self._pages = {name: page(self.shown) for name, page in PAGES.items()}
        self._tab_lines = 0
        self.lit: Collection[str] = ()
        """The pages that a lesson points at."""
        self._held = ""
        """The knob that the mouse holds: by its `_bar`, or without one by its row, which was last dragged to `_row`."""
        self._bar = range(0)
        self._row = self._at = 0
        self._dragged = False
        self._slid_to: int | None = None
        """The cell for which the knob was set last; the mouse is `_at` another."""
        self._next_slide: Timer | None = None

    # --- whether they are shown ------------------------------------------------------------------------------------------

    @property
    def is_shown(self) -> bool:
        return self._open[self.beside] or bool(self._needs)

    def make_room(self, columns: int) -> None:
        """Leave so many columns to a group in the chat's place before the panels have any unasked; 0: the chat is there."""
        if columns != self._needed:
            self._needed = columns
            self.fit(self._columns)

    def fit(self, columns: int, screen: DOMNode | None = None) -> None:
        """Follow the width of the screen; name it before they are mounted there."""
        self._columns = columns
        self.beside = columns >= max(_BESIDE, self._needed + _WIDTH if self._needed else 0)
        classes = {"-wide": columns >= _WIDE, "-alone": columns < ALONE, "-panels": self.is_shown}
        (screen or self.screen).update_classes(classes)

    def open_like(self, other: Panels) -> None:
        """Show the panels where a person has asked for those of another screen."""
        self._open = dict(other._open)
        self.fit(other._columns)

    def toggle(self) -> None:
        self._open[self.beside] = not self.is_shown
        self._needs.clear()
        self.fit(self._columns)

    def need(self, who: str) -> None:
        """Show the panels while `who` needs them; beside the chat, where they usually are, they stay then."""
        if self.beside and not self._asked:
            self._open[True] = True
        self._needs.add(who)
        self.fit(self._columns)

    def release(self, who: str) -> None:
        """Hide the panels again unless others need them, or a person had asked for them."""
        self._needs.discard(who)
        self.fit(self._columns)

    # --- pages -----------------------------------------------------------------------------------------------------------

    @property
    def _margin(self) -> int:
        """Cells of the edge, which the big view does without."""
        return 0 if self.big else len(_EDGE[0])

    @property
    def pages(self) -> list[str]:
        """The names of the pages that can be turned to."""
        large = self.big and self.shown.mode is not None
        return [
            name
            for name, page in self._pages.items()
            if (self.big or not page.part_of)
            and not (large and page.as_token)
            and (page.is_offered or name == self.page)
        ]

    @property
    def here(self) -> str:
        """The page that is shown, by the name that it has among `pages`."""
        return self.page if self.page in self.pages else self.pages[0]

    def turn(self, by: int) -> None:
        self.page = self.pages[(self.pages.index(self.here) + by) % len(self.pages)]

    def enlarge(self, big: bool) -> None:
        self.big = big
        if not big:
            self.page = PAGES[self.page].part_of or self.page

    def show_reply(self, reply: Sequence[Span], knobs: Tune, mode: Tokens | None, *, tuning: bool) -> None:
        """Show the newest step of a reply, or the token that token mode is on, while that is open. While TUNE is open, the knob
        it is on stands out."""
        about = self.shown
        about.reply, about.mode, about.knobs, about.tuning = reply, mode, knobs, tuning
        width, height = max(self.room - self._margin, 0), self.size.height
        tabs = self._render_tabs(width)
        self._tab_lines = len(tabs)
        scene = Scene(width, height - len(tabs), self.big)
        lines = [*tabs, *self._pages[self.here].lines(scene)][:height]
        filled = lines + [BLANK] * (height - len(lines))
        self.show_lines(filled if self.big else [_render_edge(line, width) for line in filled])

    def _render_tabs(self, width: int) -> list[Line]:
        """Render the names of the pages, on two lines if there is no room for one, and at the right the way to the big view and
        back: the heading of the page in its place, or beside the way back."""
        here, pages = self.here, self.pages
        right = self._pages[here].heading if self.shown.mode is None else None
        way = (f"{name_of('big')} {'back' if self.big else 'big'}", MUTED._replace(does="big"))
        ways = [way] if right is None else [way, ("  ", MUTED), right] if self.big else [right]
        room, gap = (width - length([way]) - _ASIDE, " ") if self.big else (width - length(ways) - 1, "")
        for short in (False, True):
            lines = flowing(([self._render_tab(name, name == here, short=short)] for name in pages), room, gap)
            if len(lines) == 1:
                break
        return [*lines[:-1], Line(spread(lines[-1].runs, ways, width))]

    def _render_tab(self, name: str, shown: bool, *, short: bool) -> Run:
        page = self._pages[name]
        label = (page.in_tokens if self.shown.mode is not None else "") or (short and page.short) or name
        label = label if page.part_of else label.upper()
        ink = _HERE if shown else MUTED._replace(does=f"page('{name}')")
        if name in self.lit:
            label, ink = f"{LIT}{label}", _LIT_HERE if shown else LIGHT._replace(does=ink.does)
        return (f" {label} " if shown or not self.big else label, ink)

    # --- the mouse -------------------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        if self._dragged:  # it ends there, and means nothing of what is under it
            event.stop()
            event.prevent_default()
        elif event.button == 1:
            ref = self._pages[self.here].token_at(event.x - MARGIN - self._margin, event.y - self._tab_lines)
            if ref is not None:
                event.stop()
                self.post_message(self.Pointed(ref))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._turn_by_wheel(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._turn_by_wheel(event, -1)

    def _turn_by_wheel(self, event: events.MouseEvent, steps: int) -> None:
        ink = self.ink_at(event.x, event.y)
        if ink is not None and ink.knob:
            event.stop()
            event.prevent_default()
            self.shown.knobs.turn_knob(ink.knob, steps, coarse=event.shift)
            self._end_turn()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._held, cells = self._read_knob(event.y) if event.button == 1 else ("", range(0))
        self._bar = cells if event.x in cells else range(0)
        self._row, self._dragged, self._slid_to = event.y, False, None
        if self._held:
            event.stop()
            self.capture_mouse()
        if self._bar:
            self._follow_drag(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._bar:
            event.stop()
            self._follow_drag(event.x)
        elif self._held and event.y != self._row:  # the stage is drawn there before the mouse says more
            (onto, _), down, self._row = self._read_knob(event.y), event.y > self._row, event.y
            if onto and onto != self._held:
                self.shown.knobs.carry_stage(self._held, onto, down=down, begins=not self._dragged)
                self._end_turn()
                self._dragged = True

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._bar:
            event.stop()
            self._at = event.x
            self._set_slid()
        if self._held:
            self.release_mouse()
        self._held, self._bar = "", range(0)

    def _follow_drag(self, x: int) -> None:
        """Follow the mouse, and post so at most once a frame: a turned knob is work for the engine."""
        self._at = x
        if self._next_slide is None:
            self._set_slid()
            self._next_slide = self.set_timer(1 / FRAMES, self._slide_later)

    def _slide_later(self) -> None:
        self._next_slide = None
        self._set_slid()

    def _set_slid(self) -> None:
        if self._bar and self._at != self._slid_to:
            fraction = (self._at - self._bar.start) / max(len(self._bar) - 1, 1)
            begins, self._slid_to = self._slid_to is None, self._at
            self.shown.knobs.slide_knob(self._held, min(max(fraction, 0.0), 1.0), begins=begins)
            self.post_message(self.Turned())

    def _end_turn(self) -> None:
        if not self.shown.tuning:
            self.shown.knobs.drop()  # nobody reads there what the knob said to it
        self.post_message(self.Turned())

    def _read_knob(self, y: int) -> tuple[str, range]:
        """Return the knob of a line, and the cells of its bar."""
        knob, cells, end = "", range(0), MARGIN
        for text, ink in self._lines[y].runs if 0 <= y < len(self._lines) else ():
            begin, end = end, end + cell_len(text)
            knob = knob or ink.knob
            if ink.knob and not ink.does:
                cells = range(cells.start or begin, end)
        return knob, cells


def _render_edge(line: Line, width: int) -> Line:
    """Put a line behind the edge; its own background starts there too."""
    if not line.ground:
        return Line((_EDGE, *line.runs))
    fill = (" " * max(width - length(line.runs), 0), Ink())
    return Line((_EDGE, *((text, ink._replace(ground=line.ground)) for text, ink in (*line.runs, fill))))
