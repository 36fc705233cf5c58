"""Walks in the whole app, in a terminal that is read, against `termchat run --walks`.

`python -m tests.benchmarks.walks_screen`: pairs, alternating, with the same model, prompt, seed, length and threads, so that
both draw the same tokens. Prints the rates of all walks together and their ratio; steps and frames a second (a
frame shows a step of all walks: there are never more frames than steps, but for a few); how far the screen is behind;
and what the app's own process, without the engine's, takes of a processor.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from bisect import bisect_left
from pathlib import Path
from statistics import median, quantiles
from time import monotonic
from typing import NamedTuple

from termchat.decoding.records import Finished
from tests.benchmarks.screen import FRAME_ENDS, PROMPT, TAP, Timed
from tests.whole.chat_steps import over, stored
from tests.whole.terminal import environment


class Shown(NamedTuple):
    """What the app showed: its rate, steps and frames a second, milliseconds from each token to the frame that shows it, and
    the share of a processor that its own process took."""

    rate: Rate
    steps: float
    frames: float
    behind_ms: list[float]
    cpu: float


class Rate(NamedTuple):
    """Tokens of all walks, and milliseconds of the longest of them."""

    tokens: int
    ms: float

    @property
    def a_second(self) -> float:
        return self.tokens / self.ms * 1e3


def headless(home: Path, walks: int, flags: list[str]) -> Rate:
    done = subprocess.run(
        [sys.executable, "-m", "termchat", "run", PROMPT, "--json", "--walks", str(walks), *flags],
        env=environment(home, {}), capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    records = [json.loads(line) for line in done.stdout.splitlines()]
    ends = [record for record in records if record["record"] == "finished"]
    return Rate(sum(end["tokens"] for end in ends), max(end["decode_ms"] for end in ends))


def screen(home: Path, walks: int, flags: list[str]) -> Shown:
    tap = home / "tap"
    terminal = Timed(home, *flags, TERMCHAT_TAP=str(tap), PYTHONPATH=str(TAP))
    terminal.until(b"ready")
    os.write(terminal._main, f"/walks {walks} : {PROMPT}".encode())
    terminal.settle(0.3)
    before = cpu_of(terminal.process.pid)
    os.write(terminal._main, b"\r")
    end = monotonic() + 300
    while over(home) < walks:
        for _ in range(20):
            terminal.read(0.02)
        assert monotonic() < end, terminal.output[-2000:]
    used = cpu_of(terminal.process.pid) - before
    terminal.settle(0.5)
    os.write(terminal._main, b"\x11")
    terminal.ended()
    ends = [record for record in stored(home) if isinstance(record, Finished)]
    drawn = [float(line.split(" ", 1)[0]) for line in tap.read_text().splitlines()]
    frames = [at for at, data in terminal.chunks if FRAME_ENDS in data and at > drawn[0]]
    seconds = drawn[-1] - drawn[0]
    behind = [(frames[bisect_left(frames, at)] - at) * 1e3 for at in drawn if at < frames[-1]]
    rate = Rate(sum(end.tokens for end in ends), max(end.decode_ms for end in ends))
    return Shown(
        rate, len(drawn) / walks / seconds, sum(at < drawn[-1] for at in frames) / seconds, behind, used / seconds
    )


def cpu_of(pid: int) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--walks", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    ratios, rates, frames, steps, behind, cpu = [], [], [], [], [], []
    for i in range(args.pairs):
        flags = ["--raw", "--max-tokens", str(args.tokens), "--seed", str(100 + i), "--threads", str(args.threads)]
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            alone = headless(home, args.walks, flags) if i % 2 else None
            shown = screen(home, args.walks, flags)
            alone = alone or headless(home, args.walks, flags)
        ratios.append(shown.rate.a_second / alone.a_second)
        rates.append(shown.rate.a_second)
        frames.append(shown.frames)
        steps.append(shown.steps)
        behind += shown.behind_ms
        cpu.append(shown.cpu)
        print(
            f"  seed {100 + i}: app {rates[-1]:6.1f} tokens/s ({shown.rate.tokens}), run {alone.a_second:6.1f} "
            f"({alone.tokens}), ratio {ratios[-1]:.3f}, {shown.steps:4.1f} steps/s, {shown.frames:4.1f} frames/s, "
            f"behind: median {median(shown.behind_ms):.0f} ms, cpu {shown.cpu:.0%}"
        )
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 2 else (min(ratios), 0, max(ratios))
    print(
        f"{args.walks} walks: app {median(rates):.1f} tokens/s in all, ratio {median(ratios):.3f} "
        f"(quartiles {low:.3f}–{high:.3f}, {len(ratios)} pairs), {median(steps):.1f} steps/s, {median(frames):.1f} frames/s, "
        f"screen behind the model: median {median(behind):.0f} ms, 99 % within {quantiles(behind, n=100)[98]:.0f} ms, "
        f"the app's process {median(cpu):.0%} of a processor"
    )


if __name__ == "__main__":
    main()
