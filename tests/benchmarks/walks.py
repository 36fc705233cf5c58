"""Many walks, fully observed, against bare batches of as many rows: `python -m tests.benchmarks.walks`.

Both run in one process on one model, step by step in turns: a step of the walks (their batch, every stage observed, 20
candidates each, records as msgpack through a pipe to another process) and a bare `llama_decode` of the same rows in a context
of its own.
Then how long 16 walks take to their first tokens, against one reply.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from statistics import median, quantiles
from time import perf_counter
from typing import Any

from termchat.decoding.conditions import IgnoreEnd
from termchat.decoding.group import Group
from termchat.decoding.records import Token
from termchat.decoding.samplers import Tuning
from termchat.engine import wire
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.native import LIB
from termchat.engine.port import Event, Generate, ModelSpec, ReplyRequest
from termchat.models import catalogue
from tests.asking import ask_for, events_of

CONTEXT = 8192
WARM = 3
"""Steps that do not count."""
STORY = "Once upon a time, in a village far away from the sea, there lived an old woman who had a cat and a boat. "


class Pipe:
    """To a process that reads and forgets."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert self._process.stdin is not None
        self._descriptor = self._process.stdin.fileno()

    def send(self, events: list[Event]) -> None:
        """As the worker does it."""
        data = b"".join(wire.frame(1, event) for event in events)
        while data:
            data = data[os.write(self._descriptor, data) :]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Bare:
    """A context in which a batch has a row of each sequence."""

    def __init__(self, session: ModelSession, threads: int) -> None:
        params = LIB.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max = CONTEXT, 64, 64, 64
        params.kv_unified, params.no_perf = True, True
        params.n_threads, params.n_threads_batch = 1, threads
        self._context = LIB.llama_init_from_model(session.model.pointer, params)
        self._memory = LIB.llama_get_memory(self._context)
        self._batch: Any = LIB.llama_batch_init(64, 0, 1)

    def begin(self, ids: list[int], count: int) -> None:
        LIB.llama_memory_clear(self._memory, True)
        for at in range(0, len(ids), 63):
            self._decode([(0, at + i, token) for i, token in enumerate(ids[at : at + 63])])
        for number in range(1, count + 1):
            LIB.llama_memory_seq_cp(self._memory, 0, number, 0, -1)

    def step(self, tokens: list[int], at: int) -> None:
        self._decode([(number, at, token) for number, token in enumerate(tokens, 1)])

    def _decode(self, rows: list[tuple[int, int, int]]) -> None:
        batch = self._batch
        batch.n_tokens = len(rows)
        for i, (sequence, position, token) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, 1
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
        assert LIB.llama_decode(self._context, batch) == 0
        LIB.llama_get_logits(self._context)

    def close(self) -> None:
        LIB.llama_batch_free(self._batch)
        LIB.llama_free(self._context)


def walk(session: ModelSession, ids: list[int], count: int, tokens: int, seed: int) -> Iterator[list[Event]]:
    tuning = Tuning(max_tokens=tokens)
    rules = (*tuning.conditions(), IgnoreEnd())
    walks = [ReplyRequest(ids, tuning.samplers(), rules, seed + i, i) for i in range(count)]
    request = Generate(walks, Group(1, "walks", count))
    return session.generate(request, lambda: None, lambda: None, perf_counter())


def steps(
    session: ModelSession, bare: Bare, pipe: Pipe, ids: list[int], count: int, tokens: int
) -> list[tuple[float, float]]:
    """Seconds of each step, of the walks and bare, alternating who goes first."""
    found: list[tuple[float, float]] = []
    session.cache.rewind_to(0)
    bare.begin(ids, count)
    events = walk(session, ids, count, tokens, 1)
    drawn: list[int] = []
    while len(drawn) < count:
        said = next(events)
        pipe.send(said)
        drawn += [event.id for event in said if isinstance(event, Token)]

    def ours() -> tuple[float, list[int]]:
        begun = perf_counter()
        said = next(events)
        pipe.send(said)
        return perf_counter() - begun, [event.id for event in said if isinstance(event, Token)]

    def yardstick(at: int) -> float:
        begun = perf_counter()
        bare.step(drawn, at)
        return perf_counter() - begun

    for step in range(tokens - 1):
        other = yardstick(len(ids) + step) if step % 2 else 0.0
        mine, following = ours()
        found.append((mine, other or yardstick(len(ids) + step)))
        drawn = following
    for said in events:
        pipe.send(said)
    return found[WARM:]


def first_tokens(session: ModelSession, pipe: Pipe, ids: list[int], count: int, seed: int) -> float:
    """Seconds until each walk's first token is written."""
    session.cache.rewind_to(0)
    begun, left = perf_counter(), count
    events = walk(session, ids, count, 2, seed)
    while left:
        said = next(events)
        pipe.send(said)
        left -= sum(isinstance(event, Token) for event in said)
    took = perf_counter() - begun
    for said in events:
        pipe.send(said)
    return took


def first_token(session: ModelSession, pipe: Pipe, ids: list[int], seed: int) -> float:
    """Seconds until the first token of a single reply is written."""
    session.cache.rewind_to(0)
    tuning = Tuning(max_tokens=1)
    begun = perf_counter()
    request = ask_for(ids, tuning.samplers(), tuning.conditions(), seed, keep_logits=False)
    for record in events_of(session, request):
        pipe.send([record])
        if isinstance(record, Token):
            return perf_counter() - begun
    raise AssertionError


def spread(values: list[float]) -> str:
    low, middle, high = quantiles(values, n=4)
    return f"{middle:.3f}  (quartiles {low:.3f}–{high:.3f}, {len(values)} pairs)"


def arguments(what: str | None, *, tokens: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--tokens", type=int, default=tokens)
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--prompt", type=int, default=60)
    return parser


def loaded(args: argparse.Namespace) -> Iterator[tuple[int, ModelSession, Bare, list[int]]]:
    """The model for each number of threads that was asked for, that number first, and the ids of the prompt."""
    sys.setswitchinterval(0.0005)
    path = str(catalogue.resolve(None)[1])
    for threads in args.threads or sorted({1, os.cpu_count() or 1}):
        spec = ModelSpec(path, "bench", context=CONTEXT, threads=threads, threads_batch=threads, quantization="Q4_1")
        session = ModelSession(spec, lambda _: None)
        bare = Bare(session, threads)
        yield threads, session, bare, session.model.tokenize(STORY * 20, special=False)[: args.prompt]
        bare.close()
        session.close()


def main() -> None:
    """Runs all and prints a table."""
    parser = arguments(__doc__, tokens=40)
    parser.add_argument("--walks", type=int, action="append")
    parser.add_argument("--pairs", type=int, default=15)
    args = parser.parse_args()
    pipe = Pipe()
    for threads, session, bare, ids in loaded(args):
        print(f"{threads} thread{'s' * (threads > 1)}, prompt of {len(ids)}, {args.tokens} tokens a walk")
        for count in args.walks or (2, 4, 8, 16, 32):
            times = steps(session, bare, pipe, ids, count, args.tokens)
            ours, other = (median(column) for column in zip(*times, strict=True))
            print(
                f"  {count:2} walks  termchat {count / ours:6.1f}/s  bare {count / other:6.1f}/s  "
                f"{1e3 * (ours - other):5.2f} ms more a step  ratio {spread([b / a for a, b in times])}",
                flush=True,
            )
        ratios = []
        for i in range(args.pairs):
            one = first_token(session, pipe, ids, i) if i % 2 else 0.0
            many = first_tokens(session, pipe, ids, 16, i)
            ratios.append(many / (one or first_token(session, pipe, ids, i)))
        print(f"  time to the first tokens of 16 walks against that of one reply: {spread(ratios)}", flush=True)
    pipe.close()


if __name__ == "__main__":
    main()
