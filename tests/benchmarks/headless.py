"""The observed loop against bare llama.cpp: `python -m tests.benchmarks.headless`.

Both run the same model, prompt, settings and thread count, in pairs, alternating who goes first. Ours is the whole of pipe
mode's engine: worker process, every stage observed, 20 candidates, records through the pipe and decoded on this side.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from statistics import median, quantiles
from time import sleep
from typing import Any

from termchat.decoding.records import Failed, Finished, Prefill, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.local import LocalEngine
from termchat.engine.port import Event, Load, Loaded, ModelSpec, Tokenize, Tokenized
from termchat.models import catalogue
from tests.asking import ask_for

CONTEXT = 4096
PROMPTS = (513, 1025)
"""Lengths of the prompts that are read: whole batches of 512, and the last token. The longer, the more large batches gain."""
GATHER = 0.04
"""Seconds between looks at the pipe, as in `termchat run`."""


class Ours:
    """The engine as termchat uses it."""

    def __init__(self, path: str, threads: int) -> None:
        self.engine = LocalEngine()
        self._until(self.engine.send(Load(ModelSpec(path, "bench", context=CONTEXT, threads=threads))), Loaded)

    def tokenize(self, text: str) -> list[int]:
        """Ids of a text."""
        last = self._until(self.engine.send(Tokenize(text)), Tokenized)[-1]
        assert isinstance(last, Tokenized)
        return last.ids

    def run(self, ids: list[int], tokens: int, seed: int, **knobs: Any) -> dict[str, float] | None:
        """Seconds by the records; None if the model ended the reply early."""
        self._clear()
        tuning = Tuning(max_tokens=tokens, **knobs)
        events = self._until(
            self.engine.send(
                ask_for(ids, tuning.samplers(), tuning.conditions(), seed, {}, keep_logits=False),  # as `termchat run`
            ),
            Finished,
        )
        finished = events[-1]
        assert isinstance(finished, Finished)
        if sum(isinstance(event, Token) for event in events) != tokens:
            return None
        prefill = next(event for event in events if isinstance(event, Prefill))
        assert prefill.reused == 0
        sample = median(event.sample_us for event in events if isinstance(event, Token))
        return {"prefill_s": prefill.ms / 1e3, "decode_s": finished.decode_ms / 1e3, "sample_us": sample}

    def _clear(self) -> None:
        """Another prompt, so that nothing can be reused."""
        self._until(
            self.engine.send(ask_for([0], Tuning().samplers(), Tuning(max_tokens=1).conditions(), 1, {})), Finished
        )

    def _until(self, number: int, answer: type[Event]) -> list[Event]:
        found: list[Event] = []
        while not found or not isinstance(found[-1], answer):
            sleep(GATHER)
            for of, event in self.engine.receive(None):
                assert not isinstance(event, Failed), event
                if of == number:
                    found.append(event)
        return found


class BareProcess:
    """The yardstick, kept loaded."""

    def __init__(self, path: str, threads: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.bare", path, str(CONTEXT), str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, **request: Any) -> dict[str, float]:
        """One run; see `Bare.run`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def pairs(count: int, ours: Callable[[int], float | None], bare: Callable[[int], float]) -> list[tuple[float, float]]:
    """Times of both, alternating who goes first; a pair whose reply ended early is left out."""
    found = []
    for i in range(count):
        yardstick = bare(i) if i % 2 else None
        mine = ours(i)
        if yardstick is None:
            yardstick = bare(i)
        if mine is not None:
            found.append((mine, yardstick))
    return found


def report(
    what: str, work: int, times: list[tuple[float, float]], names: tuple[str, str] = ("termchat", "bare")
) -> float:
    """Prints rates and the ratio of each pair (median and quartiles); returns the median ratio."""
    ratios = sorted(bare / ours for ours, bare in times)
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 2 else (ratios[0], 0, ratios[-1])
    ours, yardstick = (work / median(column) for column in zip(*times, strict=True))
    print(
        f"{what:<34} {names[0]} {ours:7.1f}/s  {names[1]} {yardstick:7.1f}/s  "
        f"ratio {median(ratios):.3f}  (quartiles {low:.3f}–{high:.3f}, {len(ratios)} pairs)"
    )
    return median(ratios)


def arguments(what: str | None) -> argparse.Namespace:
    """What was asked for on the command line; `threads` are those of each table."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--model", help="a GGUF file; without it SmolLM2")
    parser.add_argument("--no-prompts", action="store_true", help="only replies")
    args = parser.parse_args()
    args.threads = args.threads or sorted({1, os.cpu_count() or 1})
    return args


def main() -> None:
    """Runs all and prints a table."""
    args = arguments(__doc__)
    path = args.model or str(catalogue.resolve(None)[1])
    for threads in args.threads:
        ours, bare = Ours(path, threads), BareProcess(path, threads)
        story = ours.tokenize("Once upon a time, in a village far away from the sea, there lived an old woman who")
        water = "The ship sailed on and on over the wide and quiet water. "
        prompts = [ours.tokenize(water * 120)[:length] for length in PROMPTS]
        ours.run(story, 16, 0)
        bare.run(ids=story, batch=63, tokens=16, seed=0)
        print(f"{threads} thread{'s' * (threads > 1)}, {args.tokens} tokens a reply")

        def decode(i: int, ours: Ours = ours, story: list[int] = story) -> float | None:
            found = ours.run(story, args.tokens, 100 + i)
            return found["decode_s"] if found else None

        def yardstick(i: int, bare: BareProcess = bare, story: list[int] = story) -> float:
            return bare.run(ids=story, batch=63, tokens=args.tokens, seed=i)["decode_s"]

        report("  decode, tokens", args.tokens - 1, pairs(args.pairs, decode, yardstick))
        for prompt in () if args.no_prompts else prompts:
            for batch in (63, 512):
                report(
                    f"  prefill of {len(prompt)}, against {batch} rows", len(prompt),
                    pairs(
                        max(args.pairs // 2, 3),
                        lambda i, o=ours, p=prompt: (o.run(p, 1, i) or {}).get("prefill_s"),
                        lambda i, b=bare, p=prompt, n=batch: b.run(ids=p, batch=n, tokens=0, seed=i)["prefill_s"],
                    ),
                )  # fmt: skip
        ours.engine.close()
        bare.close()


if __name__ == "__main__":
    main()
