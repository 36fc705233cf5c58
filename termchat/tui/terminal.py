"""The terminal, where Textual's own driver is not enough: it may vanish, and it may say which background it has."""

from __future__ import annotations

import os
import re
import selectors
from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import Any, TextIO, cast

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

_ASK_BACKGROUND = "\x1b]11;?\x1b\\"
_ANSWER = re.compile(r"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)[^\x07\x1b]*(?:\x07|\x1b\\)")
_BEGUN = re.compile(r"\x1b\](?:1(?:1(?:;[^\x07\x1b]{0,40}\x1b?)?)?)?\Z")
_MUTE = frozenset({"linux", "dumb"})
"""TERM of terminals that would print the question."""


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
        if self._file is not None:
            self._file = cast(Any, _Outlet(self._file, self._gone))
        self._told = False

    def start_application_mode(self) -> None:
        """Takes the terminal over."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if getattr(self._app, "asks_background", False) and os.environ.get("TERM", "") not in _MUTE:
            self.write(_ASK_BACKGROUND)

    def run_input_thread(self) -> None:
        """Reads keys until the app ends or the terminal does."""
        parser = XTermParser(self._debug)
        answers = Answers()
        decode = getincrementaldecoder("utf-8")("replace").decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(0.1):
                    try:
                        data = os.read(self.fileno, 4096)
                    except OSError:
                        data = b""
                    if not data:
                        self._gone()
                        return
                    text = answers.take(decode(data))
                else:
                    text = answers.rest()
                for event in parser.feed(text) if text else ():
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
