"""Whether certain draws come out equal elsewhere: `python -m tests.benchmarks.anywhere TOKENS MODEL [MODEL …]`.

Records about TOKENS tokens a model, half of them by replies alone with two threads, half by eight walks in one batch, a quarter
at temperature 0, and replays each of them anywhere: with one thread, with a prompt batch of 16, with keys and values as f16.
A row says how many draws were near ties, how many turned, and how many replies a certain draw made differ: that must be none.
`--walks` records walks only, `--elsewhere "1 thread"` replays only so.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from termchat.commands.replay import replay
from termchat.config.settings import load
from termchat.decoding.conditions import IgnoreEnd, Length
from termchat.decoding.group import Group
from termchat.decoding.records import RECORD_NAMES, Failed, Finished, Record, Start, Token, to_json
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.local import LocalEngine
from termchat.engine.port import (
    Command,
    Event,
    Generate,
    Load,
    Loaded,
    MeasureBatches,
    Message,
    ModelSpec,
    Render,
    Rendered,
    ReplyRequest,
    Tokenize,
    Tokenized,
    is_last,
)
from termchat.models.gguf.header import read_header
from tests.asking import ask_for

LENGTH, WALKS = 250, 8
ASKED = (
    "Tell me a long story about a fox and a bear.",
    "Write a Python function that parses a CSV file, and explain each line.",
    "Explain how a bicycle stays upright.",
    "Write a recipe for bread with the amounts in a table.",
)
ELSEWHERE: dict[str, dict[str, object]] = {
    "1 thread": {"threads": 1},
    "prompt batch 16": {"threads": 1, "prefill_batch": 16},
    "KV f16": {"threads": 1, "kv_type": "f16"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokens", type=int)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--walks", action="store_true")
    parser.add_argument("--elsewhere", nargs="*", default=list(ELSEWHERE), choices=list(ELSEWHERE))
    args = parser.parse_args()
    print("| model | largest change | elsewhere | tokens | near ties | turned | certain draws that differ |")
    print("|---|---:|---|---:|---:|---:|---:|")
    for model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            files, change = record(Path(model), args.tokens, Path(folder), walks=args.walks)
            for name, flags in ((name, ELSEWHERE[name]) for name in args.elsewhere):
                counts = [replayed(Path(model), file, flags, Path(folder)) for file in files]
                same, ties, turned = (
                    sum(one.get(key, 0) for one in counts) for key in ("tokens", "near_ties", "turned")
                )
                differ = sum(not one.get("identical") for one in counts)
                row = (Path(model).stem, f"{change:.3f}", name, f"{same:,}", f"{ties:,}", f"{turned:,}", str(differ))
                print(f"| {' | '.join(row)} |", flush=True)


def record(model: Path, tokens: int, folder: Path, *, walks: bool) -> tuple[list[Path], float]:
    """The transcripts, one a reply, and the model's largest change."""
    engine = LocalEngine()
    files: list[Path] = []
    change, made, seed = 0.0, 0, 1
    try:
        identity = read_header(model).identity()
        loaded = ask(engine, Load(ModelSpec(str(model), model.stem, context=4096, threads=2, sha256=identity)))[-1]
        assert isinstance(loaded, Loaded)
        ask(engine, MeasureBatches(seconds=4.0, needed=True))
        while made < tokens:
            prompt = ASKED[seed % len(ASKED)]
            command = Render([Message("user", prompt)]) if loaded.info.has_template else Tokenize(prompt)
            rendered = [event for event in ask(engine, command) if isinstance(event, (Rendered, Tokenized))]
            together = (walks or seed % 2 == 0) and [
                ReplyRequest(rendered[0].ids, *how(seed + at), seed + at, at) for at in range(WALKS)
            ]
            events = (
                ask(engine, Generate(together, Group(random.getrandbits(50), "walks", WALKS)))
                if together
                else [event for at in range(WALKS) for event in alone(engine, rendered[0].ids, seed + at)]
            )
            for records in parted(events):
                begun = next(record for record in records if isinstance(record, Start))
                change = max(change, begun.largest_change or 0.0)
                made += sum(isinstance(record, Token) for record in records)
                files.append(folder / f"{len(files)}.jsonl")
                files[-1].write_text("".join(to_json(record) + "\n" for record in records))
            seed += WALKS + 1
    finally:
        engine.close()
    return files, change


def how(seed: int) -> tuple[SamplerSettings, tuple[Length | IgnoreEnd, ...]]:
    return SamplerSettings(temperature=0.8 if seed % 4 else 0.0), (IgnoreEnd(), Length(LENGTH))


def alone(engine: LocalEngine, ids: list[int], seed: int) -> list[Event]:
    samplers, conditions = how(seed)
    return ask(engine, ask_for(ids, samplers, conditions, seed))


def parted(events: list[Event]) -> Iterator[list[Record]]:
    """The records of each reply."""
    open_: dict[int | None, list[Record]] = {}
    for event in events:
        if type(event) in RECORD_NAMES:
            walk = getattr(event, "walk", None)
            open_.setdefault(walk, []).append(event)  # type: ignore[arg-type]
            if isinstance(event, Finished):
                yield open_.pop(walk)


def ask(engine: LocalEngine, command: Command) -> list[Event]:
    number = engine.send(command)
    events: list[Event] = []
    while not events or not (is_last(events[-1]) or isinstance(events[-1], Loaded)):
        events += [event for answered, event in engine.receive(0.5) if answered == number]
        if events and isinstance(events[-1], Failed):
            raise SystemExit(f"{events[-1].message}: {events[-1].hint}")
    return events


def replayed(model: Path, file: Path, flags: dict[str, object], folder: Path) -> dict[str, int]:
    """What a replay says as JSON; {} where it failed."""
    told: list[str] = []
    config = load({"model": str(model), **flags}, {}, folder / "no.toml")
    replay(config, file, told.append, told.append, as_json=True, anywhere=True)
    with suppress(json.JSONDecodeError):
        found: dict[str, int] = json.loads(told[0])
        return found
    print(*told, file=sys.stderr)
    return {}


if __name__ == "__main__":
    main()
