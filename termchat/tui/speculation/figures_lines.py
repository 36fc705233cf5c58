"""The figures of speculation: what drafts did for a reply, what they cost, and why nothing is drafted at present."""

from __future__ import annotations

from collections.abc import Sequence

from termchat.chat.service import Chat
from termchat.conversation.tree import Span
from termchat.decoding.draft_figures import DraftFigures
from termchat.decoding.drafting import DraftSettings, breaks_even
from termchat.decoding.records import SettingsRecord
from termchat.text import one_line
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import MUTED, STRONG, TEXT, TITLE, bar, column, prose, spread
from termchat.tui.speculation.reply_drafts import ReplyDrafts
from termchat.tui.speculation.round_lines import drafter_name

_LABEL = 11
_BAR_FROM, _BAR = 40, 12
"""Cells from which acceptance has a bar, and how long it is."""
_WHY_FROM = 160
_UNKNOWN = "–"


def settings_now(reply: Sequence[Span]) -> SettingsRecord | None:
    """What the newest tokens of a reply were drawn with."""
    return next((span.node.settings[-1] for span in reversed(reply) if span.node.settings), None)


def drafting_off(reply: Sequence[Span]) -> str:
    """Why nothing is drafted for a reply that has drafts on; "" where something is."""
    settings = settings_now(reply)
    return settings.drafting if settings is not None and settings.draft is not None else ""


def gained(figures: DraftFigures) -> str:
    """ "+41%": how much faster than plain decoding a reply was; "" where that is not known."""
    return "" if figures.gain is None else f"{figures.gain - 1:+.0%}".replace("-", "−")


def header_runs(figures: DraftFigures, reply: Sequence[Span], width: int) -> list[Run]:
    """What drafts do for a reply, in a few words; why they do nothing where a header of so many cells has room for that."""
    if why := drafting_off(reply):
        return [(f"drafting off: {why}" if width >= _WHY_FROM else "drafting off", MUTED)]
    gain = gained(figures)
    return [("drafting ", MUTED), (gain, TEXT)] if gain else []


def break_even(chat: Chat, drafts: ReplyDrafts, settings: DraftSettings | None) -> float:
    """The least acceptance from which drafting pays, with what batches cost, 1.0 where none does. A draft model's own time
    counts."""
    by_model = settings is not None and settings.by == "model" and chat.host.drafter is not None
    each = chat.host.drafter.cost if by_model and chat.host.drafter is not None else 0.0
    return breaks_even(drafts.times.read_cost, chat.tuning.draft_max, each)


def figures_lines(chat: Chat, reply: Sequence[Span], drafts: ReplyDrafts, width: int) -> list[Line]:
    """Those of a reply for which something was, or was to be, drafted."""
    figures, settings = drafts.figures, settings_now(reply)
    by = settings.draft if settings is not None else None
    who = _who(chat, by) if by is not None else "off"
    lines = [Line(spread([("SPECULATION ", TITLE)], [(who, MUTED)], width))]
    if figures.rounds:
        even = break_even(chat, drafts, by)
        per_pass = figures.tokens_per_pass or 1.0
        lines += [
            _row(
                "acceptance",
                _share(figures.acceptance_lately, width),
                f"last {min(figures.LATELY, figures.drafted)}",
                width,
            ),
            _row("in all", _share(figures.acceptance, width), f"{figures.accepted} of {figures.drafted}", width),
            _row("pays from", [(_percent(even) if even < 1 else "never here", TEXT)], "", width),
            _row("per pass", [(f"{per_pass:.2f} tokens", TEXT)], _passes(figures), width),
            _row("speed", _speed(figures), _plain(figures), width),
            _row("drafting", [(f"{figures.drafting_ms:.1f} ms", TEXT)], f"{figures.rounds} rounds", width),
        ]
    if why := drafting_off(reply):
        lines += prose(f"drafting off: {why}", width, Ink("stamp"))
    elif not figures.rounds:
        lines += prose("Nothing was drafted: no guess was likely enough to pay.", width, MUTED)
    return lines


def _who(chat: Chat, draft: DraftSettings) -> str:
    model = one_line(chat.host.drafter.name, 20) if chat.host.drafter is not None else "a draft model"
    return {"ngram": drafter_name("ngram"), "model": model, "auto": "auto", "off": "off"}[draft.by]


def _row(label: str, value: Sequence[Run], note: str, width: int) -> Line:
    return Line(spread([(column(label, _LABEL), MUTED), *value], [(note, MUTED)], width))


def _share(share: float | None, width: int) -> list[Run]:
    if share is None:
        return [(_UNKNOWN, TEXT)]
    runs: list[Run] = [(f"{_percent(share):>4} ", STRONG)]
    return [*runs, *bar(share, _BAR)] if width >= _BAR_FROM else runs


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _passes(figures: DraftFigures) -> str:
    return f"{figures.tokens} in {figures.passes} passes"


def _speed(figures: DraftFigures) -> list[Run]:
    speed = f"{figures.speed:.0f} t/s" if figures.speed else _UNKNOWN
    gain = gained(figures)
    return [(f"{speed} ", TEXT), (gain, Ink("success" if figures.gain and figures.gain >= 1 else "warning", bold=True))]


def _plain(figures: DraftFigures) -> str:
    """Measured in the same reply, where enough of its steps were decoded alone."""
    if figures.plain_speed is None:
        return f"plain: fewer than {figures.LEAST} steps"
    return f"plain {figures.plain_speed:.0f} t/s"
