"""One prompt, one reply on stdout, as text or as the record stream."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from time import sleep
from types import FrameType

from termchat import paths
from termchat.chat.changes import Notice
from termchat.chat.opening import find_model
from termchat.chat.recording import Recorder
from termchat.chat.service import Chat
from termchat.config.settings import Settings
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import Failed, Finished, Record, Token, to_json
from termchat.decoding.samplers import well_formed
from termchat.engine.make import make_engine
from termchat.engine.port import EngineError, ModelSpec
from termchat.models.errors import ModelError
from termchat.text import sanitize

_GATHER = 0.04
"""Seconds between reads from the engine: waking for every token would take a core when the engine needs all of them."""


class _Text(Recorder):
    """Writes the reply's text as it comes; on a terminal it is sanitised."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._last = ""

    def record(self, conversation: Conversation, node: Node, record: Record) -> None:
        if isinstance(record, Token):
            self._write(record.text)
        elif isinstance(record, Finished):
            self._write(node.pending)
            if self._terminal and not self._last.endswith("\n"):
                self._write("\n")

    def failed(self, failure: Failed) -> None:
        """Writes nothing: the failure is on stderr."""

    def _write(self, text: str) -> None:
        if text:
            shown = sanitize(text) if self._terminal else text
            sys.stdout.buffer.write(shown.encode("utf-8", "replace"))
            sys.stdout.buffer.flush()
            self._last = text


class _Json(Recorder):
    """Writes every record as a line of JSON."""

    def record(self, conversation: Conversation, node: Node, record: Record) -> None:
        sys.stdout.write(to_json(record) + "\n")
        sys.stdout.flush()

    def failed(self, failure: Failed) -> None:
        """Writes a failure before the first record, which no recorded reply holds."""
        sys.stdout.write(to_json(failure) + "\n")
        sys.stdout.flush()


class _Signals:
    """Remembers the first SIGINT or SIGTERM; a second one ends the process at once."""

    def __init__(self) -> None:
        self.caught: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on)

    def _on(self, number: int, _frame: FrameType | None) -> None:
        if self.caught is not None:
            os._exit(128 + number)  # the worker leaves when our end of its pipe closes
        self.caught = number


def answer(config: Settings, prompt: str, *, prefill: str = "", raw: bool, as_json: bool, candidates: int) -> int:
    """Prints the reply to `prompt`, started with `prefill`, and returns the exit code: 0, 1 failed, 130 or 143 interrupted."""
    signals = _Signals()
    if sys.stdout is None:
        _complain("stdout is closed")
        return 1
    printer = _Json() if as_json else _Text()
    try:
        return _answer(config, prompt, printer, signals, prefill=prefill, raw=raw, candidates=candidates)
    except BrokenPipeError:
        _drop_stdout()
        return 128 + signal.SIGPIPE
    except OSError as error:
        _complain(f"the reply cannot be written: {error.strerror or error}")
        _drop_stdout()
        return 1


def _answer(
    config: Settings,
    prompt: str,
    printer: _Text | _Json,
    signals: _Signals,
    *,
    prefill: str,
    raw: bool,
    candidates: int,
) -> int:
    """See `answer`.

    Raises:
        OSError: stdout cannot be written.
    """
    try:
        found: tuple[Settings, ModelSpec | Failed] = find_model(config)
    except ModelError as error:
        found = config, Failed("model", well_formed(error.message), well_formed(error.hint))
    config, spec = found
    for problem in config.problems:  # only now: a recommendation of the model may be one
        _complain(problem)
    if isinstance(spec, Failed):
        return _fail(printer, spec)
    chat = Chat(
        make_engine(paths.log_file()),
        config.tuning,
        origin=config.knob_origin(),
        conversation=Conversation(config.system, raw=raw),
        recorder=printer,
        candidates=candidates,
        keep_logits=False,
    )
    try:
        chat.loading.load(spec)
        chat.begin_with(prefill)
        chat.send(prompt)
        stopping = False
        while chat.busy or chat.phase == "loading":
            for change in chat.pump(0.05):
                if isinstance(change, Notice) and change.severity == "error":
                    _complain(change.message, change.hint)
            if signals.caught is not None and not stopping:
                stopping = True
                if not chat.busy:
                    break
                chat.stop()
            sleep(_GATHER)
        if chat.failure is not None:
            if not chat.conversation.reply():
                printer.failed(chat.failure)
            return 1
    except EngineError as error:
        return _fail(printer, Failed(error.kind, error.message, error.hint))
    finally:
        chat.engine.close()
    return 0 if signals.caught is None else 128 + signals.caught


def _fail(printer: _Text | _Json, failure: Failed) -> int:
    _complain(failure.message, failure.hint)
    printer.failed(failure)
    return 1


def _drop_stdout() -> None:
    """Discards what is still in the buffer, which would fail once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, hint: str = "") -> None:
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError):
        print(f"termchat: {sanitize(message)}", file=sys.stderr)
        if hint:
            print(f"  {sanitize(hint)}", file=sys.stderr)
