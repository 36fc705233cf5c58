"""The pages of the panels, each a class; a new page is a class in `PAGES`.

One page shows one time. In TUNE, what a page shows of a step follows the knobs, or is what was recorded, without a word of
theirs; its title says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from termchat.chat.questions import reply_with
from termchat.conversation.setting_changes import describe_changes
from termchat.decoding.records import Token
from termchat.tui.draw.ink import BLANK, Line, Run
from termchat.tui.draw.marks import MUTED, ROOMY, prose
from termchat.tui.pages.candidates import candidate_lines
from termchat.tui.pages.chain import around_selected, chain_lines
from termchat.tui.pages.page import Page, Scene
from termchat.tui.pages.record import record_lines, step_lines
from termchat.tui.pages.shown_reply import ShownReply, shown_step
from termchat.tui.pages.timing import prefill_line, timing_lines
from termchat.tui.pages.token_mode import At, TokenMode
from termchat.tui.transcript.tokens import TokenRef

if TYPE_CHECKING:  # plots are not on the first page, so that the first frame does not wait for them
    from termchat.tui.pages.plots.reply_plots import Placed
    from termchat.tui.pages.plots.trace import Measure, Trace

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
        """The token of a click on a cell of the page."""
        return None

    def _render_sentence(self, scene: Scene, low: int = _LOW) -> list[Line]:
        """Render the text around the token of the page, if the page hides it."""
        if not scene.big:
            return []
        from termchat.tui.pages.sentence import sentence_lines

        shown = self._shown
        waits = shown.chat.live.pending if shown.mode is None or shown.mode.pending else None
        rows = _SENTENCE if scene.rows >= low else 1
        return sentence_lines(shown.chat.conversation, shown.reply, shown.cursor, waits, scene.width, rows)

    def _render_knobs(self, width: int, token: Token | None, *, brief: bool = False) -> list[Line]:
        """Render the title of the chain and all knobs, with the survivors of their stages at a step of now."""
        tune, chat = self._shown.tune, self._shown.chat
        selected, typed, unfolded = (
            (tune.selected, tune.typed, tune.unfolded) if tune is not None else (None, None, False)
        )
        of = tune if tune is not None else chat
        return chain_lines(
            of.tuning, token, width,
            selected=selected, typed=typed, unfolded=unfolded, origin=of.origin if self._shown.mode is None else {},
            rules=chat.rules, constraint=chat.constraint, lacks=chat.abilities.lacks,
            order=tune.own_order if tune is not None else chat.abilities.order, unseen=chat.find_refusal("stages"), brief=brief,
        )  # fmt: skip

    def _render_selected(self, width: int, token: Token | None = None) -> list[Line]:
        """The knob that TUNE is on."""
        return (
            [line for line in self._render_knobs(width, token) if line.ground] if self._shown.tune is not None else []
        )


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
        timing = timing_lines(chat.live, min(width, _READ))
        if chat.phase == "prefill" and chat.live.prefill_total:
            timing.append(prefill_line(chat.live, min(width, _READ)))
        gap = [BLANK] if scene.height >= ROOMY else []
        rows = scene.rows - len(text) - 2 * len(gap) - 1
        if rows - len(knobs) - len(timing) < _FEWEST:
            knobs = self._render_knobs(width, of_now, brief=True)[1:]
        knobs = around_selected(knobs, scene.rows)
        while timing and rows - len(knobs) - len(timing) < _FEWEST:
            timing.pop()
        rows -= len(knobs) + len(timing)
        candidates = candidate_lines(chat.live, width, rows, chat.tolerance, bars=scene.big)
        return [*text, *knobs, *gap, *candidates, *gap, *timing]

    def _token_lines(self, mode: TokenMode, width: int, rows: int) -> list[Line]:
        """Render the record of the token, or the answer to a question about it or its reply; in TUNE below the knobs."""
        place, step, head = mode.place, mode.shown(), []
        if self._shown.tune is not None:
            token = step.token if step is not None and step.now and mode.view in ("record", "asked") else None
            chain = self._render_knobs(width, token)
            head = (
                around_selected(chain, rows // 2) if rows >= _WHOLE_CHAIN else [line for line in chain if line.ground]
            )
            rows -= len(head)
        if place is None:
            return head
        chat, questions = self._shown.chat, self._shown.chat.questions
        # Each of the views is loaded when it is first asked for; the first frame has none of them.
        if mode.view == "ending":
            from termchat.tui.pages.whatif import ending_lines

            body = ending_lines(reply_with(chat.conversation, place.node), width, rows)
        elif mode.view == "what-if":
            from termchat.tui.pages.whatif import whatif_lines

            body = whatif_lines(questions.scored, self._turned_knobs(place), width, rows, chat.tolerance)
        elif mode.view == "why" and questions.explained is not None:
            from termchat.tui.pages.why import why_lines

            body = why_lines(questions.explained, width, chat.tolerance)
        elif step is None or mode.view == "why":
            body = prose("asking the model …", width, MUTED)
        else:
            body = record_lines(step, width, rows)
        return [*head, *body]

    def _turned_knobs(self, place: At) -> list[str]:
        """The knobs that are not as they were, for the first of the reply's tokens for which one is not."""
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
        token = step.token if step is not None and step.now else None
        head = [*self._render_sentence(scene, _LOWEST), *self._render_selected(width, token)]
        if step is None:
            waits = "asking the model …" if shown.mode is not None else "waiting for the first token"
            return [*head, *prose(waits, width, MUTED)]
        rolls = shown.rolls if shown.rolls is not None and shown.rolls.is_at(step.node, step.token.step) else None
        numbered = scene.big and shown.mode is not None
        return [*head, *step_lines(step, rolls, width, scene.rows - len(head), large=scene.big, numbered=numbered)]


class DraftsPage(PanelPage):
    """Speculation; in token mode the round of the token."""

    name, in_tokens = "drafts", "round"

    @property
    def is_offered(self) -> bool:
        """True while drafts are on, or if they were for the reply."""
        drafted = any(span.node.tokens.drafts is not None for span in self._shown.reply)
        return drafted or self._shown.chat.tuning.drafts is not None

    def lines(self, scene: Scene) -> list[Line]:
        from termchat.tui.pages.drafts import page_lines, token_page_lines

        shown, width = self._shown, min(scene.width, _READ)
        head = [*self._render_sentence(scene), *self._render_selected(scene.width)]
        if shown.mode is None:
            return [*head, *page_lines(shown.chat, shown.reply, shown.drafts(), shown.forecast, width)]
        return [*head, *token_page_lines(shown.chat, shown.reply, shown.drafts(), shown.mode.round(), width)]


class PlotPage(PanelPage):
    """All plots of the reply. A click in one points at the outstanding token of that column."""

    name = "reply"
    measures: tuple[Measure, ...] = ("entropy", "probability", "time")
    _placed: Sequence[Placed] = ()
    _trace: Trace

    def lines(self, scene: Scene) -> list[Line]:
        from termchat.tui.pages.plots.reply_plots import columns_of, stacked

        head = [*self._render_sentence(scene), *self._render_selected(scene.width)]
        self._trace = self._shown.trace(columns_of(scene.width))
        lines, placed = stacked(self.measures, self._trace, scene.width, scene.rows - len(head))
        self._placed = [one._replace(top=one.top + len(head)) for one in placed]
        return [*head, *lines]

    def token_at(self, x: int, y: int) -> TokenRef | None:
        from termchat.tui.pages.plots.drawing import LABEL

        measure = next((one.measure for one in self._placed if 0 < y - one.top < one.rows), None)
        return self._trace.peak(measure, x - LABEL) if measure is not None else None


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
