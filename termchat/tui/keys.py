"""Every key of the chat screen, declared once: bindings, the key line and the palette are made from this table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from textual.binding import Binding

from termchat.chat.changes import Phase

Situation = Literal["idle", "empty", "busy", "loading", "failed"]
"""What a chat is doing; "empty" is idle with nothing to go on with."""

_SITUATIONS: dict[Phase, Situation] = {
    "no model": "failed",
    "failed": "failed",
    "loading": "loading",
    "idle": "idle",
    "rendering": "busy",
    "prefill": "busy",
    "decoding": "busy",
}


def situation_of(phase: Phase, *, empty: bool) -> Situation:
    """The situation of a chat in this phase, `empty` as long as it has no message."""
    situation = _SITUATIONS[phase]
    return "empty" if empty and situation == "idle" else situation


class Key(NamedTuple):
    """One thing a person can do.

    `id` is what a key map remaps; `keys` is as Textual writes them, the first is shown. `labels` says in which situations
    the key line shows it, and how. `palette` is its name in the palette, "" for what makes no sense there. With `priority`
    it goes before what the widget that has the keyboard does with the key.
    """

    id: str
    keys: str
    action: str
    help: str
    labels: Mapping[Situation, str]
    palette: str = ""
    priority: bool = True

    @property
    def binding(self) -> Binding:
        """As Textual takes it."""
        label = self.palette or self.help
        return Binding(self.keys, self.action, label, show=False, priority=self.priority, tooltip=self.help, id=self.id)


def _resting(label: str) -> dict[Situation, str]:
    return {"idle": label, "empty": label}


def _everywhere(label: str) -> dict[Situation, str]:
    return {"idle": label, "empty": label, "busy": label, "loading": label, "failed": label}


COMPOSER: tuple[Key, ...] = (
    Key(
        "send", "enter", "send", "Send the message; while a reply runs it waits in the queue",
        _resting("send") | {"busy": "queue", "loading": "queue"}, priority=False,
    ),
    Key("newline", "shift+enter,ctrl+j", "newline", "Begin a new line in the message", {}, priority=False),
)  # fmt: skip

CHAT: tuple[Key, ...] = (
    Key("back", "escape", "back", "Close the innermost thing, then stop the reply", {"busy": "stop"}, priority=False),
    Key(
        "continue", "ctrl+o", "continue", "Go on with the last reply from its last token; restart a dead engine first",
        {"idle": "continue", "failed": "restart and go on"}, "Continue the reply",
    ),
    Key("tune", "ctrl+t", "tune", "Turn the knobs of the chain, also while a reply streams", _everywhere("tune"), "Tune"),
    Key("look", "ctrl+l", "look", "Reading look or token look, coloured by probability", _everywhere("look"), "Look"),
    Key("panels", "ctrl+b", "panels", "Show or hide the panels", {}, "Panels"),
    Key("regenerate", "ctrl+r", "regenerate", "Another reply to the last message", {"idle": "again"}, "Regenerate"),
    Key("new", "ctrl+n", "new", "An empty chat; model, knobs and system prompt stay", _resting("new"), "New chat"),
    Key("save", "ctrl+s", "save", "Save a transcript as Markdown or JSON Lines", _resting("save"), "Save transcript"),
    Key("setup", "f2", "setup", "A new chat with a system prompt, or raw, without template", {}, "System prompt and raw mode"),
    Key("interrupt", "ctrl+c", "interrupt", "Copy the selection, else stop the reply, else quit", {}),
    Key("page-up", "pageup", "scroll('page_up')", "Scroll the chat up a page", {}),
    Key("page-down", "pagedown", "scroll('page_down')", "Scroll the chat down a page", {}),
    Key("line-up", "ctrl+up", "scroll('up')", "Scroll the chat up a line", {}),
    Key("line-down", "ctrl+down", "scroll('down')", "Scroll the chat down a line", {}),
    Key("top", "ctrl+home", "scroll('home')", "Scroll to the beginning of the chat", {}),
    Key("end", "ctrl+end", "scroll('end')", "Scroll to the end of the chat and follow it", {}),
)  # fmt: skip

APP: tuple[Key, ...] = (
    Key("palette", "ctrl+p", "command_palette", "All there is to do", _everywhere("all")),
    Key("quit", "ctrl+q", "quit", "End the reply, save and leave", _everywhere("quit"), "Quit"),
)

_NAMED = {"escape": "Esc", "enter": "Enter", "pageup": "PgUp", "pagedown": "PgDn"}


def shown(key: str) -> str:
    """A key as the key line writes it: `ctrl+t,f5` is Ctrl+T."""
    return "+".join(_NAMED.get(part, part.capitalize()) for part in key.split(",")[0].strip().split("+"))


def working(situation: Situation, keymap: Mapping[str, str]) -> list[tuple[str, str]]:
    """What works now, as key and label, in order of use; `keymap` is id to keys where they were remapped."""
    return [
        (shown(keymap.get(key.id, key.keys)), key.labels[situation])
        for key in (*COMPOSER, *CHAT, *APP)
        if situation in key.labels
    ]
