"""The terminal, where Textual's own driver is not enough: it may vanish, change hands, and say which background it has.

That is worth Ctrl+Z with a script around the program, no process that stays behind in a closed window, a program that can be
quit in a flood of keys, and the theme that suits the background.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, TextIO, cast

from textual import events
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from termchat.tui.terminal.input_stream import BROKEN_S, InputStream

_ASK_BACKGROUND = "\x1b]11;?\x1b\\"
_MUTE = frozenset({"linux", "dumb"})
"""TERM of terminals that would print the question."""
_AHEAD = 256
"""Keys and other events that may wait for the app. Nobody is so far ahead: what comes then is a flood, not a person."""


class TerminalGone(Message):
    """Nobody is at the other end any more."""


class Terminal(LinuxDriver):
    """Says when the terminal has gone, survives writing to one that has, and asks for the background without waiting."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._given_back, self._continued, self._over, self._is_gone = True, False, False, False
        self._event_loop = asyncio.get_running_loop()
        super().__init__(*args, **kwargs)
        self._unread: set[int] = getattr(self._app, "unread", set())
        terminals = (file for file in (self._file, sys.__stdout__) if file is not None and file.isatty())
        if (file := next(terminals, self._file)) is not None:  # standard output: 2>/dev/null, or 2>&-
            self._file = cast(Any, _Outlet(file, self._gone))

    def start_application_mode(self) -> None:
        super().start_application_mode()  # type: ignore[no-untyped-call]
        # It gives up where it was sent to the background: then nobody reads keys.
        self._given_back = self._key_thread is None or not self._key_thread.is_alive()
        if getattr(self._app, "asks_background", False) and os.environ.get("TERM", "") not in _MUTE:
            self.write(_ASK_BACKGROUND)

    def stop_application_mode(self) -> None:
        self._over = not self._given_back  # it is not only suspended
        if self._over:  # what is pressed until the process has ended is sent as signals again
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP})
        super().stop_application_mode()

    def suspend_application_mode(self) -> None:
        self._given_back = True
        super().suspend_application_mode()

    # Signals interrupt whatever the main thread is at. If that was writing, it has the lock without which nothing more can be
    # written, so what writes waits for the event loop. A terminal that hangs up has its processes continued, too.

    def _sigtstp_application(self, *_: Any) -> None:
        if self._auto_restart:
            self._soon(self._stop)
        else:
            self._stop_job()  # the terminal is another program's, for which the loop waits

    def _sigcont_application(self, *_: Any) -> None:
        self._continued = True
        if self._auto_restart:
            self._soon(self._take_over)

    def _soon(self, do: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed, and the terminal given back
            self._event_loop.call_soon_threadsafe(do)

    def _stop(self) -> None:
        if not self._given_back:
            self.suspend_application_mode()
        self._stop_job()
        self._continued = True
        self._take_over()

    def _stop_job(self) -> None:
        """Stop the whole job, as the terminal itself would: with a script around it, that must stop too for the shell to come
        back. The system lets nobody stop whom no shell could continue; then it simply goes on.
        """
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._sigtstp_application)

    def _take_over(self) -> None:
        """Take the terminal over again, also from whoever had it while the process was stopped from outside; not from the
        program that it was given to, nor when the app has ended. One that is continued meanwhile does so again."""
        while self._continued and self._auto_restart and not self._over:
            self._continued = False
            if not self._given_back:
                self.suspend_application_mode()
            self._must_signal_resume = True
            self.resume_application_mode()

    def run_input_thread(self) -> None:
        stream = self._new_stream()
        decode = getincrementaldecoder("utf-8")("replace").decode
        heard, flooded, quits = monotonic(), False, False
        while not self.exit_event.is_set():
            if select.select([self.fileno], [], [], stream.patience)[0]:
                try:
                    data = os.read(self.fileno, 4096)
                except OSError:
                    data = b""
                if not data:
                    self._gone()
                    return
                silence, heard = monotonic() - heard, monotonic()
                flooded = (flooded and silence < BROKEN_S) or len(self._unread) >= _AHEAD
                quits = flooded and (quits or self._heed_quit(data))
                if flooded:
                    continue
                messages = stream.read(decode(data), silence)
            else:
                messages = stream.rest(monotonic() - heard)
            for event in messages:
                if len(self._unread) >= _AHEAD or self.exit_event.is_set():
                    flooded, stream = True, self._new_stream()
                    break
                if isinstance(event, events.Event) and not isinstance(event, events.Resize):
                    self._unread.add(id(event))
                self.process_message(event)

    def _new_stream(self) -> InputStream:
        return InputStream(getattr(self._app, "alt_keys", ()), debug=self._debug)

    def _heed_quit(self, data: bytes) -> bool:
        """Post the key that quits if this part of a flood has it, and drop the rest; return whether it had it."""
        for key in getattr(self._app, "quit_keys", ()):
            letter = key.removeprefix("ctrl+")
            if len(letter) == 1 < len(key) and (
                bytes([ord(letter) & 31]) in data or b"\x1b[%d;5u" % ord(letter) in data
            ):
                self.process_message(events.Key(key, None))
                return True
        return False

    def _gone(self) -> None:
        if not self._is_gone:
            self._is_gone = True
            self.process_message(TerminalGone())


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
