"""Puts the app together: store, engine, chat, screen."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import dataclasses
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from termchat import paths
from termchat.chat.changes import Notice
from termchat.chat.host import Host
from termchat.chat.opening import at_model_of, choose_configured, load_latest, load_session
from termchat.chat.service import Chat
from termchat.config.origins import FLAG
from termchat.conversation.session import Session
from termchat.conversation.store.database import StoreError
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.constraint import Constraint
from termchat.engine.make import make_engine
from termchat.engine.port import Engine
from termchat.text import sanitize
from termchat.tui.app import TermchatApp
from termchat.tui.keys.tables import name_of
from termchat.tui.lists.gather import Models, SessionList
from termchat.tui.terminal.capabilities import EVERYTHING, Abilities, abilities_of

if TYPE_CHECKING:
    from termchat.config.settings import Settings
    from termchat.lessons.lesson import Lesson


def start(
    config: Settings,
    engine: Engine,
    *,
    resume: str | None = None,
    raw: bool = False,
    constraint: Constraint | None = None,
    lesson: str | None = None,
) -> int:
    """Run the chat in this terminal; return the exit code. `resume` is a saved chat as `Store.find` takes it; `lesson` is the
    name of a lesson to begin with, "" lists them."""
    abilities = abilities_of(os.environ, config.glyphs)
    app = build(config, engine, resume=resume, raw=raw, abilities=abilities, lesson=lesson)
    if constraint is not None:  # else a chat that is opened again keeps its own
        app.chat.set_constraint(constraint)
    app.run()
    problem = app.chat.unsaved
    if problem is not None:
        with contextlib.suppress(OSError):  # the terminal may be gone
            print(sanitize(f"termchat: the chat was not saved: {problem}"), file=sys.stderr)
    return app.return_code or 0


def build(
    config: Settings,
    engine: Engine | None = None,
    *,
    resume: str | None = None,
    raw: bool = False,
    abilities: Abilities = EVERYTHING,
    lesson: str | None = None,
    file: Path | None = None,
) -> TermchatApp:
    """Make the app, not running yet; its engine loads a model after the first frame. Chats are kept in `file`, else where the
    user has them."""
    notices: list[Notice] = []
    store = _open_store(notices, file or paths.store_file())
    sessions = SessionList(store, config)
    configured = Session(
        tuning=config.tuning, origins=config.knob_origin(), conversation=Conversation(config.system, raw=raw)
    )
    session = _resume(store, resume, config, notices) if resume is not None else None
    if session is None:
        session = dataclasses.replace(configured, conversation=Conversation(config.system, raw=raw), store=store)
    else:
        config, missing = at_model_of(config, session.model)
        if missing:
            notices.append(Notice(f"this chat used {missing}", "it continues with the configured model", "warning"))
    keymap: dict[str, str] = {}
    mistakes = list(config.problems)
    if config.keys:
        from termchat.tui.keys.remap import checked  # not needed by those who leave the keys as they are

        keymap, mistaken = checked(config.keys, config.key_places)
        mistakes += mistaken
    chat = Chat(
        Host(engine or make_engine(paths.log_file())),
        session,
        on_full=config.on_full,
        step_by_step_text=config.step_by_step_text,
        configured=configured,
        measures=engine is None,
    )

    def load(chat: Chat) -> Iterable[str]:
        choice = choose_configured(config)
        yield from choice.mistakes
        chat.loading.switch_model(choice)

    return TermchatApp(
        chat,
        load,
        models=Models(config),
        theme=config.theme,
        theme_place=config.places["theme"] if config.origin["theme"] != FLAG else "",
        keeps_theme=True,
        abilities=abilities,
        sessions=sessions,
        mistakes=mistakes,
        notices=notices,
        keymap=keymap,
        close=store.close,
        lesson=lesson,
        big=config.big,
    )


def play_unseen(
    config: Settings,
    lesson: Lesson,
    *,
    size: tuple[int, int] = (100, 30),
    say: Callable[[str], object] = lambda _: None,
) -> list[str]:
    """Play a lesson with the configured model in an app without a terminal, and keep nothing of it; return what went wrong."""

    async def play(app: TermchatApp) -> list[str]:
        async with app.run_test(size=size):
            return await app.learning.play(lesson, say)

    with tempfile.TemporaryDirectory(prefix="termchat-lesson-", ignore_cleanup_errors=True) as folder:
        app = build(config, file=Path(folder) / "sessions.db")
        app.learning.folder = Path(folder)
        return asyncio.run(play(app))


def _open_store(notices: list[Notice], file: Path) -> Store:
    try:
        return Store.open(file)
    except StoreError as error:
        # The chat must go on; what is said is kept for as long as the app runs, so that it can be saved by hand.
        notices.append(Notice(f"this chat will not be saved: {error}", f"save it with {name_of('save')}", "error"))
        folder = Path(tempfile.mkdtemp(prefix="termchat-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # by then a transcript that was begun is written
        return Store.open(folder / "sessions.db")


def _resume(store: Store, wanted: str, config: Settings, notices: list[Notice]) -> Session | None:
    try:
        session = load_latest(store, config) if wanted == "last" else load_session(store, store.find(wanted), config)
    except (StoreError, OSError) as error:
        others = f"started a new one; {name_of('sessions')} lists the others"
        notices.append(Notice(f"the chat cannot be opened: {error}", others, "error"))
        return None
    if session is None:
        notices.append(Notice("no earlier chat to resume", "started a new one"))
    return session
