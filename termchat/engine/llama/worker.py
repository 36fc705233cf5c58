"""The child process that owns the model: commands in, events out.

`python -m termchat.engine.llama.worker` speaks length-framed msgpack (`engine.wire`) on what were its stdin and stdout. They
are moved to private descriptors, and descriptor 1 is pointed at stderr, before llama.cpp is imported: native prints go to
the log and never to a screen. It leaves when its input ends.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

import msgspec

from termchat.decoding.records import Failed
from termchat.engine import wire
from termchat.engine.port import (
    BatchesMeasured,
    Cancel,
    Check,
    Command,
    Describe,
    DraftLoaded,
    EngineError,
    Event,
    Explain,
    Generate,
    Inspect,
    Inspected,
    Keep,
    Load,
    LoadDraft,
    Loaded,
    MeasureBatches,
    ModelSpec,
    Probe,
    Probed,
    Progress,
    Question,
    Render,
    Score,
    Scoring,
    Spell,
    Spelled,
    Steer,
    Tokenize,
)

if TYPE_CHECKING:
    from termchat.engine.llama.model_session import ModelSession

_BETWEEN_TOKENS = LoadDraft | Question
"""Commands that need not wait until a reply is over."""

Open = Callable[[ModelSpec, Callable[[float], None]], "ModelSession"]
"""How a model becomes a session; the callable is told of progress, 0 to 1."""

Find = Callable[[ModelSpec], tuple[ModelSpec, dict[str, Any]]]
"""What to load for a model that another machine asks for, and the knobs recommended for it. Raises `EngineError`."""


def _do_nothing() -> None:
    pass


class Inbox:
    """Commands as they arrive, read by a thread of its own.

    Commands that steer a running reply are kept apart from work that waits its turn, of which `on_work` hears. A cancel of
    all sets the abort flag, so that a long prefill ends at once. `beaten` is set by the app's first sign of life (`wire.BEAT`).
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._work: deque[tuple[int, Command, float]] = deque()
        self._steer: deque[tuple[int, Steer]] = deque()
        self._ready = threading.Condition()
        self.on_cancel: Callable[[], None] = _do_nothing
        self.on_work: Callable[[], None] = _do_nothing
        self.beaten = threading.Event()
        threading.Thread(target=self._read_commands, name="inbox", daemon=True).start()

    def wait_command(self) -> tuple[int, Command, float]:
        """Wait for work; return its number, command, and the `perf_counter` of its arrival."""
        with self._ready:
            while not self._work:
                self._ready.wait()
            return self._work.popleft()

    def between_tokens(self) -> tuple[int, Command, float] | None:
        """Return the next work, if it can be done while a reply runs."""
        if self._work and isinstance(self._work[0][1], _BETWEEN_TOKENS):
            return self._work.popleft()
        return None

    def while_paused(self) -> tuple[int, Command, float] | None:
        """Wait for work that can be done while a reply is paused; None as soon as a command steers that reply."""
        with self._ready:
            while not self._steer:
                if (work := self.between_tokens()) is not None:
                    return work
                self._ready.wait()
        return None

    def has_work(self) -> bool:
        return bool(self._work)

    def drop_older(self, number: int) -> None:
        """Drop the commands that steer replies before the command with this number."""
        while self._steer and self._steer[0][0] < number:
            self._steer.popleft()

    def poll_steer(self) -> Steer | None:
        """Return the next command for the running reply."""
        return self._steer.popleft()[1] if self._steer else None

    def _read_commands(self) -> None:
        frames: wire.Frames[Command] = wire.Frames(Command)
        try:
            while data := os.read(self._descriptor, 1 << 16):
                for number, command in frames.feed_bytes(data):
                    with self._ready:
                        if isinstance(command, Steer):
                            self._steer.append((number, command))
                        else:
                            self._work.append((number, command, perf_counter()))
                            self.on_work()
                        self._ready.notify()
                    if isinstance(command, Cancel) and command.reply is None:
                        self.on_cancel()
                if frames.beats:
                    self.beaten.set()
        except BaseException:  # noqa: BLE001 - a worker that no longer listens must not look alive
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)  # the app is gone; whatever the main thread does, nobody wants it any more


class Worker:
    """Answer the commands of the inbox, one after the other, with the session that `open_session` makes."""

    def __init__(self, inbox: Inbox, descriptor: int, open_session: Open, find: Find | None = None) -> None:
        self._find, self._open = find, open_session
        self._inbox = inbox
        self._descriptor = descriptor
        self._session: ModelSession | None = None
        self._replying = self._doing = False
        self._writing = threading.Lock()

    def run(self) -> None:
        """Work; the inbox ends the process when its pipe is closed."""
        if self._find is not None:
            threading.Thread(target=self._send_beats, name="beat", daemon=True).start()
        with suppress(Exception):  # it fails again, and is told, when it is needed
            import termchat.engine.llama.model_session  # noqa: F401 - while nobody has asked for a model yet
        while True:
            work = self._inbox.wait_command()
            self._doing = True
            self._do_work(*work)
            self._doing = False

    def _send_beats(self) -> None:
        """Tell an app that asked for it, while it waits for something, that the line is there: a prompt may take minutes."""
        self._inbox.beaten.wait()
        with suppress(OSError):  # the app is gone; the inbox ends the process
            while True:
                sleep(wire.BEATS_S)
                if self._doing or self._inbox.has_work():
                    self._write_all(wire.BEAT)

    def _do_work(self, number: int, command: Command, arrived: float) -> None:
        try:
            self._check_offered(command)
            if isinstance(command, Generate):
                self._generate_replies(number, command, arrived)
            else:
                self._send_events(number, self._answer_command(number, command))
        except EngineError as error:
            self._send_events(number, Failed(error.kind, error.message, error.hint))
        except MemoryError:
            self._send_events(number, Failed("memory", "the engine is out of memory", "use a smaller model or context"))
        except Exception as error:  # noqa: BLE001 - the process must outlive any single command
            traceback.print_exc()
            self._send_events(number, Failed("internal", f"{type(error).__name__}: {error}", "see the log for details"))

    def _check_offered(self, command: Command) -> None:
        kind: type | str = type(command)
        if isinstance(command, Generate) and command.group is not None:
            kind = "beams" if command.group.beams is not None else "walks"
        refused: dict[type | str, str] = getattr(self._session, "refused", {})
        if kind in refused:
            what = f"a model on a server cannot {refused[kind]}"
            raise EngineError("capability", what, "load one on this machine for that")

    def _answer_command(self, number: int, command: Command) -> Event:
        if isinstance(command, Load):
            return self._load_model(number, command)
        if isinstance(command, Probe):
            from termchat.engine.llama import native, observe, offload

            native.start()
            compiled = observe.load() is not None
            return Probed(
                native.read_version(),
                offload.describe_system(),
                offload.list_backends(),
                offload.list_devices(),
                compiled,
            )
        if isinstance(command, LoadDraft):
            return self._load_draft(number, command.spec)
        session = self._require_session()
        if isinstance(command, Tokenize):
            return session.describe_ids(session.model.tokenize(command.text, special=False, begin=command.begin))
        if isinstance(command, Describe):
            return session.describe_ids(command.ids)
        if isinstance(command, Spell):
            return Spelled(session.speller.spell_variants(command.text))
        if isinstance(command, Render):
            return session.render(command)
        if isinstance(command, Check):
            return session.model.grammars.check(command.constraint)
        if isinstance(command, Keep):
            return session.keep_reply(command.reply)
        if isinstance(command, MeasureBatches):
            return self._measure_batches(session, command)
        alone, wanted = not self._replying, self._inbox.has_work
        if isinstance(command, Inspect):
            token, recomputed = session.inspect_step(command, alone=alone, wanted=wanted)
            return Inspected(token, recomputed)
        if isinstance(command, Explain):
            return session.explain_step(command, alone=alone, wanted=wanted)
        if isinstance(command, Score):
            return session.score_reply(
                command, alone=alone, wanted=wanted, progress=lambda *parts: self._send_events(number, Scoring(*parts))
            )
        raise EngineError("internal", f"no such command: {type(command).__name__}")

    def _measure_batches(self, session: ModelSession, command: MeasureBatches) -> BatchesMeasured:
        """Measure unless there is other work, which also stops it where it is not needed."""
        session.cache.abort.clear()
        if not command.needed:
            self._inbox.on_work = session.cache.abort.set
            if self._inbox.has_work():
                session.cache.abort.set()
        try:
            return BatchesMeasured(session.measure_batches(command))
        finally:
            self._inbox.on_work = _do_nothing
            session.cache.abort.clear()

    def _load_draft(self, number: int, spec: ModelSpec | None) -> DraftLoaded:
        session = self._require_session()
        if spec is None:
            session.drop_draft()
            return DraftLoaded(None)
        if self._find is not None:
            spec, _ = self._find(spec)
        return DraftLoaded(session.load_draft(spec, lambda fraction: self._send_events(number, Progress(fraction))))

    def _load_model(self, number: int, command: Load) -> Loaded:
        if self._session is not None:
            self._inbox.on_cancel = _do_nothing
            self._session.close()
            self._session = None
        spec, recommended = self._find(command.spec) if self._find is not None else (command.spec, {})
        self._session = self._open(spec, lambda fraction: self._send_events(number, Progress(fraction)))
        self._inbox.on_cancel = self._session.abort_decode
        gc.collect()
        gc.freeze()  # what is there now stays; a collection in mid-reply need not look at it
        gc.enable()
        return Loaded(msgspec.structs.replace(self._session.build_info(), recommended=recommended))

    def _require_session(self) -> ModelSession:
        if self._session is None:
            raise EngineError("model", "no model is loaded", "load one first")
        return self._session

    def _generate_replies(self, number: int, command: Generate, arrived: float) -> None:
        session, inbox = self._require_session(), self._inbox

        def wait() -> None:
            while (other := inbox.while_paused()) is not None:
                self._do_work(*other)

        inbox.drop_older(number)
        self._replying = True
        try:
            for events in session.generate(command, inbox.poll_steer, wait, arrived):
                self._send_events(number, *events)
                while (other := inbox.between_tokens()) is not None:
                    self._do_work(*other)
        finally:
            self._replying = False

    def _send_events(self, number: int, *events: Event) -> None:
        self._write_all(b"".join(wire.frame(number, event) for event in events))

    def _write_all(self, data: bytes) -> None:
        with self._writing:
            write_all(self._descriptor, data)


def write_all(descriptor: int, data: bytes) -> None:
    """Write to a pipe, waiting for room."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def open_here(spec: ModelSpec, progress: Callable[[float], None]) -> ModelSession:
    """Load a model into this process."""
    from termchat.engine.llama.model_session import ModelSession

    return ModelSession(spec, progress)


def main(find: Find | None = None, open_session: Open = open_here) -> None:
    """Take the pipes over and work until the input ends.

    With `find` it works for a termchat on another machine: it says hello first, and looks for the models that it is to load.
    """
    gc.disable()  # nothing that is imported is garbage
    commands, events = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in a terminal is the app's business
    sys.setswitchinterval(0.0005)  # the inbox thread must not wait 5 ms for its turn
    if find is not None:  # before the inbox, which ends the process at the end of its input
        write_all(events, wire.hello())
    Worker(Inbox(commands), events, open_session, find).run()


if __name__ == "__main__":
    main()
