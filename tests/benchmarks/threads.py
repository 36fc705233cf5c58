"""The app's own choice of threads against every other: `python -m tests.benchmarks.threads`.

The whole app in a terminal that is read, 120×40, same model, prompt and length: at its default, and at each number of threads
that the machine can run. In rounds in which each has its turn, so that a machine that is busy for a while is busy for all.
Prints the decode rates, and the default's by the best's, which is to be at least 0.97.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median
from time import monotonic

from termchat.engine.llama.threads import all_threads
from tests.benchmarks.screen import Seen, screen

DEFAULT = 0
"""No flag: the app chooses."""


def one(threads: int, tokens: int, seed: int) -> Seen | None:
    """A reply with so many threads, in a home folder of its own."""
    flags = ["--threads", str(threads)] if threads else []
    with tempfile.TemporaryDirectory() as folder:
        return screen(Path(folder), tokens, seed, *flags)


def main() -> None:
    """Runs all and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=3600, help="begin no round after so long")
    parser.add_argument("--tokens", type=int, default=200)
    args = parser.parse_args()
    choices = [DEFAULT, *range(1, all_threads() + 1)]
    rounds: list[dict[int, Seen]] = []
    begun = monotonic()
    while len(rounds) < args.rounds and monotonic() - begun < args.seconds:
        number = len(rounds)
        at = number % len(choices)
        seen = {choice: one(choice, args.tokens, 100 + number) for choice in choices[at:] + choices[:at]}
        rounds.append({choice: run for choice in choices if (run := seen[choice]) is not None})
        shown = ", ".join(f"{_name(choice)} {run.rate:.1f}" for choice, run in rounds[-1].items())
        print(f"  round {number + 1}: {shown} tokens/s", flush=True)
    whole = [found for found in rounds if len(found) == len(choices)]  # in the others a reply ended early
    middle = {choice: median(found[choice].rate for found in whole) for choice in choices}
    best = max(choices[1:], key=lambda choice: middle[choice])
    ratio = median(found[DEFAULT].rate / found[best].rate for found in whole)
    chosen = sorted(set().union(*(found[DEFAULT].threads for found in whole)))
    print(
        f"default (threads {chosen}) {middle[DEFAULT]:.1f} tokens/s, best ({_name(best)}) {middle[best]:.1f}: "
        f"{middle[DEFAULT] / middle[best]:.3f} of it by the medians, {ratio:.3f} by the rounds ({len(whole)})"
    )


def _name(choice: int) -> str:
    return f"{choice} thread{'s' * (choice > 1)}" if choice else "default"


if __name__ == "__main__":
    main()
