"""Frames while Markdown streams, by how much is there already: `python -m tests.benchmarks.streaming`.

Prints what a frame costs (processor time on the screen's event loop, 120×40) while tokens come, eight a frame, behind a chat of
many replies, in one long reply, in a long block of code and in a long table; and how much dearer the longer ones are.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from collections.abc import Iterator
from itertools import count, islice
from statistics import median, quantiles
from typing import NamedTuple

import msgspec

from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelSpec
from tests.benchmarks.frames import Watched, measure, run
from tests.chats import chat_on
from tests.tui import fake_engine
from tests.tui.transcripts import PROSE, REPLY, chat_of, in_pieces

AT_ONCE = 8
"""Tokens of a frame."""
TURN = 400
TEXT = f"{REPLY}\n\n{PROSE * 3}\n\n"
HEAD = "| what | how | where | much |\n|---|:-:|---|---:|\n"
FUNCTION = "def step_{n}(x: int) -> int:\n    return x * {n}  # the next\n\n\n"
ROW = "| row {n} | **bold** and `code{n}` | [guide {n}](https://example.org/{n}) | {n},234.5 |\n"


class Case(NamedTuple):
    """What is there before: so many tokens of earlier turns, and the begin of the reply; then what comes."""

    name: str
    earlier: int
    begun: list[str]
    coming: Iterator[str]


def cases() -> Iterator[tuple[Case, Case]]:
    """Pairs of a short and a long one."""
    for make in (_chat, _reply, _code, _table):
        yield make(1), make(10)


def prose() -> Iterator[str]:
    """Tokens of Markdown without end, nowhere the same."""
    return (piece for n in count() for piece in in_pieces(TEXT.replace("fox", f"fox {n}")))


def _many(text: str, begin: int = 0) -> Iterator[str]:
    return (piece for n in count(begin) for piece in in_pieces(text.format(n=n)))


def _chat(times: int) -> Case:
    return Case(f"a chat of {5000 * times:,} tokens", 5000 * times, [], prose())


def _reply(times: int) -> Case:
    words = prose()
    return Case(f"one reply of {5000 * times:,} tokens", 0, list(islice(words, 5000 * times)), words)


def _code(times: int) -> Case:
    begun = "".join(FUNCTION.format(n=n) for n in range(125 * times))
    return Case(
        f"a block of code of {500 * times:,} lines", 0, in_pieces(f"```python\n{begun}"), _many(FUNCTION, 125 * times)
    )


def _table(times: int) -> Case:
    begun = "".join(ROW.format(n=n) for n in range(200 * times))
    return Case(f"a table of {200 * times:,} rows", 0, in_pieces(HEAD + begun), _many(ROW, 200 * times))


async def frames(case: Case, number: int) -> list[float]:
    """Milliseconds of each frame."""
    turns, words = case.earlier // TURN, prose()
    chat_so_far = chat_of(*(text for _ in range(turns) for text in ("Go on.", "".join(islice(words, TURN)))))
    fake_engine.INFO = msgspec.structs.replace(fake_engine.INFO, context=1_000_000)
    engine = fake_engine.FakeEngine()
    chat = chat_on(engine, Tuning(seed=7), conversation=chat_so_far if turns else None)
    app = Watched(chat, ModelSpec("/tiny.gguf", "tiny"), theme="dark")
    app.drawn, app.frames = asyncio.Event(), []
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.2)
        chat.send("And now?")
        while not engine.generated:
            await asyncio.sleep(0.02)
        for begin in range(0, len(case.begun), 500):
            engine.say(*case.begun[begin : begin + 500])
            app._chat_screen.tick()
            await asyncio.sleep(0)
        while not app._chat_screen.transcript.is_complete:
            await asyncio.sleep(0.05)
        gc.collect()
        gc.freeze()

        def stream() -> None:
            engine.say(*(next(case.coming) for _ in range(AT_ONCE)))
            app._chat_screen.tick()

        return [cost.frame for cost in await measure(app, stream, number)]


def report(number: int = 300) -> None:
    """Measures and prints."""
    for pair in cases():
        medians = []
        for case in pair:
            taken = run(frames(case, number))
            medians.append(median(taken))
            print(
                f"streaming into {case.name}: a frame {medians[-1]:.1f} ms, 95 % within {quantiles(taken, n=20)[-1]:.1f} ms, "
                f"worst {max(taken):.1f} ms"
            )
        print(f"  ten times as long: {medians[1] / medians[0]:.2f} of the cost")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=300)
    report(parser.parse_args().frames)
