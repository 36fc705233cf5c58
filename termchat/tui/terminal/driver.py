"""The terminal, where Textual's own driver is not enough: it may vanish, be pasted into, and say which background it has."""

from __future__ import annotations

import os
import re
import selectors
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, TextIO, cast

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

_ASK_BACKGROUND = "\x1b]11;?\x1b\\"
_ANSWER = re.compile(r"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)[^\x07\x1b]*(?:\x07|\x1b\\)")
_BEGUN = re.compile(r"\x1b\](?:1(?:1(?:;[^\x07\x1b]{0,40}\x1b?)?)?)?\Z")
_MUTE = frozenset({"linux", "dumb"})
"""TERM of terminals that would print the question."""
_LOOK = 0.1
"""Seconds between two looks at whether the app has ended."""
_SPLIT = 0.02
"""Seconds after which the next byte of a sequence is not awaited any longer: Esc, pressed alone, must not wait for long."""
_PASTE_OVER = 1.0
"""Seconds of silence after which a paste is over, though its end was not seen."""


class BackgroundIs(Message):
    """The terminal says whether its background is dark."""

    def __init__(self, dark: bool) -> None:
        super().__init__()
        self.dark = dark


class TerminalGone(Message):
    """Nobody is at the other end any more."""


class Terminal(LinuxDriver):
    """Says when the terminal has gone, survives writing to one that has, and asks for the background without waiting."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not _is_terminal(self._file) and _is_terminal(sys.__stdout__):  # 2>/dev/null, or 2>&-
            self._file = cast(Any, sys.__stdout__)
        if self._file is not None:
            self._file = cast(Any, _Outlet(self._file, self._gone))
        self._told = False
        self._given_back = True
        self._changing_hands = self._continued = False

    def start_application_mode(self) -> None:
        """Takes the terminal over."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        # It gives up where it was sent to the background: then nobody reads keys.
        self._given_back = self._key_thread is None or not self._key_thread.is_alive()
        if getattr(self._app, "asks_background", False) and os.environ.get("TERM", "") not in _MUTE:
            self.write(_ASK_BACKGROUND)

    def suspend_application_mode(self) -> None:
        """Gives the terminal back."""
        self._given_back = True
        super().suspend_application_mode()

    def _sigtstp_application(self, *_: Any) -> None:
        """Stops the whole job, as the terminal itself would: with a script around it, that must stop too for the shell to come
        back. The system lets nobody stop whom no shell could continue; then it simply goes on.
        """
        if self._changing_hands:
            return
        self._changing_hands = True
        try:
            if not self._given_back:
                self.suspend_application_mode()
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(0, signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, self._sigtstp_application)
        finally:
            self._changing_hands = False
        if self._given_back:
            self._sigcont_application()

    def _sigcont_application(self, *_: Any) -> None:
        """Takes the terminal over again, also from whoever had it while the process was stopped from outside; not from the
        program that it was given to. One that comes while the terminal changes hands waits for that: the terminal as it is
        then would be taken for how it was before us.
        """
        self._continued = True
        if self._changing_hands or not self._auto_restart:
            return
        self._changing_hands = True
        try:
            while self._continued:
                self._continued = False
                if not self._given_back:
                    self.suspend_application_mode()
                self._must_signal_resume = True
                self.resume_application_mode()
        finally:
            self._changing_hands = False

    def run_input_thread(self) -> None:
        """Reads keys until the app ends or the terminal does."""
        parser = XTermParser(self._debug)
        answers, pastes = Answers(), Pastes()
        decode = getincrementaldecoder("utf-8")("replace").decode
        heard = monotonic()
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(_SPLIT if pastes.holding else _LOOK):
                    try:
                        data = os.read(self.fileno, 4096)
                    except OSError:
                        data = b""
                    if not data:
                        self._gone()
                        return
                    heard = monotonic()
                    parts = pastes.take(decode(data))
                else:
                    parts = pastes.rest(monotonic() - heard)
                    if rest := answers.rest():
                        parts = [rest, *parts]
                for part in parts:
                    if isinstance(part, events.Paste):
                        self.process_message(part)
                    elif text := answers.take(part):
                        for event in parser.feed(text):
                            self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
                if answers.dark is not None:
                    self.process_message(BackgroundIs(answers.dark))
                    answers.dark = None

    def _gone(self) -> None:
        if not self._told:
            self._told = True
            self.process_message(TerminalGone())


def _is_terminal(file: TextIO | None) -> bool:
    return file is not None and file.isatty()


class Pastes:
    """Takes bracketed pastes out of what comes from the terminal, so that nothing in them is mistaken for a key.

    Textual's parser looks for keys inside a paste too, and loses its way at the first ESC.
    """

    def __init__(self) -> None:
        self._held = ""
        self._pasted: list[str] | None = None

    @property
    def holding(self) -> bool:
        """Whether something is held that may be a key after all."""
        return self._pasted is None and bool(self._held)

    def take(self, text: str) -> list[str | events.Paste]:
        """What was typed, and what was pasted between; what may become the mark of a paste is held."""
        return list(self._parts(text))

    def rest(self, silence: float) -> list[str | events.Paste]:
        """What was held, when nothing has come for `silence` seconds: typed text at once, a paste when it must be over."""
        if self._pasted is None:
            held, self._held = self._held, ""
            return [held] if held else []
        if silence < _PASTE_OVER:
            return []
        held, self._held = self._held, ""
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
        if begun := _BEGUN.search(text):
            text, self._held = text[: begun.start()], begun[0]
        return text

    def rest(self) -> str:
        """What was held, when nothing more came."""
        text, self._held = self._held, ""
        return text


def _is_dark(channels: tuple[str, ...]) -> bool:
    red, green, blue = (int(channel, 16) / (16 ** len(channel) - 1) for channel in channels)
    return bool(0.299 * red + 0.587 * green + 0.114 * blue < 0.5)


class _Outlet:
    """A file that swallows what cannot be written, and says so once it cannot."""

    def __init__(self, file: TextIO, gone: Callable[[], None]) -> None:
        self._file, self._gone = file, gone

    def write(self, text: str) -> int:
        try:
            return self._file.write(text)
        except OSError:
            self._gone()
            return len(text)

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError:
            self._gone()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
