"""The pages of the panels, each a class; a new page is a class in `PAGES`.

One page shows one time. In TUNE, what a page shows of a step follows the knobs, or is what was recorded, without a word of
theirs; its title says which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from termchat.chat.live import Live
from termchat.chat.questions import reply_with
from termchat.chat.service import Chat
from termchat.conversation.setting_changes import describe_changes
from termchat.conversation.tree import Span
from termchat.decoding.records import Token
from termchat.tui.draw.ink import BLANK, Line, Run
from termchat.tui.draw.marks import (
    MUTED,
    ROOMY,
    TEXT,
    TITLE,
    UNKNOWN,
    bar,
    count,
    describe_recomputed,
    format_p_end,
    length,
    mark_bound,
    percent,
    prose,
    sparkline,
    spread,
)
from termchat.tui.pages.candidates import Rolls, candidate_lines
from termchat.tui.pages.chain_view import around_selected, chain_lines
from termchat.tui.pages.record import (
    WITH_KNOBS,
    Shown,
    label_values,
    sentence_lines,
    settings_of,
    step_lines,
)
from termchat.tui.pages.scene import Page, Scene
from termchat.tui.pages.token_bar import At, Tokens
from termchat.tui.pages.tune_mode import Tune
from termchat.tui.transcript.tokens import TokenRef

if TYPE_CHECKING:  # not on the first page, so that the first frame does not wait for them
    from termchat.tui.pages.drafts import ReplyDrafts
    from termchat.tui.pages.plots import Measure, Trace

_SENTENCE = 3
"""Lines of text above a page of the big view; one where it is low."""
_LOW, _LOWEST = 20, 12
"""Rows from which that is not: with plots or knobs, with candidates."""
_FEWEST = 6
"""Candidates for which what is said below the knobs, and then timing, make room on a low screen."""
_READ = 80
"""Cells beyond which words and their numbers would be too far from each other."""
_WHOLE_CHAIN = 32
"""Rows from which TUNE shows the whole chain above a token's panel; else only the knob it is on."""


@dataclass
class ShownReply:
    """The source of the pages of the panels; `computed` is called in a thread when a result is ready.

    `knobs` are those of TUNE, whether it is open (`tuning`), so that its knob stands out, or not. `mode` is token mode while it
    is open: pages are about the token under the cursor. `rolls` are the newest, whichever step they are of.
    """

    computed: Callable[[], object]
    knobs: Tune
    tuning: bool = False
    reply: Sequence[Span] = ()
    mode: Tokens | None = None
    rolls: Rolls | None = None

    @property
    def chat(self) -> Chat:
        return self.knobs.chat

    @property
    def cursor(self) -> TokenRef | None:
        return self.mode.transcript.cursor if self.mode is not None else None


def shown_step(chat: Chat, mode: Tokens | None) -> Shown | None:
    """Return the step that pages are about: in token mode that of the token under the cursor (None while the model is asked
    for it), else the newest of the reply that the chat ends in."""
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
        note = describe_recomputed(chat.tolerance) if live.preview_recomputed else ""
        return Shown(token, "PREVIEW", WITH_KNOBS, note, now, True, seed=seed, node=node.number)
    then = settings_of(node, token.settings)
    return Shown(token, samplers=then, now=chat.busy or then == now, seed=seed, node=node.number)


class PanelPage(Page):
    """A page of the panels.

    `part_of` is the page that shows this one among others: only the big view then has it as a page of its own. `as_token`: in
    the big view of a token the first page shows the same. `short` is its name where room is scarce, `in_tokens` its name in
    token mode, `heading` what stands at the end of the line of names.
    """

    part_of = short = in_tokens = ""
    as_token = False
    heading: Run | None = None

    def __init__(self, shown: ShownReply) -> None:
        self._shown = shown

    @property
    def is_offered(self) -> bool:
        """True if the page is among those that are turned; any page can be asked for by its name."""
        return True

    def token_at(self, x: int, y: int) -> TokenRef | None:
        """Find the token of a click on a cell of the page."""
        return None

    def _render_sentence(self, scene: Scene, low: int = _LOW) -> list[Line]:
        """Render the text around the token of the page, if the page hides it."""
        if not scene.big:
            return []
        shown = self._shown
        waits = shown.chat.live.pending if shown.mode is None or shown.mode.pending else None
        rows = _SENTENCE if scene.rows >= low else 1
        return sentence_lines(shown.chat.conversation, shown.reply, shown.cursor, waits, scene.width, rows)

    def _render_knobs(self, width: int, token: Token | None, *, brief: bool = False) -> list[Line]:
        """Render the title of the chain and all knobs, with the survivors of their stages at a step of now."""
        shown, knobs, chat = self._shown, self._shown.knobs, self._shown.chat
        return chain_lines(
            knobs.tuning, token, width, selected=knobs.selected if shown.tuning else None, typed=knobs.typed,
            unfolded=shown.tuning and knobs.unfolded, origin=knobs.origin if shown.mode is None else {},
            rules=chat.rules, constraint=chat.constraint, lacks=chat.abilities.lacks,
            order=knobs.own_order, unseen=chat.find_refusal("stages"), brief=brief,
        )  # fmt: skip

    def _render_head(self, scene: Scene, low: int = _LOW, token: Token | None = None) -> list[Line]:
        """Render the text around the token of the page, and the knob that TUNE is on."""
        knobs = self._render_knobs(scene.width, token) if self._shown.tuning else []
        return [*self._render_sentence(scene, low), *(line for line in knobs if line.ground)]


def timing_lines(live: Live, width: int, *, prefilling: bool = False) -> list[Line]:
    """Render how sure the model was, how fast it is, and while a prompt is read how far that is; unknown numbers as dashes."""
    token = live.shown
    missing = token.unlisted if token else 0.0
    entropy = p_end = UNKNOWN
    if token:
        p_end = format_p_end(token.p_end, missing)
        if not math.isnan(token.entropy):
            entropy = f"{mark_bound(token.entropy, missing)}{token.entropy:.2f} bit"
    title: list[Run] = [("STEP ", TITLE)]
    sure = label_values("entropy ", entropy, "   p(end) ", p_end)
    unlisted: list[Run] = [(f"  {percent(missing, 2)} not listed", MUTED)] if missing else []
    if length([*title, *sure, *unlisted]) < width:
        sure += unlisted
    ttft = f"{live.ttft_ms:.0f} ms" if live.ttft_ms is not None else UNKNOWN
    prefill, rate = (
        f"{each:.0f} t/s" if each else UNKNOWN for each in (live.prefill_per_second, live.tokens_per_second)
    )
    reused = f"{count(live.prefill.reused)} reused" if live.prefill and live.prefill.reused >= 0 else ""
    share = percent(live.sampling_share, 0) if live.sampling_share is not None else UNKNOWN
    decode, sampling = label_values("decode ", rate), label_values("sampling ", share)
    # Times of the last steps, the newest at the right; of a round of drafting those of its rows.
    room = max(width - length([*decode, *sampling]) - 4, 0)
    steps = list(islice(zip(reversed(live.row_us), reversed(live.sample_us), strict=True), room))
    sparks = sparkline([float(us + sample_us) for us, sample_us in steps[::-1]], room)
    lines = [
        Line(spread(title, sure, width)),
        Line(spread(label_values("TTFT ", ttft, "  prefill ", prefill), [(reused, MUTED)], width)),
        Line((*decode, (f"  {sparks}  ", MUTED), *sampling)),
    ]
    if prefilling and live.prefill_total:
        numbers = f" {count(live.prefill_done)}/{count(live.prefill_total)}"
        done = bar(live.prefill_done / live.prefill_total, width - 8 - len(numbers))
        lines.append(Line((("prefill ", MUTED), *done, (numbers, TEXT))))
    return lines


class ChainPage(PanelPage):
    """The chain and timing get the rows they need, the candidates the rest, but some rows at least; in token mode the
    token's own panel."""

    name, in_tokens = "chain", "token"
    heading = ("mass   left", MUTED)

    def lines(self, scene: Scene) -> list[Line]:
        shown, text, width = self._shown, self._render_sentence(scene), scene.width
        if shown.mode is not None:
            if scene.big and shown.mode.view in ("record", "asked"):
                return NextPage(shown).lines(scene)
            rows = scene.rows - len(text)
            return [*text, *self._token_lines(shown.mode, min(width, _READ), rows)[:rows]]
        chat, step = shown.chat, shown_step(shown.chat, None)
        of_now = chat.live.shown if step is None or step.now else None
        knobs = self._render_knobs(width, of_now)[1:]  # the names of the pages take the place of its title
        timing = timing_lines(chat.live, min(width, _READ), prefilling=chat.phase == "prefill")
        gap = [BLANK] if scene.rows >= ROOMY else []
        rows = scene.rows - len(text) - 2 * len(gap) - 1
        if rows - len(knobs) - len(timing) < _FEWEST:
            knobs = self._render_knobs(width, of_now, brief=True)[1:]
        knobs = around_selected(knobs, scene.rows)
        while timing and rows - len(knobs) - len(timing) < _FEWEST:
            timing.pop()
        rows -= len(knobs) + len(timing)
        candidates = candidate_lines(chat.live, width, rows, chat.tolerance, bars=scene.big)
        return [*text, *knobs, *gap, *candidates, *gap, *timing]

    def _token_lines(self, mode: Tokens, width: int, rows: int) -> list[Line]:
        """Render the record of the token, or the answer to a question about it or its reply; in TUNE below the knobs."""
        place, step, view, head = mode.place, mode.shown(), mode.view, []
        if self._shown.tuning:
            token = step.token if step is not None and step.now and view in ("record", "asked") else None
            chain = self._render_knobs(width, token)
            head = [line for line in chain if line.ground]
            head = around_selected(chain, rows // 2) if rows >= _WHOLE_CHAIN else head
            rows -= len(head)
        if place is None:
            return head
        chat, questions = self._shown.chat, self._shown.chat.questions
        if view in ("record", "asked") and step is not None:
            return [*head, *step_lines(step, width, rows)]
        # Loaded when it is first asked for; the first frame does without.
        from termchat.tui.pages.token_answers import ending_lines, whatif_lines, why_lines

        if view == "ending":
            body = ending_lines(reply_with(chat.conversation, place.node), width, rows)
        elif view == "what-if":
            body = whatif_lines(questions.scored, self._turned_knobs(place), width, rows, chat.tolerance)
        elif view == "why" and questions.explained is not None:
            body = why_lines(questions.explained, width, chat.tolerance)
        else:
            body = prose("asking the model …", width, MUTED)
        return [*head, *body]

    def _turned_knobs(self, place: At) -> list[str]:
        """List the knobs that are not as they were, for the first of the reply's tokens for which one is not."""
        chat = self._shown.chat
        for span in reply_with(chat.conversation, place.node):
            for then, at in zip(span.node.settings, span.node.settings_at, strict=True):
                now = replace(then, samplers=chat.tuning.samplers(), constraint=chat.constraint, constraint_dropped="")
                if at < span.count and (turned := describe_changes(then, now)):
                    return turned
        return []


class NextPage(PanelPage):
    """A step's distribution."""

    name, as_token = "next", True

    def lines(self, scene: Scene) -> list[Line]:
        shown, width = self._shown, scene.width
        step = shown_step(shown.chat, shown.mode)
        head = self._render_head(scene, _LOWEST, step.token if step is not None and step.now else None)
        if step is None:
            waits = "asking the model …" if shown.mode is not None else "waiting for the first token"
            return [*head, *prose(waits, width, MUTED)]
        rolls = shown.rolls if shown.rolls is not None and shown.rolls.is_at(step.node, step.token.step) else None
        numbered = scene.big and shown.mode is not None
        rows = scene.rows - len(head)
        return [*head, *step_lines(step, width, rows, facts=scene.big, bars=True, numbered=numbered, rolls=rolls)]


class DraftsPage(PanelPage):
    """Speculation; in token mode the round of the token."""

    name, in_tokens = "drafts", "round"
    _drafts: ReplyDrafts | None = None

    @property
    def is_offered(self) -> bool:
        """True while drafts are on, or if they were for the reply."""
        drafted = any(span.node.tokens.drafts is not None for span in self._shown.reply)
        return drafted or self._shown.chat.tuning.drafts is not None

    def lines(self, scene: Scene) -> list[Line]:
        from termchat.tui.pages.drafts import ReplyDrafts, reply_lines, token_lines

        shown, width = self._shown, min(scene.width, _READ)
        self._drafts = drafts = self._drafts or ReplyDrafts(shown.chat, shown.computed)
        drafts.follow(shown.reply)
        mode = shown.mode
        lines = reply_lines(drafts, width) if mode is None else token_lines(mode.round(), drafts, width)
        return [*self._render_head(scene), *lines]


class PlotPage(PanelPage):
    """All plots of the reply. A click in one points at the outstanding token of that column."""

    name = "reply"
    measures: tuple[Measure, ...] = ("entropy", "probability", "time")
    _trace: Trace | None = None
    _placed: Mapping[Measure, range] = {}

    def lines(self, scene: Scene) -> list[Line]:
        from termchat.tui.pages.plots import Trace, columns_of, stack_plots

        head, shown = self._render_head(scene), self._shown
        self._trace = Trace(shown.reply, columns_of(scene.width), shown.cursor)
        lines, placed = stack_plots(self.measures, self._trace, scene.width, scene.rows - len(head))
        self._placed = {one: range(rows.start + len(head), rows.stop + len(head)) for one, rows in placed.items()}
        return [*head, *lines]

    def token_at(self, x: int, y: int) -> TokenRef | None:
        from termchat.tui.pages.plots import LABEL

        measure = next((measure for measure, rows in self._placed.items() if y in rows), None)
        return self._trace.find_peak(measure, x - LABEL) if self._trace is not None and measure is not None else None


class EntropyPage(PlotPage):
    name, part_of, measures = "entropy", "reply", ("entropy",)


class ProbabilityPage(PlotPage):
    name, part_of, short, measures = "probability", "reply", "prob", ("probability",)


class TimePage(PlotPage):
    name, part_of, measures = "time", "reply", ("time",)


PAGES: dict[str, type[PanelPage]] = {
    page.name: page for page in (ChainPage, PlotPage, EntropyPage, ProbabilityPage, TimePage, NextPage, DraftsPage)
}
"""By name, in the order in which they are turned."""
