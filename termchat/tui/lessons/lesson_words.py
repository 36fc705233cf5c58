"""A lesson's text with the keys that are bound now: "{tune}" is Ctrl+T, "{tune.temperature}" is Ctrl+T t. What is to be typed
stands in `backticks`."""

from __future__ import annotations

import re

from termchat.lessons.lesson_file import LessonNames, Shelf, read_shelf
from termchat.tui.draw.ink import Ink, Run
from termchat.tui.draw.marks import TEXT
from termchat.tui.keys.dialogs import GROUPS
from termchat.tui.keys.key import Key, keys_of, shown
from termchat.tui.pages.panel_pages import PAGES
from termchat.tui.transcript.looks import LOOKS

_KEYS: dict[str, Key] = {key.id: key for group in GROUPS for key in group.table}
_PLACE = re.compile(r"\{\{|\}\}|\{([\w.-]+)\}|`([^`]+)`")
_TYPED = Ink("background", ground="muted", bold=True)
_TIED = "\N{NO-BREAK SPACE}"


def find_keys(id: str) -> tuple[str, ...]:
    """Find the keys to press for a binding id, in order: ("ctrl+t", "t") for tune.temperature; none where it has no key."""
    mode, _, knob = id.partition(".")
    ids = [mode, f"{mode}-{knob}"] if knob else [mode]
    keys = [key for one in ids if one in _KEYS for key in keys_of(_KEYS[one])[:1]]
    return tuple(keys) if len(keys) == len(ids) else ()


def name_keys(id: str) -> str:
    """Write the keys of a binding id for readers; a slash command where there is no key."""
    keys = find_keys(id)
    return " ".join(map(shown, keys)) if keys else f"/{id.rpartition('.')[2].replace('_', '-')}"


def render_text(text: str) -> list[Run]:
    """Render a text; a key stands out, is not broken, and is pressed by a click. What is to be typed stands out, too."""
    runs: list[Run] = []
    at = 0
    for match in _PLACE.finditer(text):
        id, typed = match.groups()
        runs.append((text[at : match.start()], TEXT))
        at = match.end()
        if typed:
            runs.append((typed.replace("{{", "{").replace("}}", "}"), _TYPED))
        elif id is None:  # a brace
            runs.append((match[0][0], TEXT))
        else:
            keys = find_keys(id)
            does = f"app.press({keys[0]!r})" if len(keys) == 1 else ""
            runs.append((name_keys(id).replace(" ", _TIED), Ink("accent", bold=True, does=does)))
    runs.append((text[at:], TEXT))
    return [(part, ink) for part, ink in runs if part]


def plain_text(text: str) -> str:
    """Write a text without its ink."""
    return "".join(part for part, _ in render_text(text)).replace(_TIED, " ")


def read_lessons() -> Shelf:
    """Read all lessons from the disk."""
    return read_shelf(names=lesson_names())


def lesson_names() -> LessonNames:
    """List what a lesson may name on this screen."""
    return LessonNames(frozenset(_KEYS), frozenset(LOOKS), frozenset(PAGES))
