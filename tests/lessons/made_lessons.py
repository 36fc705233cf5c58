"""Lessons and facts for tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from termchat.lessons.lesson import Lesson
from termchat.lessons.lesson_facts import FACTS, FactValue, LessonFacts
from termchat.lessons.lesson_file import read_lesson

EXAMPLE = """title = "Temperature"
minutes = 5
summary = "What temperature does to one distribution."
learned = "Temperature never changes the order."
needs = ["seeds"]

[opening]
raw = true
text = "The sea is"
seed = 7
knobs = { temperature = 0.0, max_tokens = 40, top_k = "off" }
stop = ["###"]

[[steps]]
text = "Press {send}, and watch. {{This}} is {tune.temperature}."
points = ["send", "panel:chain"]
check = ["new_replies >= 1", "ending == 'length'"]
claim = "loops"
do = ["press send", "wait"]
hints = ["Nudge.", "Press {send}."]
notes = "They laugh here."
[steps.question]
ask = "What comes?"
answers = ["the same", "another one"]
right = 2

[[steps]]
text = "Send it again."
check = [
    "new_replies >= 1",
    "same",
]
do = ["press send"]
[steps.question]
ask = "How likely is blue?"
number = "%"
truth = "model(' blue') * 100"
before = false

[[steps]]
text = "Turn the temperature up."
check = ["temperature > 1"]
do = ["/temperature 1.5"]
"""


def lesson_in(folder: Path, text: str = EXAMPLE, name: str = "05-temperature.toml") -> Lesson:
    """The lesson that a file of this text in that folder is."""
    file = folder / name
    file.write_text(text, "utf-8")
    return read_lesson(file)


class MadeFacts(LessonFacts):
    """Facts as they are set: `facts["tokens"] = 3`, `facts["model", " blue"] = 0.1`. Misspelt ones are refused."""

    def __init__(self, **facts: FactValue) -> None:
        self.known: dict[tuple[str, str], FactValue] = {(name, ""): value for name, value in facts.items()}
        self.begun = 0

    def __setitem__(self, name: str | tuple[str, str], value: FactValue) -> None:
        key = (name, "") if isinstance(name, str) else name
        assert key[0] in FACTS, key
        self.known[key] = value

    def fact(self, name: str, argument: str = "") -> FactValue | None:
        return self.known.get((name, argument))

    def begin_step(self) -> None:
        self.begun += 1
        for key in self.known:
            if key[0].startswith("new_"):
                self.known[key] = 0


def lines_of(problems: Any) -> list[int]:
    return [problem.line for problem in problems]


def line_with(pattern: str, text: str) -> int:
    """The line of the first match, from 1 on."""
    found = re.search(pattern, text)
    assert found is not None
    return text.count("\n", 0, found.start()) + 1
