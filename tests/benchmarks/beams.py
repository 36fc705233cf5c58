"""A beam search, with all its records, against bare batches of as many rows: `python -m tests.benchmarks.beams`.

Both run in one process on one model, step by step in turns: a step of the search (its batch, the best tokens of each row, the
kept ones observed, its record as msgpack through a pipe to another process) and a bare `llama_decode` of as many rows in a
context of its own. What is told when the search is over counts in the second ratio, which is of the sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import perf_counter

from termchat.decoding.group import BeamSettings, Group
from termchat.decoding.records import Beams
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Event
from tests.asking import ask_for, events_of
from tests.benchmarks.walks import WARM, Bare, Pipe, arguments, loaded, spread


def search(session: ModelSession, ids: list[int], width: int, tokens: int, *, after_chain: bool) -> Iterator[Event]:
    tuning = Tuning(max_tokens=tokens)
    group = Group(1, "beams", 1, beams=BeamSettings(width, after_chain=after_chain))
    request = ask_for(ids, tuning.samplers(), tuning.conditions(), 1, group=group)
    return events_of(session, request)


def steps(
    session: ModelSession, bare: Bare, pipe: Pipe, ids: list[int], width: int, tokens: int, *, after_chain: bool
) -> tuple[list[tuple[float, float]], float]:
    """Seconds of each step, of the search and bare, alternating who goes first; and seconds of what it tells in the end."""
    found: list[tuple[float, float]] = []
    session.cache.rewind_to(0)
    bare.begin(ids, width)
    events = search(session, ids, width, tokens, after_chain=after_chain)

    def ours() -> list[int]:
        """The tokens of the beams that run on, as many as the width; none at the end."""
        for said in events:
            pipe.send([said])
            if isinstance(said, Beams):
                running = [beam.id for beam in said.beams if not beam.finished]
                return (running * width)[:width]
        return []

    def yardstick(rows: list[int], at: int) -> float:
        begun = perf_counter()
        bare.step(rows, at)
        return perf_counter() - begun

    running = ours()
    while True:
        step = len(found)
        if step == tokens - 1:
            break
        other = yardstick(running, len(ids) + step) if step % 2 else 0.0
        begun = perf_counter()
        following = ours()
        mine = perf_counter() - begun
        if not following:
            return found[WARM:], mine
        found.append((mine, other or yardstick(running, len(ids) + step)))
        running = following
    begun = perf_counter()
    ours()
    return found[WARM:], perf_counter() - begun


def main() -> None:
    """Runs all and prints a table."""
    parser = arguments(__doc__, tokens=100)
    parser.add_argument("--width", type=int, action="append")
    parser.add_argument("--after-chain", action="store_true")
    args = parser.parse_args()
    pipe = Pipe()
    for threads, session, bare, ids in loaded(args):
        print(f"{threads} thread{'s' * (threads > 1)}, prompt of {len(ids)}, {args.tokens} tokens")
        for width in args.width or (1, 2, 4, 8, 16):
            times, rest = steps(session, bare, pipe, ids, width, args.tokens, after_chain=args.after_chain)
            ours, other = zip(*times, strict=True)
            print(
                f"  width {width:2}  {1e3 * (median(ours) - median(other)):5.2f} ms more a step  ratio "
                f"{spread([b / a for a, b in times])}, in all {sum(other) / (sum(ours) + rest):.3f}",
                flush=True,
            )
    pipe.close()


if __name__ == "__main__":
    main()
