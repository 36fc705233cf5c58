"""The pages of the panels: one table, each row with what draws it.

One page shows one time. In TUNE, what a page shows of a step follows the knobs, or is what was recorded, without a word of
theirs; its title says which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from termchat.chat.service import Chat
from termchat.conversation.tree import Span
from termchat.decoding.records import Token
from termchat.tui.draw.ink import BLANK, Line, Run
from termchat.tui.draw.marks import MUTED, ROOMY, again, prose
from termchat.tui.panels.candidates import candidate_lines
from termchat.tui.panels.chain_panel import around_selected, chain_lines
from termchat.tui.panels.record import WITH_KNOBS, Shown, settings_of, step_lines
from termchat.tui.panels.rolls import Rolls
from termchat.tui.panels.timing import prefill_line, timing_lines
from termchat.tui.panels.tune_mode import Tune
from termchat.tui.tokens.mode import TokenMode
from termchat.tui.transcript.cursor.token_order import TokenRef

if TYPE_CHECKING:  # plots are not on the first page, so that the first frame does not wait for them
    from termchat.decoding.drafting import Forecast
    from termchat.tui.panels.plots.pictures import Placed
    from termchat.tui.panels.plots.trace import Trace
    from termchat.tui.speculation.reply_drafts import ReplyDrafts

_SENTENCE = 3
"""Lines of text above a page of the big view; one where it is low."""
_LOW, _LOWEST = 20, 12
"""Rows from which that is not: with plots or knobs, with candidates."""
_FEWEST = 6
"""Candidates for which what is said below the knobs, and then timing, make room on a low screen."""
_READ = 80
"""Cells beyond which words and their numbers would be too far from each other."""


class Scene(NamedTuple):
    """What a page is drawn from, and its room: `width` cells, and `rows` of the `height` of the panels. `big`: it has all the
    screen, and the text that it is about is not in sight."""

    chat: Chat
    tune: Tune | None
    """TUNE, while it is open: the knob that it is on stands out."""
    mode: TokenMode | None
    """Token mode, while it is open: the page is of the token under the cursor."""
    reply: Sequence[Span]
    cursor: TokenRef | None
    trace: Callable[[], Trace]
    """The reply that is shown, read as far as it has come."""
    rolls: Rolls | None
    drafts: Callable[[], ReplyDrafts]
    """The same, for what drafts did for it."""
    forecast: Callable[[], Forecast | None]
    """What drafts would have gained on it; None while that is computed."""
    width: int
    height: int
    rows: int
    big: bool


class DrawnPage(NamedTuple):
    """The lines of a page, and the plots among them: a click in one over the reply points at a token."""

    lines: list[Line]
    plots: Sequence[Placed] = ()


class PanelPage(NamedTuple):
    """A page of the panels.

    `part_of` is the page that shows this one among others: only the big view then has it as a page of its own. `as_token`: in
    the big view of a token the first page shows the same. `offered` says whether the page is among those that are turned: any
    page can be asked for by its name. `short` is its name where room is scarce, `in_tokens` its name in
    token mode, `heading` what stands at the end of the line of names.
    """

    name: str
    draw: Callable[[Scene], DrawnPage]
    part_of: str = ""
    as_token: bool = False
    offered: Callable[[Chat, Sequence[Span]], bool] = lambda _chat, _reply: True
    short: str = ""
    in_tokens: str = ""
    heading: Run | None = None


def shown_step(chat: Chat, mode: TokenMode | None) -> Shown | None:
    """The step that pages are about: in token mode that of the token under the cursor (None while the model is asked for it),
    else the newest of the reply that the chat ends in."""
    if mode is not None:
        return mode.shown()
    live, leaf = chat.live, chat.conversation.leaf
    node = chat.conversation.nodes[leaf] if leaf is not None else None
    if (token := live.shown) is None or node is None or not (len(node.tokens) or live.pending is not None):
        return None
    now = chat.tuning.samplers()
    seed = node.start.seed if node.start is not None else None
    if live.pending is not None:
        return Shown(token, "PENDING", "waiting", "", now, True, True, seed, node.number)
    if live.preview is not None:
        note = again(chat.tolerance) if live.preview_recomputed else ""
        return Shown(token, "PREVIEW", WITH_KNOBS, note, now, True, seed=seed, node=node.number)
    then = settings_of(node, token.settings)
    return Shown(token, samplers=then, now=chat.busy or then == now, seed=seed, node=node.number)


def _chain(scene: Scene) -> DrawnPage:
    """The chain and timing take what they need, the candidates the rest, but some rows at least; in token mode the token's own
    panel."""
    chat, width = scene.chat, scene.width
    if scene.mode is not None:
        return _token(scene, scene.mode)
    shown = shown_step(chat, None)
    text = _sentence(scene)
    of_now = chat.live.shown if shown is None or shown.now else None
    knobs = _knobs(scene, of_now)
    timing = timing_lines(chat.live, min(width, _READ))
    if chat.phase == "prefill" and chat.live.prefill_total:
        timing.append(prefill_line(chat.live, min(width, _READ)))
    gap = [BLANK] if scene.height >= ROOMY else []
    rows = scene.rows - len(text) - 2 * len(gap) - 1
    if rows - len(knobs) - len(timing) < _FEWEST:
        knobs = _knobs(scene, of_now, brief=True)
    while timing and rows - len(knobs) - len(timing) < _FEWEST:
        timing.pop()
    rows -= len(knobs) + len(timing)
    candidates = candidate_lines(chat.live, width, rows, chat.tolerance, bars=scene.big)
    return DrawnPage([*text, *knobs, *gap, *candidates, *gap, *timing])


def _token(scene: Scene, mode: TokenMode) -> DrawnPage:
    if scene.big and mode.view in ("record", "asked"):
        return _next(scene)
    text = _sentence(scene)
    return DrawnPage([*text, *mode.panel(min(scene.width, _READ), scene.rows - len(text), scene.tune)])


def _next(scene: Scene) -> DrawnPage:
    """A step's distribution."""
    shown = shown_step(scene.chat, scene.mode)
    head = [*_sentence(scene, _LOWEST), *_selected(scene, shown.token if shown is not None and shown.now else None)]
    if shown is None:
        waits = "asking the model …" if scene.mode is not None else "waiting for the first token"
        return DrawnPage([*head, *prose(waits, scene.width, MUTED)])
    rolls = scene.rolls if scene.rolls is not None and scene.rolls.is_at(shown.node, shown.token.step) else None
    rows, numbered = scene.rows - len(head), scene.big and scene.mode is not None
    return DrawnPage([*head, *step_lines(shown, rolls, scene.width, rows, large=scene.big, numbered=numbered)])


def _drafts(scene: Scene) -> DrawnPage:
    """Speculation; in token mode the round of the token."""
    from termchat.tui.speculation.drafts_page import page_lines, token_page_lines

    head, width = [*_sentence(scene), *_selected(scene, None)], min(scene.width, _READ)
    if scene.mode is None:
        lines = page_lines(scene.chat, scene.reply, scene.drafts(), scene.forecast, width)
    else:
        lines = token_page_lines(scene.chat, scene.reply, scene.drafts(), scene.mode.round(), width)
    return DrawnPage([*head, *lines])


def _speculates(chat: Chat, reply: Sequence[Span]) -> bool:
    """Whether drafts are on, or were for the reply."""
    return chat.tuning.drafts is not None or any(span.node.tokens.drafts is not None for span in reply)


def _plots(*names: str) -> Callable[[Scene], DrawnPage]:
    def draw(scene: Scene) -> DrawnPage:
        from termchat.tui.panels.plots.pictures import PICTURES, arranged, stacked

        head = [*_sentence(scene), *_selected(scene, None)]
        shown = [name for name in PICTURES if name in names]
        placed = arranged(shown, scene.trace(), scene.width, scene.rows - len(head))
        return DrawnPage([*head, *stacked(placed)], [plot._replace(top=plot.top + len(head)) for plot in placed])

    return draw


def _sentence(scene: Scene, low: int = _LOW) -> list[Line]:
    """The text around the token that the page is about, where the page hides it."""
    if not scene.big:
        return []
    from termchat.tui.panels.sentence import sentence_lines

    chat, mode = scene.chat, scene.mode
    waits = chat.live.pending if mode is None or mode.pending else None
    rows = _SENTENCE if scene.rows >= low else 1
    return sentence_lines(chat.conversation, scene.reply, scene.cursor, waits, scene.width, rows)


def _knobs(scene: Scene, token: Token | None, *, brief: bool = False) -> list[Line]:
    """All knobs, and what their stages leave of a step of now."""
    tune = scene.tune
    selected, typed, unfolded = (tune.selected, tune.typed, tune.unfolded) if tune is not None else (None, None, False)
    of = tune if tune is not None else scene.chat
    order = tune.own_order if tune is not None else scene.chat.abilities.order
    lines = chain_lines(
        of.tuning, token, scene.width,
        selected=selected, typed=typed, unfolded=unfolded, origin=of.origin, rules=scene.chat.rules,
        constraint=scene.chat.constraint, lacks=scene.chat.abilities.lacks, order=order,
        unseen=scene.chat.find_refusal("stages"), brief=brief,
    )  # fmt: skip
    return around_selected(lines[1:], scene.rows)  # the names of the pages take the place of its title


def _selected(scene: Scene, token: Token | None) -> list[Line]:
    """The knob that TUNE is on."""
    return [line for line in _knobs(scene, token) if line.ground] if scene.tune is not None else []


PAGES: dict[str, PanelPage] = {
    page.name: page
    for page in (
        PanelPage("chain", _chain, in_tokens="token", heading=("mass   left", MUTED)),
        PanelPage("reply", _plots("entropy", "probability", "time")),
        PanelPage("entropy", _plots("entropy"), part_of="reply"),
        PanelPage("probability", _plots("probability"), part_of="reply", short="prob"),
        PanelPage("time", _plots("time"), part_of="reply"),
        PanelPage("next", _next, as_token=True),
        PanelPage("drafts", _drafts, offered=_speculates, in_tokens="round"),
    )
}
"""By name, in the order in which they are turned."""
