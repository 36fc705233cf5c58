"""What is read from the terminal, as keys, mouse events, pastes and answers.

    text ─▶ Pastes ─▶ Answers ─▶ Escapes ─▶ Textual's parser ─▶ events

Textual's parser alone would look for keys inside a paste, and would take whatever comes within 0.2 s of Esc for a part of an
escape sequence: the Esc is then lost. How long to wait is decided by silences that the caller measures; nothing here reads a
clock.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

from termchat.tui.keys.key import key_of

ESC = "\x1b"
LONE_S = 0.02
"""Seconds after ESC without another byte that make it the key Esc: terminals send all bytes of a sequence at once."""
BROKEN_S = 0.1
"""Seconds after the beginning of a longer sequence in which its end may still come."""
PASTE_OVER_S = 1.0
"""Seconds of silence after which a paste is over, though its end was not seen."""

_ANSWER = re.compile(r"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)[^\x07\x1b]*(?:\x07|\x1b\\)")
_ANSWER_BEGUN = re.compile(r"\x1b\](?:1(?:1(?:;[^\x07\x1b]{0,40}\x1b?)?)?)?\Z")

_KNOWN = re.compile(r"[^\x1b]+|\x1b(?:\[[0-?]*[ -/]*[@-~]|\[[0-9]+\$|O[0-9;]*[@-~]|[\x7f\tbf])")
"""Text, or a sequence: CSI, SS3, and what terminals send for Alt+Backspace, Shift+Tab, Alt+← and Alt+→."""
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O[0-9;]*)?\Z")


class BackgroundIs(Message):
    def __init__(self, dark: bool) -> None:
        super().__init__()
        self.dark = dark


class InputStream:
    """Turns what is read into events, in order.

    Args:
        alt: the Alt keys that do something, as Textual names them: "alt+x". Most terminals send ESC and the character for them,
            which also comes of Esc and the character pressed while the program was busy; it is the latter for all other keys.
        debug: has Textual log what its parser is given.
    """

    def __init__(self, alt: Collection[str] = (), *, debug: bool = False) -> None:
        self._pastes, self._answers, self._escapes = Pastes(), Answers(), Escapes(alt)
        self._parser = XTermParser(debug)

    @property
    def patience(self) -> float:
        """Seconds of silence after which to call `rest`."""
        return LONE_S if self._pastes.is_lone_escape else BROKEN_S

    def read(self, text: str, silence: float) -> Iterator[Message]:
        """The events of a text that was read after so many seconds of silence."""
        yield from self._parser.tick()
        if self._pastes.is_lone_escape and silence >= LONE_S:  # nobody had time to call `rest`
            yield from self.rest(silence)
        yield from self._events(self._pastes.take(text))

    def rest(self, silence: float) -> Iterator[Message]:
        """The events of what was held, once nothing has come for so many seconds."""
        yield from self._parsed(self._escapes.take(self._answers.rest(silence)))
        yield from self._events(self._pastes.rest(silence))
        yield from self._parsed(self._escapes.rest(silence))
        yield from self._parser.tick()

    def _events(self, parts: Iterable[str | events.Paste]) -> Iterator[Message]:
        for part in parts:
            if isinstance(part, events.Paste):
                yield from self._parsed(self._escapes.rest(PASTE_OVER_S))  # an ESC before the mark begins nothing
                yield part
            else:
                yield from self._parsed(self._escapes.take(self._answers.take(part)))
        if self._answers.dark is not None:
            yield BackgroundIs(self._answers.dark)
            self._answers.dark = None

    def _parsed(self, parts: Iterable[str | events.Key]) -> Iterator[Message]:
        for part in parts:
            if isinstance(part, events.Key):
                yield part
            else:
                yield from self._parser.feed(part)


class Pastes:
    """Takes bracketed pastes out of what comes from the terminal, so that nothing in them is mistaken for a key.

    Textual's parser looks for keys inside a paste too, and loses its way at the first ESC.
    """

    def __init__(self) -> None:
        self._held = ""
        self._pasted: list[str] | None = None

    @property
    def is_lone_escape(self) -> bool:
        return self._pasted is None and self._held == ESC

    def take(self, text: str) -> list[str | events.Paste]:
        """What was typed, and what was pasted between; what may become the mark of a paste is held."""
        return list(self._parts(text))

    def rest(self, silence: float) -> list[str | events.Paste]:
        """What was held, when nothing has come for `silence` seconds, if that is long enough."""
        if silence < (_patience(self._held) if self._pasted is None else PASTE_OVER_S):
            return []
        held, self._held = self._held, ""
        if self._pasted is None:
            return [held] if held else []
        return list(self._paste(held))

    def _parts(self, text: str) -> Iterator[str | events.Paste]:
        text, self._held = self._held + text, ""
        at = 0
        while at < len(text):
            mark = BRACKETED_PASTE_START if self._pasted is None else BRACKETED_PASTE_END
            found = text.find(mark, at)
            end = found if found >= 0 else len(text) - _begun(text, mark)
            piece, at = text[at:end], end + len(mark)
            if found < 0:
                self._held = text[end:]
            if self._pasted is None:
                if piece:
                    yield piece
                if found >= 0:
                    self._pasted = []
            elif found >= 0:
                yield from self._paste(piece)
            else:
                self._pasted.append(piece)

    def _paste(self, last: str) -> Iterator[events.Paste]:
        """The paste that is over; NUL is dropped, as Textual does, and every line break is a line feed."""
        text = "".join([*(self._pasted or ()), last])
        self._pasted = None
        if text := text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n"):
            yield events.Paste(text)


def _begun(text: str, mark: str) -> int:
    """How many characters at the end of the text begin the mark."""
    return next((size for size in range(len(mark) - 1, 0, -1) if text.endswith(mark[:size])), 0)


def _patience(held: str) -> float:
    return LONE_S if held == ESC else BROKEN_S


class Answers:
    """Takes the terminal's answer about its background out of what was typed; `dark` is what it said, None until then."""

    def __init__(self) -> None:
        self.dark: bool | None = None
        self._held = ""

    def take(self, text: str) -> str:
        """The text without the answer; what may become one is held."""
        text, self._held = self._held + text, ""
        if found := _ANSWER.search(text):
            self.dark = _is_dark(found.groups())
            text = text[: found.start()] + text[found.end() :]
        if begun := _ANSWER_BEGUN.search(text):
            text, self._held = text[: begun.start()], begun[0]
        return text

    def rest(self, silence: float) -> str:
        """What was held, when nothing has come for `silence` seconds, if that is long enough."""
        if silence < BROKEN_S:
            return ""
        text, self._held = self._held, ""
        return text


def _is_dark(channels: tuple[str, ...]) -> bool:
    red, green, blue = (int(channel, 16) / (16 ** len(channel) - 1) for channel in channels)
    return bool(0.299 * red + 0.587 * green + 0.114 * blue < 0.5)


class Escapes:
    """Tells the key Esc, and Alt keys, from escape sequences, which it leaves as they are."""

    def __init__(self, alt: Collection[str] = ()) -> None:
        self._alt = alt
        self._held = ""

    def take(self, text: str) -> list[str | events.Key]:
        """Keys, and text for the parser between; the beginning of a sequence at the end is held."""
        text, self._held = self._held + text, ""
        if begun := _BEGUN.search(text):
            text, self._held = text[: begun.start()], begun[0]
        return list(self._parts(text))

    def rest(self, silence: float) -> list[str | events.Key]:
        """What was held, when nothing has come for `silence` seconds, if that is long enough."""
        if silence < _patience(self._held):
            return []
        held, self._held = self._held, ""
        return list(self._parts(held))

    def _parts(self, text: str) -> Iterator[str | events.Key]:
        at = 0
        while at < len(text):
            if known := _KNOWN.match(text, at):
                yield known[0]
                at = known.end()
                continue
            character = text[at + 1 : at + 2]
            alt = _alt_key(character)
            yield events.Key(alt, character) if alt in self._alt else events.Key("escape", ESC)
            at += 2 if alt in self._alt else 1


def _alt_key(character: str) -> str:
    """The key that Alt and a character are: "alt+shift+x" for X; "" for what writes nothing."""
    if not character.isprintable() or not character:
        return ""
    shift = "shift+" if character.isupper() else ""
    return f"alt+{shift}{key_of(character.lower() if shift else character)}"
