"""Two little lessons, and the app with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from termchat import paths
from termchat.chat.service import Chat
from termchat.config.settings import load
from termchat.conversation.store.store import Store
from termchat.decoding.samplers import Tuning
from termchat.lessons.lesson import Lesson, LessonStep, LessonText
from termchat.lessons.playing import Playing
from termchat.tui.lessons.lesson_screen import LessonStrip
from termchat.tui.lists.gather import SessionList
from tests.chats import chat_on
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import Desktop, desktop

FIRST = """\
title = "Greedy"
minutes = 3
summary = "What temperature 0 does."
learned = "At temperature 0 the likeliest token is taken each time."
next = "The same at temperature 1."

[opening]
raw = true
text = "The sea is"
look = "probability"
page = "next"
knobs = { temperature = 0.7, max_tokens = 40, seed = 7 }

[[steps]]
text = "Turn the temperature to 0: {tune.temperature}, then 0 and Enter."
points = ["tune"]
check = ["temperature == 0"]
do = ["/temperature 0"]
hints = ["It is a knob.", "Press {tune}, then t, 0 and Enter."]

[[steps]]
text = "Send the text with {send}, and read the tokens on the page of the next token."
points = ["send", "panel:next"]
check = ["new_replies >= 1"]
do = ["press send"]
hints = ["The text is in the composer already."]
[steps.question]
ask = "What will the same text give a second time?"
answers = ["the same reply", "another one", "nothing"]
right = 1

[[steps]]
text = "Have it made again with {regenerate}."
check = ["new_replies >= 1"]
do = ["press regenerate"]
hints = ["Once more."]
[steps.question]
ask = "How many tokens will it have?"
number = "tokens"
truth = "tokens"
"""
SECOND = """\
title = "Looks"
minutes = 1
summary = "Colours of tokens."
learned = "A look colours tokens."
next = ""

[[steps]]
text = "Press {look} until tokens are coloured by rank."
points = ["look"]
check = ["look == 'rank'"]
do = ["/look rank"]
"""


def one_step(text: str = "", title: str = "Own", **of_step: Any) -> Playing:
    """A lesson that is at the first of two steps with this text."""
    step = LessonStep(LessonText(text), **of_step)
    return Playing(Lesson(title=title, minutes=1, summary="Own.", learned=LessonText("It."), steps=(step, step)))


def go_to(played: LessonStrip, number: int) -> None:
    """Begin a step of the lesson that is played, wherever it is."""
    playing = played.playing
    playing.step, playing.finished, playing.result = number - 1, False, None
    playing._begin()
    playing.update(played.facts)
    played.show()


def write_lessons(folder: Path) -> None:
    """Both, in the folder of a user's own lessons."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "80-first-own.toml").write_text(FIRST)
    (folder / "81-second-own.toml").write_text(SECOND)


@asynccontextmanager
async def learner(
    size: tuple[int, int] = (120, 40),
    *,
    store: Store | None = None,
    lesson: str | None = "first-own",
    **options: object,
) -> AsyncIterator[Desktop]:
    """The app with both lessons in the user's folder, and a lesson begun in it; chats are kept in `store`."""
    write_lessons(paths.lessons_folder())
    config = load({}, {}, Path("/none"))

    def chat(engine: FakeEngine) -> Chat:
        return chat_on(engine, Tuning(seed=1), store=store)

    sessions = SessionList(store, config) if store is not None else None
    async with desktop(size, chat=chat, sessions=sessions, **options) as desk:  # type: ignore[arg-type]
        if lesson is not None:
            await begun(desk, lesson)
        yield desk


async def begun(desk: Desktop, lesson: str) -> None:
    """A lesson is begun, or resumed."""
    desk.app.learning.open_named(lesson)
    await desk.until(lambda: (played := desk.app.learning.strip) is not None and played.lesson.id == lesson)


def step(desk: Desktop) -> int:
    """The number of the step that is shown."""
    played = desk.app.learning.strip
    assert played is not None
    return played.playing.number


async def at_step(desk: Desktop, number: int) -> None:
    await desk.until(lambda: step(desk) == number)


async def answered(desk: Desktop, *pieces: str) -> None:
    """The running reply is said, and ends."""
    await desk.settle()
    desk.engine.say(*pieces)
    desk.engine.end()
    await desk.settle()


def strip(desk: Desktop) -> str:
    """What the strip says, in one line."""
    played = desk.app.learning.strip
    words = (line.text.removeprefix("▎ ") for line in played.drawn) if played is not None else ()
    return " ".join(" ".join(words).split())
