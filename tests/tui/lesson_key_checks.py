"""Presses all keys of the strip of a lesson, and of the list of lessons."""

from __future__ import annotations

from pathlib import Path

from termchat import paths
from termchat.lessons.playing import LessonState
from termchat.tui.keys.tables import KeyGroup
from termchat.tui.lessons.lesson_words import read_lessons
from tests.tui.key_checks import Place
from tests.tui.made_lessons import SECOND, at_step, begun, go_to, learner, step, strip, write_lessons


async def on_strip(group: KeyGroup, _: Path) -> Place:
    async with learner() as desk:
        learning = desk.app.learning

        async def open() -> None:
            if learning.strip is None:
                await begun(desk, "first-own")
            if not learning.strip.open:
                await desk.type("", "ctrl+space")

        class Strip(Place):
            @property
            def here(self) -> bool:
                return learning.strip is not None and learning.strip.open

        async def afresh(number: int) -> None:
            played = learning.strip
            assert played is not None
            go_to(played, number)
            await desk.settle()

        place = Strip(desk, group, open=open)
        for key in ("?", "h"):
            await afresh(1)
            await place.press("hint", lambda: "Hint It is" in strip(desk), key=key)
        await place.press("lesson-more", lambda: "less" in strip(desk))
        await place.press("lesson-do", lambda: desk.chat.tuning.temperature == 0)
        await at_step(desk, 2)
        await desk.until(lambda: learning.strip is not None and not learning.strip.doing)
        await afresh(1)
        await place.press("lesson-skip", lambda: step(desk) == 2)
        for number in (1, 2, 3):
            said = ("the same reply", "another one", "nothing")[number - 1]
            await place.press(f"lesson-{number}", lambda said=said: f"Your guess: {said}" in strip(desk))  # type: ignore[misc]
            await afresh(2)
        await place.press("lesson-4", place.shows("the answers are 1 to 3"))
        await place.press(
            "lesson-next", lambda: learning.strip is not None and learning.strip.lesson.id == "second-own"
        )
        await place.press(
            "lesson-before", lambda: learning.strip is not None and learning.strip.lesson.id == "first-own"
        )
        for key in ("l", "tab"):
            await place.press("lesson-list", place.shows("3 min  What temperature 0 does."), key=key)
            await desk.type("", "escape")
        for key in ("x", "q"):
            await place.press("lesson-leave", lambda: learning.strip is None, key=key)
    return place


async def in_list(group: KeyGroup, _: Path) -> Place:
    write_lessons(paths.lessons_folder())
    (paths.lessons_folder() / "79-third-own.toml").write_text(SECOND)
    async with learner(lesson=None) as desk:
        learning = desk.app.learning
        place = Place(desk, group, "ctrl+space")
        await place.walk()
        await place.press("lessons-down", place.at(1))
        await place.press("lessons-up", place.at(0))
        await place.press("lessons-number", place.at(4), key="5")
        await place.close()
        await place.press("lessons-begin", lambda: learning.strip is not None)
        learning.leave()
        await desk.settle()
        first = read_lessons().lessons[0]
        learning.progress.keep(first.id, LessonState(1, False, ()))
        await place.press("lessons-anew", lambda: learning.strip is not None and step(desk) == 1)
    return place


LESSON_PLACES = {"LESSON": on_strip, "LESSONS": in_list}
