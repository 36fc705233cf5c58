"""A transcript made again, reply by reply, on its model: is every token the same, and were its numbers?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from time import sleep
from typing import Any

import msgspec

from termchat import paths
from termchat.chat.opening import choose
from termchat.commands.difference import Difference
from termchat.config.options import OptionError
from termchat.config.origins import FLAG
from termchat.config.settings import OPTIONS, Settings
from termchat.conversation.batch_shapes import shapes_of_prompt
from termchat.conversation.transcripts.jsonl_reader import Transcript, read
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.conversation.tree import Node
from termchat.decoding.conditions import Length
from termchat.decoding.records import Failed, Finished, Start, Token
from termchat.decoding.records import Settings as SettingsRecord
from termchat.engine.make import make_engine
from termchat.engine.port import (
    Cancel,
    Engine,
    EngineError,
    Event,
    Generate,
    Load,
    Loaded,
    ModelSpec,
    Scripted,
    threads_of_batches,
)
from termchat.models import catalogue
from termchat.models.errors import ModelError
from termchat.text import sanitize

_GATHER = 0.04
"""Seconds between looks at the engine: waking for every token would take a core from it just when it needs all."""

_ROOM = 256
"""Cells beyond what a chat needs, and what their number is a multiple of."""

_CANDIDATES = 1000
"""The most that are asked for, as in `termchat run`."""

Tell = Callable[[str], None]


class ReplayError(Exception):
    """A transcript cannot be replayed. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def replay(config: Settings, path: Path, tell: Tell, complain: Tell) -> int:
    """Makes every reply of a transcript again and tells how that went; returns the exit code.

    0: all of it is identical. 1: something is different, or it could not be done. Flags in `config` go before what is on
    record; of its other settings only those count that records do not tell.
    """
    engine = make_engine(paths.log_file())
    try:
        transcript = read(path)
        difference, tokens = _Replay(config, transcript, engine, lambda line: tell(sanitize(line))).run()
    except (TranscriptError, ReplayError, ModelError, EngineError) as error:
        complain(sanitize(f"termchat: {error.message}"))
        if error.hint:
            complain(sanitize(f"  {error.hint}"))
        return 1
    finally:
        engine.close()
    if difference is None:
        tell(_identical(tokens))
        return 0
    for line in difference.lines():
        tell(line)
    return 1


class _Replay:
    """The replies of one transcript, one after the other, on one engine.

    The cache goes through what it went through then: cells that were kept are kept, and where the record says that cells
    were decoded which are still here, the process of then had lost them, and the model is loaded anew.
    """

    def __init__(self, config: Settings, transcript: Transcript, engine: Engine, tell: Tell) -> None:
        self._config, self._transcript, self._engine, self._tell = config, transcript, engine, tell
        nodes = sorted(transcript.conversation.nodes.items())
        self._replies = [node for _, node in nodes if node.start is not None and len(node.tokens)]
        self._spec: ModelSpec | None = None
        self._found: dict[str | None, ModelSpec] = {}
        self._told: set[str] = set()
        self._cells: list[int] = []
        self._tokens = 0

    def run(self) -> tuple[Difference | None, int]:
        """The first difference, or None, and how many tokens were the same.

        Raises:
            ReplayError, ModelError, EngineError: it cannot be done.
        """
        if not self._replies:
            raise ReplayError("there is no reply with a token in this transcript")
        for node in self._replies:
            difference = self._again(node)
            if difference is not None:
                return difference, self._tokens
            if len(self._replies) > 1:
                self._tell(f"node {node.number}: {_identical(len(node.tokens))}")
        return None, self._tokens

    # --- the model ---------------------------------------------------------------------------------------------------

    def _load(self, node: Node, start: Start) -> None:
        """Has the recorded model there, in the recorded way, with just the cells that were kept."""
        spec = self._spec_for(self._most_threads(start))
        offered = _common(self._cells, self._transcript.conversation.prompt(node.number))
        lost = node.prefill is not None and node.prefill.reused < offered
        if spec == self._spec and not lost:
            return
        number = self._engine.send(Load(spec))
        for event in self._events(number):
            if isinstance(event, Loaded):
                self._spec, self._cells = spec, []
                break
        if spec.sha256 != start.model.sha256 and start.model.sha256 not in self._told:
            self._told.add(start.model.sha256)
            self._tell(f"the model file is another one: {spec.sha256[:16]} now, {start.model.sha256[:16]} recorded")

    def _most_threads(self, start: Start) -> Start:
        """The start to load the model for: that of a reply with the most threads, if one of fewer can follow on its cells.

        On a busy machine replies begin with fewer threads than the model was loaded with. Loading it anew for each of them
        would make the cells anew too, with other threads than they were made with.
        """
        alike = (other.start for other in self._replies if other.start is not None and _is_alike(other.start, start))
        most = max(alike, key=lambda other: other.threads)
        batch = threads_of_batches(start.threads, most.threads, most.threads_batch)
        return most if batch == start.threads_batch else start

    def _spec_for(self, start: Start) -> ModelSpec:
        """The model as it was loaded then; flags go before that."""
        given = {name for name, origin in self._config.origin.items() if origin == FLAG}
        name: str | None = start.model.name
        if "model" in given:
            name = self._config.model
        elif name not in catalogue.load().entries:
            raise ReplayError(
                f"the transcript's model {name!r} is not in the catalogue",
                f"give its file, {start.model.path}: --model",
            )
        if name not in self._found:
            self._found[name] = choose(self._config, name).spec
        spec = self._found[name]
        recorded: dict[str, Any] = {
            "threads": start.threads,
            "threads_batch": start.threads_batch,
            "prefill_batch": start.ubatch,
            "kv_type": start.kv_type,
            "fast_prefill": False,
        }
        if "threads" in given:
            recorded["threads_batch"] = 0
        chat = self._transcript.conversation
        longest = max(len(chat.prompt(node.number)) + len(node.ids) for node in self._replies)
        recorded["context"] = max(spec.context, (longest // _ROOM + 2) * _ROOM)
        try:
            wanted = {name: OPTIONS[name].check(value) for name, value in recorded.items() if name not in given}
        except OptionError as error:
            raise ReplayError(f"the transcript cannot be what it says: {error}") from None
        return msgspec.structs.replace(spec, **wanted)

    # --- a reply -----------------------------------------------------------------------------------------------------

    def _again(self, node: Node) -> Difference | None:
        """Makes one reply again. Where a number is other, it goes on to the first token that is."""
        start = node.start
        assert start is not None
        self._load(node, start)
        shapes = shapes_of_prompt(self._transcript.conversation, node.number)
        number = self._engine.send(self._request(node, start, shapes))
        recorded = (record for record in self._transcript.records(node.number) if isinstance(record, Token))
        now = start
        parted: tuple[Token, Token] | None = None

        def different(was: Token, is_now: Token | None, ended: str = "") -> Difference:
            step = parted[0].step if parted is not None else None
            return Difference(node.number, was, is_now, step, start, now, bool(shapes), ended)

        for event in self._events(number):
            if isinstance(event, Start):
                now = event
            elif isinstance(event, Token):
                was = next(recorded)
                if parted is None and _numbers(was) != _numbers(event):
                    parted = was, event
                if was.id != event.id:
                    self._cancel(number)
                    return different(was, event)
                if parted is None:
                    self._tokens += 1
            elif isinstance(event, Finished):
                missing = next(recorded, None)
                if missing is not None:
                    return different(missing, None, f"{event.reason} {event.detail}".strip())
                break
        self._cells = [*self._transcript.conversation.prompt(node.number), *node.tokens.ids[:-1]]
        return different(*parted) if parted is not None else None

    def _request(self, node: Node, start: Start, shapes: list[int] | None) -> Generate:
        """The reply as it was asked for, and as it was steered while it ran: knobs, threads, and tokens that were forced."""
        assert self._spec is not None
        fixed = self._spec.threads if self._config.origin["threads"] == FLAG else 0
        script: list[Scripted] = []
        first: SettingsRecord | None = None
        done: int | None = None
        step = most = 0
        for record in self._transcript.records(node.number):
            if isinstance(record, SettingsRecord):
                first = first or record
                script.append(Scripted(step, samplers=record.samplers, threads=fixed or record.threads))
            elif isinstance(record, Token):
                if done is None:
                    done = record.step
                    script = [msgspec.structs.replace(entry, step=done) for entry in script]
                if record.forced:
                    script.append(Scripted(record.step, id=record.id))
                step, most = record.step + 1, max(most, len(record.candidates))
        if first is None or done is None:
            raise ReplayError(f"node {node.number} does not say with which settings it was drawn")
        return Generate(
            ids=self._transcript.conversation.prompt(node.number),
            samplers=first.samplers,
            conditions=(Length(done + len(node.tokens)),),
            seed=start.seed,
            done=done,
            raw=start.raw,
            candidates=min(max(most, 1), _CANDIDATES),
            shapes=shapes or [],
            rebuild_exactly=bool(shapes),
            # Threads that are named are kept: the engine takes no fewer, however busy the machine is.
            script=(Scripted(done, threads=fixed or start.threads), *script),
            keep_logits=False,
        )

    def _cancel(self, number: int) -> None:
        self._engine.send(Cancel())
        for event in self._events(number):
            if isinstance(event, Finished):
                return

    def _events(self, number: int) -> Iterator[Event]:
        """What the engine answers to a command, as it comes.

        Raises:
            EngineError: the answer is that it failed, or the engine died.
        """
        while self._engine.alive:
            for answered, event in self._engine.receive(0.5):
                if isinstance(event, Failed):
                    raise EngineError(event.kind, event.message, event.hint)
                if answered == number:
                    yield event
            sleep(_GATHER)
        raise EngineError("engine", "the engine process is gone")


def _identical(tokens: int) -> str:
    return f"identical, {tokens} token{'' if tokens == 1 else 's'}"


def _numbers(token: Token) -> tuple[float, ...]:
    """What has to be the same bit for bit."""
    return token.logit, token.logprob, token.probability, token.entropy


def _is_alike(one: Start, other: Start) -> bool:
    """Whether the same model was loaded in the same way, but for threads."""
    return (one.model, one.ubatch, one.kv_type) == (other.model, other.ubatch, other.kv_type)


def _common(cells: list[int], ids: list[int]) -> int:
    """How many cells a prompt can reuse; its last token is always decoded."""
    pairs = zip(cells, ids[:-1], strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
