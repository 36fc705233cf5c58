"""What is read from the terminal, as keys, mouse events, pastes and answers.

    text ─▶ Pastes ─▶ Answers ─▶ Escapes ─▶ Bursts ─▶ Textual's parser ─▶ events

Textual's parser alone would look for keys inside a paste, would take whatever comes within 0.2 s of Esc for a part of an escape
sequence (the Esc is then lost), and would type a sequence that it does not know. How long to wait is decided by silences that
the caller measures; nothing here reads a clock.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

from termchat.tui.keys.key import key_of
from termchat.tui.terminal.typeahead import mark_bursts

ESC = "\x1b"
LONE_S = 0.02
"""Seconds after ESC without another byte that make it the key Esc: terminals send all bytes of a sequence at once."""
BROKEN_S = 0.1
"""Seconds after the beginning of a longer sequence in which its end may still come."""
PASTE_OVER_S = 1.0
"""Seconds of silence after which a paste is over, though its end was not seen."""
FAST_S = 0.005
"""Seconds between two characters that nobody types so fast."""
MANY = 100
"""Characters without a line break that are a paste where they come so fast."""
LONGEST = 16_000_000
"""Characters of a paste that are kept: more than any message may have."""

_STRING = r"\x1b(?:\](?:[0-9]+;|[lL])|P[ -?]+[@-~]|_G)"
"""How an answer of the terminal begins: OSC, DCS and APC, each with what no key can be mistaken for."""
_ANSWER = re.compile(_STRING + r"[^\x07\x1b]{0,4096}(?:\x07|\x1b\\)")
_ANSWER_BEGUN = re.compile(rf"(?:{_STRING}[^\x07\x1b]{{0,4096}}\x1b?|\x1b(?:\][0-9]*|P[ -?]*|_))\Z")
_IS_ANSWER = re.compile(_STRING)
_BACKGROUND = re.compile(r"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")

_KNOWN = re.compile(
    r"[^\x1b]+|\x1b(?:\[(?:M[\s\S]{3}|<[-0-9;]{0,64}[Mm]|\[[A-E]|[0-?]{0,64}[ -/]{0,4}[@-~]|[0-9]+\$)|O[0-9;]*[@-~]|[\x7f\tbf])"
)
"""Text, or a sequence: CSI, the old and the new reports of the mouse, the function keys of the Linux console, SS3, and what
terminals send for Alt+Backspace, Shift+Tab, Alt+← and Alt+→."""
_BEGUN = re.compile(r"\x1b(?:\[(?:M[\s\S]{0,2}|<[-0-9;]{0,64}|\[|[0-?]{0,64}[ -/]{0,4})|O[0-9;]*)?\Z")
_OTHER_KEY = re.compile(r"\x1b\[27;([0-9]+);([0-9]+)~")
"""A key as xterm sends it with modifyOtherKeys: modifiers and character."""
_WRITES = re.compile(r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
"""What a text takes, among keys: characters, tabs and line breaks."""
_LINES = re.compile(r"[^\r\n][\r\n]+[^\r\n]")


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
        self._pastes, self._answers, self._escapes, self._bursts = Pastes(), Answers(), Escapes(alt), Bursts()
        self._parser, self._debug = XTermParser(debug), debug

    @property
    def patience(self) -> float:
        """Seconds of silence after which to call `rest`."""
        return min(self._bursts.patience, LONE_S if self._pastes.is_lone_escape else BROKEN_S)

    def read(self, text: str, silence: float) -> Iterator[Message]:
        """The events of a text that was read after so many seconds of silence."""
        yield from self._written(self._bursts.rest(silence))
        self._bursts.follows = silence < FAST_S
        if self._pastes.is_lone_escape and silence >= LONE_S:  # nobody had time to call `rest`
            yield from self.rest(silence)
        yield from self._events(self._pastes.take(text))

    def rest(self, silence: float) -> Iterator[Message]:
        """The events of what was held, once nothing has come for so many seconds."""
        yield from self._written(self._bursts.rest(silence))
        yield from self._parsed(self._escapes.take(self._answers.rest(silence)))
        yield from self._events(self._pastes.rest(silence))
        yield from self._parsed(self._escapes.rest(silence))

    def _events(self, parts: Iterable[str | events.Paste]) -> Iterator[Message]:
        for part in parts:
            if isinstance(part, events.Paste):
                yield from self._parsed(self._escapes.rest(PASTE_OVER_S))  # an ESC before the mark begins nothing
                yield from self._written(self._bursts.end())
                yield part
            else:
                yield from self._parsed(self._escapes.take(self._answers.take(part)))
        if self._answers.dark is not None:
            yield BackgroundIs(self._answers.dark)
            self._answers.dark = None

    def _parsed(self, parts: Iterable[str | events.Key]) -> Iterator[Message]:
        for part in parts:
            if isinstance(part, str) and part[:1] != ESC:
                yield from self._written(self._bursts.take(part))
                continue
            yield from self._written(self._bursts.end())
            if isinstance(part, events.Key):
                yield part
            else:
                yield from self._sequence(part)

    def _written(self, parts: Iterable[tuple[str, bool]]) -> Iterator[Message]:
        for text, is_paste in parts:
            if is_paste:
                yield events.Paste(_unix(text))
            else:
                yield from mark_bursts(self._parser.feed(text))

    def _sequence(self, sequence: str) -> list[Message]:
        """The events of one sequence. None if Textual does not know it, or fails at its numbers: it would type it, or end."""
        if other := _OTHER_KEY.fullmatch(sequence):
            sequence = f"{ESC}[{other[2]};{other[1]}u"
        try:
            found = list(self._parser.feed(sequence))
        except (ValueError, OverflowError):
            found = []
        if not found:  # its parser waits for the end of what has ended, or cannot go on
            old, self._parser = self._parser, XTermParser(self._debug)
            for name in ("last_x", "last_y", "mouse_pixels", "terminal_size", "terminal_pixel_size"):
                setattr(self._parser, name, getattr(old, name))
        return found


class Pastes:
    """Takes bracketed pastes out of what comes from the terminal, so that nothing in them is mistaken for a key.

    Textual's parser looks for keys inside a paste too, and loses its way at the first ESC.
    """

    def __init__(self) -> None:
        self._held = ""
        self._pasted: list[str] | None = None
        self._size = 0

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
                    self._pasted, self._size = [], 0
            elif found >= 0:
                yield from self._paste(piece)
            elif self._size < LONGEST:
                self._pasted.append(piece)
                self._size += len(piece)

    def _paste(self, last: str) -> Iterator[events.Paste]:
        """The paste that is over; NUL is dropped, as Textual does."""
        text = "".join([*(self._pasted or ()), last])
        self._pasted = None
        if text := _unix(text.replace("\0", "")):
            yield events.Paste(text)


def _unix(text: str) -> str:
    """The text with a line feed for every line break."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


class Bursts:
    """Tells a paste without marks from keys: its lines, or many characters, come faster than a person types."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._size = 0
        self.follows = False
        """Whether what is taken came at once after what was taken before."""

    @property
    def patience(self) -> float:
        """Seconds of silence after which what is held is whole."""
        return BROKEN_S if not self._held or self._is_paste else FAST_S

    def take(self, text: str) -> Iterator[tuple[str, bool]]:
        """Texts, and whether each is a paste. A character on its own is a key at once; what may be part of a paste is held."""
        at = 0
        for found in _WRITES.finditer(text):
            if found.start() > at:
                yield from self.end()
                yield text[at : found.start()], False
            at = found.end()
            if not self._held and found.end() - found.start() == 1 and not self.follows:
                yield found[0], False
            elif self._size < LONGEST:
                self._held.append(found[0])
                self._size += len(found[0])
        if at < len(text):
            yield from self.end()
            yield text[at:], False

    def rest(self, silence: float) -> Iterator[tuple[str, bool]]:
        """What was held, when nothing has come for `silence` seconds, if that is long enough."""
        if silence >= self.patience:
            yield from self.end()

    def end(self) -> Iterator[tuple[str, bool]]:
        """What was held."""
        if self._held:
            is_paste, text = self._is_paste, "".join(self._held)
            self._held, self._size = [], 0
            yield text, is_paste

    @property
    def _is_paste(self) -> bool:
        return self._size >= MANY or _LINES.search("".join(self._held)) is not None


def _begun(text: str, mark: str) -> int:
    """How many characters at the end of the text begin the mark."""
    return next((size for size in range(len(mark) - 1, 0, -1) if text.endswith(mark[:size])), 0)


def _patience(held: str) -> float:
    return LONE_S if held == ESC else BROKEN_S


class Answers:
    """Takes the terminal's answers out of what was typed; `dark` is what it said of its background, None until then."""

    def __init__(self) -> None:
        self.dark: bool | None = None
        self._held = ""

    def take(self, text: str) -> str:
        """The text without answers; what may become one is held."""
        text, self._held = self._held + text, ""
        if ESC not in text:
            return text
        text = _ANSWER.sub(self._heard, text)
        if begun := _ANSWER_BEGUN.search(text):
            text, self._held = text[: begun.start()], begun[0]
        return text

    def rest(self, silence: float) -> str:
        """What was held, when nothing has come for `silence` seconds, if that is long enough. Half an answer is no key."""
        is_answer = _IS_ANSWER.match(self._held) is not None
        if silence < (PASTE_OVER_S if is_answer else BROKEN_S):
            return ""
        text, self._held = self._held, ""
        return "" if is_answer else text

    def _heard(self, answer: re.Match[str]) -> str:
        if found := _BACKGROUND.match(answer[0]):
            self.dark = _is_dark(found.groups())
        return ""


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
    """The key that Alt and a character are: "alt+shift+x" for X; "" for what neither writes nor is Enter."""
    if character == "\r":
        return "alt+enter"
    if not character.isprintable() or not character:
        return ""
    shift = "shift+" if character.isupper() else ""
    return f"alt+{shift}{key_of(character.lower() if shift else character)}"
