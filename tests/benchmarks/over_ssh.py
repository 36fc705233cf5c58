"""An engine behind a line against the same one without: `python -m tests.benchmarks.over_ssh`.

The line is a pipe that stands for ssh (`tests.fake_ssh`), or with `--host` a real ssh to a machine that has termchat; then the
comparison is fair only if that machine is this one. Both run the same model, prompt, seed and thread, in pairs, alternating who
goes first, and times are those that a person sees: from the command to the last record.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from statistics import median
from time import monotonic

import msgspec

from termchat.decoding.records import Failed, Finished, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.address import EngineAddress
from termchat.engine.local import LocalEngine
from termchat.engine.make import engine_at
from termchat.engine.port import Command, Event, Load, Loaded, ModelSpec, Tokenize, Tokenized
from termchat.models import catalogue
from tests.asking import ask_for
from tests.benchmarks.headless import CONTEXT, pairs, report
from tests.fake_ssh import WORKER, path_with

STORY = "Once upon a time, in a village far away from the sea, there lived an old woman who"


class Timed:
    """An engine with the model loaded."""

    def __init__(self, engine: LocalEngine, spec: ModelSpec) -> None:
        self.engine = engine
        self._ask(Load(spec), Loaded)

    def reply(self, ids: list[int], tokens: int, seed: int) -> tuple[float, list[int]]:
        """Seconds from the command to the end of the reply, and the ids."""
        tuning = Tuning(max_tokens=tokens)
        command = ask_for(ids, tuning.samplers(), tuning.conditions(), seed, {}, keep_logits=False)
        begin = monotonic()
        events = self._ask(command, Finished)
        return monotonic() - begin, [event.id for event in events if isinstance(event, Token)]

    def ids(self, text: str) -> list[int]:
        last = self._ask(Tokenize(text), Tokenized)[-1]
        assert isinstance(last, Tokenized)
        return last.ids

    def round_trip(self) -> float:
        """Seconds from a question that costs nothing to its answer."""
        begin = monotonic()
        self._ask(Tokenize("a"), Tokenized)
        return monotonic() - begin

    def _ask(self, command: Command, answer: type[Event]) -> list[Event]:
        number, found = self.engine.send(command), list[Event]()
        while not found or not isinstance(found[-1], answer):
            for of, event in self.engine.receive(None):
                assert not isinstance(event, Failed), event
                found += [event] if of == number else []
        return found


def main() -> None:
    """Prints the ratio of the speeds, and the round trip of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--url", default="", help="a real one, such as ssh://localhost:2222")
    parser.add_argument("--command", default=WORKER)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not args.url:
            os.environ["PATH"] = path_with(Path(folder))
        compare(args)


def compare(args: argparse.Namespace) -> None:
    """See `main`."""
    name, path = catalogue.resolve(None)
    address = EngineAddress(name="lab", url=args.url or "ssh://lab", remote_command=args.command)
    spec = ModelSpec(str(path), name, context=CONTEXT, threads=args.threads)
    here, there = Timed(LocalEngine(), spec), Timed(engine_at(address), msgspec.structs.replace(spec, engine=address))
    ids = here.ids(STORY)
    drawn: dict[int, list[list[int]]] = {}

    def timed(engine: Timed, number: int) -> float:
        seconds, reply = engine.reply(ids, args.tokens, number)
        drawn.setdefault(number, []).append(reply)
        return seconds

    for engine in (here, there):
        engine.reply(ids, 16, 0)
    print(f"{args.threads} thread(s), {args.tokens} tokens a reply; load average {os.getloadavg()[0]:.1f}")
    found = pairs(args.pairs, lambda i: timed(there, i), lambda i: timed(here, i))
    report("  replies, tokens", args.tokens, found, ("over ssh", "local"))
    alike = sum(one == other for one, other in drawn.values())
    print(f"  {alike} of {len(drawn)} replies have the same ids")
    for which, engine in (("local", here), ("over ssh", there)):
        times = [engine.round_trip() for _ in range(50)]
        print(f"  round trip {which}: median {median(times) * 1e3:.2f} ms")
        engine.engine.close()


if __name__ == "__main__":
    main()
