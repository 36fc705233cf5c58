"""What drafts do for a reply: its figures, a round of drafting step by step, and while speculation is off a forecast."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from statistics import median
from typing import Literal, NamedTuple

from termchat.chat.service import Chat
from termchat.conversation.tree import Span
from termchat.decoding.draft_figures import DraftedStep, DraftFigures, Round
from termchat.decoding.drafting import BatchTimes, Forecast, breaks_even, forecast_drafts
from termchat.decoding.records import SettingsRecord, Token
from termchat.decoding.stages import loss_of
from termchat.text import cells, one_line, show_piece
from termchat.tui.draw.background import BackgroundTask
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.marks import (
    ACCENT,
    MUTED,
    STRONG,
    TEXT,
    TITLE,
    UNKNOWN,
    bar,
    column,
    flowing,
    percent,
    prose,
    spread,
)
from termchat.tui.keys.tables import name_of
from termchat.tui.pages.candidates import REJECTED
from termchat.tui.pages.scene import HERE

_NEWEST = 9
"""Steps decoded alone whose median is what a row alone takes."""
_INDENT, _STEP, _WORD = 2, 9, 14
"""Cells before a step of a round, of its name, and of a token in the table of probabilities."""
_LABEL = 11
_BAR_FROM, _BAR = 40, 12
"""Cells from which acceptance has a bar, and how long it is."""
_WHY_FROM = 160
_DROPPED = Ink("muted", strike=True)
_ABOUT = (
    "Guesses tokens and decodes them together with the newest one. The reply stays the same, and where the guesses are right"
    " it is made faster."
)


# --- what is read ----------------------------------------------------------------------------------------------------


class ReplyDrafts:
    """Follows one reply, of one piece or several. What came already is not read again.

    `times` are the costs of batches, as far as they are known or the reply has measured them; `newest` is the newest round.
    `computed` is called in a thread when a forecast is ready.
    """

    def __init__(self, chat: Chat, computed: Callable[[], object] = lambda: None) -> None:
        self.chat, self._computed = chat, computed
        self.reply: Sequence[Span] = ()
        self._begin_reply((1, {}))

    def _begin_reply(self, machine: tuple[int, dict[int, float]]) -> None:
        """Begin to read a reply; `machine` is how many threads compute, and the costs of batches measured with as many."""
        self._machine = machine
        self.figures = DraftFigures()
        self.times = BatchTimes(machine[1])
        self.newest: Round | None = None
        self._alone: deque[int] = deque(maxlen=_NEWEST)
        self._forecast: Forecast | None = None
        self._forecasting: BackgroundTask[Forecast] | None = None
        self._forecast_of = (0, 0)

    @property
    def row_us(self) -> float | None:
        """Microseconds that decoding one row alone takes now."""
        return median(self._alone) if self._alone else None

    @property
    def settings(self) -> SettingsRecord | None:
        """The settings of the newest tokens of the reply, if drafts were on."""
        newest = next((span.node.settings[-1] for span in reversed(self.reply) if span.node.settings), None)
        return newest if newest is not None and newest.draft is not None else None

    @property
    def why_off(self) -> str:
        """The reason for which nothing is drafted though drafts are on; "" if something is."""
        return self.settings.drafting if self.settings is not None else ""

    def knows(self, reply: Sequence[Span]) -> bool:
        """Return whether this is the reply that was followed last."""
        return [span.node for span in self.reply[:1]] == [span.node for span in reply[:1]]

    def follow(self, reply: Sequence[Span]) -> None:
        """Read the tokens that came since the last time; another reply, or one that was cut, from its begin."""
        model = self.chat.model
        measured = model.measured if model is not None else None
        threads = self.chat.live.threads or (model.threads if model is not None else 1)
        machine = threads, measured.batch_times if measured is not None and measured.threads == threads else {}
        last = len(self.reply) - 1
        goes_on = len(reply) > last and all(
            now.node is then.node and (now.count == then.count or (at == last and now.count > then.count))
            for at, (then, now) in enumerate(zip(self.reply, reply, strict=False))
        )
        if not goes_on or machine != self._machine:
            self._begin_reply(machine)
            self.reply = ()
        for at in range(max(len(self.reply) - 1, 0), len(reply)):
            begin = self.reply[at].count if at < len(self.reply) else 0
            for index in range(begin, reply[at].count):
                self._read_step(index, reply[at].node.tokens[index])
            if reply[at].node.done:
                self.figures.end_run()
        self.reply = list(reply)

    def _read_step(self, index: int, step: DraftedStep) -> None:
        before = self.figures.round
        self.figures.add(step)
        after = self.figures.round
        self.newest = after or self.newest
        if not index:
            return  # it was drawn from the last decode of the prompt
        if after is None:
            self._alone.append(step.decode_us)
            self.times.add(1, step.decode_us)
        elif before is None or before.begin != after.begin:
            self.times.add(after.rows, after.decode_us)

    def forecast_gain(self) -> Forecast | None:
        """Forecast the gain of n-gram drafts on the reply, in a thread; None until it is computed."""
        chat, reply, times, most = self.chat, self.reply, self.times, self.chat.tuning.draft_max
        if self._forecast_of != (self.figures.tokens, most):
            self._forecast, self._forecast_of = None, (self.figures.tokens, most)
            prompt = chat.conversation.ids_before(reply[0].node.number)
            ids = [token for span in reply for token in span.node.ids[: span.count]]
            ends = chat.model.end_ids if chat.model is not None else ()
            self._forecasting = BackgroundTask(
                lambda: [forecast_drafts(prompt, ids, times, most=most, end_ids=ends)], self._computed
            )
        if self._forecasting is not None:
            self._forecast = next(self._forecasting.take(), self._forecast)
        return self._forecast


class ShownRound(NamedTuple):
    """A round, and the token of it under the cursor.

    `at` is the index of the token under the cursor, as the round counts, None without one; `first` is what its number in the
    reply has more. `ending` is the record of the token that ended the round, with its candidates, where it is known: it may
    be `pending`, not taken yet. `ended`: the reply is over, and the round with it.
    """

    round: Round
    at: int | None = None
    first: int = 0
    ending: Token | None = None
    pending: bool = False
    ended: bool = False

    @property
    def part(self) -> Literal["", "accept", "correct"]:
        """The step of the round that the token under the cursor came from, "" without one."""
        if self.at is None:
            return ""
        return "accept" if self.at < self.round.begin + self.round.accepted else "correct"


# --- lines -----------------------------------------------------------------------------------------------------------


def reply_lines(drafts: ReplyDrafts, width: int) -> list[Line]:
    """Render the figures and the newest round of a reply; for a reply without drafts a forecast."""
    if not _is_drafted(drafts):
        return _render_forecast(drafts, width)
    newest = ShownRound(drafts.newest, ended=drafts.reply[-1].node.done) if drafts.newest is not None else None
    lines = [BLANK, *_render_round(newest, drafts.row_us, width)] if newest is not None else []
    return [*_render_figures(drafts, width), *lines]


def token_lines(shown: ShownRound | None, drafts: ReplyDrafts, width: int) -> list[Line]:
    """Render the round of a token, and the figures of its reply."""
    if shown is not None:
        lines = _render_round(shown, drafts.row_us, width)
    else:
        why = f": {drafts.why_off}" if drafts.why_off else "; nothing was drafted for it"
        lines = [Line((("ROUND", TITLE),)), *prose(f"The model decoded this token alone{why}.", width, MUTED)]
    return [*lines, BLANK, *_render_figures(drafts, width)] if _is_drafted(drafts) else lines


def _is_drafted(drafts: ReplyDrafts) -> bool:
    return drafts.settings is not None or any(span.node.tokens.drafts is not None for span in drafts.reply)


def header_runs(drafts: ReplyDrafts, width: int) -> list[Run]:
    """Summarize what drafts do for a reply; the reason for which they are off is given if a header of so many cells has
    room."""
    if why := drafts.why_off:
        return [(f"drafting off: {why}" if width >= _WHY_FROM else "drafting off", MUTED)]
    gain = _format_gain(drafts.figures)
    return [("drafting ", MUTED), (gain, TEXT)] if gain else []


def drafted_lines(shown: ShownRound, width: int) -> list[Line]:
    """Render the drafted tokens and their drafter."""
    words = [[("DRAFTED", TITLE), (" by ", MUTED), (f"{_name_drafter(shown.round.by)}:", TEXT)], *_list_drafted(shown)]
    if shown.at == shown.round.begin + len(shown.round.drafted):
        words.append([("and this token from their last row", MUTED)])
    return flowing(words, width, " ")


def _render_round(shown: ShownRound, row_us: float | None, width: int) -> list[Line]:
    """Render all of a round. `row_us`: the time for decoding one row alone."""
    drafted, room = shown.round, width - _INDENT - _STEP
    first = shown.first + drafted.begin
    last = first + max(drafted.tokens, 1) - 1
    numbers = f"token {first}" if first == last else f"tokens {first} to {last}"
    alone = [spread([("one row alone", MUTED)], [(_format_ms(row_us), MUTED)], room)] if row_us is not None else []
    accepted = f"{drafted.accepted} of {len(drafted.drafted)}{'' if drafted.is_over or shown.ended else ' so far'}"
    corrected = "nothing: the reply ended" if shown.ended else "nothing so far"
    if drafted.is_over:
        corrected = "1 token" if drafted.corrected is not None else "nothing"
        corrected += ", not taken yet" if shown.pending else ""
    tokens = _list_drafted(shown)
    words, taken = ([line.runs for line in flowing(some, room, " ")] for some in (tokens, tokens[: drafted.accepted]))
    rows = f"{_count_noun(drafted.rows, 'row')} in one pass"
    steps: list[tuple[str, str, str, Sequence[Sequence[Run]]]] = [
        ("draft", _count_noun(len(drafted.drafted), "token"), _format_ms(drafted.us), words),
        ("verify", rows, _format_ms(drafted.decode_us), alone),
        ("accept", accepted, "", taken),
        ("correct", corrected, "", _render_correction(shown)),
    ]
    lines = [Line(spread([("ROUND ", TITLE), (numbers, TEXT)], [(f"by {_name_drafter(drafted.by)}", MUTED)], width))]
    for step, left, right, below in steps:
        here = step == shown.part
        head: list[Run] = [("▸ " if here else "  ", ACCENT), (column(step, _STEP), STRONG if here else TEXT)]
        lines.append(Line(spread([*head, (left, TEXT)], [(right, MUTED)], width)))
        lines += [Line(((" " * (_INDENT + _STEP), TEXT), *runs)) for runs in below]
    if row_us is not None and drafted.is_over and drafted.decode_us:
        took, plain = drafted.us + drafted.decode_us, drafted.tokens * row_us
        word = "as fast" if plain >= took else "as fast: it cost time"
        times = f"{_format_ms(took)}, alone {_format_ms(plain)}: {plain / took:.2f} times {word}"
        lines += prose(f"{_count_noun(drafted.tokens, 'token')} in {times}", width, MUTED)
    return lines


def _list_drafted(shown: ShownRound) -> list[list[Run]]:
    """List the drafted tokens, each by its outcome; the one under the cursor stands out."""
    drafted, items = shown.round, []
    for place, token in enumerate(drafted.drafted):
        is_rejected = place == drafted.accepted and drafted.corrected is not None
        if shown.at == drafted.begin + place and place <= drafted.accepted:
            ink = HERE._replace(strike=is_rejected)
        elif place < drafted.accepted:
            ink = Ink("success")
        else:
            ink = TEXT if drafted.corrected is None else REJECTED if is_rejected else _DROPPED  # not decided, or so
        items.append([(show_piece(token.text), ink)])
    return items


def _render_correction(shown: ShownRound) -> list[list[Run]]:
    """Render the rejected token and the one in its place, with their probabilities if they are on record."""
    drafted, taken = shown.round, shown.ending
    if drafted.bonus is not None:
        return [[(show_piece(drafted.bonus.text), STRONG), (" is drawn from the last row", MUTED)]]
    if drafted.corrected is None:
        return []
    rejected = drafted.drafted[drafted.accepted]
    words: list[Run] = [(show_piece(rejected.text), REJECTED), (show_piece(drafted.corrected.text), STRONG)]
    if taken is None:
        return [[words[0], (" → ", MUTED), words[1]]]
    model = after = "–"
    if (one := next((one for one in taken.candidates if one.id == rejected.id), None)) is not None:
        model = percent(math.exp(one.logprob))
        after = loss_of(one.removed_by) if one.removed_by is not None else percent(one.probability)
    of_taken = percent(math.exp(taken.logprob)), percent(taken.probability)
    rows: list[list[Run]] = []
    for (text, ink), numbers in zip((("", MUTED), *words), (("model", "after"), (model, after), of_taken), strict=True):
        fill = (" " * max(_WORD - cells(text), 0), TEXT)
        rows.append(
            [(one_line(text, _WORD), ink), fill, ("{:>8}  {:>7}".format(*numbers), TEXT if ink == STRONG else MUTED)]
        )
    return rows


def _render_figures(drafts: ReplyDrafts, width: int) -> list[Line]:
    """Render the figures of a reply for which something was, or was to be, drafted."""
    figures, settings, drafter = drafts.figures, drafts.settings, drafts.chat.host.drafter
    by = settings.draft.by if settings is not None and settings.draft is not None else "off"
    who = _name_drafter(by)
    if by == "model":
        who = one_line(drafter.name, 20) if drafter is not None else "a draft model"
    lines = [Line(spread([("SPECULATION ", TITLE)], [(who, MUTED)], width))]
    if figures.rounds:
        cost = drafter.cost if drafter is not None and by == "model" else 0.0
        even = breaks_even(drafts.times.read_cost, drafts.chat.tuning.draft_max, cost)
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
    if why := drafts.why_off:
        lines += prose(f"drafting off: {why}", width, Ink("stamp"))
    elif not figures.rounds:
        lines += prose("Nothing was drafted: no guess was likely enough to pay.", width, MUTED)
    return lines


def _render_share(share: float | None, width: int) -> list[Run]:
    if share is None:
        return [(UNKNOWN, TEXT)]
    return [(f"{share:>4.0%} ", STRONG), *(bar(share, _BAR) if width >= _BAR_FROM else [])]


def _render_forecast(drafts: ReplyDrafts, width: int) -> list[Line]:
    """Render the page while speculation is off: what it does, the forecast for the reply, and the draft model."""
    chat, reply, tuning = drafts.chat, drafts.reply, drafts.chat.tuning
    title = Line(spread([("SPECULATION ", TITLE)], [(tuning.draft, MUTED)], width))
    lines = [title, *prose(_ABOUT, width, MUTED), BLANK]
    if chat.cannot_draft:
        return [*lines, *prose(f"Not here: {chat.cannot_draft}.", width)]
    gain = "After a reply, this page says what drafts would have gained on it."
    if reply and drafts.figures.tokens and not chat.busy and reply[0].node.tokens.has_ids:
        gain = _explain_forecast(drafts.forecast_gain())
    if (drafter := chat.host.drafter) is None:
        model = f"No draft model is loaded; {name_of('models')} marks those that fit with ◇, and /draft NAME loads one."
    else:
        even = drafts.times.breaks_even(tuning.draft_max, drafter.cost)
        pays = "" if even is None else f", and pays from {even:.0%} acceptance" if even < 1 else ", and never pays here"
        model = f"{one_line(drafter.name, 40)} drafts a token in {drafter.cost:.2f} of the time of one{pays}."
    turn = ("It is on from the next reply on.", TEXT)
    if tuning.draft == "off":
        turn = ("/draft auto turns it on", ACCENT)
    return [*lines, *prose(gain, width), BLANK, *prose(model, width), BLANK, Line((turn,))]


def _explain_forecast(gain: Forecast | None) -> str:
    if gain is None:
        return "Computing how fast the last reply would have been with n-gram drafts …"
    if not gain.drafted:
        pays = f"drafts pay from {gain.break_even:.0%} acceptance" if gain.break_even < 1 else "drafts never pay here"
        return f"With n-gram drafts the last reply would not have been faster: it repeats too little ({pays})."
    accepted = f"accepted {gain.acceptance:.0%}, pays from {gain.break_even:.0%}"
    return f"With n-gram drafts the last reply would have been {gain.gain:.2f} times as fast ({accepted})."


def _name_drafter(by: str) -> str:
    """Name a drafter as people read it: records call one "ngram", another by its model's name."""
    return "n-gram" if by == "ngram" else one_line(by, 24)


def _format_gain(figures: DraftFigures) -> str:
    """Format how much faster than plain decoding a reply was: "+41%"; "" if that is not known."""
    return "" if figures.gain is None else f"{figures.gain - 1:+.0%}".replace("-", "−")


def _count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _format_ms(us: float) -> str:
    return f"{us / 1000:.2f} ms" if us < 1000 else f"{us / 1000:.1f} ms"
