"""Deeds: what "do it for me" does, one a line, as `send`, `press tune` or `set temperature 0`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from termchat.decoding.samplers import KNOBS
from termchat.decoding.setting import SettingError
from termchat.text import guess_of

DeedKind = Literal["send", "say", "type", "press", "keys", "row", "set", "command", "force", "cursor", "wait", "choose"]
STEERING: frozenset[DeedKind] = frozenset({"press", "keys", "set", "force", "cursor", "type", "choose"})
"""Deeds that are done at once, also while a reply runs; before the others what runs is waited for."""
_MOST_KEYS = 100


class DeedError(ValueError):
    """Not a deed; the message says what is wrong and how it is written."""


class Deed(NamedTuple):
    """What is done, as it is `written`, and with what: a text, the id of a key, keys by name, a knob and its value."""

    kind: DeedKind
    written: str
    what: str = ""
    value: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """Of `keys`: each key by its name."""
        return tuple(self.what.split())

    @property
    def number(self) -> float:
        """Of `cursor` and `choose`."""
        return float(self.what)


def parse_deed(written: str) -> Deed:
    """The deed that a person wrote.

    Raises:
        DeedError: it is none.
    """
    text = written.strip("\n")
    if text.startswith("/"):
        if len(text) < 2 or text[1].isspace():
            raise DeedError("a command is missing behind the slash, for example: /walks 4")
        return Deed("command", written, text)
    word, _, rest = text.strip().partition(" ")
    reader = _READERS.get(word)
    if reader is None:
        known = ", ".join([*_READERS, "/COMMAND"])
        raise DeedError(f"unknown deed {word!r}{guess_of(word, _READERS)}; known deeds: {known}")
    return reader(written, rest)


def _alone(kind: DeedKind) -> Callable[[str, str], Deed]:
    def read(written: str, rest: str) -> Deed:
        if rest.strip():
            raise DeedError(f"write {kind} alone; say TEXT sends a text")
        return Deed(kind, written)

    return read


def _with(kind: DeedKind, wanted: str) -> Callable[[str, str], Deed]:
    def read(written: str, rest: str) -> Deed:
        if not rest:
            raise DeedError(f"{kind} needs {wanted}")
        return Deed(kind, written, rest)

    return read


def _press(written: str, rest: str) -> Deed:
    ids = rest.split()
    if len(ids) != 1:
        raise DeedError("press needs the id of one key, for example: press tune")
    return Deed("press", written, ids[0])


def _keys(written: str, rest: str) -> Deed:
    if not 0 < len(rest.split()) <= _MOST_KEYS:
        raise DeedError(f"keys needs 1 to {_MOST_KEYS} names of keys, for example: keys down enter")
    return Deed("keys", written, rest)


def _set(written: str, rest: str) -> Deed:
    name, _, value = rest.strip().partition(" ")
    if name not in KNOBS:
        raise DeedError(f"unknown knob {name!r}{guess_of(name, KNOBS)}; for example: set temperature 0")
    try:
        KNOBS[name].parse(value)
    except SettingError as error:
        raise DeedError(str(error)) from None
    return Deed("set", written, name, value)


def _cursor(written: str, rest: str) -> Deed:
    try:
        return Deed("cursor", written, str(int(rest)))
    except ValueError:
        raise DeedError(f"cursor needs the index of a token, not {rest!r}; for example: cursor 0, cursor -1") from None


def _choose(written: str, rest: str) -> Deed:
    try:
        number = float(rest)
    except ValueError:
        number = float("nan")
    if not abs(number) < 1e12:
        raise DeedError(f"choose needs the number of an answer, or a number, not {rest!r}")
    return Deed("choose", written, rest.strip())


_READERS: dict[str, Callable[[str, str], Deed]] = {
    "send": _alone("send"),
    "say": _with("say", "a text, for example: say Hello"),
    "type": _with("type", "a text, for example: type blue"),
    "press": _press,
    "keys": _keys,
    "row": _with("row", "the name of a row in the open list, for example: row fast_prefill"),
    "set": _set,
    "force": _with("force", "the text of a candidate, for example: force  blue, with its space"),
    "cursor": _cursor,
    "wait": _alone("wait"),
    "choose": _choose,
}
