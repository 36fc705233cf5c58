"""One prompt, one or several replies on stdout, as text or as the record stream."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from itertools import islice
from pathlib import Path
from time import sleep
from types import FrameType
from typing import NamedTuple

from termchat.chat.changes import Notice
from termchat.chat.opening import find_model
from termchat.chat.recording import Recorder
from termchat.chat.service import Chat
from termchat.config.origins import FLAG
from termchat.config.settings import Settings
from termchat.conversation.session import Breakpoint
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.conditions import Condition
from termchat.decoding.constraint import Constraint
from termchat.decoding.records import Failed, Finished, Record, Start, Token, to_json
from termchat.decoding.samplers import well_formed
from termchat.engine.port import Engine, EngineError, ModelSpec
from termchat.models.errors import ModelError
from termchat.text import sanitize

FAILED, CUT_OFF = 1, 3
"""Exit codes; 3: the context was full before a reply ended."""

_GATHER = 0.04
"""Seconds between reads while tokens stream: waking for every token would take a core when the engine needs all of them."""


class Question(NamedTuple):
    """A prompt, and so many `replies` that are wanted to it, each started with `prefill` and ended by `rules`, which match the
    `constraint`.

    `messages` is a file of what was said before ("-" is stdin); the prompt None is the last of them.
    """

    prompt: str | None
    messages: Path | None = None
    prefill: str = ""
    raw: bool = False
    replies: int = 1
    rules: tuple[Condition, ...] = ()
    constraint: Constraint | None = None


class QuestionError(Exception):
    """It cannot be asked. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class _Printer(Recorder):
    """Writes replies to stdout as they come. `number` is that of the reply, from 1, and `of` how many there will be."""

    def __init__(self, of: int) -> None:
        self.number, self.of = 1, of

    def failed(self, failure: Failed) -> None:
        """Writes a failure, unless that was the last record."""


class _Text(_Printer):
    """Writes the text; on a terminal it is sanitised. Several replies have a heading each, as `head` writes several files."""

    def __init__(self, of: int) -> None:
        super().__init__(of)
        self._terminal = sys.stdout.isatty()
        self._last = ""

    def record(self, conversation: Conversation, node: Node, record: Record) -> None:
        if isinstance(record, Start) and self.of > 1:
            gap = "\n" * (self.number > 1)
            self._write(f"{gap}==> reply {self.number} of {self.of}, seed {record.seed} <==\n")
        elif isinstance(record, Token):
            self._write(record.text)
        elif isinstance(record, Finished):
            self._write(node.pending)
            if (self._terminal or self.of > 1) and not self._last.endswith("\n"):
                self._write("\n")

    def _write(self, text: str) -> None:
        if text:
            shown = sanitize(text) if self._terminal else text
            sys.stdout.buffer.write(shown.encode("utf-8", "replace"))
            sys.stdout.buffer.flush()
            self._last = text


class _Json(_Printer):
    """Writes every record as a line of JSON; of several replies with their number."""

    _newest: Record | None = None

    def record(self, conversation: Conversation, node: Node, record: Record) -> None:
        self._newest = record
        sys.stdout.write(to_json(record, **{"reply": self.number} if self.of > 1 else {}) + "\n")
        sys.stdout.flush()

    def failed(self, failure: Failed) -> None:
        if failure is not self._newest:
            self.record(Conversation(), Node(0, None, 0, "assistant"), failure)


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


def answer(config: Settings, engine: Engine, asked: Question, *, as_json: bool, candidates: int) -> int:
    """Prints the replies and returns the exit code: 0, 1 failed, 3 cut off by the context, 130 or 143 interrupted."""
    signals = _Signals()
    if sys.stdout is None:
        _complain("stdout is closed")
        return FAILED
    printer = _Json(asked.replies) if as_json else _Text(asked.replies)
    try:
        return _answer(config, engine, asked, printer, signals, candidates)
    except QuestionError as error:
        _complain(error.message, error.hint)
        return FAILED
    except EngineError as error:
        return _fail(printer, Failed(error.kind, error.message, error.hint))
    except BrokenPipeError:
        _drop_stdout()
        return 128 + signal.SIGPIPE
    except OSError as error:
        _complain(f"the reply cannot be written: {error.strerror or error}")
        _drop_stdout()
        return FAILED
    finally:
        engine.close()


def _answer(
    config: Settings, engine: Engine, asked: Question, printer: _Printer, signals: _Signals, candidates: int
) -> int:
    """See `answer`.

    Raises:
        QuestionError, EngineError: the prompt cannot be asked, or the engine not be started.
        OSError: stdout cannot be written.
    """
    conversation, prompt = _chat_so_far(config, asked)
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
        engine,
        config.tuning,
        origin=config.knob_origin(),
        conversation=conversation,
        recorder=printer,
        candidates=candidates,
        breakpoints=tuple(map(Breakpoint, asked.rules)),
        keep_logits=False,
        step_by_step_text=config.step_by_step_text,
    )
    chat.constrain(asked.constraint)
    chat.loading.load(spec)
    code, seed = 0, config.tuning.seed
    for number in range(asked.replies):
        printer.number = number + 1
        if seed is not None:
            chat.tuning = chat.tuning.turned({"seed": seed + number})
        if asked.prefill:
            chat.begin_with(asked.prefill)
        if number:
            chat.forks.regenerate()
        else:
            chat.send(prompt)
        refused = _wait(chat, signals)
        if signals.caught is not None:
            return 128 + signals.caught
        if chat.failure is not None:
            printer.failed(chat.failure)
        if chat.failure is not None or refused:
            return FAILED
        node = chat.conversation.reply()[-1].node
        which, end = f"reply {number + 1}" if asked.replies > 1 else "the reply", node.finished
        dropped = next((settings.constraint_dropped for settings in node.settings if settings.constraint_dropped), "")
        if dropped:
            _complain(f"{which} does not match the constraint, which was dropped: {dropped}")
            code = FAILED
        if end is not None and end.reason == "context":
            _complain(
                f"{which} was cut off: the context is full ({end.detail} tokens)",
                "shorten the prompt, or load the model with a larger --context",
            )
            code = CUT_OFF
    return code


def _chat_so_far(config: Settings, asked: Question) -> tuple[Conversation, str]:
    """What was said before the prompt, and the prompt.

    Raises:
        QuestionError: the messages cannot be read, or have no place for the prompt.
    """
    if asked.messages is None:
        return Conversation(config.system, raw=asked.raw), asked.prompt or ""
    from termchat.conversation.transcripts import FORMATS, importing
    from termchat.conversation.transcripts.transcript import TranscriptError

    try:
        with importing.readable(asked.messages) as file:
            chats = [transcript.conversation for transcript in islice(importing.chats(file, FORMATS["openai"]), 2)]
    except TranscriptError as error:
        raise QuestionError(error.message, error.hint) from None
    if len(chats) > 1:
        raise QuestionError(f"{file.name} contains more than one chat", "Pass one of them.")
    (chat,) = chats
    if chat.system and config.origin["system"] == FLAG:
        raise QuestionError(f"--system is given, but {file.name} has a system message, too", "Remove one of them.")
    chat.first_system = chat.system or config.system
    last = chat.path()[-1].node
    if last.failed is not None:  # stands for the missing reply to the last message
        chat.drop(last)
        last = chat.path()[-1].node
    if asked.prompt is not None:
        return chat, asked.prompt
    if last.role == "assistant":
        raise QuestionError(
            f"the last message in {file.name} is the assistant's", "End with a user message, or pass one as PROMPT."
        )
    chat.drop(last)
    return chat, last.written


def _wait(chat: Chat, signals: _Signals) -> bool:
    """Until the reply has ended; whether something was refused."""
    refused = stopping = False
    while chat.busy or chat.phase == "loading" or chat.forks.waits:
        for change in chat.pump(0.05):
            if isinstance(change, Notice) and change.severity != "information":
                _complain(change.message, change.hint)
                refused = refused or change.severity == "error"
        if signals.caught is not None and not stopping:
            stopping = True
            if not chat.busy:
                break
            chat.stop()
        if chat.phase == "decoding":
            sleep(_GATHER)
    return refused


def _fail(printer: _Printer, failure: Failed) -> int:
    _complain(failure.message, failure.hint)
    printer.failed(failure)
    return FAILED


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
