"""The pages of the panels: one table, each row with what draws it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from termchat.chat.service import Chat
from termchat.decoding.records import Token
from termchat.tui.draw.ink import BLANK, Line, Run
from termchat.tui.draw.marks import MUTED, ROOMY, again
from termchat.tui.panels.candidates import candidate_lines
from termchat.tui.panels.chain_panel import chain_lines
from termchat.tui.panels.timing import prefill_line, timing_lines
from termchat.tui.panels.tune_mode import Tune
from termchat.tui.tokens.mode import TokenMode

if TYPE_CHECKING:  # plots are not on the first page, so that the first frame does not wait for them
    from termchat.tui.panels.plots.pictures import Placed
    from termchat.tui.panels.plots.trace import Trace


class Scene(NamedTuple):
    """What a page is drawn from, and its room: `width` cells, and `rows` of the `height` of the panels."""

    chat: Chat
    tune: Tune | None
    """TUNE, while it is open: the knob that it is on stands out."""
    mode: TokenMode | None
    """Token mode, while it is open: the page is of the token under the cursor."""
    trace: Callable[[], Trace]
    """The reply that is shown, read as far as it has come."""
    width: int
    height: int
    rows: int


class DrawnPage(NamedTuple):
    """The lines of a page, and the plots among them: a click in one over the reply points at a token."""

    lines: list[Line]
    plots: Sequence[Placed] = ()


class PanelPage(NamedTuple):
    """A page of the panels.

    `part_of` is the page that shows this one among others: only the big view then has it as a page of its own. `short` is its
    name where room is scarce, `in_tokens` its name in token mode, `heading` what stands at the end of the line of names.
    """

    name: str
    draw: Callable[[Scene], DrawnPage]
    part_of: str = ""
    short: str = ""
    in_tokens: str = ""
    heading: Run | None = None


def _chain(scene: Scene) -> DrawnPage:
    """The chain and timing take what they need, the candidates the rest; in token mode the token's own panel."""
    chat, width = scene.chat, scene.width
    if scene.mode is not None:
        return DrawnPage(scene.mode.panel(width, scene.rows, scene.tune))
    knobs = _knobs(scene)
    timing = timing_lines(chat.live, width)
    if chat.phase == "prefill" and chat.live.prefill_total:
        timing.append(prefill_line(chat.live, width))
    gap = [BLANK] if scene.height >= ROOMY else []
    rows = scene.rows - len(knobs) - len(timing) - 2 * len(gap) - 1
    candidates = candidate_lines(chat.live, width, rows, chat.tolerance)
    return DrawnPage([*knobs, *gap, *candidates, *gap, *timing])


def _plots(*names: str) -> Callable[[Scene], DrawnPage]:
    """Draws these plots, above them the knob that TUNE is on."""

    def draw(scene: Scene) -> DrawnPage:
        from termchat.tui.panels.plots.pictures import PICTURES, Subject, arranged, stacked

        head = [line for line in _knobs(scene) if line.ground] if scene.tune is not None else []
        token, step = _step(scene)
        subject = Subject(scene.trace(), token, step, scene.chat.tuning.temperature)
        shown = [name for name in PICTURES if name in names]
        placed = arranged(shown, subject, scene.width, scene.rows - len(head))
        return DrawnPage([*head, *stacked(placed)], [plot._replace(top=plot.top + len(head)) for plot in placed])

    return draw


def _knobs(scene: Scene) -> list[Line]:
    tune = scene.tune
    selected, typed = (tune.selected, tune.typed) if tune is not None else (None, None)
    lines = chain_lines(scene.chat.tuning, scene.chat.live.shown, scene.width, selected=selected, typed=typed)
    return lines[1:]  # the names of the pages take the place of its title


def _step(scene: Scene) -> tuple[Token | None, str]:
    """The step to draw, and what it is called."""
    live, mode = scene.chat.live, scene.mode
    if mode is not None:
        shown = mode.shown()
        return (shown.token, f"{shown.what} {shown.token.step}") if shown is not None else (None, "")
    if live.preview is None or live.pending is not None:
        return live.shown, "NEXT TOKEN"
    recomputed = f" {again(scene.chat.tolerance, short=True)}" if live.preview_recomputed else ""
    return live.preview, f"PREVIEW{recomputed}"


PAGES: dict[str, PanelPage] = {
    page.name: page
    for page in (
        PanelPage("chain", _chain, in_tokens="token", heading=("left", MUTED)),
        PanelPage("reply", _plots("entropy", "probability", "time")),
        PanelPage("entropy", _plots("entropy"), part_of="reply"),
        PanelPage("probability", _plots("probability"), part_of="reply", short="prob"),
        PanelPage("time", _plots("time"), part_of="reply"),
        PanelPage("next", _plots("distribution", "temperature", "survivors")),
        PanelPage("distribution", _plots("distribution"), part_of="next"),
        PanelPage("temperature", _plots("temperature"), part_of="next", short="temp"),
        PanelPage("survivors", _plots("survivors"), part_of="next"),
    )
}
"""By name, in the order in which they are turned."""
