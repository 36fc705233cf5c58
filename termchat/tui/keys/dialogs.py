"""The keys of TUNE and of the dialogs, and which keys there are together.

A key without an action is not bound by us: its widget does it (Enter in a field) or what is typed is taken letter by letter.
It stands here to be read, and cannot be remapped.
"""

from __future__ import annotations

from typing import NamedTuple

from textual.content import Content
from textual.style import Style

from termchat.decoding.samplers import KNOBS
from termchat.tui.keys import tables
from termchat.tui.keys.key import Key, Label, displayed, families, keys_of, pressed

TUNE: tuple[Key, ...] = (
    Key("tune-less", "left", "move(-1)", "A step down or up", {}, display="←→"),
    Key("tune-more", "right", "move(1)", "", {}),
    Key("tune-much-less", "shift+left", "move(-1, True)", "A coarse step down or up", {}, display="Shift+←→"),
    Key("tune-much-more", "shift+right", "move(1, True)", "", {}),
    Key("tune-before", "up", "step(-1)", "The knob above or below", {}, display="↑↓"),
    Key("tune-after", "down", "step(1)", "", {}),
    Key("tune-type", "0-9", "", "Type a value", {}),
    Key("tune-accept", "enter", "accept", "Accept what is typed; edit the stop sequences", {}),
    Key("tune-erase", "backspace", "erase", "Erase what is typed", {}),
    Key("tune-off", "x", "off", "Turn the knob off", {}),
    Key("tune-default", "d", "default", "The knob's default", {}),
    Key("tune-undo", "z", "take_back", "Take back the last change", {}),
    *(Key(f"tune-{name}", knob.key, f"select('{name}')", f"{name}: {knob.help}", {}) for name, knob in KNOBS.items()),
)

DIALOG: tuple[Key, ...] = (Key("close", "escape", "close", "Close it, the innermost thing first", {}),)
"""What works in every dialog."""

ARROWS: tuple[Key, ...] = (
    Key("list-up", "up", "move('up')", "A row up or down", {}, display="↑↓"),
    Key("list-down", "down", "move('down')", "", {}),
    Key("list-page-up", "pageup", "move('page_up')", "A page up or down", {}, display="PgUp PgDn"),
    Key("list-page-down", "pagedown", "move('page_down')", "", {}),
)
"""What moves in a list, also while a field has the keyboard."""

READING: tuple[Key, ...] = (
    Key("read-first", "home,g", "move('first')", "The first or last line", {}, display="g G", priority=False),
    Key("read-last", "end,G", "move('last')", "", {}, priority=False),
)
"""What moves in text that is only read, beside the arrows."""

MODELS: tuple[Key, ...] = (
    Key("model-enter", "enter", "", "Chat with the highlighted model, or download it", {}),
    Key("model-engine", "ctrl+t", "engine", "How the highlighted model is run", {}),
    Key("model-reload", "ctrl+r", "reload", "Load the model again", {}),
    Key("model-unload", "ctrl+o", "unload", "Let the model go", {}),
    Key("model-cancel", "delete", "cancel", "Stop the highlighted download; what came is kept", {}),
    Key("model-skipped", "ctrl+s", "skipped", "What was left out of the list", {}),
)

ENGINE: tuple[Key, ...] = (
    Key("engine-less", "left", "move(-1)", "Change the chosen setting", {}, display="←→"),
    Key("engine-more", "right", "move(1)", "", {}),
    Key("engine-next", "space", "move(1)", "Its next value", {}),
    Key("engine-type", "a-z 0-9", "", "Type a value", {}),
    Key("engine-erase", "backspace", "erase", "Erase what is typed", {}),
    Key("engine-unset", "delete", "unset", "Take back what was set for this model", {}),
    Key("engine-load", "enter", "load", "Load the model so, and keep it", {}),
)

SESSIONS: tuple[Key, ...] = (
    Key("session-enter", "enter", "", "Open the highlighted chat", {}),
    Key("session-rename", "ctrl+r", "rename", "Give the highlighted chat another title", {}),
    Key("session-duplicate", "ctrl+d", "duplicate", "Copy the highlighted chat", {}),
    Key("session-delete", "delete", "drop", "Delete the highlighted chat", {}),
    Key("session-undelete", "ctrl+y", "undo", "Bring back the chat that was deleted last", {}),
    Key("session-new", "ctrl+n", "new", "An empty chat", {}),
)

TREE: tuple[Key, ...] = (
    Key("tree-up", "k", "move('up')", "A row up or down", {}, display="k j"),
    Key("tree-down", "j", "move('down')", "", {}),
    Key("tree-first", "home,g", "move('first')", "The first or last row", {}, display="g G"),
    Key("tree-last", "end,G", "move('last')", "", {}),
    Key("tree-parent", "left,h", "parent", "The turn that this one grew from", {}),
    Key("tree-go", "enter", "go", "Go to the end of the branch", {}),
    Key("tree-rename", "n", "rename", "Name the branch", {}),
    Key("tree-delete", "d,delete", "drop", "Delete the branch and all that grew from it", {}),
    Key("tree-undelete", "z,u", "undo", "Bring back what was deleted last", {}),
    Key("tree-mark", "m", "mark", "Mark a branch to compare others with", {}),
    Key("tree-compare", "c", "compare", "Compare with the marked branch, or the one shown", {}),
)

THEMES: tuple[Key, ...] = (
    Key("theme-first", "home,g", "move('first')", "The first or last theme", {}, display="g G", priority=False),
    Key("theme-last", "end,G", "move('last')", "", {}, priority=False),
    Key("theme-keep", "enter", "keep", "Keep the highlighted theme", {}, priority=False),
)

BREAKPOINTS: tuple[Key, ...] = (
    Key("rule-enter", "enter", "", "Add what is typed, or turn the chosen rule on or off", {}),
    Key("rule-delete", "ctrl+d,delete", "drop", "Delete the chosen rule", {}),
)

SAVE: tuple[Key, ...] = (Key("save-enter", "enter", "", "Save; a second time to replace a file", {}),)

SETUP: tuple[Key, ...] = (
    Key("setup-start", "enter", "start", "Start the chat", {}, priority=False),
    Key("setup-raw", "tab,shift+tab", "raw", "Raw mode on or off", {}),
)

FULL: tuple[Key, ...] = (
    Key("full-drop", "d", "choose('drop')", "Leave the oldest turns out of what the model sees", {}, priority=False),
    Key("full-summarise", "s", "choose('summarise')", "Have the model summarise them first", {}, priority=False),
)


PERSONAS: tuple[Key, ...] = (
    Key("persona-up", "k", "move('up')", "A persona up or down", {}, display="k j", priority=False),
    Key("persona-down", "j", "move('down')", "", {}, priority=False),
    Key("persona-begin", "enter", "begin", "A chat with the highlighted persona", {}, priority=False),
    Key("persona-here", "h,H", "here", "From here on in this chat, with its knobs only", {}, priority=False),
)

HISTORY: tuple[Key, ...] = (Key("history-enter", "enter", "", "Write the highlighted message again", {}),)

QUEUE: tuple[Key, ...] = (
    Key("queue-edit", "enter", "edit", "Take the highlighted message back and edit it", {}),
    Key("queue-remove", "delete,d", "drop", "Remove the highlighted message", {}),
    Key("queue-earlier", "shift+up,K", "shift(-1)", "Have it go out earlier or later", {}, display="Shift+↑↓"),
    Key("queue-later", "shift+down,J", "shift(1)", "", {}),
)


class Group(NamedTuple):
    """Keys of one place. `at` names the tables that work there with them; `written`: text is typed there, so that no letter
    can be a key."""

    title: str
    table: tuple[Key, ...]
    at: tuple[tuple[Key, ...], ...] = ()
    written: bool = False


_LIST = (ARROWS, DIALOG, tables.APP)

GROUPS: tuple[Group, ...] = (
    Group("CHAT", (*tables.COMPOSER, *tables.CHAT, *tables.MODEL), (tables.APP,), written=True),
    Group("TOKEN MODE", tables.TOKENS, (tables.CHAT, tables.MODEL, tables.APP)),
    Group("BIG VIEW", tables.BIG, (tables.CHAT, tables.MODEL, tables.APP)),
    Group("TUNE", TUNE, (tables.CHAT, tables.MODEL, tables.APP)),
    Group("EVERYWHERE", tables.APP, written=True),
    Group("MODELS", MODELS, _LIST, written=True),
    Group("HOW A MODEL IS RUN", ENGINE, _LIST),
    Group("SAVED CHATS", SESSIONS, _LIST, written=True),
    Group("BRANCHES", TREE, _LIST),
    Group("THEMES", THEMES, _LIST),
    Group("PERSONAS", PERSONAS, _LIST),
    Group("BREAKPOINTS", BREAKPOINTS, _LIST, written=True),
    Group("SAVE", SAVE, (DIALOG, tables.APP), written=True),
    Group("NEW CHAT", SETUP, (DIALOG, tables.APP), written=True),
    Group("CONTEXT FULL", FULL, (DIALOG, tables.APP)),
    Group("EARLIER MESSAGES", HISTORY, _LIST, written=True),
    Group("QUEUE", QUEUE, _LIST),
    Group("LISTS", ARROWS, (DIALOG, tables.APP), written=True),
    Group("TEXT TO READ", READING, _LIST),
    Group("DIALOGS", DIALOG, (tables.APP,), written=True),
)
"""All keys, by where they work; each is in one of them."""

_FAMILIES = {family[0].id: family for group in GROUPS for family in families(group.table)}


def name_of(id: str) -> str:
    """How the key of that id is written: "Ctrl+Y"."""
    return displayed(_FAMILIES[id])


def actions(table: tuple[Key, ...]) -> dict[str, str]:
    """Keys to the actions that they stand for, for what takes its keys itself."""
    return {name: key.action for key in table if key.action for name in keys_of(key)}


def hint(*does: tuple[str, str], before: str = "") -> Content:
    """A sentence of keys and what they do, each by its id, after `before`. A click on one presses it."""
    parts = [part for id, words in does if (part := link(id, words))]
    said = Content(", ").join(parts) + "." if parts else Content()
    return Content(before + " ") + said if before and parts else Content(before) + said


def link(id: str, words: str, gap: str = " ") -> Content:
    """A key and what it does, to be clicked; empty where it has no key."""
    family = _FAMILIES[id]
    name = displayed(family)
    content = Content(f"{name}{gap}{words}" if name else "")
    key = pressed(family) if family[0].action else family[0].keys
    return content.stylize(Style.from_meta({"@click": f"app.press({key!r})"})) if name and key else content


def labels(*does: tuple[str, str]) -> list[Label]:
    """The same for the key line."""
    found = [(_FAMILIES[id], words) for id, words in does]
    return [Label(name, words, pressed(family)) for family, words in found if (name := displayed(family))]
