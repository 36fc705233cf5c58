"""Generates the replies of a transcript again on their model and compares every computed field (see `comparison`).

Walks that were made together are made together again, or one of them alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from time import sleep
from typing import Any

import msgspec

from termchat import paths
from termchat.chat.opening import choose_elsewhere, choose_model
from termchat.commands.comparison import ReplyComparison, is_cut_off, moved_apart
from termchat.commands.difference import Difference, SearchDifference, difference_of, node_name, search_difference
from termchat.commands.replay_requests import Prompt, Replayed, replayed, request_replies
from termchat.config.fields import OPTIONS
from termchat.config.origins import FLAG
from termchat.config.settings import Settings
from termchat.conversation.batch_shapes import shapes_of_prompt
from termchat.conversation.transcripts.importing import open_readable
from termchat.conversation.transcripts.jsonl_reader import Transcript, read
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.conversation.tree import Node
from termchat.decoding.conditions import Length
from termchat.decoding.records import Beams, Failed, Finished, Prefill, SettingsRecord, Shape, Start, Token
from termchat.decoding.setting import SettingError
from termchat.engine.abilities import find_refusal
from termchat.engine.make import make_engine
from termchat.engine.port import (
    BatchesMeasured,
    Cancel,
    Engine,
    EngineError,
    Event,
    Generate,
    Keep,
    Load,
    Loaded,
    MeasureBatches,
    ModelInfo,
    ModelSpec,
    Paused,
    Step,
    is_last,
    threads_of_batches,
)
from termchat.models import catalogue
from termchat.models.disk.discovery import identified
from termchat.models.errors import ModelError
from termchat.text import sanitize

_GATHER = 0.04
"""Seconds between reads from the engine: waking for every token would take a core when the engine needs all of them."""

_ROOM = 256
"""The context is a multiple of this many cells, with at least as many free."""

Tell = Callable[[str], None]


class ReplayError(Exception):
    """A transcript cannot be replayed. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def replay(
    config: Settings,
    path: Path,
    tell: Tell,
    complain: Tell,
    *,
    as_json: bool = False,
    walk: int | None = None,
    anywhere: bool = False,
) -> int:
    """Generates every reply of a transcript again and reports on it, in JSON as one object; returns the exit code. With the
    number of a `walk` only that one of each group, alone.

    0: everything is identical. 1: a token differs, or the replay failed. Flags in `config` override the record; its other
    settings count only where the record says nothing. `anywhere` all that is not the reply's own is as configured here, and
    the tokens are compared, not their numbers: a near tie that turns is no difference, and the recorded token is taken.
    """
    engine = make_engine(paths.log_file())
    try:
        with open_readable(path) as file:
            transcript = read(file)
        note: Tell = (lambda _: None) if as_json else (lambda line: tell(sanitize(line)))
        again = _Replay(config, transcript, engine, note, walk, anywhere=anywhere)
        difference = again.run()
    except (TranscriptError, ReplayError, ModelError, EngineError) as error:
        complain(sanitize(f"termchat: {error.message}"))
        if error.hint:
            complain(sanitize(f"  {error.hint}"))
        return 1
    finally:
        engine.close()
    if as_json:
        found = {"identical": difference is None, **again.counts(), **(difference.as_dict() if difference else {})}
        tell(json.dumps(found, allow_nan=False))
    else:
        if difference is None or anywhere:
            tell(again.verdict())
        for line in difference.lines() if difference is not None else ():
            tell(line)
    return int(difference is not None)


class _Replay:
    """The replies of one transcript, one after the other, on one engine.

    The cache follows its recorded history: cells that were kept are kept. If the record says that cells were decoded which
    this engine still has, the recorded process had lost them (it was restarted), so the model is loaded again.
    """

    def __init__(
        self,
        config: Settings,
        transcript: Transcript,
        engine: Engine,
        tell: Tell,
        walk: int | None = None,
        *,
        anywhere: bool = False,
    ) -> None:
        self._config, self._transcript, self._engine, self._tell = config, transcript, engine, tell
        self._walk, self._anywhere = walk, anywhere
        nodes = sorted(transcript.conversation.nodes.items())
        self._replies = [node for _, node in nodes if node.start is not None and len(node.tokens)]
        self._spec: ModelSpec | None = None
        self._found: dict[tuple[str | None, str], ModelSpec] = {}
        self._told: set[str] = set()
        self._cells: list[int] = []
        self._made: list[Node] = []
        """The replies that were generated last, together or alone; the cells are those that they have in common."""
        self._compared: list[ReplyComparison] = []

    def run(self) -> Difference | SearchDifference | None:
        """The first difference, or None.

        Raises:
            ReplayError, ModelError, EngineError: the replay failed.
        """
        if not self._replies:
            raise ReplayError("this transcript contains no reply with tokens")
        self._leave_out_drawn_elsewhere()
        wanted = self._wanted()
        for nodes in wanted:
            difference = self._again(nodes)
            if difference is not None:
                return difference
            if sum(map(len, wanted)) > 1:
                for node in nodes:
                    self._tell(f"{_name(node)}: {_identical(len(node.tokens))}")
        return None

    def counts(self) -> dict[str, int]:
        """How many tokens were identical; anywhere, also of how many, and how many near ties there were and turned."""
        tokens, near_ties, turned = (
            sum(getattr(one, name) for one in self._compared) for name in ("identical", "near_ties", "turned")
        )
        if not self._anywhere:
            return {"tokens": tokens}
        recorded = sum(len(node.tokens) for nodes in self._wanted() for node in nodes)
        return {"tokens": tokens, "recorded": recorded, "near_ties": near_ties, "turned": turned}

    def verdict(self) -> str:
        """The counts in one line."""
        counts = self.counts()
        if not self._anywhere:
            return _identical(counts["tokens"])
        near, turned = counts["near_ties"], counts["turned"]
        ties = f"{near} near tie{'' if near == 1 else 's'}"
        more = f", {turned} turned here and {'was' if turned == 1 else 'were'} pinned" if turned else ""
        return f"same tokens: {counts['tokens']:,} of {counts['recorded']:,} · {ties}{more}"

    @property
    def _on_server(self) -> bool:
        return self._config.address.is_server

    def _leave_out_drawn_elsewhere(self) -> None:
        """Replies that a server drew with random numbers of its own are left out, and those that a server computed on an engine
        that is none, and the other way round: their numbers are of another kind.

        Raises:
            ReplayError: there are no others.
        """
        elsewhere = [node for node in self._replies if node.start is not None and not node.start.dice]
        self._replies = [node for node in self._replies if node not in elsewhere]
        for node in elsewhere if self._replies else ():
            self._tell(f"{_name(node)}: not replayed, a server drew it with random numbers of its own")
        if not self._replies:
            raise ReplayError(
                "a server drew these replies with random numbers of its own, so they cannot be replayed",
                "Only replies that were drawn by termchat can; termchat compare shows where two replies differ.",
            )
        other = [node for node in self._replies if _start(node).is_served != self._on_server]
        self._replies = [node for node in self._replies if node not in other]
        by, where = ("termchat's worker", "here") if self._on_server else ("a server", "with its name or URL")
        for node in other if self._replies else ():
            self._tell(f"{_name(node)}: not replayed, {by} computed it; pass --engine {where}")
        if not self._replies:
            raise ReplayError(
                f"{by} computed this reply, so it cannot be replayed on {self._config.address.shown}",
                f"Pass --engine {where} to replay it there.",
            )
        searched = [node for node in self._replies if self._anywhere and _is_searched(node)]
        self._replies = [node for node in self._replies if node not in searched]
        for node in searched if self._replies else ():
            self._tell(f"{_name(node)}: not replayed, a beam search found it and drew no token")
        if not self._replies:
            raise ReplayError(
                "a beam search found these replies and drew no token, so it has no near ties to pin",
                "Leave out --anywhere.",
            )

    def _wanted(self) -> list[list[Node]]:
        """What is generated again, in order: replies by themselves, and together those that began together; a walk that joined
        later is as good alone.

        Raises:
            ReplayError: there is no such walk.
        """
        if self._walk is not None:
            wanted = [[node] for node in self._replies if node.walk == self._walk and not _is_searched(node)]
            if not wanted:
                raise ReplayError(
                    f"there is no walk {self._walk} that can be replayed alone",
                    "Walks are counted from 0, and those of a beam search are replayed together: leave out --walk.",
                )
            return wanted
        if self._anywhere:
            return [[node] for node in self._replies]
        begun: dict[tuple[int, ...], list[Node]] = {}
        for node in self._replies:
            at = (node.number,) if node.group is None else (-1, node.group.number, node.parent or 0, node.at)
            begun.setdefault(at, []).append(node)
        return list(begun.values())

    # --- the model ---------------------------------------------------------------------------------------------------

    def _load(self, node: Node, start: Start) -> None:
        """Loads the recorded model in the recorded way, unless it is loaded with just the cells that were kept."""
        spec = self._spec_for(self._most_threads(start))
        offered = _common(self._cells, self._transcript.conversation.list_prompt(node.number))
        lost = node.prefill is not None and node.prefill.reused < offered
        if spec == self._spec and (self._anywhere or not lost):
            return
        number = self._engine.send(Load(spec))
        for event in self._events(number):
            if isinstance(event, Loaded):
                why = find_refusal(
                    "seeds", event.info.abilities.list_features(), event.info.abilities, spec.engine.shown
                )
                if why is not None:
                    raise ReplayError(*why)
                self._spec, self._cells, self._made = spec, [], []
                self._measure(event.info)
                self._tell_of_another(event.info.sha256, start.model.sha256)
                break

    def _tell_of_another(self, sha256: str, recorded: str) -> None:
        if sha256 != recorded and sha256 and recorded not in self._told:
            self._told.add(recorded)
            self._tell(f"a different model file: {sha256[:16]} now, {recorded[:16]} recorded")

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
        key = name, start.model.sha256
        address = self._config.address
        if "model" in given and not address.url:
            name = self._config.model
        elif address.url:
            name = address.model or (name if address.scheme == "ssh" else "")  # "": what the server has
        elif name not in catalogue.load().entries and key not in self._found:
            file = identified(start.model.sha256, self._config.model_folders)
            if file is None:
                raise ReplayError(
                    f"the transcript's model {name!r} is neither in the catalogue nor on this disk",
                    f"pass its file with --model, for example {start.model.path}",
                )
            self._found[key] = choose_model(self._config, str(file)).spec
        if key not in self._found:
            there = msgspec.structs.replace(address, model=name or "")
            choice = choose_elsewhere(self._config, there) if address.url else choose_model(self._config, name)
            self._found[key] = choice.spec
        spec = self._found[key]
        if self._on_server:  # how it runs is the server's own affair
            return spec
        recorded: dict[str, Any] = {}
        if not self._anywhere:
            recorded |= {
                "threads": start.threads,
                "threads_batch": 0 if "threads" in given else start.threads_batch,
                "prefill_batch": start.ubatch,
                "kv_type": start.kv_type,
                "fast_prefill": False,
            }
        chat = self._transcript.conversation
        longest = max(len(chat.list_prompt(nodes[0].number)) + sum(map(_most_cells, nodes)) for nodes in self._wanted())
        recorded["context"] = max(spec.context, (longest // _ROOM + 2) * _ROOM)
        try:
            wanted = {name: OPTIONS[name].check(value) for name, value in recorded.items() if name not in given}
        except SettingError as error:
            raise ReplayError(f"the transcript is inconsistent: {error}") from None
        return msgspec.structs.replace(spec, said=(*spec.said, *wanted) if address.url else (), **wanted)

    def _measure(self, model: ModelInfo) -> None:
        """Have the engine measure which rows are alike, as it did before walks, beams and drafts were recorded."""
        together = any(node.group is not None or node.tokens.drafts is not None for node in self._replies)
        if not together or not model.kv_type or not model.can_rewind or model.measured is not None:
            return
        for event in self._events(self._engine.send(MeasureBatches(needed=True))):
            if isinstance(event, BatchesMeasured):
                return

    # --- a reply -----------------------------------------------------------------------------------------------------

    def _again(self, nodes: list[Node]) -> Difference | SearchDifference | None:
        """Generates a reply again, or several together. After a record that differs it continues, up to the first token that
        differs."""
        self._load(nodes[0], _start(nodes[0]))
        self._keep_for(nodes[0])
        known = None if self._anywhere else shapes_of_prompt(self._transcript.conversation, nodes[0].number)
        fixed = self._fixed_threads
        prompt = Prompt(
            self._transcript.conversation.list_prompt(nodes[0].number),
            [Shape(shape.rows, fixed or shape.threads) for shape in known or ()],
        )
        replies = [self._replayed(node) for node in nodes]
        compared = {
            node.walk: ReplyComparison(node, self._recorded_tokens(node), reply.first.step, anywhere=self._anywhere)
            for node, reply in zip(nodes, replies, strict=True)
        }
        group = nodes[0].group
        if group is not None and _is_searched(nodes[0]):
            cut_at = len(nodes[0].beams) if is_cut_off(nodes[0]) else 0
            steps = self._run(request_replies(prompt, replies, group), compared, cut_at)
        elif group is not None and len(nodes) > 1:
            steps = self._run(request_replies(prompt, replies, group), compared)
        else:
            request = request_replies(prompt, replies)
            if self._anywhere:
                change = self._measure_change(request, nodes[0])
                request = msgspec.structs.replace(request, largest_change=change)
            steps = self._run(request, {None: compared[nodes[0].walk]})
        self._compared += compared.values()
        self._made = nodes
        self._cells = prompt.ids if len(nodes) > 1 else [*prompt.ids, *nodes[0].tokens.ids[:-1]]
        found = (
            difference_of(node, prompt.ids, list(known) if known else None, fixed, compared[node.walk])
            for node in nodes
        )
        difference = search_difference(nodes[0], steps) or next((one for one in found if one is not None), None)
        if difference is None and not all(one.over for one in compared.values()):
            raise ReplayError(f"{_name(nodes[0])} was generated again only in part")
        return difference

    def _run(
        self,
        request: Generate,
        compared: dict[int | None, ReplyComparison],
        cut_at: int = 0,
    ) -> list[Beams]:
        """Gives the comparisons, by walk, what the engine makes, up to the first token that differs; returns the steps of a
        search, which takes no more than `cut_at` if that is not 0."""
        steps: list[Beams] = []
        number = self._engine.send(request)
        for _ in range(cut_at):
            self._engine.send(Step())
        for event in self._events(number):
            if isinstance(event, Beams):
                steps.append(event)
            elif isinstance(event, Paused) and len(steps) == cut_at:
                self._engine.send(Cancel())
            elif isinstance(event, (Start, SettingsRecord, Prefill, Token, Finished)):
                goes_on = compared[event.walk].take(event) if event.walk in compared else True
                if not goes_on and not isinstance(event, Finished):
                    break
            if is_last(event):
                break
        return steps

    def _measure_change(self, request: Generate, node: Node) -> float | None:
        """Measure how far the logits of recorded candidates move apart here, with every recorded token forced.

        None if only threads or batches differ from the record: near ties are known for those.
        """
        start, recorded = _start(node), self._recorded_tokens(node)
        [reply] = request.replies
        script = tuple(msgspec.structs.replace(entry, pinned=None) for entry in reply.script)
        forced = msgspec.structs.replace(request, replies=[msgspec.structs.replace(reply, script=script)])
        change = 0.0
        for event in self._events(self._engine.send(forced)):
            if isinstance(event, Start) and (event.kv_type, event.llama_cpp) == (start.kv_type, start.llama_cpp):
                if event.largest_change is not None or start.largest_change is not None:
                    self._engine.send(Cancel())
                    return None
            elif isinstance(event, Token):
                change = max(change, moved_apart(next(recorded), event))
            if is_last(event):
                break
        return change

    def _keep_for(self, node: Node) -> None:
        """Goes on with the cells of a walk that was made just now, if those on record did."""
        ids = self._transcript.conversation.list_prompt(node.number)
        reused = node.prefill.reused if node.prefill is not None else 0
        if len(self._made) < 2 or reused <= _common(self._cells, ids):
            return
        walks = {walk.walk or 0: [*self._cells, *walk.tokens.ids[:-1]] for walk in self._made}
        kept = max(walks, key=lambda walk: _common(walks[walk], ids))
        for event in self._events(self._engine.send(Keep(kept))):
            if is_last(event):
                break
        self._cells = walks[kept]

    @property
    def _fixed_threads(self) -> int:
        """The threads that a flag asks for, whatever is on record; 0: it does not."""
        return self._spec.threads if self._spec is not None and self._config.origin["threads"] == FLAG else 0

    def _recorded_tokens(self, node: Node) -> Iterator[Token]:
        return (record for record in self._transcript.records(node.number) if isinstance(record, Token))

    def _replayed(self, node: Node) -> Replayed:
        if not node.settings:
            raise ReplayError(f"{_name(node)} has no recorded settings")
        first = next(self._recorded_tokens(node))
        records = self._transcript.records(node.number)
        return replayed(node, first, records, self._fixed_threads, anywhere=self._anywhere)

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


def _name(node: Node) -> str:
    return node_name(node.number, node.walk)


def _start(node: Node) -> Start:
    assert node.start is not None
    return node.start


def _most_cells(node: Node) -> int:
    """Cells that a reply takes beside the prompt's. A search that has room for all its tokens does not share them."""
    beams = node.group.beams if node.group is not None else None
    limits = [c.tokens for record in node.settings[:1] for c in record.conditions if isinstance(c, Length)]
    return len(node.ids) if beams is None else beams.width * max(len(node.beams), *limits, 0)


def _is_searched(node: Node) -> bool:
    """Whether a search with beams found the reply."""
    return node.group is not None and node.group.beams is not None


def _is_alike(one: Start, other: Start) -> bool:
    """The same model was loaded in the same way, apart from threads."""
    return (one.model, one.ubatch, one.kv_type) == (other.model, other.ubatch, other.kv_type)


def _common(cells: list[int], ids: list[int]) -> int:
    """How many cells a prompt can reuse; its last token is always decoded."""
    pairs = zip(cells, ids[:-1], strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
