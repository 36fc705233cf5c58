"""The welcome of an empty chat."""

from __future__ import annotations

from termchat.chat.service import Chat
from termchat.config.origins import DEFAULT, PRESET
from termchat.decoding.conditions import format_condition
from termchat.decoding.samplers import KNOBS
from termchat.text import one_line
from termchat.tui.draw.ink import BLANK, Ink, Line
from termchat.tui.draw.marks import MUTED, STRONG, prose
from termchat.tui.keys.tables import name_of

_TEACHES = (
    ("tune", "tune", "turn the knobs, even while a reply streams"),
    ("tokens", "tokens", "see each token's alternatives, and why they lost"),
    ("walks", "dialog('walks')", "several replies to your draft at once: see where they part"),
    ("learn", "app.learn", "lessons: learn decoding by doing it, with this model"),
    ("keys", "app.keys", "all keys; type / for commands, such as /help"),
)
"""Key, action and use of what nobody would guess."""
_KEY = 12
"""Cells of the column with the keys."""
_MOST_PROMPT = 3


def welcome_lines(chat: Chat, width: int) -> list[Line]:
    conversation = chat.conversation
    what = "Write a message and press Enter. If the model is still loading, the message waits."
    if conversation.raw:
        what = "Raw mode: the model continues your exact text, without a chat template."
    lines = [BLANK, Line((("A new chat", STRONG),)), BLANK, *prose(what, width)]
    for title, text in (("System prompt", conversation.system), ("Not at default", _list_turned(chat))):
        shown = prose(f"{title}: {text}", width, MUTED) if text else []
        lines += shown if len(shown) <= _MOST_PROMPT else [*shown[: _MOST_PROMPT - 1], Line((("…", MUTED),))]
    lines.append(BLANK)
    for id, action, does in _TEACHES:
        key = name_of(id)
        lines.append(Line(((f"{key:<{_KEY}}", Ink("accent", does=action)), (one_line(does, width - _KEY), MUTED))))
    return lines


def _list_turned(chat: Chat) -> str:
    """Format the knobs that are not at their defaults, with their origins, a preset before its knobs, and the breakpoints."""
    knobs = [
        (f"{name} {KNOBS[name].show(value)}", chat.origin[name]) for name, value in chat.tuning.find_differing().items()
    ]
    presets = dict.fromkeys(place for _, place in knobs if place.startswith(PRESET))
    turned = [f"{preset} ({', '.join(knob for knob, place in knobs if place == preset)})" for preset in presets]
    turned += [f"{knob} ({place})" if place != DEFAULT else knob for knob, place in knobs if place not in presets]
    return ", ".join([*turned, *(f"breakpoint {format_condition(point.condition)}" for point in chat.breakpoints)])
