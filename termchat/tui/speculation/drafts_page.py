"""The page of the panels about speculation: its figures and one round; while it is off, what it would do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from termchat.chat.service import Chat
from termchat.conversation.tree import Span
from termchat.decoding.drafting import Forecast
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.marks import MUTED, TITLE, prose
from termchat.tui.speculation.figures_lines import drafting_off, figures_lines, settings_now
from termchat.tui.speculation.forecasting import forecast_lines
from termchat.tui.speculation.reply_drafts import ReplyDrafts
from termchat.tui.speculation.round_lines import ShownRound, round_lines


def is_drafted(reply: Sequence[Span]) -> bool:
    """Whether something was, or was to be, drafted for a reply."""
    settings = settings_now(reply)
    return (settings is not None and settings.draft is not None) or any(s.node.tokens.drafts is not None for s in reply)


def page_lines(
    chat: Chat, reply: Sequence[Span], drafts: ReplyDrafts, found: Callable[[], Forecast | None], width: int
) -> list[Line]:
    """Of the reply: its figures and its newest round; `found` says what drafts would have done for one made without."""
    if not is_drafted(reply):
        done = bool(reply) and bool(drafts.figures.tokens) and not chat.busy and not chat.cannot_draft
        done = done and reply[0].node.tokens.has_ids
        return forecast_lines(chat, found() if done else None, drafts, reply=done, width=width)
    lines = figures_lines(chat, reply, drafts, width)
    if drafts.newest is not None:
        lines += [BLANK, *round_lines(ShownRound(drafts.newest, ended=reply[-1].node.done), drafts.row_us, width)]
    return lines


def token_page_lines(
    chat: Chat, reply: Sequence[Span], drafts: ReplyDrafts, shown: ShownRound | None, width: int
) -> list[Line]:
    """In token mode: the round that the token came out of, and the figures of its reply."""
    if shown is not None:
        lines = round_lines(shown, drafts.row_us, width)
    else:
        why = drafting_off(reply)
        said = f"The model decoded this token alone{f': {why}' if why else '; nothing was drafted for it'}."
        lines = [Line((("ROUND", TITLE),)), *prose(said, width, MUTED)]
    return [*lines, *([BLANK, *figures_lines(chat, reply, drafts, width)] if is_drafted(reply) else [])]
