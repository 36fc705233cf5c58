"""The default number of threads against every other, quiet and busy: `python -m tests.benchmarks.threads`.

First `termchat run`, beside 0, 1 and 2 programs that each keep a core busy, with a short prompt and with a long one: tokens per
second of the reply, and seconds to its first token. Then the whole app in a terminal that is read, 120×40. Each choice has its
turn in every round, so that a machine that others make busy is busy for all. Prints the default by the best, from the medians
of the rounds and as the median of their ratios. It is to be at least 0.7 from the first token on, and 0.97 in the app on a
quiet machine.

`--same 20` makes one seeded reply so often instead, beside the busy programs, and says how many were the same in every token
and every log-probability.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import Any, NamedTuple

from termchat.engine.llama.thread_tuner import all_threads
from tests.benchmarks.screen import PROMPT, screen
from tests.whole.terminal import environment

DEFAULT = 0
"""No flag: the engine chooses."""
LONG = " The ship sailed on and on over the wide and quiet water." * 60
"""About 800 tokens."""


class Run(NamedTuple):
    """What one reply took. `rate` counts the steps after the first token, `whole` all tokens from the request on."""

    rate: float
    ttft: float
    whole: float
    threads: set[int]


def reply(home: Path, prompt: str, tokens: int, seed: int, *flags: str) -> list[dict[str, Any]]:
    """The records of a reply of `termchat run`."""
    done = subprocess.run(
        [sys.executable, "-m", "termchat", "run", "--raw", prompt, "--json", "--max-tokens", str(tokens), "--seed", str(seed),
         *flags],
        env=environment(home, {}), capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def same(model: str, count: int, tokens: int) -> None:
    """Makes a reply so often, and prints how many were the same."""
    flags = [*(["--model", model] if model else []), "--ignore-eos"]
    seen: dict[str, int] = {}
    used: set[int] = set()
    made = 0
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            records = reply(Path(folder), PROMPT, tokens, 7, *flags)
        numbers = [(r["id"], r["logprob"], r["entropy"]) for r in records if r["record"] == "token"]
        used |= {record["threads"] for record in records if record["record"] == "settings"}
        made = len(numbers)
        seen[str(numbers)] = seen.get(str(numbers), 0) + 1
    print(
        f"{model or 'SmolLM2'}: {max(seen.values())} of {count} replies of {made} tokens the same, threads {sorted(used)}",
        flush=True,
    )


def run(home: Path, threads: int, prompt: str, tokens: int, seed: int) -> Run | None:
    """A reply of `termchat run`; None if the model ended it early."""
    records = reply(home, prompt, tokens, seed, *(["--threads", str(threads)] if threads else []))
    last = records[-1]
    if last["tokens"] != tokens:
        return None
    used = {record["threads"] for record in records if record["record"] == "settings"}
    seconds = (last["ttft_ms"] + last["decode_ms"]) / 1e3
    return Run(last["tokens_per_second"], last["ttft_ms"] / 1e3, tokens / seconds, used)


def app(home: Path, threads: int, tokens: int, seed: int) -> Run | None:
    """A reply in the app."""
    seen = screen(home, tokens, seed, *(["--threads", str(threads)] if threads else []))
    return seen and Run(seen.rate, 0.0, seen.rate, seen.threads)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many programs that each would keep a core busy."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    sleep(0.5 * bool(count))
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def compare(what: str, one: Callable[[Path, int, int], Run | None], rounds: int, deadline: float) -> None:
    """Runs the rounds and prints."""
    choices = [DEFAULT, *range(1, all_threads() + 1)]
    found: list[dict[int, Run]] = []
    print(f"{what} (load {os.getloadavg()[0]:.1f})", flush=True)
    for number in range(rounds):
        at = number % len(choices)
        seen: dict[int, Run] = {}
        for choice in choices[at:] + choices[:at]:
            with tempfile.TemporaryDirectory() as folder:
                made = one(Path(folder), choice, 100 + number)
            if made is not None:
                seen[choice] = made
        if len(seen) == len(choices):  # in the others a reply ended early
            found.append(seen)
        if monotonic() > deadline:
            break
    if not found:
        print("  every reply ended early")
        return
    for choice in choices:
        rate, ttft, whole = (
            median(getattr(made[choice], name) for made in found) for name in ("rate", "ttft", "whole")
        )
        used = sorted(set().union(*(made[choice].threads for made in found)))
        print(
            f"  {_name(choice):<10} {rate:6.1f} tokens/s   first token {ttft * 1e3:6.0f} ms   all in all {whole:6.1f} tokens/s"
            f"   threads {used}"
        )
    best = {
        name: max(choices[1:], key=lambda c: median(getattr(m[c], name) for m in found)) for name in ("rate", "whole")
    }
    told = []
    for name, words in (("rate", "after the first token"), ("whole", "all in all")):
        of = [getattr(made[DEFAULT], name) / getattr(made[best[name]], name) for made in found]
        medians = [median(getattr(made[choice], name) for made in found) for choice in (DEFAULT, best[name])]
        told.append(
            f"{words} {medians[0] / medians[1]:.2f} by medians, {median(of):.2f} by rounds, worst {min(of):.2f}"
        )
    print(f"  default by best: {'; '.join(told)} ({len(found)} rounds)", flush=True)


def main() -> None:
    """Runs all and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3600, help="begin no round after so long")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--busy", type=int, nargs="*", default=[0, 1, 2], help="numbers of busy programs")
    parser.add_argument("--prompts", nargs="*", default=["short", "long"], choices=["short", "long"])
    parser.add_argument("--same", type=int, default=0, help="how often to make one reply with a seed")
    parser.add_argument("--model", default="", help="a GGUF file for --same; without it SmolLM2")
    parser.add_argument("--app-tokens", type=int, default=200, help="0 leaves the app out")
    args = parser.parse_args()
    if args.same:
        with busy(max(args.busy)):
            same(args.model, args.same, args.tokens)
        return
    deadline = monotonic() + args.seconds
    for count in args.busy:
        for length in args.prompts:
            text = PROMPT if length == "short" else LONG + " " + PROMPT
            with busy(count):
                compare(
                    f"{count} busy, {length} prompt, {args.tokens} tokens",
                    lambda home, threads, seed, text=text: run(home, threads, text, args.tokens, seed),  # type: ignore[misc]
                    args.rounds,
                    deadline,
                )
    if args.app_tokens:
        compare(
            f"the app, {args.app_tokens} tokens",
            lambda home, threads, seed: app(home, threads, args.app_tokens, seed),
            args.rounds,
            deadline,
        )


def _name(choice: int) -> str:
    return f"{choice} thread{'s' * (choice > 1)}" if choice else "default"


if __name__ == "__main__":
    main()
