"""The whole app in a terminal that is read, against `termchat run`: `python -m tests.benchmarks.screen`.

Pairs, alternating: `termchat run --json` at the given threads, and the app at its own default, 120×40, same model, prompt,
seed and length. Prints decode rates and their ratio, frames a second, how far the screen is behind the model (from a token
leaving the worker to the end of the frame that shows it), and the first frame against a bare Textual app's.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles
from time import monotonic
from typing import NamedTuple

import msgspec
import pyte

from termchat.decoding.records import Finished, Record, SettingsRecord
from tests.whole.terminal import Terminal, environment

PROMPT = "Once upon a time, in a village far away from the sea, there lived an old woman who"
TAP = Path(__file__).parent / "tap"
FRAME_BEGINS, FRAME_ENDS = b"\x1b[?2026h", b"\x1b[?2026l"
CHAT_COLUMNS = 72
TAIL = 24
BARE = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("write a message")
Bare().run()
"""


class Timed(Terminal):
    """A terminal that notes when bytes came, and leaves reading them for later."""

    def __init__(self, home: Path, *args: str, program: Sequence[str] = ("-m", "termchat"), **variables: str) -> None:
        super().__init__(home, *args, columns=120, rows=40, program=program, **variables)
        self.chunks: list[tuple[float, bytes]] = []

    def take(self, data: bytes) -> None:
        """Kept with its time; says that synchronised frames are known, so that frames can be counted."""
        self.chunks.append((monotonic(), data))
        if b"\x1b[?2026$p" in data:
            os.write(self._main, b"\x1b[?2026;2$y")

    def until(self, wanted: bytes, limit: float = 120.0, start: int = 0) -> None:
        """Until some bytes came."""
        end = monotonic() + limit
        while wanted not in self.output[start:]:
            self.read()
            assert monotonic() < end, self.output[-2000:]


class Seen(NamedTuple):
    """What one run of the app showed."""

    rate: float
    frames: float
    behind_ms: list[float]
    threads: set[int]


def headless(home: Path, threads: int, tokens: int, seed: int) -> float | None:
    """Tokens a second of `termchat run`, or None if the model ended early."""
    done = subprocess.run(
        [sys.executable, "-m", "termchat", "run", "--raw", PROMPT, "--json", "--threads", str(threads),
         "--max-tokens", str(tokens), "--seed", str(seed)],
        env=environment(home, {}), capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    last = json.loads(done.stdout.splitlines()[-1])
    return float(last["tokens_per_second"]) if last["tokens"] == tokens else None


def screen(home: Path, tokens: int, seed: int, *flags: str) -> Seen | None:
    """One reply in the app."""
    tap = home / f"tap-{seed}"
    terminal = Timed(
        home, "--raw", "--max-tokens", str(tokens), "--seed", str(seed), *flags,
        TERMCHAT_TAP=str(tap), PYTHONPATH=str(TAP),
    )  # fmt: skip
    terminal.until(b"ready")
    os.write(terminal._main, PROMPT.encode())
    terminal.settle(0.3)
    os.write(terminal._main, b"\r")
    end = monotonic() + 180
    while not tap.exists() or tap.read_bytes().count(b"\n") < tokens:
        for _ in range(20):
            terminal.read(0.02)
        if monotonic() > end:
            terminal.close()
            return None
    terminal.settle(0.5)
    os.write(terminal._main, b"\x11")
    terminal.ended()
    db = sqlite3.connect(home / "data/termchat/sessions.db")
    rows = db.execute("SELECT record FROM records ORDER BY session, node, seq").fetchall()
    db.close()
    records = [msgspec.msgpack.decode(row[0], type=Record) for row in rows]
    finished = next(record for record in reversed(records) if isinstance(record, Finished))
    if finished.tokens != tokens or finished.tokens_per_second is None:
        return None
    drawn = [
        (float(at), ast.literal_eval(text))
        for at, text in (line.split(" ", 1) for line in tap.read_text().splitlines())
    ]
    frames = [at for at, data in terminal.chunks if FRAME_ENDS in data and drawn[0][0] < at < drawn[-1][0]]
    threads = {record.threads for record in records if isinstance(record, SettingsRecord)}
    return Seen(
        finished.tokens_per_second, len(frames) / (drawn[-1][0] - drawn[0][0]), _behind(terminal.chunks, drawn), threads
    )


def _behind(chunks: list[tuple[float, bytes]], drawn: list[tuple[float, str]]) -> list[float]:
    """For each token: milliseconds from leaving the worker to the first frame that shows it."""
    text = ""
    lengths = []
    for _, piece in drawn:
        text += re.sub(r"\s", "", piece)
        lengths.append(len(text))
    reader = pyte.Screen(120, 40)
    stream = pyte.ByteStream(reader)
    found: list[float] = []
    shown = 0
    for at, data in chunks:
        stream.feed(re.sub(rb"\x1b\[[?>=<][0-9;:$]*[a-zA-Z]|\x1b[P_^].*?\x1b\\", b"", data, flags=re.S))
        if FRAME_ENDS not in data or at < drawn[0][0]:
            continue
        visible = re.sub(r"[\s▌]", "", "".join(line[:CHAT_COLUMNS] for line in reader.display))
        done = bisect_right([moment for moment, _ in drawn], at)
        while done > shown and text[max(lengths[done - 1] - TAIL, 0) : lengths[done - 1]] not in visible:
            done -= 1
        found += [(at - moment) * 1e3 for moment, _ in drawn[shown:done]]
        shown = max(shown, done)
    return found


def first_frame(home: Path, program: tuple[str, ...]) -> float:
    """Seconds from the start of a program to its first drawn text."""
    begun = monotonic()
    terminal = Timed(home, program=program)
    terminal.until(b"write a message")
    taken = monotonic() - begun
    terminal.close()
    return taken


def main() -> None:
    """Runs all and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of termchat run")
    parser.add_argument("--app", default="", help="more flags for the app")
    args = parser.parse_args()
    flags = args.app.split()
    ratios, rates, plain, frames, behind = [], [], [], [], []
    for i in range(args.pairs):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            alone = headless(home, args.threads, args.tokens, 100 + i) if i % 2 else None
            seen = screen(home, args.tokens, 100 + i, *flags)
            alone = alone or headless(home, args.threads, args.tokens, 100 + i)
        if seen is None or alone is None:
            print(f"  seed {100 + i}: the reply ended early, left out")
            continue
        ratios.append(seen.rate / alone)
        rates.append(seen.rate)
        plain.append(alone)
        frames.append(seen.frames)
        behind += seen.behind_ms
        print(
            f"  seed {100 + i}: app {seen.rate:6.1f} tokens/s (threads {sorted(seen.threads)}), run {alone:6.1f}, "
            f"ratio {ratios[-1]:.3f}, {seen.frames:4.1f} frames/s, "
            f"behind: median {median(seen.behind_ms):.0f} ms, most {max(seen.behind_ms):.0f} ms"
        )
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 2 else (min(ratios), 0, max(ratios))
    print(
        f"app {median(rates):.1f} tokens/s, run {median(plain):.1f} with {args.threads} threads: ratio {median(ratios):.3f} "
        f"(quartiles {low:.3f}–{high:.3f}, {len(ratios)} pairs), {median(frames):.1f} frames/s, screen behind the model: "
        f"median {median(behind):.0f} ms, 99 % within {quantiles(behind, n=100)[98]:.0f} ms"
    )
    times: dict[str, list[float]] = {"bare": [], "app": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.pairs):
            times["bare"].append(first_frame(Path(folder), ("-c", BARE)))
            times["app"].append(first_frame(Path(folder), ("-m", "termchat")))
    bare, app = median(times["bare"]), median(times["app"])
    print(f"first frame: app {app * 1e3:.0f} ms, bare Textual app {bare * 1e3:.0f} ms, ratio {app / bare:.2f}")


if __name__ == "__main__":
    main()
