"""What looking for loops costs a token: `python -m tests.benchmarks.loops`. It is to stay under 20 microseconds."""

from __future__ import annotations

from random import Random
from time import perf_counter

from termchat.decoding.loops import LoopFinder

TOKENS = 50_000
_RANDOM = Random(1)
TEXTS = {
    "no two alike": [*range(TOKENS)],
    "few tokens, often": [int(_RANDOM.paretovariate(0.6)) % 500 for _ in range(TOKENS)],
    "a loop of one": [5] * TOKENS,
    "a loop of 17": [*range(17)] * (TOKENS // 17),
    "nearly a loop": ([1] * 23 + [2]) * (TOKENS // 24),
    "a loop of 250": [*range(250)] * (TOKENS // 250),
}


def main() -> None:
    for name, ids in TEXTS.items():
        finder, begun = LoopFinder(), perf_counter()
        for token in ids:
            finder.push(token)
        streamed, begun = perf_counter() - begun, perf_counter()
        LoopFinder().extend_ids(ids)
        read = perf_counter() - begun
        print(
            f"{name:<20}{streamed / len(ids) * 1e6:6.2f} us a token that streams, {read / len(ids) * 1e6:.2f} of a text"
        )


if __name__ == "__main__":
    main()
