"""The scheduler: runs the replies of one request, and has a source decode what they wait for.

Each reply is taken as far as it can go: until its newest token has to be decoded, until it is paused, or to its end. Then the
source decodes for those that wait. The source is this machine's cache, the slots of a server, or a server that draws by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

from termchat.decoding.group import MOST_WALKS
from termchat.decoding.records import Failed
from termchat.engine.abilities import LOCAL
from termchat.engine.llama.beams import BeamSearch
from termchat.engine.llama.cells import Aborted, ContextFull
from termchat.engine.llama.reply import Lane, Reply, Room, Running, Wait, check
from termchat.engine.port import (
    EngineError,
    Event,
    Generate,
    Join,
    ReplyRequest,
    Steer,
    WalksFinished,
)

Poll = Callable[[], Steer | None]
"""The next command for the running replies, or None; never waits."""


class Failure(NamedTuple):
    """What these `runs` waited for could not be decoded."""

    runs: Sequence[Running]
    error: Exception


class Source(ABC):
    """Decodes prompts and tokens, in so many `steps` behind the prompts, and has the rows after them."""

    steps: int
    room: Room

    @abstractmethod
    def open(self, request: ReplyRequest) -> Lane:
        """Return a lane for a reply."""

    def plan_prompts(self, runs: Sequence[Running]) -> None:  # noqa: B027 - a server finds it out by itself
        """Plan the decodes of the prompts."""

    @abstractmethod
    def prefill_prompts(self, runs: Collection[Running]) -> Iterator[Event | Failure]:
        """Decode the prompts of all runs, later joins included, and yield the progress.

        Raises:
            Aborted, ContextFull, EngineError: for all of them.
        """

    def join_run(self, run: Running) -> None:  # noqa: B027
        """Give a joining reply the available cells of its prompt: all but its last token, or more."""

    def accept_token(self, run: Running) -> bool:
        """Return whether the newest token of a run need not be decoded: the row after it is at hand."""
        return False

    @abstractmethod
    def decode(self, runs: Sequence[Running], running: Sequence[Running]) -> Iterable[Failure | Event]:
        """Decode for all or some of the runs that wait; those for which it is done wait for nothing. `running` are all."""

    def close(self, runs: Collection[Running]) -> None:  # noqa: B027
        """End it: all are over."""


class Scheduler:
    """The replies of one request, from it on until something else is decoded.

    Raises:
        EngineError: the prompt is empty or larger than the context, or there are too many replies.
    """

    def __init__(
        self, source: Source, command: Generate, asked_at: float, larger_context: str = LOCAL.larger_context
    ) -> None:
        self.source, self.command = source, command
        self._asked_at, self._larger_context = asked_at, larger_context
        self.runs: dict[int, Running] = {}
        self._seconds = self._waited = 0.0
        replies = command.replies
        if not 0 < len(replies) <= MOST_WALKS:
            raise EngineError("walks", f"{len(replies)} walks at once are not possible", f"1 to {MOST_WALKS} are")
        if command.group is None and len(replies) > 1:
            raise EngineError("walks", "several replies are a group", "ask for one, or name the group")
        if all(reply.ids == replies[0].ids for reply in replies):
            check(source.room, replies[0].ids, larger_context=larger_context)

    @property
    def running(self) -> list[Running]:
        return [run for run in self.runs.values() if not run.over]

    def records(self, poll: Poll, wait: Callable[[], None]) -> Iterator[list[Event]]:
        """Yield the events of all replies as they come. `wait` returns at the next command for them.

        Raises:
            EngineError: a single reply cannot be made, or the engine failed.
        """
        try:
            opened = [self._open_reply(request, self._asked_at) for request in self.command.replies]
            if self.runs:
                self.source.plan_prompts(list(self.runs.values()))
            yield [event for one in opened for event in (one.advance_events() if isinstance(one, Running) else [one])]
            yield from self._read_prompts(poll)
            yield from self._run_rounds(poll, wait)
            if self.command.group is not None and self.command.group.beams is None:
                counts = [run.tokens for run in self.runs.values() if run.tokens]
                later, seconds = sum(counts) - len(counts), self._seconds
                rate = later / seconds if later and seconds else None
                yield [WalksFinished(sum(counts), self.source.steps, seconds * 1e3, rate)]
        finally:
            for run in self.running:
                run.end_run()
            self.source.close(self.runs.values())

    def _open_reply(self, request: ReplyRequest, asked_at: float) -> Running | Failed:
        group = self.command.group
        try:
            scripted = (entry.id for entry in request.script if entry.id is not None)
            check(self.source.room, request.ids, scripted, self._larger_context)
            if request.number in self.runs:
                raise EngineError("walks", f"walk {request.number} is there already", "give the new one another number")
            if len(self.running) >= MOST_WALKS:
                raise EngineError("walks", f"{MOST_WALKS} walks are running, which is the most", "stop one first")
            kind = BeamSearch if group is not None and group.beams is not None else Reply
            run: Running = kind(request, self.command, self.source.open(request), asked_at)
        except EngineError as error:
            if group is None or group.beams is not None:
                raise
            return Failed(error.kind, error.message, error.hint, request.number)
        self.runs[request.number] = run
        return run

    def _read_prompts(self, poll: Poll) -> Iterator[list[Event]]:
        """Have the prompts decoded; the replies read their commands in between."""
        if not self.runs:
            return
        yield from self._take_step(poll)
        if not self.running:
            return
        try:
            for one in self.source.prefill_prompts(self.runs.values()):
                failed = [*self._fail_runs(one)] if isinstance(one, Failure) else [one]
                waiting = [run for run in self.running if run.goes_on or run.waits is Wait.PROMPT]
                yield [*(event for run in waiting for event in run.advance_events()), *failed]
                yield from self._take_step(poll)
                if not self.running:
                    return
        except (Aborted, ContextFull) as error:
            yield [*self._fail_runs(Failure(self.running, error))]
        for run in self.running:
            if run.waits is Wait.PROMPT:
                run.waits = None

    def _run_rounds(self, poll: Poll, wait: Callable[[], None]) -> Iterator[list[Event]]:
        """Take all replies to their ends."""
        first: float | None = None
        while self.running:
            yield from self._take_step(poll)
            now = perf_counter()
            first = first or now
            self._seconds = now - first - self._waited
            if waiting := [run for run in self.running if isinstance(run.waits, Wait)]:
                for one in self.source.decode(waiting, self.running):
                    yield [*self._fail_runs(one)] if isinstance(one, Failure) else [one]
            elif self.running:
                wait()
                self._waited += perf_counter() - now

    def _take_step(self, poll: Poll) -> Iterator[list[Event]]:
        """Take all replies as far as they can go with the rows at hand, those of a draft that they accept too."""
        events: list[Event] = []
        try:
            events += self._give_commands(poll)
            for run in self.running:
                if not run.goes_on:
                    continue
                events += run.advance_events()
                while not run.over and self.source.accept_token(run):
                    if self.command.group is None:  # the rows of a group are views: all draw before others may decode
                        yield events
                        events = []
                    run.waits = None  # a reply reads its commands between any two tokens
                    events += self._give_commands(poll)
                    events += run.advance_events()
        except EngineError:
            yield events  # what came before the failure
            raise
        yield events

    def _give_commands(self, poll: Poll) -> Iterator[Event]:
        """Give the commands to the replies that they are for; yield the first events of a new one."""
        while (command := poll()) is not None:
            if isinstance(command, Join):
                yield from self._add_reply(command.reply)
            elif command.reply is None:
                for run in self.running:
                    run.commands.append(command)
            elif self.command.group is not None and (one := self.runs.get(command.reply)) is not None:
                one.commands.append(command)

    def _add_reply(self, request: ReplyRequest) -> Iterator[Event]:
        if self.command.group is None or self.command.group.beams is not None:
            return
        decoded = [run for run in self.runs.values() if run.lane.prefill is not None] or self.runs.values()
        if not any(run.ids[: len(request.ids)] == request.ids for run in decoded):
            why = "no running reply begins with these tokens", "begin a new one with them"
            yield Failed("walks", *why, request.number)
            return
        run = self._open_reply(request, perf_counter())
        if isinstance(run, Failed):
            yield run
            return
        self.source.join_run(run)
        yield from run.advance_events()

    def _fail_runs(self, failure: Failure) -> Iterator[Event]:
        error = failure.error
        for run in failure.runs:
            if not run.over:
                yield from run.advance_events(type(error)(*error.args))
