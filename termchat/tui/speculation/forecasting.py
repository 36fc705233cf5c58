"""What n-gram drafts would have gained on a reply that was made without, computed in a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from termchat.chat.service import Chat
from termchat.conversation.tree import Node, Span
from termchat.decoding.drafting import Forecast, forecast_drafts
from termchat.text import one_line
from termchat.tui.draw.background import BackgroundTask
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.marks import ACCENT, MUTED, TEXT, TITLE, prose, spread
from termchat.tui.keys.tables import name_of
from termchat.tui.speculation.reply_drafts import Machine, ReplyDrafts

_WHAT = (
    "Guesses tokens and decodes them together with the newest one. The reply stays the same, and where the guesses are right"
    " it is made faster."
)


class DraftForecasting:
    """The forecast for the newest reply. `done` is called in a thread when there is one."""

    def __init__(self, done: Callable[[], object]) -> None:
        self._done = done
        self._of: tuple[Node, int, Machine, int] | None = None
        self._task: BackgroundTask[Forecast] | None = None
        self._found: Forecast | None = None

    def of(self, chat: Chat, reply: Sequence[Span], drafts: ReplyDrafts) -> Forecast | None:
        """None while it is computed."""
        count = sum(span.count for span in reply)
        asked = reply[0].node, count, drafts.machine, chat.tuning.draft_max
        if asked != self._of:
            self._of, self._found = asked, None
            prompt = chat.conversation.ids_before(reply[0].node.number)
            ids = [token for span in reply for token in span.node.ids[: span.count]]
            times, most, ends = (
                drafts.times,
                chat.tuning.draft_max,
                chat.model.end_ids if chat.model is not None else (),
            )
            self._task = BackgroundTask(
                lambda: [forecast_drafts(prompt, ids, times, most=most, end_ids=ends)], self._done
            )
        if self._task is not None:
            self._found = next(self._task.take(), self._found)
        return self._found


def forecast_lines(chat: Chat, found: Forecast | None, drafts: ReplyDrafts, *, reply: bool, width: int) -> list[Line]:
    """While speculation is off: what it would do here. `reply`: there is one that `found` is, or will be, about."""
    lines = [
        Line(spread([("SPECULATION ", TITLE)], [(chat.tuning.draft, MUTED)], width)),
        *prose(_WHAT, width, MUTED),
        BLANK,
    ]
    if chat.cannot_draft:
        return [*lines, *prose(f"Not here: {chat.cannot_draft}.", width)]
    lines += prose(
        _on_reply(found) if reply else "After a reply, this page says what drafts would have gained on it.", width
    )
    lines += [BLANK, *prose(_by_model(chat, drafts), width)]
    turn = (
        ("/draft auto turns it on", ACCENT)
        if chat.tuning.draft == "off"
        else ("It is on from the next reply on.", TEXT)
    )
    return [*lines, BLANK, Line((turn,))]


def _on_reply(found: Forecast | None) -> str:
    if found is None:
        return "Computing how fast the last reply would have been with n-gram drafts …"
    if not found.drafted:
        pays = f"drafts pay from {found.break_even:.0%} acceptance" if found.break_even < 1 else "drafts never pay here"
        return f"With n-gram drafts the last reply would not have been faster: it repeats too little ({pays})."
    times = f"{found.gain:.2f} times as fast"
    return (
        f"With n-gram drafts the last reply would have been {times} (accepted {found.acceptance:.0%}, pays from"
        f" {found.break_even:.0%})."
    )


def _by_model(chat: Chat, drafts: ReplyDrafts) -> str:
    if (drafter := chat.host.drafter) is None:
        return f"No draft model is loaded; {name_of('models')} marks those that fit with ◇, and /draft NAME loads one."
    even = drafts.times.breaks_even(chat.tuning.draft_max, drafter.cost)
    pays = "" if even is None else f", and pays from {even:.0%} acceptance" if even < 1 else ", and never pays here"
    return f"{one_line(drafter.name, 40)} drafts a token in {drafter.cost:.2f} of the time of one{pays}."
