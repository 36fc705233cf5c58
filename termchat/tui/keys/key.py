"""A key: what it does where, how it is written, and the user's remaps.

There is one keyboard: remaps are set once, with `remap`, and everything that names a key follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple
from unicodedata import name as unicode_name

from textual.binding import Binding
from textual.keys import ASCII_KEY_NAMES, KEY_NAME_REPLACEMENTS, REPLACED_KEYS, key_to_character

from termchat.engine.abilities import Feature

Situation = Literal[
    "idle", "empty", "busy", "paused", "loading", "unloaded", "failed", "big", "token", "token-busy", "token-paused",
    "walks", "walks-busy", "walks-paused", "thinking",
]  # fmt: skip
"""What a chat is doing. "empty" is idle without a message; "big" is the big view of the panels while idle or busy; then come
those of token mode, and of the walks view. "thinking" goes beside any: a reply is in its thoughts."""

NO_KEY = "unbound"
"""The key of what has none: no terminal sends it."""


class Key(NamedTuple):
    """One thing a person can do.

    `id` is what the config file remaps; `keys` is as Textual writes them ("" for none, but some can be given), the first is
    shown. `palette` is its title in the palette, "" to leave it out. `labels` says in which situations the key line shows it,
    and how. `needs` is what the engine must offer for it. With `priority` it overrides what the focused widget does with the
    key. `display` replaces the shown keys where one entry stands for a family: the others of the family follow it and have no
    `help`.
    """

    id: str
    keys: str
    action: str
    help: str = ""
    palette: str = ""
    labels: Mapping[Situation, str] = {}
    needs: Feature | None = None
    priority: bool = True
    display: str = ""

    @property
    def binding(self) -> Binding:
        label = self.palette or self.help
        keys = self.keys or NO_KEY
        return Binding(keys, self.action, label, show=False, priority=self.priority, tooltip=self.help, id=self.id)


class Label(NamedTuple):
    """A key on the key line: its name, its effect, and the key that a click presses, "" for a family of several.

    `refused`: the engine does not offer it. `lit`: a lesson points at it.
    """

    name: str
    does: str
    key: str = ""
    refused: bool = False
    lit: bool = False


_NAMED = {
    "escape": "Esc", "enter": "Enter", "pageup": "PgUp", "pagedown": "PgDn", "space": "Space", "delete": "Del",
}  # fmt: skip


def shown(key: str) -> str:
    """Format a key for the key line: `ctrl+t,f5` is Ctrl+T, `g` is g."""
    first = key.split(",")[0].strip()
    if len(first) == 1:
        return first
    return "+".join(_NAMED.get(part) or _character(part) or part.capitalize() for part in first.split("+"))


def _character(name: str) -> str:
    """Return the character that a named key writes, as ? for question_mark; "" for other keys."""
    character = key_to_character(REPLACED_KEYS.get(name, name)) if len(name) > 1 else None
    return character if character is not None and character.isprintable() else ""


_remapped: dict[str, str] = {}


def remap(keymap: Mapping[str, str]) -> None:
    """Replace the default keys by those of `keymap`: id to keys, "" for none. See `remap.checked`."""
    _remapped.clear()
    _remapped.update(keymap)


def keys_of(key: Key) -> tuple[str, ...]:
    return tuple(name.strip() for name in _remapped.get(key.id, key.keys).split(",") if name.strip())


def families(table: Iterable[Key]) -> Iterator[list[Key]]:
    """Yield keys that belong together: one with a help, and those after it without."""
    family: list[Key] = []
    for key in table:
        if key.help and family:
            yield family
            family = []
        family.append(key)
    if family:
        yield family


def displayed(family: list[Key]) -> str:
    """Format the keys of a family for readers; "" for none."""
    first = family[0]
    if first.display and not any(key.id in _remapped for key in family):
        return first.display
    return " ".join(shown(names[0]) for key in family if (names := keys_of(key)))


def pressed(family: list[Key]) -> str:
    """Return the key that a click on the name of a family presses; "" for a family of several."""
    return keys_of(family[0])[0] if len(family) == 1 and keys_of(family[0]) else ""


def key_of(character: str) -> str:
    """Return Textual's name of the key that writes a character, as question_mark."""
    key = character
    if not character.isalnum():
        key = unicode_name(character, "").lower().replace("-", "_").replace(" ", "_")
        key = key or ASCII_KEY_NAMES.get(character, character)
    return KEY_NAME_REPLACEMENTS.get(key, key)
