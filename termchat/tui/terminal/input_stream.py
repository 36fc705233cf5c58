"""What is read from the terminal, as keys, mouse events, pastes and answers; and keys one after the other.

    bytes ─ driver ─▶ text ─ InputStream ─▶ events ─ app ─▶ TypeAhead ─▶ the widget that has the keyboard

Textual's parser alone looks for keys inside a paste, takes whatever comes within 0.1 s of Esc for a part of an escape sequence
(the Esc is then lost), and types a sequence that it does not know. `InputStream` decides where each sequence begins and ends,
and leaves to Textual what a sequence of a key or of the mouse means. That is worth the key Esc however soon another key
follows, and a pasted log that presses no keys. How long to wait is decided by silences that the caller measures; it reads no
clock.

Textual hands a key to the widget that has the keyboard when it comes. What that leaves goes up, through the queue of each
widget around it, to the app, which looks up what the key is bound to: behind the keys that came meanwhile, which may be in the
text already, or in one that is not to have them any more. So "ab", Backspace, "c" would end as "ab". `TypeAhead` hands on one
key at a time, which is worth that typing ahead over a slow line is what was typed.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from io import StringIO
from itertools import groupby

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.dom import DOMNode
from textual.message import Message
from textual.message_pump import MessagePump

from termchat.tui.keys.key import key_of

ESC = "\x1b"
LONE_S = 0.02
"""Seconds after ESC without another byte that make it the key Esc: terminals send all bytes of a sequence at once."""
BROKEN_S = 0.1
"""Seconds after the beginning of a longer sequence in which its end may still come."""
PASTE_OVER_S = 1.0
"""Seconds of silence after which a paste or an answer is over, though its end was not seen."""
FAST_S = 0.005
"""Seconds between two characters that nobody types so fast."""
MANY = 100
"""Characters without a line break that are a paste where they come so fast."""
LONGEST = 16_000_000
"""Characters of a paste that are kept: more than any message may have."""
PATIENCE_S = 1.0
"""Seconds after which a key no longer waits for the one before it."""

_STRING = r"\x1b(?:\](?:[0-9]+;|[lL])|P[ -?]+[@-~]|_G)"
"""The beginning of an answer of the terminal: OSC, DCS and APC, each with what no key can be mistaken for."""
_WHOLE = rf"""
    (?P<text> [^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+ )
  | (?P<control> [^\x1b] )
  | (?P<paste> {re.escape(BRACKETED_PASTE_START)} )
  | (?P<answer> {_STRING} [^\x07\x1b]{{0,4096}} (?: \x07 | \x1b\\ ) )
  | (?P<sequence> \x1b (?: \[ (?: M[^\x1b]{{3}} | <[-0-9;]{{0,64}}[Mm] | \[[A-E] | [0-?]{{0,64}}[\ -/]{{0,4}}[@-~] | [0-9]+\$ )
                         | O[0-9;]*[@-~] | [\x7f\tbf] ) )
"""
"""Text with tabs and line breaks, another control character, or what begins with ESC. A sequence is CSI, the old and the new
reports of the mouse, a function key of the Linux console, SS3, or what terminals send for Alt+Backspace, Shift+Tab, Alt+← and
Alt+→."""
_BEGUN = rf"""
    (?P<begun> (?: {_STRING} [^\x07\x1b]{{0,4096}} \x1b?
                 | \x1b (?: \[ (?: M[^\x1b]{{0,2}} | <[-0-9;]{{0,64}} | \[ | [0-?]{{0,64}}[\ -/]{{0,4}} )
                          | O[0-9;]* | \][0-9]* | P[\ -?]* | _ )? ) \Z )
"""
"""What may become an answer, a sequence or the mark of a paste."""
_TOKEN, _LAST_TOKEN = re.compile(_BEGUN + "|" + _WHOLE, re.X), re.compile(_WHOLE, re.X)
_IS_ANSWER = re.compile(_STRING)
_BACKGROUND = re.compile(r"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")
_OTHER_KEY = re.compile(r"\x1b\[27;([0-9]+);([0-9]+)~")
"""A key as xterm sends it with modifyOtherKeys: modifiers and character."""
_LINES = re.compile(r"[^\r\n][\r\n]+[^\r\n]")
_BURST = "_burst"


class BackgroundIs(Message):
    def __init__(self, dark: bool) -> None:
        super().__init__()
        self.dark = dark


class InputStream:
    """Turns text from the terminal into events, in order.

    Args:
        alt: the Alt keys that do something, as Textual names them: "alt+x". Most terminals send ESC and the character for them,
            which also comes of Esc and the character pressed while the program was busy; it is the latter for all other keys.
        debug: has Textual log what its parser is given.
    """

    def __init__(self, alt: Collection[str] = (), *, debug: bool = False) -> None:
        self._alt, self._debug, self._parser = alt, debug, XTermParser(debug)
        self._held = ""
        """The beginning of a sequence, or in a paste of the mark that ends it."""
        self._pasted: StringIO | None = None
        """The paste whose end has not come."""
        self._burst = StringIO()
        """Text that came so fast that it is text, not keys, and a paste without marks if it has lines or is long."""
        self._follows = False
        """Whether the text being read came at once after the text before it."""

    @property
    def patience(self) -> float:
        """Seconds of silence after which to call `rest`."""
        return min(self._burst_patience, self._held_patience, BROKEN_S)

    @property
    def _burst_patience(self) -> float:
        return FAST_S if self._burst.tell() and not self._is_burst_pasted else BROKEN_S

    @property
    def _held_patience(self) -> float:
        if self._pasted is not None or _IS_ANSWER.match(self._held):
            return PASTE_OVER_S
        return LONE_S if self._held == ESC else BROKEN_S

    @property
    def _is_burst_pasted(self) -> bool:
        return self._burst.tell() >= MANY or _LINES.search(self._burst.getvalue()) is not None

    def read(self, text: str, silence: float) -> Iterator[Message]:
        """Yield the events of a text that was read after so many seconds of silence; hold the beginning of a sequence."""
        if silence >= self._burst_patience:
            yield from self._end_burst()
        if self._held == ESC and silence >= self._held_patience:  # nobody had time to call `rest`
            yield from self.rest(silence)
        self._follows = silence < FAST_S
        text, self._held = self._held + text, ""
        yield from self._parse(text, _TOKEN)

    def rest(self, silence: float) -> Iterator[Message]:
        """Yield the events of what was held, once nothing has come for so many seconds. Half an answer is no key."""
        if silence >= self._burst_patience:
            yield from self._end_burst()
        if silence >= self._held_patience:
            text, self._held = self._held, ""
            if self._pasted is not None:
                yield from self._end_paste(text)
            elif not _IS_ANSWER.match(text):
                yield from self._parse(text, _LAST_TOKEN)

    def _parse(self, text: str, tokens: re.Pattern[str]) -> Iterator[Message]:
        at = 0
        while at < len(text):
            if self._pasted is not None:
                end = text.find(BRACKETED_PASTE_END, at)
                if end < 0:
                    end = max(len(text) - len(BRACKETED_PASTE_END) + 1, at)
                    self._pasted.write(text[at:end][: LONGEST - self._pasted.tell()])
                    self._held = text[end:]
                    return
                yield from self._end_paste(text[at:end])
                at = end + len(BRACKETED_PASTE_END)
                continue
            token = tokens.match(text, at)
            kind, part = (token.lastgroup, token[0]) if token is not None else ("", ESC)
            at += len(part)
            if kind == "begun":
                self._held = part
            elif kind == "text" and (len(part) > 1 or self._follows or self._burst.tell()):
                self._burst.write(part[: LONGEST - self._burst.tell()])
            elif kind == "answer":
                if color := _BACKGROUND.match(part):
                    red, green, blue = (int(channel, 16) / (16 ** len(channel) - 1) for channel in color.groups())
                    yield BackgroundIs(0.299 * red + 0.587 * green + 0.114 * blue < 0.5)
            else:
                yield from self._end_burst()
                if kind == "paste":
                    self._pasted = StringIO()
                elif kind == "sequence":
                    yield from self._parse_sequence(part)
                elif kind:
                    yield from self._parser.feed(part)
                elif (key := _alt_key(character := text[at : at + 1])) in self._alt:
                    at += 1
                    yield events.Key(key, character)
                else:
                    yield events.Key("escape", ESC)

    def _end_paste(self, last: str) -> Iterator[Message]:
        assert self._pasted is not None
        text = self._pasted.getvalue() + last
        self._pasted = None
        if text := _unix(text.replace("\0", "")):  # as Textual does
            yield events.Paste(text)

    def _end_burst(self) -> Iterator[Message]:
        """Yield the text that came at once: a paste, or keys of which those of a word know it."""
        text, is_pasted = self._burst.getvalue(), self._is_burst_pasted
        self._burst = StringIO()
        if is_pasted:
            yield events.Paste(_unix(text))
            return
        for are_letters, characters in groupby(text, str.isprintable):
            letters = "".join(characters)
            for event in self._parser.feed(letters):
                if are_letters and len(set(letters)) > 1:  # one letter again and again is a key that is held down
                    setattr(event, _BURST, letters)
                yield event

    def _parse_sequence(self, sequence: str) -> list[Message]:
        """Parse one sequence; ignore it if Textual does not know it, or fails at its numbers: it would type it, or end."""
        if other := _OTHER_KEY.fullmatch(sequence):
            sequence = f"{ESC}[{other[2]};{other[1]}u"
        try:
            parsed = list(self._parser.feed(sequence))
        except (ValueError, OverflowError):
            parsed = []
        if not parsed:  # its parser waits for the end of what has ended, or cannot go on
            old, self._parser = self._parser, XTermParser(self._debug)
            for name in ("last_x", "last_y", "mouse_pixels", "terminal_size", "terminal_pixel_size"):
                setattr(self._parser, name, getattr(old, name))
        return parsed


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _alt_key(character: str) -> str:
    """Return the key that Alt and a character are: "alt+shift+x" for X; "" for what neither writes nor is Enter."""
    if character == "\r":
        return "alt+enter"
    if not character.isprintable() or not character:
        return ""
    shift = "shift+" if character.isupper() else ""
    return f"alt+{shift}{key_of(character.lower() if shift else character)}"


def burst_of(event: events.Event) -> str:
    """Return the text that a key came at once with, its own letter included; "" for a key that came alone."""
    text: str = getattr(event, _BURST, "")
    return text


class TypeAhead:
    """Has keys and pastes taken by `take`, each once the one before it has been; none before `begin`, when the screen is there.

    `take` returns the widget that was given it; None where the next key need not wait: a letter that a text takes leads nowhere
    else.
    """

    def __init__(self, app: MessagePump, take: Callable[[events.Event], Awaitable[MessagePump | None]]) -> None:
        self._app, self._take = app, take
        self.waiting: deque[events.Event] = deque()
        """Events whose turn has not come."""
        self._turn = 0
        self._is_free = False
        """Whether no key is on its way."""

    @property
    def busy(self) -> bool:
        """Whether a key is still on its way."""
        return not self._is_free

    async def begin(self) -> None:
        await self._hand_on(self._turn)

    async def add(self, event: events.Event) -> None:
        self.waiting.append(event)
        if self._is_free:
            await self._hand_on(self._turn)

    async def _hand_on(self, turn: int) -> None:
        """Have the events taken that wait, up to one that leads elsewhere, once `turn` is over."""
        if turn != self._turn:
            return  # it took too long: another key is on its way by now
        self._is_free = False
        while self.waiting:
            self._turn += 1
            taker = await self._take(self.waiting.popleft())
            if taker is not None:
                asyncio.get_running_loop().call_later(PATIENCE_S, self._app.call_later, self._hand_on, self._turn)
                around = taker.ancestors_with_self if isinstance(taker, DOMNode) else []
                way = [*(pump for pump in around if pump is not self._app), self._app]
                await self._climb(way * 2, self._turn)  # for the key, and for the messages that it led to
                return
        self._is_free = True

    async def _climb(self, way: Sequence[MessagePump], turn: int) -> None:
        """Follow a key through the queues of all that it goes through."""
        for at, pump in enumerate(way, 1):
            if pump.call_later(self._climb, way[at:], turn):
                return  # else it is closed: nothing waits there
        await self._hand_on(turn)
