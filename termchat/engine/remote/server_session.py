"""One model of a server: all that a command can need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from termchat.decoding.records import SettingsRecord, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.abilities import LLAMA_SERVER
from termchat.engine.llama import native
from termchat.engine.llama.cells import Aborted
from termchat.engine.llama.model_queries import ModelQueries
from termchat.engine.llama.scheduler import Poll, Scheduler
from termchat.engine.llama.scoring import Scorer
from termchat.engine.port import (
    EngineError,
    Event,
    Explain,
    Explained,
    Generate,
    Inspect,
    Kept,
    ModelInfo,
    ModelSpec,
    Noted,
    Remark,
    Score,
    Scored,
)
from termchat.engine.remote import proof
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.llama_server import LlamaServer
from termchat.engine.remote.served import quantization_of
from termchat.engine.remote.served_vocabulary import REFUSED, info_of
from termchat.engine.remote.server_cells import ServerCells
from termchat.engine.remote.server_source import ServerSource
from termchat.engine.remote.server_vocabulary import ServerVocabulary

Look = tuple[int, tuple[float, int] | None]
LOADING = 1800.0
"""Seconds that a server may take to load its model."""
_LOOK = 0.5


class ServerSession(ModelQueries):
    """A connection to a server, and what was learnt of its model.

    Raises:
        EngineError: it cannot be reached, wants a key, or is no llama-server.
    """

    model: ServerVocabulary
    cache: ServerCells
    larger_context = LLAMA_SERVER.larger_context

    refused: ClassVar[dict[type | str, str]] = REFUSED

    def __init__(self, client: HttpClient, spec: ModelSpec, progress: Callable[[float], None]) -> None:
        self._client = client
        self._server, self.model, context = connected(client, spec, progress)
        self.cache = ServerCells(self._server, self.model, context)
        super().__init__(self.model, self.cache)
        self._kept_as: Look | None = None
        self._group: Scheduler | None = None
        self._told_slow: set[str] = set()
        progress(1.0)

    def close(self) -> None:
        self._client.close()
        self.model.close()

    def build_info(self) -> ModelInfo:
        model, cells, found = self.model, self.cache, self._server.model
        return info_of(
            model,
            LLAMA_SERVER,
            device=self._client.shown,
            context=cells.capacity,
            size=found.size,
            parameters=found.n_params,
            has_switch=self.has_switch,
            remarks=remarks_of(model.spec),
            prefill_batch=cells.batch_size,
        )

    def generate(
        self, command: Generate, poll: Poll, wait: Callable[[], None], arrived: float
    ) -> Iterator[list[Event]]:
        """Yield the events of one reply or many; see `Scheduler.records`."""
        cells, scorer, group = self.cache, self._scorer, command.group
        cells.abort.clear()
        scheduler = Scheduler(ServerSource(cells, command, scorer.read_row), command, arrived, self.larger_context)
        if group is not None:
            self._group = scheduler
            yield from scheduler.records(poll, wait)
            return
        reply = command.replies[0]
        scorer.follow_reply(reply.ids, reply.done, keep=command.keep_logits)
        self._kept_as = self._look(reply.samplers)
        for events in scheduler.records(poll, wait):
            yield events
            for event in events:
                if isinstance(event, Token):
                    scorer.keep_row(event.id)
                    yield [*self._slow()]
                elif isinstance(event, SettingsRecord) and self._look(event.samplers) != self._kept_as:
                    self._kept_as = None

    def keep_reply(self, walk: int) -> Kept:
        """See `Keep`: the server finds the slot that has read the ids of the walk by itself.

        Raises:
            EngineError: there is no such walk.
        """
        run = self._group.runs.get(walk) if self._group is not None else None
        if run is None:
            raise EngineError("walks", f"there is no walk {walk}", "")
        self.cache.trust(run.ids[:-1])
        return Kept(len(run.ids) - 1, 0.0)

    def _slow(self) -> Iterator[Noted]:
        """Says once, for each reason, that the server has to list all its tokens for every one that is drawn."""
        why, n_vocab = self.cache.slowed_by, self.model.n_vocab
        if why and why not in self._told_slow:
            self._told_slow.add(why)
            what = f"{why} needs all {n_vocab:,} tokens of the server for each one that is drawn, which is slow"
            yield Noted(Remark(what, "let top_k, top_p or min_p come first, or use a model on this machine"))

    def inspect_step(self, command: Inspect, *, alone: bool, wanted: Callable[[], bool]) -> tuple[Token, bool]:
        self._look_as(0, command.samplers)
        return super().inspect_step(command, alone=alone, wanted=wanted)

    def explain_step(self, command: Explain, *, alone: bool, wanted: Callable[[], bool]) -> Explained:
        self._look_as(0, command.samplers)
        return super().explain_step(command, alone=alone, wanted=wanted)

    def score_reply(
        self, command: Score, *, alone: bool, progress: Callable[[int, int], None], wanted: Callable[[], bool]
    ) -> Scored:
        look = self._look(command.samplers) if command.constraint is None else None
        if look is None or look != self._kept_as:
            # The rows at hand do not hold what these settings look at.
            self._scorer, self._kept_as = Scorer(self.cache), look
        self._look_as(0 if look is None else look[0], command.samplers)
        return super().score_reply(command, alone=alone, progress=progress, wanted=wanted)

    def _look(self, samplers: SamplerSettings) -> Look | None:
        """How many candidates every row needs for these settings, and the penalties that it was made absolute for; None where
        each row may need others."""
        if not proof.is_by_rank(samplers) or samplers.logit_bias:
            return None
        penalty = (samplers.repeat_penalty, samplers.repeat_last_n) if proof.is_absolute(samplers) else None
        return proof.needed(samplers, self.model.n_vocab, samplers.repeat_last_n), penalty

    def _look_as(self, count: int, samplers: SamplerSettings) -> None:
        """Rows of past positions have so many candidates from now on, 0 for all, and what these samplers need."""
        look = count, samplers if proof.is_absolute(samplers) else None
        if self.cache.aside != look:
            self.cache.aside, self._asked = look, None

    def _compute_logits(
        self, ids: list[int], alone: bool, wanted: Callable[[], bool]
    ) -> tuple[NDArray[np.float32], bool]:
        cells = self.cache
        if alone:
            cells.abort.clear()
        for _ in cells.reading_aside(ids):
            if alone and wanted():
                raise Aborted
        return cells.row_aside(ids), True


def connected(
    client: HttpClient, spec: ModelSpec, progress: Callable[[float], None] = lambda _: None
) -> tuple[LlamaServer, ServerVocabulary, int]:
    """A llama-server, the vocabulary of the model that is asked for, and the tokens of its context; waits until it has loaded
    the model.

    Raises:
        EngineError: it cannot be reached, wants a key, or is no llama-server.
    """
    native.start()
    server = LlamaServer(client, spec.path)
    until = monotonic() + LOADING
    while not server.is_ready():
        progress(0.0)
        if monotonic() > until:
            raise EngineError("server", f"{server.client.shown} is still loading its model", "see the server's log")
        sleep(_LOOK)
    found, props = server.find(), server.props()
    # Records call it as it was asked for, or else as the server does.
    name = found.id.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gguf")
    name = name if spec.name in ("", spec.engine.shown) else spec.name
    quantization = quantization_of(found.ftype)
    spec = msgspec.structs.replace(spec, name=name, path=spec.path or found.id, quantization=quantization, kv_type="")
    model = ServerVocabulary(server, spec, props)
    model.identify(f"{found.n_vocab} {found.n_params} {found.size} {found.ftype}")
    return server, model, props.default_generation_settings.n_ctx


def remarks_of(spec: ModelSpec) -> list[Remark]:
    """What a person should know who asked for a server's model like this."""
    if not spec.said:
        return []
    return [
        Remark(f"{', '.join(spec.said)}: the server's own affair, and left out", "set it where the server is started")
    ]
