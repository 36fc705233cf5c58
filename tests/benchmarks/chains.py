"""What the stages of the chain cost: `python -m tests.benchmarks.chains`.

Each chain runs observed and, with the same samplers of llama.cpp, in the bare loop, in pairs, alternating who goes first. A
stage alone runs against the default chain, both observed, so that the ratio is what it costs. `sampling` is the median of a
step in microseconds. Ratios of a busy machine scatter: the quartiles say how much.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

from termchat.models import catalogue
from tests.benchmarks.headless import BareProcess, Ours, pairs, report

BREAKERS = ["\n", ":", '"', "*"]
PENALTIES = ["penalties", 49152, 64, 1.1, 0.1, 0.1]
DRY = ["dry", "V", 0.8, 1.75, 2, 64, BREAKERS]
TOP = [["top_k", 40], ["top_p", 0.95, 1], ["min_p", 0.05, 1]]
WARM: list[list[Any]] = [["temp", 0.8]]
MOVED = {"repeat_penalty": 1.1, "frequency_penalty": 0.1, "presence_penalty": 0.1}
NO_TOP = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}

AGAINST_BARE: dict[str, tuple[dict[str, Any], list[list[Any]]]] = {
    "default": ({}, [*TOP, *WARM]),
    "penalties … temperature, xtc": (
        {**MOVED, "dry_multiplier": 0.8, "xtc_probability": 0.5},
        [PENALTIES, DRY, *TOP, ["xtc", 0.5, 0.1, 1, 7], *WARM],
    ),
    "top_n_sigma alone": ({**NO_TOP, "top_n_sigma": 1.0}, [["top_n_sigma", 1.0], *WARM]),
    "min_p alone": ({**NO_TOP, "min_p": 0.05}, [["min_p", 0.05, 1], *WARM]),
    "typical_p alone": ({**NO_TOP, "typical_p": 0.9}, [["typical", 0.9, 1], *WARM]),
    "top_p alone": ({**NO_TOP, "top_p": 0.95}, [["top_p", 0.95, 1], *WARM]),
    "xtc alone": ({**NO_TOP, "xtc_probability": 0.5}, [["xtc", 0.5, 0.1, 1, 7], *WARM]),
    "dynamic temperature alone": ({**NO_TOP, "dynatemp_range": 0.3}, [["temp_ext", 0.8, 0.3, 1.0]]),
    "mirostat 2": ({"mirostat": 2}, [*WARM, ["mirostat_v2", 7, 5.0, 0.1]]),
}
"""Our knobs, and llama.cpp's samplers that do the same."""

AFTER_TOP_K: dict[str, dict[str, Any]] = {
    "penalties": MOVED,
    "dry": {"dry_multiplier": 0.8},
    "top_n_sigma, before top_k": {"top_n_sigma": 1.0},
    "min_p, in place of top_k": {"top_k": 0, "top_p": 1.0},
    "typical_p": {"typical_p": 0.9},
    "xtc": {"xtc_probability": 0.5},
    "p_less": {"p_less": 1},
    "top_h": {"top_h": 0.9},
    "min_k": {"min_k": 3.0},
    "dynamic temperature": {"dynatemp_range": 0.3},
    "adaptive_p": {"adaptive_target": 0.5},
}


def main() -> None:
    """Runs all and prints two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", help="chains whose names contain this", default="")
    args = parser.parse_args()
    path = str(catalogue.resolve(None)[1])
    ours, bare = Ours(path, args.threads), BareProcess(path, args.threads)
    story = ours.tokenize("Once upon a time, in a village far away from the sea, there lived an old woman who")
    sampling: list[float] = []

    def observed(seed: int, knobs: dict[str, Any]) -> float | None:
        found = ours.run(story, args.tokens, seed, **knobs)
        if found is None:
            return None
        sampling.append(found["sample_us"])
        return found["decode_s"]

    def plain(seed: int, samplers: list[list[Any]]) -> float:
        return bare.run(ids=story, batch=63, tokens=args.tokens, seed=seed, samplers=samplers)["decode_s"]

    observed(0, {})
    plain(0, [*TOP, *WARM])
    for name, (knobs, samplers) in AGAINST_BARE.items():
        if args.only in name:
            sampling.clear()
            times = pairs(args.pairs, lambda i, k=knobs: observed(100 + i, k), lambda i, s=samplers: plain(i, s))
            if times:
                report(f"{name}  {median(sampling):.0f} us", args.tokens - 1, times)
    print("each stage against the default chain")
    for name, knobs in AFTER_TOP_K.items():
        if args.only in name:
            times = pairs(
                args.pairs, lambda i, k=knobs: observed(100 + i, k), lambda i: observed(100 + i, {}) or float("nan")
            )
            times = [both for both in times if both[1] == both[1]]
            if times:
                report(name, args.tokens - 1, times, ("with", "without"))
    ours.engine.close()
    bare.close()


if __name__ == "__main__":
    main()
