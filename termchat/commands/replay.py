"""Generates the replies of a transcript again on their model and compares every computed field (see `comparison`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from time import sleep
from typing import Any

import msgspec

from termchat import paths
from termchat.chat.opening import choose
from termchat.commands.comparison import ReplyComparison, is_timed, limit, wanted_candidates
from termchat.commands.difference import Difference, difference_of
from termchat.config.fields import OPTIONS
from termchat.config.options import OptionError
from termchat.config.origins import FLAG
from termchat.config.settings import Settings
from termchat.conversation.batch_shapes import shapes_of_prompt
from termchat.conversation.transcripts.importing import readable
from termchat.conversation.transcripts.jsonl_reader import Transcript, read
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.conversation.tree import Node
from termchat.decoding.conditions import Condition, Length
from termchat.decoding.records import Failed, SettingsRecord, Shape, Start, Token
from termchat.engine.make import make_engine
from termchat.engine.port import (
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
"""Seconds between reads from the engine: waking for every token would take a core when the engine needs all of them."""

_ROOM = 256
"""The context is a multiple of this many cells, with at least as many free."""

_CANDIDATES = 1000
"""Candidates requested at most, as in `termchat run`."""

Tell = Callable[[str], None]


class ReplayError(Exception):
    """A transcript cannot be replayed. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def replay(config: Settings, path: Path, tell: Tell, complain: Tell, *, as_json: bool = False) -> int:
    """Generates every reply of a transcript again and reports on it, in JSON as one object; returns the exit code.

    0: everything is identical. 1: a token differs, or the replay failed. Flags in `config` override the record; its other
    settings count only where the record says nothing.
    """
    engine = make_engine(paths.log_file())
    try:
        with readable(path) as file:
            transcript = read(file)
        note: Tell = (lambda _: None) if as_json else (lambda line: tell(sanitize(line)))
        difference, tokens = _Replay(config, transcript, engine, note).run()
    except (TranscriptError, ReplayError, ModelError, EngineError) as error:
        complain(sanitize(f"termchat: {error.message}"))
        if error.hint:
            complain(sanitize(f"  {error.hint}"))
        return 1
    finally:
        engine.close()
    if as_json:
        found = {"identical": difference is None, "tokens": tokens, **(difference.as_dict() if difference else {})}
        tell(json.dumps(found, allow_nan=False))
    elif difference is None:
        tell(_identical(tokens))
    else:
        for line in difference.lines():
            tell(line)
    return int(difference is not None)


class _Replay:
    """The replies of one transcript, one after the other, on one engine.

    The cache follows its recorded history: cells that were kept are kept. If the record says that cells were decoded which
    this engine still has, the recorded process had lost them (it was restarted), so the model is loaded again.
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
        """The first difference, or None, and how many tokens were identical.

        Raises:
            ReplayError, ModelError, EngineError: the replay failed.
        """
        if not self._replies:
            raise ReplayError("this transcript contains no reply with tokens")
        for node in self._replies:
            difference = self._regenerate(node)
            if difference is not None:
                return difference, self._tokens
            if len(self._replies) > 1:
                self._tell(f"node {node.number}: {_identical(len(node.tokens))}")
        return None, self._tokens

    # --- the model ---------------------------------------------------------------------------------------------------

    def _load(self, node: Node, start: Start) -> None:
        """Loads the recorded model in the recorded way, unless it is loaded with just the cells that were kept."""
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
            self._tell(f"a different model file: {spec.sha256[:16]} now, {start.model.sha256[:16]} recorded")

    def _most_threads(self, start: Start) -> Start:
        """The start to load the model for: the one with the most threads, if a reply with fewer can continue on its cells.

        On a busy machine replies start with fewer threads than the model was loaded with. Loading it again for each of them
        would also compute the cells again, with a different number of threads.
        """
        alike = (other.start for other in self._replies if other.start is not None and _is_alike(other.start, start))
        most = max(alike, key=lambda other: other.threads)
        batch = threads_of_batches(start.threads, most.threads, most.threads_batch)
        return most if batch == start.threads_batch else start

    def _spec_for(self, start: Start) -> ModelSpec:
        """The model as it was recorded; flags override the record."""
        given = {name for name, origin in self._config.origin.items() if origin == FLAG}
        name: str | None = start.model.name
        if "model" in given:
            name = self._config.model
        elif name not in catalogue.load().entries:
            raise ReplayError(
                f"the transcript's model {name!r} is not in the catalogue",
                f"pass its file with --model, for example {start.model.path}",
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
            raise ReplayError(f"the transcript is inconsistent: {error}") from None
        return msgspec.structs.replace(spec, **wanted)

    # --- a reply -----------------------------------------------------------------------------------------------------

    def _regenerate(self, node: Node) -> Difference | None:
        """Generates one reply again. After a record that differs it continues, up to the first token that differs."""
        start = node.start
        assert start is not None
        self._load(node, start)
        known = shapes_of_prompt(self._transcript.conversation, node.number)
        request, done = self._request(node, start, known)
        compared = ReplyComparison(node, self._recorded_tokens(node), done)
        for event in self._events(self._engine.send(request)):
            if not compared.take(event):
                break
        self._tokens += compared.identical
        self._cells = [*request.ids, *node.tokens.ids[:-1]]
        return difference_of(node, request.ids, list(known) if known else None, self._fixed_threads, compared)

    @property
    def _fixed_threads(self) -> int:
        """The threads that a flag asks for, whatever is on record; 0: it does not."""
        return self._spec.threads if self._spec is not None and self._config.origin["threads"] == FLAG else 0

    def _recorded_tokens(self, node: Node) -> Iterator[Token]:
        return (record for record in self._transcript.records(node.number) if isinstance(record, Token))

    def _request(self, node: Node, start: Start, shapes: list[Shape] | None) -> tuple[Generate, int]:
        """The recorded request, with a script of what was steered while it ran: knobs, stops, threads and forced tokens.

        And the first step.
        """
        assert self._spec is not None
        if not node.settings:
            raise ReplayError(f"node {node.number} has no recorded settings")
        fixed = self._fixed_threads
        shapes = [Shape(shape.rows, fixed or shape.threads) for shape in shapes or ()]
        first = next(self._recorded_tokens(node))
        step = done = first.step
        length = limit(node, done)
        # Threads named in a script are fixed: the engine does not reduce them on a busy machine.
        script = [Scripted(done, threads=fixed or start.threads)]
        counts: list[tuple[int, int]] = []
        for record in self._transcript.records(node.number):
            if isinstance(record, SettingsRecord) and record.number != node.settings[0].number:
                ends = _ends(record, length)
                threads = fixed or record.threads
                script.append(
                    Scripted(
                        step, samplers=record.samplers, conditions=ends, threads=threads, constraint=record.constraint
                    )
                )
            elif isinstance(record, Token):
                if record.forced:
                    script.append(Scripted(record.step, id=record.id))
                counts.append((len(record.candidates), record.rank))
                step = record.step + 1
        request = Generate(
            ids=self._transcript.conversation.prompt(node.number),
            samplers=node.settings[0].samplers,
            conditions=_ends(node.settings[0], length),
            seed=start.seed,
            done=done,
            raw=start.raw,
            candidates=min(max(wanted_candidates(counts), 1), _CANDIDATES),
            shapes=shapes,
            rebuild_exactly=bool(shapes),
            script=tuple(script),
            keep_logits=False,
            state=first.state,
            constraint=node.settings[0].constraint,
            constraint_begun=node.settings[0].constraint_begun,
        )
        return request, done

    def _events(self, number: int) -> Iterator[Event]:
        """The engine's answers to a command, as they come.

        Raises:
            EngineError: the command failed, or the engine died.
        """
        while self._engine.alive:
            for answered, event in self._engine.receive(0.5):
                if isinstance(event, Failed):
                    raise EngineError(event.kind, event.message, event.hint)
                if answered == number:
                    yield event
            sleep(_GATHER)
        raise EngineError("engine", "the engine process has stopped")


def _identical(tokens: int) -> str:
    return f"identical, {tokens} token{'' if tokens == 1 else 's'}"


def _ends(settings: SettingsRecord, length: Length) -> tuple[Condition, ...]:
    """What can end the reply under these settings; nothing pauses it, and a time is over when it was over then."""
    lasting = (c for c in settings.conditions if c.action != "pause" and not is_timed(c))
    return (*lasting, length)


def _is_alike(one: Start, other: Start) -> bool:
    """The same model was loaded in the same way, apart from threads."""
    return (one.model, one.ubatch, one.kv_type) == (other.model, other.ubatch, other.kv_type)


def _common(cells: list[int], ids: list[int]) -> int:
    """How many cells a prompt can reuse; its last token is always decoded."""
    pairs = zip(cells, ids[:-1], strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
