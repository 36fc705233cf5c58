"""A chat of 100,000 tokens: `python -m tests.benchmarks.long`.

Makes a store with one chat: many replies of 400 tokens and some of 5,000, with records as the engine makes them. Prints how
long `termchat --resume` takes to show it, in a fresh process and a terminal that is read; what the app holds in memory for
each token, against an empty chat; and what things cost on the screen's event loop, in processor time: the dearest frame, and
all from the event to the first frame. Things are tokens that stream at the end, moves of the cursor, scrolling, another look,
another width; then frames while Markdown streams into chats, replies, code and tables of different lengths (`streaming`).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import tracemalloc
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from time import monotonic, sleep
from typing import Any

import msgspec
from textual import events
from textual.geometry import Size

from termchat.chat.opening import load_latest
from termchat.chat.service import Chat
from termchat.config.settings import Settings, load
from termchat.conversation.session import Session
from termchat.conversation.store.store import Store
from termchat.decoding.records import Record, Token
from termchat.engine.port import ModelSpec
from tests import made_records
from tests.benchmarks import streaming
from tests.benchmarks.frames import Cost, Watched, measure, run
from tests.benchmarks.screen import Timed
from tests.chats import chat_on
from tests.tui import fake_engine
from tests.tui.transcripts import in_pieces

LONG, SHORT = 5_000, 400
"""Tokens of a reply. One in `EVERY` is a long one."""
EVERY = 40
END = "and this is where the long chat ends"
STORE = "data/termchat/sessions.db"


def fill(path: Path, tokens: int) -> int:
    """A store with one chat of at least so many tokens; returns how many there are. 0 makes an empty store."""
    store, chance = Store.open(path), random.Random(1)
    session = Session(store=store)
    chat = session.conversation
    pieces = streaming.prose()
    number = 0
    while (here := len(chat.list_ids())) < tokens:
        number += 1
        asked = made_records.user(chat, f"Question {number}: and then?", [chance.randrange(49152) for _ in range(24)])
        session.add_node(asked)
        size = min(LONG if number % EVERY == 5 else SHORT, max(tokens - here - 24, 40))
        words = [next(pieces) for _ in range(size)]
        if here + 24 + size >= tokens:
            words[-len(in_pieces(END)) :] = in_pieces(END)
        node = made_records.reply(chat)
        session.add_node(node)
        for record in made_records.stream(chat.list_ids(), [word.encode() for word in words]):
            session.add(node, _drawn(record, chance))
    while not store.flush(60.0):
        pass
    store.close(60.0)
    return here


def _drawn(record: Record, chance: random.Random) -> Record:
    if not isinstance(record, Token):
        return record
    return msgspec.structs.replace(
        record,
        id=chance.randrange(49152),
        probability=chance.random(),
        entropy=chance.expovariate(0.6),
        rank=int(chance.expovariate(1.5)),
        decode_us=int(6000 * chance.lognormvariate(0, 0.3)),
    )


# --- how long it takes to open --------------------------------------------------------------------------------------


def shown(home: Path, *flags: str, wanted: bytes) -> float:
    """Seconds from the start of a process to the frame with these words."""
    begun = monotonic()
    terminal = Timed(home, *flags)
    terminal.until(wanted)
    taken = monotonic() - begun
    terminal.close()
    return taken


# --- the app without a terminal -------------------------------------------------------------------------------------


def latest(store: Store, config: Settings, engine: fake_engine.FakeEngine) -> Chat:
    """The latest chat of a store as `--resume` opens it, or where there is none a new one."""
    return chat_on(engine, session=load_latest(store, config) or Session(tuning=config.tuning, store=store))


@asynccontextmanager
async def opened(home: Path) -> AsyncIterator[tuple[Watched, fake_engine.FakeEngine]]:
    """The latest chat of the store as `--resume` opens it, laid out, its engine one that says what it is told to."""
    config = load(environ={}, file=home / "none.toml")
    store = Store.open(home / STORE)
    fake_engine.INFO = msgspec.structs.replace(fake_engine.INFO, context=1_000_000)
    engine = fake_engine.FakeEngine()
    chat = latest(store, config, engine)
    app = Watched(chat, ModelSpec("/tiny.gguf", "tiny"), theme="dark", close=store.close)
    app.drawn, app.frames = asyncio.Event(), []
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.2)
        transcript = app._chat_screen._transcript
        while chat.conversation.leaf is not None and not transcript.is_complete:
            await asyncio.sleep(0.05)
        gc.collect()
        yield app, engine


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def hold(home: Path) -> dict[str, int]:
    """Bytes in memory once the chat is open and laid out, and after somebody has looked at all of it."""
    async with opened(home) as (app, _):
        held = {"open": resident()}
        transcript = app._chat_screen._transcript
        for look in ("reading", "probability", "entropy"):
            transcript.look = look
            for y in range(0, transcript.line_count, 30):
                transcript.scroll_to(y=y, animate=False, force=True)
                transcript.render_lines(transcript.size.region)
                if not y % 600:
                    await asyncio.sleep(0)
            while not transcript.is_complete and app.chat.conversation.leaf is not None:
                await asyncio.sleep(0.05)
        gc.collect()
        return held | {"read": resident()}


async def parts(home: Path) -> dict[str, int]:
    """Bytes by the file whose code took them."""
    tracemalloc.start()
    async with opened(home):
        found: defaultdict[str, int] = defaultdict(int)
        for stat in tracemalloc.take_snapshot().statistics("filename"):
            found[stat.traceback[0].filename.rpartition("termchat/")[2].rpartition("site-packages/")[2]] += stat.size
        return dict(sorted(found.items(), key=lambda item: -item[1])[:8])


async def costs(home: Path, times: int) -> dict[str, list[Cost]]:
    """What frames cost, by what was done."""
    taken: dict[str, list[Cost]] = {}
    async with opened(home) as (app, engine):
        gc.freeze()
        transcript, chance = app._chat_screen._transcript, random.Random(7)

        def press(*keys: str) -> Callable[[], object]:
            return lambda: app.post_message(events.Key(key := chance.choice(keys), key if len(key) == 1 else None))

        app.chat.send("Go on.")
        await asyncio.sleep(0.3)
        pieces = streaming.prose()

        def stream() -> None:
            engine.say(*(next(pieces) for _ in range(8)))
            app._chat_screen.tick()

        taken["tokens stream"] = await measure(app, stream, 600)
        taken["a key typed meanwhile"] = await measure(app, press("a", "b", " "), times)
        engine.end()
        taken["scrolling by pages"] = await measure(app, press("pageup", "pageup", "pagedown"), times)

        def jump() -> None:
            transcript.scroll_to(y=chance.randrange(transcript.line_count), animate=False, force=True)

        taken["a jump to anywhere"] = await measure(app, jump, times)
        taken["another look"] = await measure(app, press("ctrl+l"), 20, rest=0.5)
        taken["another width"] = await measure(app, lambda: _resize(app, chance.randrange(100, 150)), 20, rest=0.5)
        _resize(app, 120)
        taken["opening the token cursor"] = []
        for _ in range(5):
            taken["opening the token cursor"] += await measure(app, press("ctrl+g"), 1, rest=0.5)
            await measure(app, press("escape"), 1, rest=0.5)
        await measure(app, press("ctrl+g"), 1, rest=0.5)
        moves = press("left", "right", "up", "down", "home", "end", "n", "N", "u", "d")
        taken["a move of the cursor"] = await measure(app, moves, times, of=lambda: transcript.cursor)
    return taken


def _resize(app: Watched, width: int) -> None:
    size = Size(width, 40)
    app._driver._size = size  # type: ignore[union-attr]
    app.post_message(events.Resize(size, size))


CHILDREN: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {"hold": hold, "parts": parts, "costs": costs}


def child(name: str, home: Path, *more: object) -> Any:
    """One of the measurements above, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.long", "--child", name, "--home", str(home), *map(str, more)],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=100, help="of each thing that is done on the screen")
    parser.add_argument("--opened", type=int, default=7, help="times that the chat is opened")
    parser.add_argument("--home", type=Path, help="a folder made by an earlier run, kept")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        more = (args.times,) if args.child == "costs" else ()
        print(json.dumps(run(CHILDREN[args.child](args.home, *more))))
        return
    with tempfile.TemporaryDirectory() as folder:
        report(args.home or Path(folder), args.tokens, args.times, args.opened)


def report(home: Path, tokens: int, times: int, count: int) -> None:
    """All of it, on one store."""
    kept, empty = home / STORE, home / "empty"
    (empty / STORE).parent.mkdir(parents=True, exist_ok=True)
    if not kept.exists():
        kept.parent.mkdir(parents=True)
        fill(kept, tokens)
    print(f"{tokens} tokens, a store of {kept.stat().st_size / 1e6:.0f} MB")
    if count:
        sleep(1.0)
        waited = [shown(home, "--resume", wanted=END.split()[-1].encode()) for _ in range(count)]
        fresh = [shown(empty, wanted=b"write a message") for _ in range(count)]
        print(f"opened in {median(waited):.2f} s, at most {max(waited):.2f} s; an empty chat in {median(fresh):.2f} s")
    held, none = child("hold", home), child("hold", empty)
    for when, bytes_held in held.items():
        print(f"held for a token, {when}: {(bytes_held - none[when]) / tokens:.0f} bytes")
    print("  of it: " + ", ".join(f"{part} {size / tokens:.0f}" for part, size in child("parts", home).items()))
    for what, taken in child("costs", home, "--times", times).items():
        if taken:
            frames, firsts = zip(*taken, strict=True)
            high = quantiles(frames, n=20)[-1] if len(frames) > 1 else frames[0]
            print(
                f"{what}: a frame {median(frames):.1f} ms, 95 % within {high:.1f} ms, worst {max(frames):.1f} ms; "
                f"until the first {median(firsts):.1f} ms, at most {max(firsts):.1f} ms"
            )
    streaming.report()


if __name__ == "__main__":
    main()
