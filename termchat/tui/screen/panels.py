"""The panels at the right, which show one page of `pages.panel_pages` at a time. One widget, since one costs the compositor
least."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from textual import events
from textual.message import Message

from termchat.chat.service import Chat
from termchat.conversation.tree import Span
from termchat.tui.draw.ink import BLANK, MARGIN, Ink, Line, Run
from termchat.tui.draw.marks import LIGHT, LIT, MUTED, flowing, length, spread
from termchat.tui.keys.tables import BIG, name_of
from termchat.tui.pages.page import Scene
from termchat.tui.pages.panel_pages import PAGES
from termchat.tui.pages.shown_reply import ShownReply
from termchat.tui.pages.token_mode import TokenMode
from termchat.tui.pages.tune import Tune
from termchat.tui.screen.knobs import KnobsView
from termchat.tui.transcript.cursor.token_order import TokenRef

_ASIDE = 7
"""Cells beside the way back that are kept for the head of a column, so that the names stay the same on all pages."""
_EDGE = ("│ ", Ink("border", ground="background"))
_HERE = Ink("text", ground="panel", bold=True)
_LIT_HERE = Ink("warning", ground="panel", bold=True)


class Panels(KnobsView):
    """`page` is the name of what they show; `big` that they have all the room there is, and the keyboard."""

    DEFAULT_CSS = "Panels { width: 47; height: 1fr; }"
    BINDINGS = [key.binding for key in BIG]  # noqa: RUF012

    class Pointed(Message):
        """A token was clicked: in a plot over the reply, the one that stands out in that column."""

        def __init__(self, ref: TokenRef) -> None:
            super().__init__()
            self.ref = ref

    class Computed(Message):
        """There is something new to show that is no news of the chat."""

    def __init__(self) -> None:
        super().__init__()
        self.page = "chain"
        self.big = False
        self.shown = ShownReply(lambda: self.call_later(self.post_message, self.Computed()))
        self._pages = {name: page(self.shown) for name, page in PAGES.items()}
        self._offered: frozenset[str] = frozenset()
        self._tab_lines = 0
        self.lit: Collection[str] = ()
        """The pages that a lesson points at."""

    @property
    def _margin(self) -> int:
        """Cells of the edge, which the big view does without."""
        return 0 if self.big else len(_EDGE[0])

    @property
    def pages(self) -> list[str]:
        """Those that can be turned to."""
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

    def show_chat(self, chat: Chat, tune: Tune | None, mode: TokenMode | None = None) -> None:
        """Shows the newest step; in token mode, while that is open, the token under the cursor. With `tune`, the knob it is on
        stands out."""
        width, height = max(self.room - self._margin, 0), self.size.height
        self.shown.chat, self.shown.tune, self.shown.mode = chat, tune, mode
        self._offered = frozenset(name for name, page in self._pages.items() if page.is_offered)
        page = self._pages[self.here]
        tabs = self._tabs(width, page.heading if mode is None else None, in_tokens=mode is not None)
        self._tab_lines = len(tabs)
        lines = [*tabs, *page.lines(Scene(width, height - len(tabs), height, self.big))][:height]
        filled = lines + [BLANK] * (height - len(lines))
        self.show_lines(filled if self.big else [_edged(line, width) for line in filled])

    def point_at(self, reply: Sequence[Span], cursor: TokenRef | None) -> None:
        """From now on the pages are about this reply, with this token marked."""
        self.shown.reply, self.shown.cursor = reply, cursor

    def on_click(self, event: events.Click) -> None:
        if event.button != 1:
            return
        ref = self._pages[self.here].token_at(event.x - MARGIN - self._margin, event.y - self._tab_lines)
        if ref is not None:
            event.stop()
            self.post_message(self.Pointed(ref))

    def _tabs(self, width: int, right: Run | None, *, in_tokens: bool) -> list[Line]:
        """The pages, and at the right the way to the big view and back, `right` in its place but beside the way back; on two
        lines where there is no room for one."""
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
    """The line after the edge; a line's own background starts there too."""
    if not line.ground:
        return Line((_EDGE, *line.runs))
    fill = (" " * max(width - length(line.runs), 0), Ink())
    return Line((_EDGE, *((text, ink._replace(ground=line.ground)) for text, ink in (*line.runs, fill))))
