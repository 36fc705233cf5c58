"""How walks begin on the screen: by a plan, or by the dialog; and from where."""

from __future__ import annotations

from termchat.decoding.group import GroupKind
from termchat.decoding.walk_plan import WalkPlan
from termchat.text import one_line, show_piece
from termchat.tui.context import ScreenContext

NOTHING, _FIRST = "there is nothing to reply to yet", "write a message first"
_SHOWN = 50
"""Cells of the message that is walked."""


def begin(parts: ScreenContext, plan: WalkPlan, message: str = "") -> None:
    """Walk the reply to a message; without one from the token under the cursor, or other replies to the last message."""
    walks, place = parts.chat.walks, parts.tokens.mode.place
    if message:
        parts.composer.hand_over(message, lambda text: walks.start(plan, text=text))
    elif place is not None:
        parts.tokens.leave()
        walks.start(plan, node=place.node, at=place.at)
    else:
        walks.start(plan)


def open_dialog(parts: ScreenContext, kind: GroupKind = "walks") -> None:
    """Open the dialog for the token under the cursor, else for the draft. Running replies out of sight are shown instead."""
    from termchat.tui.pages.walks_dialog import WalksDialog  # not needed before the first frame

    hidden = parts.chat.walks.hidden
    if hidden is not None and kind == "walks":
        parts.chat.walks.open(hidden.group.number)
        return
    composer = parts.composer
    draft = "" if parts.tokens.mode.open or composer.is_blank else composer.message

    def closed(plan: WalkPlan | None) -> None:
        if plan is None:
            return
        if draft:
            composer.earlier.add(draft)
            composer.clear()
        begin(parts, plan, draft)

    def refusal(kind: GroupKind) -> str:
        """Why the engine cannot make such replies; "" if it can."""
        return "; ".join(parts.chat.find_refusal("beams" if kind == "beams" else "walks") or ())

    where = _describe_prompt(parts, draft)
    parts.open(WalksDialog(parts.palette, where or NOTHING, kind, "" if where else _FIRST, refusal), closed)


def _describe_prompt(parts: ScreenContext, draft: str) -> str:
    """Describe the prompt of the walks; "" for none."""
    if (place := parts.tokens.mode.place) is not None:
        texts = place.node.tokens.texts
        piece = f" {show_piece(texts[place.at])}" if place.at < len(texts) else ""
        return f"continue the reply from token {place.at + 1}{piece}"
    chat = parts.chat.conversation
    if draft:
        return f"replies to your draft: {one_line(draft, _SHOWN)}"
    message = next((span.node.written for span in reversed(chat.find_path()) if span.node.role == "user"), "")
    return f"new replies to: {one_line(message, _SHOWN)}" if message else ""
