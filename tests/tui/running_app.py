"""The app on a fake engine, and a person's hands and eyes on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from unittest.mock import patch

from rich.cells import cell_len
from textual.message_pump import MessagePump
from textual.pilot import Pilot

from termchat.chat.service import Chat
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelSpec
from termchat.tui.app import TermchatApp
from termchat.tui.composer.composer import Composer
from termchat.tui.screen import notices
from tests.chats import chat_on, chosen
from tests.tui.fake_engine import FakeEngine

SPEC = ModelSpec("/tiny.gguf", "tiny")
FRAME = 0.02
"""Seconds, a little more than Textual's own timers for layout and resizing wait: timers go off in the order of their times."""
PATIENCE = 60.0
"""Seconds after which an app that still has something to read will never be done."""


class Desktop:
    """An app that runs, and what it stands on."""

    def __init__(self, app: TermchatApp, engine: FakeEngine, pilot: Pilot[None]) -> None:
        self.app, self.engine, self.pilot = app, engine, pilot

    @property
    def chat(self) -> Chat:
        """The chat that is shown."""
        return self.app.chat

    @property
    def text(self) -> str:
        """What the screen shows."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    @property
    def composer(self) -> Composer:
        return self.app._chat_screen.query_one(Composer)

    async def type(self, text: str, *keys: str) -> None:
        """Types a text, then presses keys, as somebody does who looks at what each of them did."""
        for key in (*({" ": "space", ".": "full_stop"}.get(c, c) for c in text), *keys):
            await self.app._press_keys([key])  # not the pilot's, which waits as `settle` does
            await self.settle()

    async def settle(self) -> None:
        """Lets the app take in what was pressed and what the engine said, until nobody has anything left to read.

        Raises:
            Exception: what the app failed with; it reads nothing any more.
            TimeoutError: there is no end to what it has to read.
        """
        end = monotonic() + PATIENCE
        await self._drain(end)
        busy = True
        while busy:
            await asyncio.sleep(FRAME)
            for _ in range(2):  # what comes of a frame, such as a new size, has one of its own
                await self._drain(end)
                self.app.screen._on_timer_update()
            await asyncio.sleep(0)
            to_come = self.app.screen._callbacks or self.app.screen._dirty_widgets
            busy = (self._is_busy or bool(to_come)) and monotonic() < end

    async def _drain(self, end: float) -> None:
        """Until everybody waits for a message. The pilot finds out by a message to each widget, which takes most of a test."""
        if self.engine.unread:
            self.app._chat_screen.tick()
        await asyncio.sleep(0)
        rounds = 0
        while self._is_busy:
            if self.app._exception is not None:
                raise self.app._exception
            if monotonic() > end:
                raise TimeoutError(f"the app is busy for {PATIENCE:.0f} s")
            if self.engine.unread:
                self.app._chat_screen.tick()
            rounds += 1
            await asyncio.sleep(0 if rounds < 100 else 0.001)
        if self.app._exception is not None:
            raise self.app._exception

    @property
    def _is_busy(self) -> bool:
        if self.engine.unread or self.app._typed.waiting:
            return True
        widgets = (widget for screen in self.app.screen_stack for widget in screen.walk_children(with_self=True))
        return any(_is_at_work(pump) for pump in (self.app, *widgets))

    async def until(self, condition: Callable[[], object]) -> None:
        """Waits until something is true, which a thread or a timer brings."""
        await self.settle()
        end = monotonic() + PATIENCE
        while not condition():
            assert monotonic() < end, self.text
            await asyncio.sleep(FRAME)
            await self.settle()

    async def shows(self, *texts: str) -> None:
        """Waits for texts."""
        await self.until(lambda: all(text in self.text for text in texts))

    async def sent(self, text: str, *pieces: str) -> None:
        """A message is sent and the reply has begun."""
        await self.type(text, "enter")
        self.engine.say(*pieces)
        await self.settle()


def _is_at_work(pump: MessagePump) -> bool:
    """Whether it has a message to read or something to call, or is still at that."""
    ready = pump._message_queue.ready_event
    return not pump._closed and (ready.is_set() or not ready._waiters or bool(pump._next_callbacks))


async def _no_nap(*_: float) -> None:
    await asyncio.sleep(0)


@contextmanager
def without_naps() -> Iterator[None]:
    """Takes away Textual's waits until the process uses little of the processor, which on a busy machine is at once:
    `Desktop.settle` looks at what is left to read instead."""
    with patch("textual.app.wait_for_idle", _no_nap), patch("textual.pilot.wait_for_idle", _no_nap):
        yield


@asynccontextmanager
async def desktop(
    size: tuple[int, int] = (120, 40),
    *,
    spec: ModelSpec | None = SPEC,
    load: Callable[[Chat], Iterable[str]] | None = None,
    loads: bool = True,
    chat: Callable[[FakeEngine], Chat] = lambda engine: chat_on(engine, Tuning(seed=1)),
    **options: object,
) -> AsyncIterator[Desktop]:
    engine = FakeEngine(loads=loads)
    load = load or (chosen(spec) if spec is not None else lambda _: ())
    app = TermchatApp(chat(engine), load, **{"theme": "dark", **options})  # type: ignore[arg-type]
    with without_naps(), patch.object(notices, "_QUIT_WITHIN", PATIENCE), patch.object(notices, "_GLANCE", PATIENCE):
        async with app.run_test(size=size) as pilot:
            desk = Desktop(app, engine, pilot)
            await desk.settle()
            yield desk


async def talked(desk: Desktop, *turns: tuple[str, str]) -> None:
    """Messages and their replies."""
    for text, reply in turns:
        await desk.sent(text, reply)
        desk.engine.end()
        await desk.settle()


async def command(desk: Desktop, text: str) -> None:
    """Writes a command and has it done, whatever is offered meanwhile."""
    desk.composer.insert(text)
    await desk.settle()
    await desk.type("", *(["escape"] if desk.composer.popup.completion is not None else []), "enter")


def path(desk: Desktop) -> list[str]:
    return [text for _, text in desk.chat.conversation.list_turns()]


def idle_chat(engine: FakeEngine) -> Chat:
    chat = chat_on(engine, Tuning(seed=1))
    chat.loading.load(SPEC)
    chat.pump_events()
    return chat


def place(desk: Desktop, text: str) -> tuple[int, int]:
    """The cell where a text begins that the screen shows."""
    y, line = next((y, line) for y, line in enumerate(desk.text.splitlines()) if text in line)
    return cell_len(line[: line.index(text)]), y


async def click(desk: Desktop, text: str, *, right: int = 0, **how: int) -> None:
    """Clicks a text on the screen, so many cells from its begin."""
    x, y = place(desk, text)
    await desk.pilot.click(None, offset=(x + right, y), **how)  # type: ignore[arg-type]
    await desk.settle()
