"""What is promised of a reply, on real model files: `python -m tests.benchmarks.families FILE…`.

A long reply is made with one thread, and beside it the same ids are decoded by llama.cpp alone, the last ones also with two.
Prints a row for each file: how many rows of logits have the same bits as those, how far the records' numbers are from float64
at most, how many tokens of forks are as recorded, where the cells were kept and where they were made again, what `termchat
replay` says, up to how many rows of a batch have the bits of each alone, and of walks how many say that they are exact, and how
many are their seeds alone. Whoever says exact must be.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from termchat.commands.replay import replay
from termchat.config.settings import load
from termchat.decoding.conditions import IgnoreEnd
from termchat.decoding.records import Prefill, Record, Start, Token, to_json
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.softmax import Row
from termchat.engine.port import FirstToken, Generate, ModelSpec, Prefilling, Scripted
from termchat.models.gguf.header import read_header
from tests.asking import ask_for, events_of
from tests.engine.bare_loop import BareContext
from tests.engine.conftest import records, tokens
from tests.engine.float64 import numbers_of
from tests.engine.steered import numbers, shapes_of
from tests.engine.walking import ask, of, walk, walked

TEXT = (
    "The ship sailed on over the wide, quiet water; nobody said a word. At noon the cook came up and asked what day it was, "
    "and the oldest of the sailors answered that the days had stopped counting themselves when the coast went out of sight. "
)
SEED = 7
TUNING = Tuning(temperature=1.0)
LAST = 64
"""Tokens at the end that are decoded with two threads, too, which is slow on a busy machine."""
FORKED = 8
"""Tokens of a fork."""
WALKS, WALKED = 8, 16


class Checked(NamedTuple):
    """A reply in lockstep with llama.cpp alone: rows of logits with the same bits by its threads, and how far the records'
    numbers are from float64 at most; `wrong` ids or ranks."""

    stream: list[Record]
    equal: list[int]
    logprob: float
    entropy: float
    probability: float
    wrong: int


def asked(ids: list[int], count: int, **more: object) -> Generate:
    conditions = (*TUNING.turn_knobs({"max_tokens": count}).conditions(), IgnoreEnd())
    return ask_for(ids, TUNING.samplers(), conditions, SEED, **more)  # type: ignore[arg-type]


def check_reply(session: ModelSession, ids: list[int], count: int) -> Checked:
    """Make the reply and look at each row of logits before it is written over."""
    stream: list[Record] = []
    equal = [0, 0]
    logprob = entropy = probability = 0.0
    wrong = 0
    with closing(BareContext(session)) as bare:
        rows: list[Row] = []
        for record in events_of(session, asked(ids, count)):
            if isinstance(record, Prefilling | FirstToken):
                continue
            stream.append(record)  # type: ignore[arg-type]
            if isinstance(record, Prefill):
                rows = [[*bare.read(ids, record.shapes)][-1]]
            elif isinstance(record, Token):
                logits = session.cache.read_logits()
                for at, row in enumerate(rows):
                    equal[at] += np.array_equal(row, logits)
                true = numbers_of(rows[0], record, TUNING.samplers(), SEED, session.model.end_ids)
                wrong += (record.id, record.rank) != (true.id, true.rank)
                logprob = max(logprob, abs(record.logprob - true.logprob))
                entropy = max(entropy, abs(record.entropy - true.entropy))
                probability = max(probability, abs(record.probability - true.probability))
                two = [bare.decode_with(2, record.position, record.id)] if record.step >= count - LAST - 1 else []
                rows = [bare.decode([(0, record.position, record.id)])[0], *two]
    return Checked(stream, equal, logprob, entropy, probability, wrong)


def count_forked(session: ModelSession, stream: list[Record], ids: list[int], *, kept: bool, threads: int) -> str:
    """Go on from places of the reply, and count the tokens that are as recorded."""
    expected, same = numbers(stream), 0
    places = range(len(expected) - FORKED, 0, -len(expected) // 3)
    for at in places:
        if not kept:
            session.cache.rewind_to(0)
        path = [*ids, *(token.id for token in tokens(stream)[:at])]
        more = {"done": at, "shapes": shapes_of(stream, at), "rebuild_exactly": True}
        script = (Scripted(at, threads=threads),) if threads > 1 else ()
        fork = records(session, asked(path, at + FORKED, script=script, **more))
        same += sum(one == other for one, other in zip(numbers(fork), expected[at : at + FORKED], strict=True))
    return f"{same} of {FORKED * len(places)}"


def count_walks(session: ModelSession, ids: list[int]) -> str:
    """Walk, and count those that say that they are exact, and those with the ids and logits of their seeds alone."""
    tuning = TUNING.turn_knobs({"max_tokens": WALKED})
    session.cache.rewind_to(0)
    said = walked(session, ask(ids, [walk(seed, tuning, seed) for seed in range(WALKS)]))
    exact = [event.exact for event in said if isinstance(event, Start)]
    equal = []
    for seed in range(WALKS):
        session.cache.rewind_to(0)
        alone = records(session, ask_for(ids, tuning.samplers(), tuning.conditions(), seed))
        equal.append(numbers(of(said, seed)) == numbers(alone))
    wrong = sum(one and not other for one, other in zip(exact, equal, strict=True))
    return f"{sum(exact)} exact, {sum(equal)} equal" + (f", {wrong} WRONG" if wrong else "")


def replayed(stream: list[Record], path: Path) -> str:
    """What `termchat replay` says of the reply, in another process."""
    told: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        file = Path(folder, "reply.jsonl")
        file.write_text("".join(to_json(record) + "\n" for record in stream))
        replay(load({"model": str(path)}, {}, Path(folder, "no.toml")), file, told.append, told.append)
    return told[-1 if told[-1].startswith("identical") else 0]


def check_model(path: Path, prompt: int, count: int) -> list[str]:
    """Return the cells of the file's row."""
    spec = ModelSpec(str(path), path.stem, context=prompt + count + 320, threads=1, sha256=read_header(path).identity())
    with closing(ModelSession(spec, lambda _: None)) as session:
        ids = session.model.tokenize(TEXT * (prompt // 20), special=False, begin=True)[:prompt]
        checked = check_reply(session, ids, count)
        kept, made, two = (
            count_forked(session, checked.stream, ids, kept=kept, threads=threads)
            for kept, threads in ((True, 1), (False, 1), (True, 2))
        )
        with closing(BareContext(session)) as bare:
            alike = bare.count_equal_rows(ids[: min(prompt, 100)], 16)
        walks = count_walks(session, ids[: min(prompt, 100)])
        sizes = f"{session.model.n_vocab:,}", f"{prompt} + {count}"
        weights = session.model.description
        kv_type = session.cache.kv_type
    equal = f"{checked.equal[0]} of {count}", f"{checked.equal[1]} of {min(LAST, count - 1)}"
    worst = (f"{value:.0e}" for value in (checked.logprob, checked.entropy, checked.probability))
    return [
        path.stem, weights, *sizes, kv_type, *equal, *worst, str(checked.wrong), kept, made, two,
        replayed(checked.stream, path), str(alike), walks,
    ]  # fmt: skip


HEAD = [
    "model", "weights", "vocabulary", "cells", "KV", "rows equal, 1 thread", "2 threads", "logprob", "entropy", "probability",
    "wrong ids, ranks", "forks kept", "made again", "2 threads", "replay", "rows alike", "walks",
]  # fmt: skip


def main() -> None:
    """Check each file and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--prompt", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=400)
    args = parser.parse_args()
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|", flush=True)
    for path in args.files:
        print("| " + " | ".join(check_model(path, args.prompt, args.tokens)) + " |", flush=True)


if __name__ == "__main__":
    main()
