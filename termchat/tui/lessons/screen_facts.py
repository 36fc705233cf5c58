"""What the screen tells of itself to the checks of a lesson."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from termchat.conversation.tree import Place
from termchat.tui.context import ScreenContext
from termchat.tui.lessons.strip import LessonStrip
from termchat.tui.screen.walks_view import WalksView


def mode_of(parts: ScreenContext, dialog: str) -> str:
    """What has the keyboard: chat, tune, tokens, walks, big, or dialog: with its name. `dialog` was opened last."""
    shown = parts.app.screen
    if shown is not parts:
        title = getattr(shown, "KEYS", "").lower().replace(" ", "-")
        return f"dialog:{dialog or title}"
    if parts.tune is not None:
        return "tune"
    if parts.tokens.mode.open:
        return "tokens"
    if parts.panels.big:
        return "big"
    walks = parts.query_one(WalksView)
    focused = parts.focused
    if isinstance(focused, LessonStrip):  # for one key; then this has the keyboard again
        focused = parts.under
    if parts.chat.walks.shown is not walks.group:  # they are about to be shown, or to go
        return "walks" if walks.group is None else "chat"
    return "walks" if walks.group is not None and focused is walks.head else "chat"


def screen_facts(parts: ScreenContext, dialog: str = "") -> Mapping[str, Any]:
    """By name; what there is not now is left out."""
    mode, rolls = parts.tokens.mode, parts.panels.shown.rolls
    cursor = parts.tokens.transcript.cursor if mode.open else None
    found: dict[str, Any] = {
        "look": parts.tokens.transcript.look,
        "page": parts.panels.here,
        "mode": mode_of(parts, dialog),
        "cursor": Place(*cursor) if cursor is not None else None,
        "rolls": rolls.n if rolls is not None else 0,
    }
    if mode.open:
        found["view"] = mode.view
    return found
