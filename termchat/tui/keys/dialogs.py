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
    Key("tune-less", "left", "move(-1)", "Change the value by one step", display="←→"),
    Key("tune-more", "right", "move(1)", ""),
    Key("tune-much-less", "shift+left", "move(-1, True)", "Change the value by a large step", display="Shift+←→"),
    Key("tune-much-more", "shift+right", "move(1, True)", ""),
    Key("tune-before", "up", "step(-1)", "Previous or next knob", display="↑↓"),
    Key("tune-after", "down", "step(1)", ""),
    Key("tune-earlier", "shift+up", "reorder(-1)", "Move the stage earlier or later in the chain", display="Shift+↑↓"),
    Key("tune-later", "shift+down", "reorder(1)", ""),
    Key("tune-unfold", "v", "unfold", "Show every knob, or only those that do something"),
    Key("tune-type", "0-9", "", "Type a value"),
    Key("tune-accept", "enter", "accept", "Accept the value; edit texts and the order"),
    Key("tune-stop-after", "tab", "", "In the editor of stop sequences: stop after the text and keep it in the reply"),
    Key("tune-erase", "backspace", "erase", "Erase the last character"),
    Key("tune-off", "x", "off", "Set the knob to off"),
    Key("tune-default", "d", "default", "Reset the knob to its default"),
    Key("tune-undo", "z", "take_back", "Undo the last change, or a preset"),
    *(Key(f"tune-{name}", knob.key, f"select('{name}')", f"{name}: {knob.help}") for name, knob in KNOBS.items()),
)

DIALOG: tuple[Key, ...] = (Key("close", "escape", "close", "Close the innermost dialog or field"),)
"""What works in every dialog."""

ARROWS: tuple[Key, ...] = (
    Key("list-up", "up", "move('up')", "Move one row up or down", display="↑↓"),
    Key("list-down", "down", "move('down')", ""),
    Key("list-page-up", "pageup", "move('page_up')", "Move one page up or down", display="PgUp PgDn"),
    Key("list-page-down", "pagedown", "move('page_down')", ""),
)
"""What moves in a list, also while a field has the keyboard."""

READING: tuple[Key, ...] = (
    Key("read-first", "home,g", "move('first')", "First or last line", display="g G", priority=False),
    Key("read-last", "end,G", "move('last')", "", priority=False),
)
"""What moves in text that is only read, beside the arrows."""

COMPARE: tuple[Key, ...] = (
    Key("compare-why", "w", "why", "Why the replies differ, with both distributions; again: the texts", priority=False),
)

PIECES: tuple[Key, ...] = (
    Key("pieces-view", "tab", "next_view", "Show the ids of the tokens; again: one per line, with its bytes"),
)

MODELS: tuple[Key, ...] = (
    Key("model-enter", "enter", "", "Chat with the highlighted model, or download it"),
    Key("model-engine", "ctrl+t", "engine", "Settings of the highlighted model"),
    Key("model-reload", "ctrl+r", "reload", "Reload the model"),
    Key("model-unload", "ctrl+o", "unload", "Unload the model"),
    Key("model-draft", "ctrl+g", "draft", "Draft for the loaded model with the highlighted one, or unload it"),
    Key("model-cancel", "delete", "cancel", "Stop the highlighted download; it can be resumed"),
    Key("model-skipped", "ctrl+s", "skipped", "Files that were skipped"),
)

ENGINE: tuple[Key, ...] = (
    Key("engine-less", "left", "move(-1)", "Change the selected setting", display="←→"),
    Key("engine-more", "right", "move(1)", ""),
    Key("engine-next", "space", "move(1)", "Next value of the selected setting"),
    Key("engine-type", "a-z 0-9", "", "Type a value"),
    Key("engine-erase", "backspace", "erase", "Erase the last character"),
    Key("engine-unset", "delete", "unset", "Reset this setting for this model"),
    Key("engine-load", "enter", "load", "Load the model with these settings and save them"),
)

SESSIONS: tuple[Key, ...] = (
    Key("session-enter", "enter", "", "Open the highlighted chat"),
    Key("session-rename", "ctrl+r", "rename", "Rename the highlighted chat"),
    Key("session-duplicate", "f5", "duplicate", "Duplicate the highlighted chat"),
    Key("session-delete", "delete", "drop", "Delete the highlighted chat"),
    Key("session-undelete", "ctrl+y", "undo", "Restore the last deleted chat"),
    Key("session-new", "ctrl+n", "new", "New chat"),
)

TREE: tuple[Key, ...] = (
    Key("tree-up", "k", "move('up')", "Move one row up or down", display="k j"),
    Key("tree-down", "j", "move('down')", ""),
    Key("tree-first", "home,g", "move('first')", "First or last row", display="g G"),
    Key("tree-last", "end,G", "move('last')", ""),
    Key("tree-parent", "left,h", "parent", "Parent turn"),
    Key("tree-go", "enter", "go", "Go to the end of the branch"),
    Key("tree-rename", "n", "rename", "Name the branch"),
    Key("tree-delete", "d,delete", "drop", "Delete the branch and everything below it"),
    Key("tree-undelete", "z,u", "undo", "Restore the last deleted branch"),
    Key("tree-mark", "m", "mark", "Mark the reply, to compare others with it"),
    Key("tree-compare", "c", "compare", "Compare with the marked reply, or with the last one of the chat"),
    Key("tree-other", "o", "other", "Compare with a reply of another saved chat"),
)

REPLIES: tuple[Key, ...] = (
    Key("reply-up", "k", "move('up')", "Move one row up or down", display="k j"),
    Key("reply-down", "j", "move('down')", ""),
    Key("reply-choose", "enter", "choose", "Compare with the highlighted reply"),
)

THEMES: tuple[Key, ...] = (
    Key("theme-first", "home,g", "move('first')", "First or last theme", display="g G", priority=False),
    Key("theme-last", "end,G", "move('last')", "", priority=False),
    Key("theme-keep", "enter", "keep", "Use the highlighted theme", priority=False),
)

START: tuple[Key, ...] = (
    Key("start-walks", "enter", "start", "Start the walks", priority=False),
    Key("start-before", "up", "step(-1)", "Previous or next row", display="↑↓"),
    Key("start-after", "down", "step(1)", ""),
    Key("start-less", "left", "move(-1)", "Change the selected value", display="←→"),
    Key("start-more", "right", "move(1)", ""),
    Key("start-next", "space", "move(1)", "Next value; in a text, a space"),
    Key("start-type", "a-z 0-9", "", "Type a value"),
    Key("start-erase", "backspace", "erase", "Erase the last character"),
    Key("start-reset", "delete", "reset", "Empty a text, or reset the value"),
)
"""What works in the dialog that starts walks."""

BREAKPOINTS: tuple[Key, ...] = (
    Key("rule-enter", "enter", "", "Add the typed rule, or switch the selected one on or off"),
    Key("rule-delete", "delete", "drop", "Delete the selected rule"),
)

CONSTRAINT: tuple[Key, ...] = (
    Key("constraint-set", "enter", "set", "Apply the constraint; without text, remove it", priority=False),
    Key("constraint-kind", "tab", "kind(1)", "Next or previous kind of constraint", display="Tab"),
    Key("constraint-kind-before", "shift+tab", "kind(-1)", ""),
    Key("constraint-recent", "pageup", "recent(1)", "Earlier or later constraint", display="PgUp PgDn"),
    Key("constraint-later", "pagedown", "recent(-1)", ""),
    Key("constraint-stage", "f2", "stage", "Put the stage first, or after the others"),
    Key("constraint-editor", "f8", "editor", "Edit the text in $VISUAL or $EDITOR"),
)

BIASES: tuple[Key, ...] = (
    Key("bias-ban", "enter", "", "Ban the selected token, or lift the ban"),
    Key("bias-less", "shift+left", "shift(-1)", "Add to or take from its logit", display="Shift+←→"),
    Key("bias-more", "shift+right", "shift(1)", ""),
    Key("bias-word", "tab", "word", "Ban the typed word in all its spellings; again: those of several tokens, too"),
    Key("bias-remove", "delete", "remove", "Remove the selected bias"),
    Key("bias-undo", "ctrl+y", "undo", "Undo the last change"),
)

SAVE: tuple[Key, ...] = (Key("save-enter", "enter", "", "Save; press again to overwrite an existing file"),)

SETUP: tuple[Key, ...] = (
    Key("setup-start", "enter", "start", "Start the chat", priority=False),
    Key("setup-raw", "tab", "raw", "Switch raw mode on or off"),
    Key("setup-keep", "shift+tab", "keep", "Keep the knobs and breakpoints of this chat, or not"),
)

FULL: tuple[Key, ...] = (
    Key("full-drop", "d", "choose('drop')", "Drop the oldest turns from the model's context", priority=False),
    Key("full-summarise", "s", "choose('summarise')", "Let the model summarise them first", priority=False),
)


PERSONAS: tuple[Key, ...] = (
    Key("persona-up", "k", "move('up')", "Previous or next persona", display="k j", priority=False),
    Key("persona-down", "j", "move('down')", "", priority=False),
    Key("persona-begin", "enter", "begin", "Start a chat with the highlighted persona", priority=False),
    Key("persona-here", "h,H", "here", "Use only its knobs, from here on in this chat", priority=False),
)

PRESETS: tuple[Key, ...] = (
    Key("preset-up", "k", "move('up')", "Previous or next preset", display="k j", priority=False),
    Key("preset-down", "j", "move('down')", "", priority=False),
    Key("preset-apply", "enter", "apply", "Apply the highlighted preset, or save under the typed name", priority=False),
    Key("preset-save", "s", "save", "Save the knobs of the chain as a preset of your own", priority=False),
    Key("preset-rename", "r", "rename", "Rename the highlighted preset, if it is your own", priority=False),
    Key("preset-remove", "delete,d", "drop", "Remove the highlighted preset, if it is your own", priority=False),
)

LESSONS: tuple[Key, ...] = (
    Key("lessons-up", "k", "move('up')", "Previous or next lesson", display="k j", priority=False),
    Key("lessons-down", "j", "move('down')", "", priority=False),
    Key("lessons-number", "0-9", "", "Go to the lesson with this number"),
    Key("lessons-begin", "enter", "begin", "Begin the highlighted lesson, or resume it", priority=False),
    Key("lessons-anew", "r", "begin(True)", "Begin it from the start", priority=False),
)

HISTORY: tuple[Key, ...] = (Key("history-enter", "enter", "", "Put the highlighted message back into the composer"),)

QUEUE: tuple[Key, ...] = (
    Key("queue-edit", "enter", "edit", "Edit the highlighted message"),
    Key("queue-remove", "delete,d", "drop", "Remove the highlighted message"),
    Key("queue-earlier", "shift+up,K", "shift(-1)", "Move it earlier or later in the queue", display="Shift+↑↓"),
    Key("queue-later", "shift+down,J", "shift(1)", ""),
)


class KeyGroup(NamedTuple):
    """Keys of one place. `at` names the tables that work there with them; `written`: text is typed there, so that no letter
    can be a key. `typed` are the characters that are typed there although other letters are keys."""

    title: str
    table: tuple[Key, ...]
    at: tuple[tuple[Key, ...], ...] = ()
    written: bool = False
    typed: str = ""

    def takes(self, text: str) -> bool:
        """Whether text is typed in this place; else it is for the composer. A form decides by its row, with a method of this
        name."""
        return set(text) <= set(self.typed)


_NUMBER = "0123456789.-"
_LIST = (ARROWS, DIALOG, tables.APP)

GROUPS: tuple[KeyGroup, ...] = (
    KeyGroup("CHAT", (*tables.COMPOSER, *tables.CHAT, *tables.MODEL), (tables.APP,), written=True),
    KeyGroup("TOKEN MODE", tables.TOKENS, (tables.CHAT, tables.MODEL, tables.APP)),
    KeyGroup("BIG VIEW", tables.BIG, (tables.CHAT, tables.MODEL, tables.APP)),
    KeyGroup("WALKS", tables.WALKS, (tables.CHAT, tables.MODEL, tables.APP)),
    KeyGroup("LESSON", tables.LESSON, (tables.CHAT, tables.MODEL, tables.APP), typed=_NUMBER + ","),
    KeyGroup("TUNE", TUNE, (tables.CHAT, tables.MODEL, tables.APP), typed=_NUMBER),
    KeyGroup("EVERYWHERE", tables.APP, written=True),
    KeyGroup("MODELS", MODELS, _LIST, written=True),
    KeyGroup("MODEL SETTINGS", ENGINE, _LIST),
    KeyGroup("SAVED CHATS", SESSIONS, _LIST, written=True),
    KeyGroup("BRANCHES", TREE, _LIST),
    KeyGroup("REPLIES", REPLIES, _LIST),
    KeyGroup("THEMES", THEMES, _LIST),
    KeyGroup("PERSONAS", PERSONAS, _LIST),
    KeyGroup("PRESETS", PRESETS, _LIST),
    KeyGroup("LESSONS", LESSONS, _LIST, typed="0123456789"),
    KeyGroup("START WALKS", START, (DIALOG, tables.APP)),
    KeyGroup("BREAKPOINTS", BREAKPOINTS, _LIST, written=True),
    KeyGroup("CONSTRAINT", CONSTRAINT, (DIALOG, tables.APP), written=True),
    KeyGroup("LOGIT BIASES", BIASES, _LIST, written=True),
    KeyGroup("SAVE", SAVE, (DIALOG, tables.APP), written=True),
    KeyGroup("NEW CHAT", SETUP, (DIALOG, tables.APP), written=True),
    KeyGroup("CONTEXT FULL", FULL, (DIALOG, tables.APP)),
    KeyGroup("MESSAGE HISTORY", HISTORY, _LIST, written=True),
    KeyGroup("QUEUE", QUEUE, _LIST),
    KeyGroup("LISTS", ARROWS, (DIALOG, tables.APP), written=True),
    KeyGroup("READING", READING, _LIST),
    KeyGroup("COMPARE", COMPARE, (READING, *_LIST)),
    KeyGroup("TOKENS OF A TEXT", PIECES, _LIST, written=True),
    KeyGroup("DIALOGS", DIALOG, (tables.APP,), written=True),
)
"""All keys, by where they work; each is in one of them."""

_FAMILIES = {family[0].id: family for group in GROUPS for family in families(group.table)}


def name_of(id: str) -> str:
    """Return the key of that id for readers, as "Ctrl+Y"."""
    return displayed(_FAMILIES[id])


def group_of(place: str) -> KeyGroup | None:
    """Return the group of keys with that title."""
    return next((group for group in GROUPS if group.title == place), None)


def actions(table: tuple[Key, ...]) -> dict[str, str]:
    """Return the actions by key, for widgets that handle keys themselves."""
    return {name: key.action for key in table if key.action for name in keys_of(key)}


def hint(*does: tuple[str, str], before: str = "") -> Content:
    """Format a sentence of keys, by their ids, and their effects, after `before`. A click on one presses it."""
    parts = [part for id, words in does if (part := link(id, words))]
    sentence = Content(", ").join(parts) + "." if parts else Content()
    return Content(before + " ") + sentence if before and parts else Content(before) + sentence


def link(id: str, words: str, gap: str = " ") -> Content:
    """Format a key and its effect, clickable; empty if it has no key."""
    family = _FAMILIES[id]
    name = displayed(family)
    content = Content(f"{name}{gap}{words}" if name else "")
    key = pressed(family) if family[0].action else family[0].keys
    return content.stylize(Style.from_meta({"@click": f"app.press({key!r})"})) if name and key else content


def labels(*does: tuple[str, str]) -> list[Label]:
    named = [(_FAMILIES[id], words) for id, words in does]
    return [Label(name, words, pressed(family)) for family, words in named if (name := displayed(family))]
