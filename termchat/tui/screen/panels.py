"""The panels at the right: pages of what is known of the chain, the reply and the next token. One widget, since one costs the
compositor least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from textual import events
from textual.message import Message

from termchat.chat.service import Chat
from termchat.conversation.tree import Span
from termchat.decoding.records import Token
from termchat.tui.draw.ink import BLANK, MARGIN, Ink, Line, Run
from termchat.tui.draw.marks import MUTED, ROOMY, again, flowing, length, spread
from termchat.tui.keys.tables import BIG, name_of
from termchat.tui.panels.candidates import candidate_lines
from termchat.tui.panels.chain_panel import chain_lines
from termchat.tui.panels.timing import prefill_line, timing_lines
from termchat.tui.panels.tune_mode import Tune
from termchat.tui.screen.knobs import KnobsView
from termchat.tui.tokens.mode import TokenMode
from termchat.tui.transcript.cursor.token_order import TokenRef

if TYPE_CHECKING:  # pictures are not on the first page, so that the first frame does not wait for them
    from termchat.tui.panels.plots.pictures import Placed
    from termchat.tui.panels.plots.trace import Trace

Page = Literal[
    "chain", "reply", "next", "entropy", "probability", "time", "distribution", "temperature", "survivors"
]  # fmt: skip

PAGES: tuple[Page, ...] = ("chain", "reply", "next")
BIG_PAGES: tuple[Page, ...] = (
    "chain", "reply", "entropy", "probability", "time", "next", "distribution", "temperature", "survivors",
)  # fmt: skip
"""In the big view every picture has a page of its own besides."""
_HOME: dict[Page, Page] = {
    **dict.fromkeys(("entropy", "probability", "time"), "reply"),
    **dict.fromkeys(("distribution", "temperature", "survivors"), "next"),
}  # fmt: skip
"""Where a picture stands when the big view is closed."""

_SHORT = {"probability": "prob", "temperature": "temp"}
"""Pages of the big view where there is no room for all their names and the way back on one line."""
_ASIDE = 7
"""Cells beside the way back that are kept for the head of a column, so that the names stay the same on all pages."""

_EDGE = ("│ ", Ink("border", ground="background"))
_HERE = Ink("text", ground="panel", bold=True)


class Panels(KnobsView):
    """`page` is what they show; `big` that they have all the room there is, and the keyboard.

    Chain and timing take what they need, the candidates the rest.
    """

    DEFAULT_CSS = "Panels { width: 47; height: 1fr; }"
    BINDINGS = [key.binding for key in BIG]  # noqa: RUF012

    class Pointed(Message):
        """A token was clicked: in a plot over the reply, the one that stands out in that column."""

        def __init__(self, ref: TokenRef) -> None:
            super().__init__()
            self.ref = ref

    def __init__(self) -> None:
        super().__init__()
        self.page: Page = "chain"
        self.big = False
        self._trace: Trace | None = None
        self._placed: list[Placed] = []
        self._reply: Sequence[Span] = ()
        self._cursor: TokenRef | None = None

    @property
    def _margin(self) -> int:
        """Cells of the edge, which the big view does without."""
        return 0 if self.big else len(_EDGE[0])

    @property
    def pages(self) -> tuple[Page, ...]:
        """Those that can be turned to."""
        return BIG_PAGES if self.big else PAGES

    def turn(self, by: int) -> None:
        """To the next page, or the one before."""
        self.page = self.pages[(self.pages.index(self.page) + by) % len(self.pages)]

    def enlarge(self, big: bool) -> None:
        """Opens or closes the big view."""
        self.big = big
        if not big:
            self.page = _HOME.get(self.page, self.page)

    def show_chat(self, chat: Chat, tune: Tune | None, mode: TokenMode | None = None) -> None:
        """Shows the newest step; in token mode, if that is open, the token under the cursor. With `tune`, the knob it is on
        stands out."""
        width, height = max(self.room - self._margin, 0), self.size.height
        mode = mode if mode is not None and mode.open else None
        self._placed = []
        if self.page == "chain" and mode is None:
            self._show(self._chain(chat, tune, width, height), width)
            return
        tabs = self._tabs("chain" if mode is None else "token", width)
        if self.page == "chain" and mode is not None:
            lines = mode.panel(width, height - len(tabs), tune)
        else:
            lines = self._pictures(chat, tune, mode, width, height, len(tabs))
        self._show([*tabs, *lines], width)

    def point_at(self, reply: Sequence[Span], cursor: TokenRef | None) -> None:
        """From now on the plots are of this reply, with this token marked."""
        self._reply, self._cursor = reply, cursor

    async def on_click(self, event: events.Click) -> None:
        """In a plot over the reply, points at a token."""
        from termchat.tui.panels.plots.drawing import LABEL
        from termchat.tui.panels.plots.pictures import PICTURES

        column = event.x - MARGIN - self._margin - LABEL
        for placed in self._placed:
            measure = PICTURES[placed.name].measure
            if self._trace is None or measure is None or not 0 < event.y - placed.top < len(placed.lines):
                continue
            if event.button == 1 and (ref := self._trace.peak(measure, column)) is not None:
                event.stop()
                self.post_message(self.Pointed(ref))

    # --- the pages ---------------------------------------------------------------------------------------------------

    def _tabs(self, first: str, width: int, right: Run | None = None) -> list[Line]:
        """The pages, and at the right the way to the big view and back, `right` in its place but beside the way back; on two
        lines where there is no room for one."""
        way = (f"{name_of('big')} {'back' if self.big else 'big'}", MUTED._replace(does="big"))
        ways = [way] if right is None else [way, ("  ", MUTED), right] if self.big else [right]
        room, gap = (width - length([way]) - _ASIDE, " ") if self.big else (width - length(ways) - 1, "")
        lines = flowing(self._titles(first, {}), room, gap)
        if len(lines) > 1:
            lines = flowing(self._titles(first, _SHORT), room, gap)
        return [*lines[:-1], Line(spread(lines[-1].runs, ways, width))]

    def _titles(self, first: str, names: Mapping[str, str]) -> list[list[Run]]:
        tabs: list[list[Run]] = []
        for page in self.pages:
            name = first if page == "chain" else names.get(page, page)
            label = name.upper() if page in PAGES else name
            ink = _HERE if page == self.page else MUTED._replace(does=f"page('{page}')")
            tabs.append([(f" {label} " if not self.big or page == self.page else label, ink)])
        return tabs

    def _chain(self, chat: Chat, tune: Tune | None, width: int, height: int) -> list[Line]:
        selected, typed = (tune.selected, tune.typed) if tune else (None, None)
        chain = chain_lines(chat.tuning, chat.live.shown, width, selected=selected, typed=typed)
        chain[:1] = self._tabs("chain", width, chain[0].runs[-1])  # the tabs take the place of its title
        timing = timing_lines(chat.live, width)
        if chat.phase == "prefill" and chat.live.prefill_total:
            timing.append(prefill_line(chat.live, width))
        gap = [BLANK] if height >= ROOMY else []
        rows = height - len(chain) - len(timing) - 2 * len(gap) - 1
        candidates = candidate_lines(chat.live, width, rows, chat.tolerance)
        return [*chain, *gap, *candidates, *gap, *timing]

    def _pictures(
        self, chat: Chat, tune: Tune | None, mode: TokenMode | None, width: int, rows: int, top: int
    ) -> list[Line]:
        """Plots, from row `top` on; above them the knob that TUNE is on."""
        from termchat.tui.panels.plots.pictures import NEXT, PICTURES, REPLY, Subject, arranged, stacked

        head: list[Line] = []
        if tune is not None:
            knobs = chain_lines(chat.tuning, chat.live.shown, width, selected=tune.selected, typed=tune.typed)
            head = [line for line in knobs if line.ground]
        names = {"reply": REPLY, "next": NEXT}.get(self.page) or tuple(name for name in PICTURES if name == self.page)
        token, step = _step(chat, mode)
        subject = Subject(self._follow(width), token, step, chat.tuning.temperature)
        placed = arranged(names, subject, width, rows - top - len(head))
        self._placed = [one._replace(top=one.top + top + len(head)) for one in placed]
        return [*head, *stacked(placed)]

    def _follow(self, width: int) -> Trace:
        """The reply that is shown, as far as it has come."""
        from termchat.tui.panels.plots.reply import columns_of
        from termchat.tui.panels.plots.trace import Trace

        if self._trace is None:
            self._trace = Trace()
        self._trace.follow(self._reply, columns_of(width), self._cursor)
        return self._trace

    def _show(self, lines: list[Line], width: int) -> None:
        height = self.size.height
        filled = lines[:height] + [BLANK] * (height - len(lines))
        self.show_lines(filled if self.big else [_edged(line, width) for line in filled])


def _step(chat: Chat, mode: TokenMode | None) -> tuple[Token | None, str]:
    """The step to draw, and what it is called."""
    if mode is not None:
        shown = mode.shown()
        return (shown.token, f"{shown.what} {shown.token.step}") if shown is not None else (None, "")
    live = chat.live
    if live.preview is None or live.pending is not None:
        return live.shown, "NEXT TOKEN"
    return live.preview, "PREVIEW" + (f" {again(chat.tolerance, short=True)}" if live.preview_recomputed else "")


def _edged(line: Line, width: int) -> Line:
    """The line behind the edge; its ground begins behind it too."""
    if not line.ground:
        return Line((_EDGE, *line.runs))
    fill = (" " * max(width - length(line.runs), 0), Ink())
    return Line((_EDGE, *((text, ink._replace(ground=line.ground)) for text, ink in (*line.runs, fill))))
