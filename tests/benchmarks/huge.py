"""A message of a megabyte, the longest that can be sent: `python -m tests.benchmarks.huge`.

Pastes it, sends it, reads, finds and copies it, and opens the chat again, in the app without a terminal and an engine without a
model. Prints for each deed the longest time, in milliseconds, in which the event loop heard nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import selectors
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
from textual import events
from textual.geometry import Size
from textual.selection import Selection

from termchat.config.settings import load
from termchat.conversation.store.store import Store
from termchat.engine.port import ModelSpec
from termchat.tui.app import TermchatApp
from tests.benchmarks.long import latest
from tests.chats import chosen
from tests.tui import fake_engine

WORDS = "The quick brown fox jumps over the lazy dog while bears sleep"
TEXTS: dict[str, Callable[[int], str]] = {
    "lines": lambda size: f"{WORDS}\n" * (size // (len(WORDS) + 1)),
    "one line": lambda size: f"{WORDS} " * (size // (len(WORDS) + 1)),
    "one word": lambda size: "x" * size,
    "ideographs": lambda size: "狐狸和熊住在森林里。" * (size // 30),
}
REST = 1.0
"""Seconds in which what a deed sets off is over, but for what is laid out out of sight."""


class _Loop(selectors.DefaultSelector):
    """Notes how long the event loop was away from where it waits."""

    since: float | None = None
    longest = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if self.since is not None:
            self.longest = max(self.longest, perf_counter() - self.since)
        found = super().select(timeout)
        self.since = perf_counter()
        return found


async def measure(loop: _Loop, home: Path, text: str) -> None:
    """All deeds, in order."""

    async def deed(what: str, do: Callable[[], object]) -> None:
        await asyncio.sleep(REST)
        loop.longest = 0.0
        do()
        await asyncio.sleep(REST)
        print(f"  {what}: {loop.longest * 1e3:.0f} ms", flush=True)

    await _with_app(home, lambda app, engine: _talk(deed, app, engine, text))
    loop.longest = 0.0
    await _with_app(home, lambda _, __: asyncio.sleep(REST))
    print(f"  opening the chat again: {loop.longest * 1e3:.0f} ms")


async def _talk(deed: Any, app: TermchatApp, engine: fake_engine.FakeEngine, text: str) -> None:
    screen = app._chat_screen
    transcript = screen.transcript

    def press(*keys: str) -> Callable[[], object]:
        return lambda: [app.post_message(events.Key(key, key if len(key) == 1 else None)) for key in keys]

    def widen() -> None:
        app._driver._size = size = Size(110, 40)  # type: ignore[union-attr]
        app.post_message(events.Resize(size, size))

    await deed("pasting", lambda: app.post_message(events.Paste(text)))
    await deed("sending", press("enter"))
    await deed("a reply", lambda: (engine.say(*[" word"] * 40), screen.tick()))
    engine.end()
    await deed("the middle", lambda: transcript.scroll_to(y=transcript.line_count // 2, animate=False, force=True))
    await deed("another width", widen)
    await deed("another look", press("ctrl+l"))
    await deed("finding", press("ctrl+f", "f", "o", "x"))
    await deed("the next", press("enter"))
    await deed("back", press("escape"))
    await deed("copying all", lambda: transcript.get_selection(Selection(None, None)))
    await deed("editing it", press("f7"))


async def _with_app(home: Path, do: Callable[[TermchatApp, fake_engine.FakeEngine], Awaitable[None]]) -> None:
    config, store = load(environ={}, file=home / "none.toml"), Store.open(home / "sessions.db")
    engine = fake_engine.FakeEngine()
    app = TermchatApp(
        latest(store, config, engine),
        chosen(ModelSpec("/tiny.gguf", "tiny")),
        theme="dark",
        close=lambda: store.close(60.0),
    )
    async with app.run_test(size=(120, 40)):
        await do(app, engine)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=990_000, help="of the message")
    args = parser.parse_args()
    fake_engine.INFO = msgspec.structs.replace(fake_engine.INFO, context=10_000_000)
    for kind, make in TEXTS.items():
        text, loop = make(args.bytes), _Loop()
        print(f"{kind}: {len(text.encode()) / 1e6:.1f} MB, {text.count(chr(10)) + 1:,} lines; the event loop at most")
        with (
            tempfile.TemporaryDirectory() as home,
            asyncio.Runner(loop_factory=lambda loop=loop: asyncio.SelectorEventLoop(loop)) as runner,
        ):
            runner.run(measure(loop, Path(home), text))


if __name__ == "__main__":
    main()
