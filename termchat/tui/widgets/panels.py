"""The panels at the right: the chain, the next token, the timing. One widget, since one costs the compositor least."""

from __future__ import annotations

from collections.abc import Callable

from termchat.chat.service import Chat
from termchat.tui.transcript.ink import BLANK, Ink, Line
from termchat.tui.tune import Tune
from termchat.tui.views.candidates import candidate_lines
from termchat.tui.views.chain import chain_lines
from termchat.tui.views.marks import ROOMY, length
from termchat.tui.views.timing import prefill_line, timing_lines
from termchat.tui.widgets.lines import LinesView

_EDGE = ("│ ", Ink("border", ground="background"))


class Panels(LinesView):
    """Chain and timing take what they need, the candidates the rest."""

    DEFAULT_CSS = "Panels { width: 47; height: 1fr; }"

    def show_chat(self, chat: Chat, tune: Tune | None) -> None:
        """Shows the newest step. With `tune`, the knob it is on stands out."""
        width, height = max(self.room - len(_EDGE[0]), 0), self.size.height
        selected, typed = (tune.selected, tune.typed) if tune else (None, None)
        chain = chain_lines(chat.tuning, chat.live.shown, width, selected=selected, typed=typed)
        timing = timing_lines(chat.live, width)
        if chat.phase == "prefill" and chat.live.prefill_total:
            timing.append(prefill_line(chat.live, width))
        gap = [BLANK] if height >= ROOMY else []
        rows = height - len(chain) - len(timing) - 2 * len(gap) - 1
        candidates = candidate_lines(chat.live, width, rows, chat.tolerance)
        self._show([*chain, *gap, *candidates, *gap, *timing], width)

    def show_panel(self, panel: Callable[[int, int], list[Line]]) -> None:
        """Shows something else instead: `panel` makes it for so many cells and rows."""
        width = max(self.room - len(_EDGE[0]), 0)
        self._show(panel(width, self.size.height), width)

    def _show(self, lines: list[Line], width: int) -> None:
        height = self.size.height
        filled = lines[:height] + [BLANK] * (height - len(lines))
        self.show_lines([_edged(line, width) for line in filled])


def _edged(line: Line, width: int) -> Line:
    """The line behind the edge; its ground begins behind it too."""
    if not line.ground:
        return Line((_EDGE, *line.runs))
    fill = (" " * max(width - length(line.runs), 0), Ink())
    return Line((_EDGE, *((text, ink._replace(ground=line.ground)) for text, ink in (*line.runs, fill))))
