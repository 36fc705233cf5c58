"""Remapped keys: what the user asks for under [keys], checked before anything is bound to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from textual.keys import KEY_TO_UNICODE_NAME, Keys, key_to_character

from termchat.text import guess_of
from termchat.tui.keys.key import key_of, shown
from termchat.tui.keys.tables import GROUPS, KEYS

_MODIFIERS = ("ctrl", "alt", "shift", "super", "hyper", "meta")
_NAMES = {key.value.rpartition("+")[2] for key in Keys if key.value.isascii() and "<" not in key.value} | {"space"}
"""Keys with a name, without modifiers."""
_SAID = {
    "esc": "escape", "return": "enter", "del": "delete", "ins": "insert", "pgup": "pageup", "pgdn": "pagedown",
    "pgdown": "pagedown", "page_up": "pageup", "page_down": "pagedown", "control": "ctrl", "option": "alt", "cmd": "super",
}  # fmt: skip
"""What people and this app itself write for them."""
_SENT_AS = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape"}
"""Keys that a terminal cannot tell from others."""
_INTERRUPT = "ctrl+c"
_KEPT = ("quit", "interrupt", "back", "close", "send")
"""What always has a key: the ways out, and how a message is sent."""

_CHARACTERS = frozenset(
    {key_of(chr(code)) for code in range(33, 127) if not chr(code).isalnum()} | set(KEY_TO_UNICODE_NAME)
)
"""The names of characters: question_mark."""


def checked(keys: Mapping[str, str], places: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the valid remaps, and the problems of the others, which keep their defaults.

    Args:
        keys: id to keys, "" for none: `{"tune": "ctrl+k", "look": "f12,ctrl+l"}`.
        places: where each of them was asked for: `{"tune": "config.toml, line 3"}`.
    """
    keymap: dict[str, str] = {}
    problems: list[str] = []
    for id, asked in keys.items():
        try:
            keymap[id] = _read(id, asked)
        except ValueError as error:
            problems.append(f"{places.get(id, 'keys')}: {error} (ignored)")
    while (clash := next(_clashes(keymap), None)) is not None:
        loser, key, other = clash
        del keymap[loser]
        default = " and ".join(map(shown, _names(loser, {}))) or "no key"
        problems.append(
            f"{places.get(loser, 'keys')}: {shown(key)} is already used by {other}; {loser} keeps {default}"
        )
    return keymap, problems


def _read(id: str, asked: str) -> str:
    """Return the keys as Textual writes them. Raises ValueError for invalid ones."""
    key = KEYS.get(id)
    if key is None:
        raise ValueError(f"unknown key id {id!r}{guess_of(id, KEYS)}")
    if not key.action:
        raise ValueError(f"{id} cannot be remapped")
    parted = ["comma"] if asked.strip() == "," else asked.replace(" ", "").split(",")
    names = [_normal(name) for name in parted if name]
    if not names and id in _KEPT:
        raise ValueError(f"{id} must have a key")
    for name in names:
        if name == _INTERRUPT and id != "interrupt":
            raise ValueError(f"{shown(_INTERRUPT)} is reserved for copy, stop and quit")
        writes = "+" not in name and (len(name) == 1 or name in _CHARACTERS or name == "space")
        if writes and any(group.written and key in group.keys for group in GROUPS):
            raise ValueError(f"{shown(name)} would be typed as text where {id} applies")
    return ",".join(dict.fromkeys(names))


def _normal(name: str) -> str:
    """Return a key as Textual writes it: `Ctrl+PgUp` is ctrl+pageup, `shift+g` is G. Raises ValueError for an unknown one."""
    *modifiers, base = [*name[:-1].split("+"), name[-1]] if name.endswith("+") else name.split("+")
    held = [_SAID.get(one.lower(), one.lower()) for one in modifiers if one]
    unknown = next((one for one in held if one not in _MODIFIERS), None)
    if unknown is not None:
        raise ValueError(f"unknown key {unknown!r}{guess_of(unknown, _MODIFIERS)}")
    if len(base) == 1:
        if held == ["shift"] and base.isalpha():
            return base.upper()
        base = key_of(base.lower() if held else base)
    else:
        base = _SAID.get(base.lower(), base.lower())
        if base not in _NAMES and base not in _CHARACTERS and key_to_character(base) is None:
            raise ValueError(f"unknown key {name!r}{guess_of(base, [*_NAMES, *_SAID, *_CHARACTERS])}")
    normal = "+".join([*(one for one in _MODIFIERS if one in held), base])
    return _SENT_AS.get(normal, normal)


def _clashes(keymap: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield remapped ids, their keys, and the ids beside which they clash; of two that were remapped, the later one."""
    ids = list(keymap)
    for id in reversed(ids):
        beside = {key.id for group in GROUPS if KEYS[id] in group.keys for key in group.keys} - {id}
        for name in keymap[id].split(","):
            for other in beside:
                if name and name in _names(other, keymap) and (other not in keymap or ids.index(id) > ids.index(other)):
                    yield id, name, other


def _names(id: str, keymap: Mapping[str, str]) -> list[str]:
    key = KEYS[id]
    names = keymap.get(id, key.keys if key.action or "-" not in key.keys else "").split(",")
    return [_normal(name.strip()) for name in names if name.strip()] + [_INTERRUPT] * (id == "interrupt")
