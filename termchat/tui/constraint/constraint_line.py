"""The line above the composer that says where in its constraint a reply stands, and what is to be said of it at its end."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from termchat.chat.service import Chat
from termchat.conversation.standing_reply import StandingReply, standing_reply
from termchat.conversation.tree import Node
from termchat.decoding.constraint import GRAMMAR, Constraint
from termchat.decoding.partial_json import PartialDocument, describe_bounds, schema_at, shown_path
from termchat.text import one_line
from termchat.tui.constraint.constraint_setting import name_of_constraint
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, fitting, length, percent, spread

_LONGEST = 200_000
"""Bytes up to which a reply is read anew in each frame."""
_TAIL = 40
_NAMED = 24
_MOST_BENT = 3
_INKS = {
    "valid": Ink("success", bold=True),
    "incomplete": Ink("warning", bold=True),
    "invalid": Ink("error", bold=True),
}
_DIALOG = "dialog('constraint')"


def constraint_line(chat: Chat, place: tuple[Node, int] | None, width: int) -> Line | None:
    """Render the constraint of the last reply of a chat, or, with `place`, of another up to a token; None without one."""
    reply, is_last = None, place is None
    ended = is_last and not chat.busy
    if place is None and (leaf := chat.conversation.leaf) is not None:
        node = chat.conversation.nodes[leaf]
        place = (node, len(node.tokens)) if node.role == "assistant" else None
    if place is not None:
        reply = standing_reply(chat.conversation, *place)
    constraint = reply.constraint if reply is not None else None
    if ended and constraint != chat.constraint:
        reply, constraint = None, chat.constraint
    if constraint is None:
        return None
    name = one_line(name_of_constraint(constraint), min(_NAMED, max(width // 3, 8)))
    runs = doing(_DIALOG, [(name, ACCENT), ("  ", TEXT)])
    room = width - length(runs)
    if reply is None:
        runs.append(("the next reply matches it", MUTED))
    elif reply.dropped:
        runs.append((one_line(f"no longer applied: {reply.dropped}", room), Ink("warning")))
    elif ended:
        runs += _end(reply, room)
    else:
        says = _allowed(chat) if is_last else ""
        return Line(spread([*runs, *_where(reply, room)], [(says, MUTED)] if says else [], width), "panel")
    return Line(tuple(runs), "panel")


def _where(reply: StandingReply, room: int) -> list[Run]:
    what = what_comes(reply.constraint, reply.data) if len(reply.data) <= _LONGEST else ""
    what = one_line(what, max(room - 16, room // 2))
    text = reply.data[-4 * _TAIL :].decode("utf-8", "ignore")
    left = min(max(room - len(what) - 4, 4), _TAIL)
    tail = one_line(text[-left:], left) if len(text) <= left else "…" + one_line(text[1 - left :], left - 1)
    return [(tail, TEXT), ("▌  ", ACCENT), (what, MUTED)]


def _end(reply: StandingReply, room: int) -> tuple[Run, ...]:
    kind, detail = _judged(reply.constraint, reply.data)
    runs: list[Run] = [(kind if kind != "unknown" else "not checked", _INKS.get(kind, STRONG))]
    if detail:
        runs.append((": " + detail, TEXT))
    cost = "" if reply.cost is None else f" · cost {reply.cost:.1f} nats"
    if cost and reply.bent:
        shown = " ".join(reply.bent[:_MOST_BENT]) + (" …" if len(reply.bent) > _MOST_BENT else "")
        cost += f", bent at {len(reply.bent)} token{'s' * (len(reply.bent) > 1)}: {shown}"
    if cost:
        runs.append((cost, MUTED))
    return fitting(runs, room)


@lru_cache(8)
def _judged(constraint: Constraint, data: bytes) -> tuple[str, str]:
    from termchat.decoding.verdict import verdict_on

    return verdict_on(constraint, data)


@lru_cache(64)
def what_comes(constraint: Constraint, data: bytes) -> str:
    """Describe the place at the end of a text, and the bytes that may follow it."""
    if constraint.kind == "json_schema":
        at = _document(constraint).find_standing(data.decode("utf-8", "ignore"))
        if not at.inside:
            return "the document is whole"
        says = describe_bounds(schema_at(_schema(constraint.text), at.path)) if at.inside != "a key" else ""
        place = shown_path(at.path)
        return (f"{place}: " if place else "") + at.coming + (f", {says}" if says else "")
    from termchat.decoding.verdict import allowed_after, described_bytes

    after = allowed_after(constraint, data)
    if after is None:
        return ""
    return ("only " if after.forced else "") + described_bytes(after) + (" follows" if after.forced else " may follow")


@lru_cache(4)
def _document(_constraint: Constraint) -> PartialDocument:
    return PartialDocument()


@lru_cache(4)
def _schema(text: str) -> Any:
    """Parse a schema; None for a saved one that is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _allowed(chat: Chat) -> str:
    """Describe the constraint's effect on the newest token: `allowed 3 of 49,152 · removed 97.1% · forced`."""
    token = chat.live.shown
    stage = next((one for one in token.stages if one.name == GRAMMAR), None) if token is not None else None
    if stage is None or chat.model is None:
        return ""
    text = f"allowed {stage.survivors:,} of {chat.model.vocabulary:,}"
    if stage.removed_mass is not None:
        text += f" · removed {percent(stage.removed_mass)}"
    return text + (" · forced" if stage.forced else "")
