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


def keys_for(id: str) -> tuple[str, ...]:
    """The keys to press for a binding id, in order: ("ctrl+t", "t") for tune.temperature; none where it has no key."""
    found: list[str] = []
    for key in _path(id):
        bound = keys_of(key)
        if not bound:
            return ()
        found.append(bound[0])
    return tuple(found)


def key_words(id: str) -> str:
    """The same as people read it; a slash command where there is no key."""
    keys = keys_for(id)
    return " ".join(map(shown, keys)) if keys else f"/{id.rpartition('.')[2].replace('_', '-')}"


def filled(text: str, ink: Ink = TEXT, key: Ink | None = None) -> list[Run]:
    """The text in runs; a key stands out, is not broken, and is pressed by a click. What is to be typed stands out, too, and is
    no end of a sentence."""
    runs: list[Run] = []
    at = 0
    for found in _PLACE.finditer(text):
        runs.append((text[at : found.start()], ink))
        at = found.end()
        if found[2]:
            runs.append((re.sub(r"(?<=[.!?]) ", _TIED, found[2].replace("{{", "{").replace("}}", "}")), _TYPED))
            continue
        if found[1] is None:
            runs.append((found[0][0], ink))
            continue
        pressed = keys_for(found[1])
        does = f"app.press({pressed[0]!r})" if len(pressed) == 1 else ""
        runs.append((key_words(found[1]).replace(" ", _TIED), (key or Ink("accent", bold=True))._replace(does=does)))
    runs.append((text[at:], ink))
    return [(part, how) for part, how in runs if part]


def plain(text: str) -> str:
    """The text alone."""
    return "".join(part for part, _ in filled(text)).replace(_TIED, " ")


def known_lessons() -> Shelf:
    """Read all lessons from the disk."""
    return read_shelf(names=lesson_names())


def lesson_names() -> LessonNames:
    """What a lesson may name on this screen."""
    return LessonNames(frozenset(_KEYS), frozenset(LOOKS), frozenset(PAGES))


def _path(id: str) -> list[Key]:
    """The keys on the way to an id; none where it is unknown."""
    mode, _, knob = id.partition(".")
    ids = [mode, f"{mode}-{knob}"] if knob else [mode]
    return [_KEYS[one] for one in ids] if all(one in _KEYS for one in ids) else []
