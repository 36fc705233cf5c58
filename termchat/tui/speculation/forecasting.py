"""What speculation would do, while it is off."""

from __future__ import annotations

from termchat.chat.service import Chat
from termchat.decoding.drafting import breaks_even
from termchat.text import one_line
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.marks import ACCENT, MUTED, TEXT, TITLE, prose, spread
from termchat.tui.speculation.reply_drafts import ReplyDrafts

_WHAT = (
    "Guesses tokens and decodes them together with the newest one. The reply stays the same, and where the guesses are right"
    " it is made faster."
)


def forecast_lines(chat: Chat, drafts: ReplyDrafts, width: int) -> list[Line]:
    """While speculation is off: what it would do here."""
    lines = [
        Line(spread([("SPECULATION ", TITLE)], [(chat.tuning.draft, MUTED)], width)),
        *prose(_WHAT, width, MUTED),
        BLANK,
    ]
    lines += prose(_by_model(chat, drafts), width)
    turn = (
        ("/draft auto turns it on", ACCENT)
        if chat.tuning.draft == "off"
        else ("It is on from the next reply on.", TEXT)
    )
    return [*lines, BLANK, Line((turn,))]


def _by_model(chat: Chat, drafts: ReplyDrafts) -> str:
    if (drafter := chat.drafter) is None:
        return "No draft model is loaded; /draft NAME loads one."
    even = breaks_even(drafts.times.of, chat.tuning.draft_max, drafter.cost)
    pays = f"pays from {even:.0%} acceptance" if even < 1 else "never pays here"
    return f"{one_line(drafter.name, 40)} drafts a token in {drafter.cost:.2f} of the time of one, and {pays}."
