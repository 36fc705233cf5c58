"""How walks begin on the screen: by a command with its words, or by the dialog; and from where."""

from __future__ import annotations

from termchat.decoding.group import GroupKind
from termchat.decoding.walk_plan import PlanError, WalkPlan
from termchat.text import one_line, show_piece
from termchat.tui.screen.parts import Parts
from termchat.tui.slash.parsing import CommandRefused
from termchat.tui.slash.walk_words import read

_NOTHING, _FIRST = "there is nothing to reply to yet", "write a message first"
_SHOWN = 50
"""Cells of the message that is walked."""


def begin(parts: Parts, plan: WalkPlan, message: str = "") -> None:
    """Walks the reply to a message; without one from the token under the cursor, or other replies to the last message."""
    walks, place = parts.chat.walks, parts.tokens.mode.place
    if message:
        parts.composer.hand_over(message, lambda text: parts.do(lambda: walks.start(plan, text=text)))
    elif place is not None:
        parts.tokens.leave()
        parts.do(lambda: walks.start(plan, node=place.node, at=place.at))
    else:
        parts.do(lambda: walks.start(plan))


def command(parts: Parts, kind: GroupKind, words: str) -> None:
    """Raises:
    CommandRefused: the words cannot be understood, or there is nothing to reply to.
    """
    try:
        asked = read(kind, words)
    except PlanError as error:
        raise CommandRefused(error.message, error.hint) from error
    if not asked.message and parts.chat.conversation.leaf is None:
        raise CommandRefused(_NOTHING, "write a message after the command")
    begin(parts, asked.plan, asked.message)


def open_dialog(parts: Parts, kind: GroupKind = "walks") -> None:
    """From the token under the cursor; else the draft is sent, where there is one. Replies that run out of sight are shown
    instead."""
    from termchat.tui.walks.walks_dialog import WalksDialog  # not needed before the first frame

    hidden = parts.chat.walks.hidden
    if hidden is not None and kind == "walks":
        parts.do(lambda: parts.chat.walks.open(hidden.group.number))
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

    where = _where(parts, draft)
    missing = "" if where else _FIRST
    parts.open(WalksDialog(parts.palette(), where or _NOTHING, kind, missing, lambda one: _refusal(parts, one)), closed)


def _refusal(parts: Parts, kind: GroupKind) -> str:
    """Why the engine cannot make such replies; "" where it can."""
    why = parts.chat.find_refusal("beams" if kind == "beams" else "walks")
    return "; ".join(why) if why is not None else ""


def _where(parts: Parts, draft: str) -> str:
    """What the walks go on from, in words; "" where there is nothing."""
    if (place := parts.tokens.mode.place) is not None:
        texts = place.node.tokens.texts
        piece = f" {show_piece(texts[place.at])}" if place.at < len(texts) else ""
        return f"continue the reply from token {place.at + 1}{piece}"
    chat = parts.chat.conversation
    if draft:
        return f"replies to your draft: {one_line(draft, _SHOWN)}"
    said = next((span.node.written for span in reversed(chat.find_path()) if span.node.role == "user"), "")
    return f"new replies to: {one_line(said, _SHOWN)}" if said else ""
