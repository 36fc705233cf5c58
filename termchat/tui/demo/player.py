"""The app, typing by itself until somebody else does."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from textual import events
from textual.worker import Worker

from termchat import paths
from termchat.chat.changes import Notice
from termchat.chat.recording import StoreRecorder
from termchat.chat.service import Chat
from termchat.config.settings import Settings
from termchat.conversation.session import SessionInfo
from termchat.conversation.store.store import Store
from termchat.engine.make import make_engine
from termchat.engine.port import Engine, ModelSpec
from termchat.tui.app import TermchatApp
from termchat.tui.demo import tape
from termchat.tui.demo.engine import NO_MODEL, SPEC, DemoEngine
from termchat.tui.demo.script import STEPS, TUNING, notice
from termchat.tui.keys.key import key_of
from termchat.tui.models.gather import Models
from termchat.tui.terminal.capabilities import abilities_of

_LETTER = 0.03
"""Seconds between the letters of a text."""
_LOOK = 0.05
"""Seconds between looks at whether a step's time has come."""


class DemoApp(TermchatApp):
    """Types the script. Any key ends that and does nothing else, except for quit and interrupt."""

    def __init__(self, chat: Chat, spec: ModelSpec, **options: Any) -> None:
        super().__init__(chat, spec, **options)
        self._own: set[int] = set()
        self._playing: Worker[None] | None = None

    @property
    def is_playing(self) -> bool:
        return self._playing is not None and not self._playing.is_finished

    @property
    def is_over(self) -> bool:
        """Whether the script has ended or the user has taken over."""
        return self._playing is not None and self._playing.is_finished

    def on_mount(self) -> None:
        super().on_mount()
        self.call_after_refresh(self._begin_script)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, (events.Key, events.MouseDown, events.Paste)) and not event.is_forwarded:
            if id(event) in self._own:
                self._own.discard(id(event))
            elif self.is_playing:
                self._hand_over()
                if isinstance(event, events.Key) and event.key not in ("ctrl+c", "ctrl+q"):
                    return
        await super().on_event(event)

    def _begin_script(self) -> None:
        if isinstance(self.chat.engine, DemoEngine):
            self.chat.engine.refused = lambda: self._chat_screen.tell(Notice(NO_MODEL))
        self._playing = self.run_worker(self._play())

    def _hand_over(self) -> None:
        assert self._playing is not None
        self._playing.cancel()
        if isinstance(self.chat.engine, DemoEngine):
            self.chat.engine.free()
        self._chat_screen.tell(Notice("the keyboard is yours", "this chat is a recording; F3 lists models to download"))

    async def _play(self) -> None:
        for step in STEPS:
            while not step.when(self.chat):
                await asyncio.sleep(_LOOK)
            if (told := notice(step)) is not None:
                self._chat_screen.tell(told)
            await asyncio.sleep(step.pause)
            for character in step.text:
                await self._press(character, _LETTER)
            for key in step.keys:
                await self._press(key, step.pace)

    async def _press(self, key: str, after: float) -> None:
        character = key if len(key) == 1 else None
        event = events.Key(key_of(key) if character else key, character)
        self._own.add(id(event))
        self.post_message(event)
        await asyncio.sleep(after)


def build(config: Settings, engine: Engine, folder: Path, spec: ModelSpec = SPEC, **options: Any) -> DemoApp:
    """The app on this engine, not running yet; its chat is kept in `folder` for as long as it runs. Keys are not remapped:
    the script presses them."""
    store = Store.open(folder / "sessions.db")
    recorder = StoreRecorder(store, SessionInfo(tuning=TUNING))
    chat = Chat(engine, TUNING, recorder=recorder)
    given: dict[str, Any] = {
        "models": Models(config),
        "theme": config.theme,
        "save": lambda path: recorder.saving(path, chat.conversation),
        "close": store.close,
    }
    return DemoApp(chat, spec, **given | options)


def start(config: Settings) -> int:
    """Plays the demo in this terminal; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="termchat-demo-", ignore_cleanup_errors=True) as folder:
        engine = DemoEngine(tape.load(), lambda: make_engine(paths.log_file()))
        app = build(config, engine, Path(folder), abilities=abilities_of(os.environ, config.glyphs))
        app.run()
    return app.return_code or 0
