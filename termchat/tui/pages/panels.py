"""The panels: one page of `pages` at a time, beside the chat, as a drawer over it, or full size. One widget, since one costs
the compositor least."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from textual import events
from textual.message import Message

from termchat.chat.service import Chat
from termchat.conversation.tree import Span
from termchat.tui.draw.ink import BLANK, MARGIN, Ink, Line, Run
from termchat.tui.draw.marks import LIGHT, LIT, MUTED, flowing, length, spread
from termchat.tui.keys.tables import BIG, name_of
from termchat.tui.pages.knobs_view import KnobsView
from termchat.tui.pages.page import Scene
from termchat.tui.pages.panel_pages import PAGES
from termchat.tui.pages.shown_reply import ShownReply
from termchat.tui.pages.token_mode import TokenMode
from termchat.tui.pages.tune import Tune
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


class Panels(KnobsView):
    """`page` is the name of what they show; `big` that they have all the room there is, and the keyboard.

    Wide and narrow screens each remember whether their panels are shown; `beside` says which of them this one is. With `asked`
    neither has them until they are asked for. The style sheet of the screen does the rest, by its classes `-panels`, `-wide`
    and `-alone`.
    """

    DEFAULT_CSS = "Panels { width: 47; height: 1fr; }"
    BINDINGS = [key.binding for key in BIG]  # noqa: RUF012

    class Pointed(Message):
        """A token was clicked: in a plot over the reply, the one that stands out in that column."""

        def __init__(self, ref: TokenRef) -> None:
            super().__init__()
            self.ref = ref

    class Computed(Message):
        """There is something new to show that is no news of the chat."""

    def __init__(self, knobs: Tune, *, asked: bool = False) -> None:
        super().__init__(knobs)
        self.beside = True
        self._columns = self._needed = 0
        self._open = {True: not asked, False: False}
        self._unasked, self._asked = False, asked
        self._needs: set[str] = set()
        self.page = "chain"
        self.big = False
        self.shown = ShownReply(lambda: self.call_later(self.post_message, self.Computed()))
        self._pages = {name: page(self.shown) for name, page in PAGES.items()}
        self._offered: frozenset[str] = frozenset()
        self._tab_lines = 0
        self.lit: Collection[str] = ()
        """The pages that a lesson points at."""

    # --- whether they are shown ------------------------------------------------------------------------------------------

    @property
    def is_shown(self) -> bool:
        return self._open[self.beside]

    def make_room(self, columns: int) -> None:
        """Leave so many columns to what stands in the chat's place before the panels have any unasked; 0: the chat is there."""
        if columns != self._needed:
            self._needed = columns
            self.fit(self._columns)

    def fit(self, columns: int) -> None:
        """Follow the width of the screen."""
        self._columns = columns
        self.beside = columns >= max(_BESIDE, self._needed + _WIDTH if self._needed else 0)
        self.screen.set_class(columns >= _WIDE, "-wide")
        self.screen.set_class(columns < ALONE, "-alone")
        self.screen.set_class(self.is_shown, "-panels")

    def open_like(self, other: Panels) -> None:
        """Show the panels where a person has asked for those of another screen."""
        self._open = dict(other._open)
        if other._unasked:
            self._open[False] = False
            self._open[True] = self._open[True] and not other._asked
        self.fit(other._columns)

    def toggle(self) -> None:
        self._unasked = False
        self._show_if(not self.is_shown)

    def need(self, who: str) -> None:
        """Show the panels for as long as somebody needs them."""
        self._needs.add(who)
        if not self.is_shown:
            self._unasked = self._asked or not self.beside
            self._show_if(True)

    def release(self, who: str) -> None:
        """Hide the panels again unless somebody else needs them, or a person had asked for them."""
        self._needs.discard(who)
        if self._unasked and not self._needs:
            self._unasked = self._open[False] = False
            if self._asked:
                self._open[True] = False
            self._show_if(self.is_shown)

    def _show_if(self, shown: bool) -> None:
        self._open[self.beside] = shown
        self.screen.set_class(shown, "-panels")

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
            and (name in self._offered or name == self.page)
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

    def show_chat(
        self, chat: Chat, reply: Sequence[Span], knobs: Tune, mode: TokenMode | None, *, tuning: bool
    ) -> None:
        """Show the newest step of a reply, or the token that token mode is on, while that is open. While TUNE is open, the knob
        it is on stands out."""
        self._knobs, self._is_open = knobs, tuning
        about = self.shown
        about.chat, about.tune, about.mode = chat, knobs if tuning else None, mode
        about.reply, about.cursor = reply, mode.transcript.cursor if mode is not None else None
        width, height = max(self.room - self._margin, 0), self.size.height
        self._offered = frozenset(name for name, page in self._pages.items() if page.is_offered)
        page = self._pages[self.here]
        tabs = self._tabs(width, page.heading if mode is None else None, in_tokens=mode is not None)
        self._tab_lines = len(tabs)
        lines = [*tabs, *page.lines(Scene(width, height - len(tabs), height, self.big))][:height]
        filled = lines + [BLANK] * (height - len(lines))
        self.show_lines(filled if self.big else [_edged(line, width) for line in filled])

    def on_click(self, event: events.Click) -> None:
        if event.button != 1:
            return
        ref = self._pages[self.here].token_at(event.x - MARGIN - self._margin, event.y - self._tab_lines)
        if ref is not None:
            event.stop()
            self.post_message(self.Pointed(ref))

    def _tabs(self, width: int, right: Run | None, *, in_tokens: bool) -> list[Line]:
        """Render the names of the pages, and at the right the way to the big view and back, `right` in its place but beside the
        way back; on two lines if there is no room for one."""
        way = (f"{name_of('big')} {'back' if self.big else 'big'}", MUTED._replace(does="big"))
        ways = [way] if right is None else [way, ("  ", MUTED), right] if self.big else [right]
        room, gap = (width - length([way]) - _ASIDE, " ") if self.big else (width - length(ways) - 1, "")
        for short in (False, True):
            lines = flowing(([self._tab(name, in_tokens=in_tokens, short=short)] for name in self.pages), room, gap)
            if len(lines) == 1:
                break
        return [*lines[:-1], Line(spread(lines[-1].runs, ways, width))]

    def _tab(self, name: str, *, in_tokens: bool, short: bool) -> Run:
        page = self._pages[name]
        label = (in_tokens and page.in_tokens) or (short and page.short) or name
        label = label if page.part_of else label.upper()
        shown = name == self.here
        ink = _HERE if shown else MUTED._replace(does=f"page('{name}')")
        if name in self.lit:
            label, ink = f"{LIT}{label}", _LIT_HERE if shown else LIGHT._replace(does=ink.does)
        return (f" {label} " if shown or not self.big else label, ink)


def _edged(line: Line, width: int) -> Line:
    """Put a line behind the edge; its own background starts there too."""
    if not line.ground:
        return Line((_EDGE, *line.runs))
    fill = (" " * max(width - length(line.runs), 0), Ink())
    return Line((_EDGE, *((text, ink._replace(ground=line.ground)) for text, ink in (*line.runs, fill))))
