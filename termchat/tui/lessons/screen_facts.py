"""What the screen tells of itself to the checks of a lesson."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from termchat.conversation.tree import Place
from termchat.tui.lessons.strip import LessonStrip
from termchat.tui.pages.walks_view import WalksView
from termchat.tui.screen.parts import Parts


def mode_of(parts: Parts, dialog: str) -> str:
    """What has the keyboard: chat, tune, tokens, walks, big, or dialog: with its name. `dialog` was opened last."""
    shown = parts.screen.app.screen
    if shown is not parts.screen:
        title = getattr(shown, "KEYS", "").lower().replace(" ", "-")
        return f"dialog:{dialog or title}"
    if parts.desk.tune is not None:
        return "tune"
    if parts.tokens.mode.open:
        return "tokens"
    if parts.panels.big:
        return "big"
    desk, walks = parts.desk, parts.screen.query_one(WalksView)
    focused = parts.screen.focused
    if isinstance(focused, LessonStrip):  # for one key; then this has the keyboard again
        focused = desk.home or desk.under
    if parts.chat.walks.shown is not walks.group:  # they are about to be shown, or to go
        return "walks" if walks.group is None else "chat"
    return "walks" if walks.group is not None and focused is walks.head else "chat"


def screen_facts(parts: Parts, dialog: str = "") -> Mapping[str, Any]:
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
