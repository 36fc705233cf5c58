"""No key and no frame waits for an engine that is far away: while each token takes two seconds, every key shows at once.

The line is much slower than a real one, so that a key which waited for it would be told from one on a busy machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest

from termchat.decoding.samplers import Tuning
from termchat.engine.address import EngineAddress, address_of
from termchat.engine.make import engine_at
from termchat.engine.port import ModelSpec
from termchat.tui.app import TermchatApp
from termchat.tui.composer.composer import Composer
from tests.chats import chat_on, chosen
from tests.delayed_line import DelayedPort
from tests.fake_ssh import WORKER, delayed, install, lab
from tests.remote.conftest import RealServer

EACH_WAY = 1.0
PATIENCE = 240.0


class Looked:
    """An app that runs on a real engine, and how long it took until a key could be seen."""

    def __init__(self, app: TermchatApp) -> None:
        self.app, self.chat = app, app.chat
        self.mode = app.screen_stack[0].tokens  # type: ignore[attr-defined]
        self.longest = 0.0

    @property
    def text(self) -> str:
        return "\n".join(strip.text.rstrip() for strip in self.app.screen._compositor.render_strips())

    async def until(self, condition: Callable[[], object]) -> float:
        """Waits until something is true; returns how long that took."""
        begun = monotonic()
        while not condition():
            assert self.app._exception is None, self.app._exception
            assert monotonic() - begun < PATIENCE, (self.chat.phase, self.text)
            await asyncio.sleep(0.005)
        return monotonic() - begun

    async def key(self, key: str, condition: Callable[[], object]) -> None:
        """Presses a key, and waits until what it does can be seen."""
        begun = monotonic()
        await self.app._press_keys([key])
        await self.until(condition)
        self.longest = max(self.longest, monotonic() - begun)

    async def turns(self) -> None:
        """What somebody does while a reply is being made."""
        composer = self.app.query_one(Composer)
        for number, letter in enumerate("hello"):
            await self.key(letter, lambda n=number: composer.text == "hello"[: n + 1] and "hello"[: n + 1] in self.text)  # type: ignore[misc]
        await self.key("ctrl+t", lambda: "TUNE" in self.text)
        before = self.chat.tuning.temperature
        await self.key("t", lambda: True)
        await self.key("right", lambda: self.chat.tuning.temperature != before)
        await self.key("escape", lambda: "TUNE" not in self.text)
        await self.key("ctrl+g", lambda: self.mode.is_open)
        await self.key("space", lambda: True)
        await self.key("escape", lambda: not self.mode.is_open)


@asynccontextmanager
async def app_on(address: EngineAddress) -> AsyncIterator[Looked]:
    chat = chat_on(engine_at(address), Tuning(seed=3, max_tokens=30, temperature=1.0))
    app = TermchatApp(chat, chosen(ModelSpec("", "smollm2", context=1024, threads=1, engine=address)), theme="dark")
    async with app.run_test(size=(120, 40)):
        looked = Looked(app)
        await looked.until(lambda: chat.phase == "idle")
        yield looked


async def plays(looked: Looked, delay: float) -> None:
    looked.chat.send("Tell me about rivers.")
    await looked.until(
        lambda: looked.chat.conversation.find_reply() and len(looked.chat.conversation.find_reply()[-1].node.tokens) > 1
    )
    await looked.turns()
    assert looked.longest < delay
    looked.chat.stop()
    await looked.until(lambda: looked.chat.phase == "idle")


async def test_keys_do_not_wait_for_a_server(real: RealServer) -> None:
    port = DelayedPort(real.port)
    try:
        async with app_on(address_of(port.url)) as looked:
            port.delay = EACH_WAY
            await plays(looked, EACH_WAY)
    finally:
        port.close()


async def test_keys_do_not_wait_for_a_worker_over_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    (tmp_path / "bin").mkdir()
    install(tmp_path / "bin", monkeypatch)
    async with app_on(lab(delayed(WORKER, EACH_WAY))) as looked:
        await plays(looked, EACH_WAY)
