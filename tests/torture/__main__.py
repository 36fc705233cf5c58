"""`python -m tests.torture`: kills without end, and the figure."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.torture import plan
from tests.torture.life import Tally, live


def main() -> int:
    """Runs all; 1 where there was a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="kills in all  [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="what all is drawn from  [%(default)s]")
    parser.add_argument("--life", type=int, help="only this one, as a fault says it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="lives at a time  [%(default)s]")
    args = parser.parse_args()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored, and what is started here would inherit that
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    tally = Tally()
    whole, rest = divmod(args.rounds, plan.ROUNDS)
    lives = [(number, plan.ROUNDS) for number in range(whole)] + ([(whole, rest)] if rest else [])
    if args.life is not None:
        lives = [(args.life, plan.ROUNDS)]

    def one(life: tuple[int, int]) -> None:
        number, rounds = life
        live(args.seed, number, folder / str(number), tally, rounds)
        if number % 10 == 9:
            print(tally, flush=True)

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(one, lives))
    print("; ".join(f"{count} {kind}" for kind, count in tally.rounds.most_common()))
    print(f"seed {args.seed}: {tally}")
    if not tally.faults:
        folder.rmdir()
    return bool(tally.faults)


if __name__ == "__main__":
    sys.exit(main())
