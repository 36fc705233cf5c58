"""Every lesson of the course works on the real model, with all that it says; in a terminal, some are played by somebody who
only presses the keys that the strip names.
"""

from __future__ import annotations

import json
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import pytest

from termchat.config.settings import Settings, load
from termchat.lessons.lesson import Lesson
from termchat.lessons.lesson_file import COURSE, read_shelf
from termchat.tui.app import TermchatApp
from termchat.tui.lessons import learning
from termchat.tui.lessons.lesson_words import lesson_names
from termchat.tui.start import build, play_unseen
from tests.tui.made_lessons import FIRST
from tests.whole.chat_steps import FLAGS, Open, ready
from tests.whole.terminal import Terminal

LESSONS = {lesson.id: lesson for lesson in read_shelf([COURSE], lesson_names()).lessons}
STRIP = "\x00"
"""Ctrl+Space, as terminals send it."""
PATIENCE = 240.0
pytestmark = pytest.mark.model


class Learner:
    """Somebody in a terminal who has every step done. `strip` is the key that leads to the strip."""

    def __init__(
        self, terminal: Terminal, lesson: Lesson, *, strip: str = STRIP, send: str = "enter", edge: str = "▎"
    ) -> None:
        self.terminal, self.lesson = terminal, lesson
        self._strip, self._send, self._edge = strip, send, edge

    def play(self) -> None:
        terminal = self.terminal
        ready(terminal)
        self._command(f"/learn {self.lesson.id}")
        terminal.wait(lambda: self._step == 1)
        for number, step in enumerate(self.lesson.steps, 1):
            assert self._step == number, terminal.text
            if step.question is not None and step.question.before:
                self._answer(is_number=step.question.is_number)
            self._act("d")
            if step.question is not None and not step.question.before:
                field = "__" if step.question.is_number else " 1 "
                terminal.wait(lambda number=number, field=field: self._step > number or field in self._lines)
                self._answer(is_number=step.question.is_number)
            terminal.wait(lambda number=number: self._step > number, PATIENCE)
        terminal.wait(lambda: "next lesson" in self._lines)
        self._act("x")
        terminal.wait(lambda: self._edge not in terminal.text)

    @property
    def _step(self) -> int:
        """The step that is next, as it is kept; one more than there are once the lesson is over, 0 before it begins."""
        try:
            kept = json.loads((self.terminal.home / "data/termchat/lessons.json").read_text())
        except (OSError, ValueError):
            return 0
        state = kept["lessons"].get(self.lesson.id)
        if state is None:
            return 0
        return len(self.lesson.steps) + 1 if state["done"] and not state["step"] else int(state["step"]) + 1

    @property
    def _lines(self) -> str:
        """The strip; "" while a dialog covers it."""
        if not self.terminal.header.strip().startswith("termchat"):
            return ""
        edge, rows = f" {self._edge} ", self.terminal.lines
        last = max((at for at, line in enumerate(rows) if line.startswith(edge)), default=-1)
        first = last
        title = edge + self.lesson.title  # plain glyphs have notices above it begin as it does
        while first > 0 and rows[first - 1].startswith(edge) and not rows[first].startswith(title):
            first -= 1
        return "\n".join(rows[first : last + 1]) if last >= 0 else ""

    def _answer(self, *, is_number: bool) -> None:
        self._act("1", *(["enter"] if is_number else []))

    def _act(self, *keys: str) -> None:
        """Closes what hides the strip, then presses keys on it."""
        terminal = self.terminal
        for _ in range(5):
            if self._lines:
                break
            terminal.keys("esc")
            terminal.settle(0.3)
        terminal.keys(self._strip, *keys)
        terminal.settle(0.2)

    def _command(self, text: str) -> None:
        self.terminal.keys(text)
        self.terminal.settle(0.3)
        self.terminal.keys("esc", self._send)


class Variant(NamedTuple):
    """A terminal, and keys that are bound in it: the one that leads to the strip, and the one that sends."""

    columns: int
    rows: int
    strip: str = STRIP
    send: str = "enter"
    is_plain: bool = False


OTHERWISE = "other keys, no colours, plain glyphs"
VARIANTS = {
    "120x40": Variant(120, 40),
    "80x24": Variant(80, 24),
    OTHERWISE: Variant(80, 24, "ctrl+x", "ctrl+j", is_plain=True),
}
OTHER_KEYS = """[keys]
tune = "ctrl+k"
tokens = "f12"
learn = "ctrl+x"
send = "ctrl+j"
newline = ""
answer = ""
"""


def settings() -> Settings:
    return load({"threads": 1, "context": 2048}, {}, Path("/none"))


@pytest.mark.parametrize(("id", "size"), zip(LESSONS, cycle([(120, 40), (80, 24)]), strict=False))
async def test_a_lesson_works_and_what_it_says_of_the_model_is_so(
    tmp_path: Path, id: str, size: tuple[int, int]
) -> None:
    app = build(settings(), file=tmp_path / "sessions.db")
    app.learning.folder = tmp_path
    async with app.run_test(size=size):
        assert await app.learning.play(LESSONS[id], lambda _: has_room(app)) == []


def has_room(app: TermchatApp) -> None:
    """Nothing is pushed off the screen: the strip is short, or has taken rows that are empty, and leaves some."""
    strip, screen = app.learning.strip, app.learning.screen
    assert strip is not None
    transcript, bottom, height = screen.transcript, screen.query_one("#bottom").region, screen.size.height
    if not bottom.height:  # as the lesson begins
        return
    assert 2 <= len(strip.drawn) <= max(8, height // 2)
    if len(strip.drawn) > 8 and transcript.display:
        assert transcript.virtual_size.height <= transcript.size.height
    assert bottom.bottom == height


@pytest.mark.parametrize(("id", "name"), [("temperature", "120x40"), ("tokens", "80x24"), ("loop", OTHERWISE)])
def test_a_lesson_is_played_and_the_readers_chat_comes_back(
    open_terminal: Open, tmp_path: Path, id: str, name: str
) -> None:
    variant = VARIANTS[name]
    environment = {"NO_COLOR": "1", "LANG": "C", "LC_ALL": "C"} if variant.is_plain else {}
    if variant.is_plain:
        file = tmp_path / "config/termchat/config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(OTHER_KEYS)
    terminal = open_terminal(*FLAGS, columns=variant.columns, rows=variant.rows, **environment)
    mine = own_chat(terminal, send=variant.send)
    edge = "|" if variant.is_plain else "▎"
    Learner(terminal, LESSONS[id], strip=variant.strip, send=variant.send, edge=edge).play()
    assert terminal.text.isascii() or not variant.is_plain
    is_back(terminal, mine)


def own_chat(terminal: Terminal, *, send: str = "enter") -> list[str]:
    """A chat of somebody's own with knobs and a constraint; what the screen shows of it, with panels and without."""
    ready(terminal)
    for text in ("/top_k 7", "/repeat_penalty 1.1", "/choice yes"):
        terminal.keys(text)
        terminal.settle(0.3)
        terminal.keys("esc", send)
    terminal.keys("Is it so?", send)
    terminal.wait("valid")
    terminal.settle()
    terminal.keys("esc")
    return seen(terminal)


def seen(terminal: Terminal) -> list[str]:
    shown = []
    for _ in range(2):
        terminal.settle()
        shown.append(terminal.text)
        terminal.keys("ctrl+b")
    terminal.settle()
    return shown


def is_back(terminal: Terminal, mine: list[str]) -> None:
    """All of it: the chat, each knob that is on, the constraint, and what was last measured."""
    terminal.keys("esc")  # what the lesson told last
    assert seen(terminal) == mine


def test_a_kill_in_the_middle_of_a_lesson_loses_nothing(open_terminal: Open) -> None:
    lesson = LESSONS["temperature"]
    terminal = open_terminal(*FLAGS)
    learner = Learner(terminal, lesson)
    ready(terminal)
    learner._command(f"/learn {lesson.id}")
    terminal.wait(lambda: learner._step == 1)
    if lesson.steps[0].question is not None:
        learner._answer(is_number=lesson.steps[0].question.is_number)
    learner._act("d")
    terminal.wait(lambda: learner._step == 2, PATIENCE)
    terminal.settle(0.3)
    terminal.process.kill()
    terminal.ended()
    again = open_terminal(*FLAGS)
    ready(again)
    Learner(again, lesson)._command(f"/learn {lesson.id}")
    again.wait(f"2 of {len(lesson.steps)}")


def test_the_robot_tells_which_step_fails_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "_RESULT", 1.0)
    wrong = FIRST.replace('do = ["/temperature 0"]', 'do = ["/temperature 0.5"]')
    (tmp_path / "a.toml").write_text(wrong)
    (lesson,) = read_shelf([tmp_path], lesson_names()).lessons
    steps: list[str] = []
    assert play_unseen(settings(), lesson, say=steps.append) == ["step 1 (line 14): not met: temperature == 0"]
    assert steps == ["step 1 of 3"]


def test_the_robot_plays_a_lesson_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(FIRST)
    (lesson,) = read_shelf([tmp_path], lesson_names()).lessons
    assert play_unseen(settings(), lesson, size=(80, 24)) == []
