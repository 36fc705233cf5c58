"""What drafts do for a reply: read as far as it has come, its figures, and while speculation is off what they would do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from termchat.chat.service import Chat
from termchat.conversation.tree import Node, Span
from termchat.decoding.draft_figures import DraftFigures, Round
from termchat.decoding.drafting import BatchTimes, Forecast, breaks_even, forecast_drafts
from termchat.decoding.records import SettingsRecord
from termchat.text import one_line
from termchat.tui.draw.background import BackgroundTask
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, UNKNOWN, bar, column, prose, spread
from termchat.tui.keys.tables import name_of
from termchat.tui.pages.rounds import ShownRound, drafter_name, round_lines

_NEWEST = 9
"""Steps decoded alone whose median is what a row alone takes."""
_LABEL = 11
_BAR_FROM, _BAR = 40, 12
"""Cells from which acceptance has a bar, and how long it is."""
_WHY_FROM = 160
_ABOUT = (
    "Guesses tokens and decodes them together with the newest one. The reply stays the same, and where the guesses are right"
    " it is made faster."
)


class Machine(NamedTuple):
    """The costs of batches known before a reply: how many threads compute, and the measured T(n)."""

    threads: int
    batch_times: dict[int, float]


class ReplyDrafts:
    """Follows one reply, of one piece or several. What came already is not read again.

    `times` are the costs of batches, as far as they are known or the reply has measured them; `newest` is the newest round.
    """

    def __init__(self) -> None:
        self._begin(Machine(1, {}))

    def _begin(self, machine: Machine) -> None:
        self.machine = machine
        self.figures = DraftFigures()
        self.times = BatchTimes(machine.batch_times)
        self.newest: Round | None = None
        self._nodes: list[Node] = []
        self._taken = 0
        self._alone: deque[int] = deque(maxlen=_NEWEST)

    @property
    def row_us(self) -> float | None:
        """Microseconds that decoding one row alone takes now."""
        return median(self._alone) if self._alone else None

    def knows(self, reply: Sequence[Span]) -> bool:
        """Whether this is the reply that was followed last."""
        return self._nodes[:1] == [span.node for span in reply[:1]]

    def follow(self, chat: Chat, reply: Sequence[Span]) -> None:
        """Read the tokens that came since the last time; another reply, or one that was cut, from its begin."""
        measured = chat.model.measured if chat.model is not None else None
        threads = chat.live.threads or (chat.model.threads if chat.model is not None else 1)
        machine = Machine(threads, measured.batch_times if measured is not None and measured.threads == threads else {})
        known = [span.node for span in reply[: len(self._nodes)]]
        cut = bool(known) and known == self._nodes and reply[len(known) - 1].count < self._taken
        if known != self._nodes or cut or machine != self.machine:
            self._begin(machine)
        for span in reply[max(len(self._nodes) - 1, 0) :]:
            if not self._nodes or self._nodes[-1] is not span.node:
                self._nodes.append(span.node)
                self._taken = 0
            self._read(span)

    def _read(self, span: Span) -> None:
        tokens, figures = span.node.tokens, self.figures
        count = min(span.count, len(tokens))
        for at in range(self._taken, count):
            before, step = figures.round, tokens[at]
            figures.add(step)
            after = figures.round
            self.newest = after or self.newest
            if not at:
                continue  # it was drawn from the last decode of the prompt
            if after is None:
                self._alone.append(step.decode_us)
                self.times.add(1, step.decode_us)
            elif before is None or before.begin != after.begin:
                self.times.add(after.rows, after.decode_us)
        self._taken = count
        if span.node.done:
            figures.end_run()


class DraftForecasting:
    """Forecasts the gain of n-gram drafts on the newest reply in a thread, which calls `done` at its end."""

    def __init__(self, done: Callable[[], object]) -> None:
        self._done = done
        self._of: tuple[Node, int, Machine, int] | None = None
        self._task: BackgroundTask[Forecast] | None = None
        self._forecast: Forecast | None = None

    def of(self, chat: Chat, reply: Sequence[Span], drafts: ReplyDrafts) -> Forecast | None:
        """None while it is computed."""
        most = chat.tuning.draft_max
        of = reply[0].node, sum(span.count for span in reply), drafts.machine, most
        if of != self._of:
            self._of, self._forecast = of, None
            prompt = chat.conversation.ids_before(reply[0].node.number)
            ids = [token for span in reply for token in span.node.ids[: span.count]]
            times, ends = drafts.times, chat.model.end_ids if chat.model is not None else ()
            self._task = BackgroundTask(
                lambda: [forecast_drafts(prompt, ids, times, most=most, end_ids=ends)], self._done
            )
        if self._task is not None:
            self._forecast = next(self._task.take(), self._forecast)
        return self._forecast


def page_lines(
    chat: Chat, reply: Sequence[Span], drafts: ReplyDrafts, foresee: Callable[[], Forecast | None], width: int
) -> list[Line]:
    """Render the figures and the newest round of a reply; for a reply without drafts the forecast of `foresee`."""
    if not _is_drafted(reply):
        done = bool(reply) and bool(drafts.figures.tokens) and not chat.busy and not chat.cannot_draft
        return _forecast_lines(chat, drafts, foresee if done and reply[0].node.tokens.has_ids else None, width)
    lines = _render_figures(chat, reply, drafts, width)
    if drafts.newest is not None:
        lines += [BLANK, *round_lines(ShownRound(drafts.newest, ended=reply[-1].node.done), drafts.row_us, width)]
    return lines


def token_page_lines(
    chat: Chat, reply: Sequence[Span], drafts: ReplyDrafts, shown: ShownRound | None, width: int
) -> list[Line]:
    """Render the round of the token and the figures of its reply (token mode)."""
    if shown is not None:
        lines = round_lines(shown, drafts.row_us, width)
    else:
        why = _why_off(reply)
        alone = f"The model decoded this token alone{f': {why}' if why else '; nothing was drafted for it'}."
        lines = [Line((("ROUND", TITLE),)), *prose(alone, width, MUTED)]
    return [*lines, *([BLANK, *_render_figures(chat, reply, drafts, width)] if _is_drafted(reply) else [])]


def header_runs(figures: DraftFigures, reply: Sequence[Span], width: int) -> list[Run]:
    """Summarize what drafts do for a reply; the reason for which they are off is given if a header of so many cells has
    room."""
    if why := _why_off(reply):
        return [(f"drafting off: {why}" if width >= _WHY_FROM else "drafting off", MUTED)]
    gain = _format_gain(figures)
    return [("drafting ", MUTED), (gain, TEXT)] if gain else []


def _newest_settings(reply: Sequence[Span]) -> SettingsRecord | None:
    """The settings of the newest tokens of a reply."""
    return next((span.node.settings[-1] for span in reversed(reply) if span.node.settings), None)


def _is_drafted(reply: Sequence[Span]) -> bool:
    """Whether something was, or was to be, drafted for a reply."""
    settings = _newest_settings(reply)
    return (settings is not None and settings.draft is not None) or any(s.node.tokens.drafts is not None for s in reply)


def _why_off(reply: Sequence[Span]) -> str:
    """Why nothing is drafted for a reply that has drafts on; "" if something is."""
    settings = _newest_settings(reply)
    return settings.drafting if settings is not None and settings.draft is not None else ""


def _format_gain(figures: DraftFigures) -> str:
    """ "+41%": how much faster than plain decoding a reply was; "" if that is not known."""
    return "" if figures.gain is None else f"{figures.gain - 1:+.0%}".replace("-", "−")


def _render_figures(chat: Chat, reply: Sequence[Span], drafts: ReplyDrafts, width: int) -> list[Line]:
    """The figures of a reply for which something was, or was to be, drafted."""
    figures, settings, drafter = drafts.figures, _newest_settings(reply), chat.host.drafter
    by = settings.draft.by if settings is not None and settings.draft is not None else "off"
    model = one_line(drafter.name, 20) if drafter is not None else "a draft model"
    who = {"ngram": drafter_name(by), "model": model}.get(by, by)
    lines = [Line(spread([("SPECULATION ", TITLE)], [(who, MUTED)], width))]
    if figures.rounds:
        even = breaks_even(
            drafts.times.read_cost, chat.tuning.draft_max, drafter.cost if drafter and by == "model" else 0.0
        )
        plain = f"plain: fewer than {figures.LEAST} steps"
        plain = plain if figures.plain_speed is None else f"plain {figures.plain_speed:.0f} t/s"
        gain = Ink("success" if figures.gain and figures.gain >= 1 else "warning", bold=True)
        speed = f"{figures.speed:.0f} t/s" if figures.speed else UNKNOWN
        rows: list[tuple[str, list[Run], str]] = [
            ("acceptance", _render_share(figures.acceptance_lately, width), f"last {min(figures.LATELY, figures.drafted)}"),
            ("in all", _render_share(figures.acceptance, width), f"{figures.accepted} of {figures.drafted}"),
            ("pays from", [(f"{even:.0%}" if even < 1 else "never here", TEXT)], ""),
            ("per pass", [(f"{figures.tokens_per_pass or 1.0:.2f} tokens", TEXT)],
             f"{figures.tokens} in {figures.passes} passes"),
            ("speed", [(f"{speed} ", TEXT), (_format_gain(figures), gain)], plain),
            ("drafting", [(f"{figures.drafting_ms:.1f} ms", TEXT)], f"{figures.rounds} rounds"),
        ]  # fmt: skip
        lines += [
            Line(spread([(column(label, _LABEL), MUTED), *value], [(note, MUTED)], width))
            for label, value, note in rows
        ]
    if why := _why_off(reply):
        lines += prose(f"drafting off: {why}", width, Ink("stamp"))
    elif not figures.rounds:
        lines += prose("Nothing was drafted: no guess was likely enough to pay.", width, MUTED)
    return lines


def _render_share(share: float | None, width: int) -> list[Run]:
    if share is None:
        return [(UNKNOWN, TEXT)]
    return [(f"{share:>4.0%} ", STRONG), *(bar(share, _BAR) if width >= _BAR_FROM else [])]


def _forecast_lines(
    chat: Chat, drafts: ReplyDrafts, foresee: Callable[[], Forecast | None] | None, width: int
) -> list[Line]:
    """Render the page while speculation is off: what it does, the forecast for the reply, and the draft model."""
    title: Sequence[Run] = spread([("SPECULATION ", TITLE)], [(chat.tuning.draft, MUTED)], width)
    lines = [Line(tuple(title)), *prose(_ABOUT, width, MUTED), BLANK]
    if chat.cannot_draft:
        return [*lines, *prose(f"Not here: {chat.cannot_draft}.", width)]
    reply = "After a reply, this page says what drafts would have gained on it."
    lines += prose(reply if foresee is None else _on_reply(foresee()), width)
    if (drafter := chat.host.drafter) is None:
        model = f"No draft model is loaded; {name_of('models')} marks those that fit with ◇, and /draft NAME loads one."
    else:
        even = drafts.times.breaks_even(chat.tuning.draft_max, drafter.cost)
        pays = "" if even is None else f", and pays from {even:.0%} acceptance" if even < 1 else ", and never pays here"
        model = f"{one_line(drafter.name, 40)} drafts a token in {drafter.cost:.2f} of the time of one{pays}."
    is_off = chat.tuning.draft == "off"
    turn = ("/draft auto turns it on", ACCENT) if is_off else ("It is on from the next reply on.", TEXT)
    return [*lines, BLANK, *prose(model, width), BLANK, Line((turn,))]


def _on_reply(gain: Forecast | None) -> str:
    if gain is None:
        return "Computing how fast the last reply would have been with n-gram drafts …"
    if not gain.drafted:
        pays = f"drafts pay from {gain.break_even:.0%} acceptance" if gain.break_even < 1 else "drafts never pay here"
        return f"With n-gram drafts the last reply would not have been faster: it repeats too little ({pays})."
    accepted = f"accepted {gain.acceptance:.0%}, pays from {gain.break_even:.0%}"
    return f"With n-gram drafts the last reply would have been {gain.gain:.2f} times as fast ({accepted})."
