"""What-if over a reply against one prefill of it: `python -m tests.benchmarks.whatif`.

In pairs, alternating who goes first, through the worker and its pipe: the time from the question to its answer, and the
`Prefill` record's time for the same tokens after the same prompt. Then the same question with a knob turned, and a what-if
over a reply that was just streamed, whose logits are at hand.
"""

from __future__ import annotations

import argparse
import os
from statistics import median, quantiles
from time import perf_counter

from termchat.decoding.records import Failed, Finished, Prefill, Token
from termchat.decoding.samplers import SamplerSettings, Tuning
from termchat.engine.local import LocalEngine
from termchat.engine.port import Event, Generate, Load, Loaded, ModelSpec, Score, Scored, Tokenize, Tokenized
from termchat.models import catalogue
from tests.asking import ask_for

CONTEXT = 2048
SETTINGS = Tuning().samplers()
TURNS = {
    "temperature": SamplerSettings(temperature=1.2),
    "top_k": SamplerSettings(top_k=100),
    "top_k off": SamplerSettings(top_k=0),
    "repeat_penalty": SamplerSettings(repeat_penalty=1.2),
    "all but temperature off": SamplerSettings(top_k=0, top_p=1.0, min_p=0.0),
}


class Bench:
    """A worker with the model loaded."""

    def __init__(self, path: str, threads: int, tokens: int) -> None:
        self._engine = LocalEngine()
        self._tokens = tokens
        self._ask(Load(ModelSpec(path, "bench", context=CONTEXT, threads=threads)), Loaded)
        self._prompt = self._tokenized(
            "Once upon a time, in a village far away from the sea, there lived an old woman who"
        )
        self._water = self._tokenized("The ship sailed on and on over the wide and quiet water. " * 200)

    def reply(self, number: int) -> list[int]:
        """Prompt and a reply that was never seen before."""
        return [*self._prompt, *self._water[number : number + self._tokens]]

    def streamed(self, seed: int) -> list[int]:
        """Prompt and a reply that was drawn just now."""
        events = self._generate(self._prompt, self._tokens, seed)
        return [*self._prompt, *(event.id for event in events if isinstance(event, Token))]

    def prefill(self, ids: list[int]) -> float:
        """Seconds to read the reply, and only it."""
        self._generate(self._prompt)
        prefill = next(event for event in self._generate(ids) if isinstance(event, Prefill))
        assert abs(prefill.tokens - prefill.reused - (len(ids) - len(self._prompt))) <= 1
        return prefill.ms / 1e3

    def score(self, ids: list[int], settings: SamplerSettings = SETTINGS) -> float:
        """Seconds from a what-if to its answer."""
        begun = perf_counter()
        self._ask(Score(ids, len(ids) - len(self._prompt), settings, 7), Scored)
        return perf_counter() - begun

    def close(self) -> None:
        """Ends the worker."""
        self._engine.close()

    def _tokenized(self, text: str) -> list[int]:
        last = self._ask(Tokenize(text), Tokenized)[-1]
        assert isinstance(last, Tokenized)
        return last.ids

    def _generate(self, ids: list[int], tokens: int = 1, seed: int = 1) -> list[Event]:
        return self._ask(ask_for(ids, SETTINGS, Tuning(max_tokens=tokens).conditions(), seed), Finished)

    def _ask(self, command: Load | Tokenize | Generate | Score, answer: type[Event]) -> list[Event]:
        number = self._engine.send(command)
        found: list[Event] = []
        while not found or not isinstance(found[-1], answer):
            for of, event in self._engine.receive(None):
                assert not isinstance(event, Failed), event
                if of == number:
                    found.append(event)
        return found


def report(what: str, pairs: list[tuple[float, float]]) -> None:
    """Prints times and the ratio of each pair, prefill to what-if."""
    ratios = [prefill / score for prefill, score in pairs]
    low, _, high = quantiles(ratios, n=4)
    prefill, score = (median(column) for column in zip(*pairs, strict=True))
    print(
        f"  {what:<30} {score:6.3f} s  prefill {prefill:6.3f} s  "
        f"ratio {median(ratios):.3f}  (quartiles {low:.3f}–{high:.3f}, {len(pairs)} pairs)"
    )


def main() -> None:
    """Runs all and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--threads", type=int, action="append")
    args = parser.parse_args()
    path = str(catalogue.resolve(None)[1])
    for threads in args.threads or sorted({1, os.cpu_count() or 1}):
        bench = Bench(path, threads, args.tokens)
        pairs: list[tuple[float, float]] = []
        turns: dict[str, list[float]] = {name: [] for name in TURNS}
        for i in range(args.pairs):
            ids = bench.reply(i)
            prefill = bench.prefill(ids) if i % 2 else None
            score = bench.score(ids)
            for name, settings in TURNS.items():
                turns[name].append(bench.score(ids, settings))
            pairs.append((bench.prefill(ids) if prefill is None else prefill, score))
        streamed = []
        for i in range(args.pairs):
            ids = bench.streamed(100 + i)
            score = bench.score(ids)
            streamed.append((bench.prefill(ids), score))
        bench.close()
        print(f"{threads} thread{'s' * (threads > 1)}, {args.tokens} tokens; a ratio above 1: faster than a prefill")
        report("first what-if, all computed", pairs)
        report("first what-if, just streamed", streamed)
        for name, times in turns.items():
            print(f"  a turn of {name:<26} {median(times) * 1e3:6.0f} ms  (worst {max(times) * 1e3:.0f})")


if __name__ == "__main__":
    main()
