"""The lines of a lesson's strip, and its text with the keys that are bound now.

"{tune}" is Ctrl+T there, "{tune.temperature}" is Ctrl+T t. What is to be typed stands in `backticks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from termchat.lessons.lesson import LessonQuestion
from termchat.lessons.lesson_file import LessonNames, Shelf, read_shelf
from termchat.lessons.playing import Playing
from termchat.text import one_line
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, length, spread
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.keys.key import keys_of, shown
from termchat.tui.keys.tables import KEYS, name_of
from termchat.tui.pages.panel_pages import PAGES
from termchat.tui.transcript.looks import LOOKS

_PLACE = re.compile(r"\{\{|\}\}|\{([\w.-]+)\}|`([^`]+)`")
_TYPED = Ink("background", ground="muted", bold=True)
_TIED = "\N{NO-BREAK SPACE}"
GROUND = "panel"
_EDGE = ("▎ ", Ink("accent", bold=True))
_BADGE = Ink("background", ground="accent", bold=True)
_GOOD, _BAD = Ink("success", bold=True), Ink("warning", bold=True)
_BUDGET = ((24, 8), (20, 5), (0, 3))
"""From so many rows of the screen on, at most so many rows of a strip: on 80x24 a step of the course has all it says."""
_DOTS = 14
"""Steps up to which there is a dot for each."""


def find_keys(id: str) -> tuple[str, ...]:
    """Find the keys to press for a binding id, in order: ("ctrl+t", "t") for tune.temperature; none where it has no key."""
    mode, _, knob = id.partition(".")
    ids = [mode, f"{mode}-{knob}"] if knob else [mode]
    keys = [key for one in ids if one in KEYS for key in keys_of(KEYS[one])[:1]]
    return tuple(keys) if len(keys) == len(ids) else ()


def name_keys(id: str) -> str:
    """Write the keys of a binding id for readers; its slash command if it has no key."""
    keys = find_keys(id)
    return " ".join(map(shown, keys)) if keys else f"/{id.rpartition('.')[2].replace('_', '-')}"


def render_text(text: str) -> list[Run]:
    """Render a text. Keys are highlighted, not broken, and pressed by a click; text to be typed is highlighted, too."""
    runs: list[Run] = []
    at = 0
    for match in _PLACE.finditer(text):
        id, typed = match.groups()
        runs.append((text[at : match.start()], TEXT))
        at = match.end()
        if typed:
            runs.append((typed.replace("{{", "{").replace("}}", "}"), _TYPED))
        elif id is None:  # a brace
            runs.append((match[0][0], TEXT))
        else:
            keys = find_keys(id)
            does = f"app.press({keys[0]!r})" if len(keys) == 1 else ""
            runs.append((name_keys(id).replace(" ", _TIED), Ink("accent", bold=True, does=does)))
    runs.append((text[at:], TEXT))
    return [(part, ink) for part, ink in runs if part]


def plain_text(text: str) -> str:
    """Write a text without its ink."""
    return "".join(part for part, _ in render_text(text)).replace(_TIED, " ")


def read_lessons() -> Shelf:
    """Read all lessons from the disk."""
    return read_shelf(names=lesson_names())


def lesson_names() -> LessonNames:
    """List what a lesson may name on this screen."""
    return LessonNames(frozenset(KEYS), frozenset(LOOKS), frozenset(PAGES))


# --- the strip ---------------------------------------------------------------------------------------------------------


def rows_for(height: int, *, unfolded: bool = False) -> int:
    """Rows that a strip may have on a screen of so many."""
    most = next(rows for least, rows in _BUDGET if height >= least)
    return max(height // 2 - 2, most) if unfolded else most


def strip_lines(
    playing: Playing,
    width: int,
    rows: int,
    *,
    note: str = "",
    typed: str = "",
    direct: bool = False,
    open: bool = False,
    unfolded: bool = False,
) -> list[Line]:
    """Render a lesson in at most `rows` lines.

    Args:
        playing: the lesson, and how far it is.
        width: cells of a line.
        rows: lines that there is room for.
        note: what keeps the step from being done, or "".
        typed: the number that was typed so far for the question.
        direct: a digit answers without the key that leads to the strip.
        open: the strip has the keyboard.
        unfolded: the reader asked for all of the text.
    """
    lesson, over = playing.lesson, playing.finished
    standing = ("done", _GOOD) if over else (f"{playing.number}{_TIED}of{_TIED}{len(lesson.steps)}", MUTED)
    before = [(lesson.title + _TIED, STRONG), standing, *_verdict(playing), ("  ", TEXT)]
    answered: list[Run] = []
    must: list[list[Run]] = []
    if over:
        text = render_text(lesson.learned)
        if lesson.next:
            text += [("  Next: ", STRONG), *render_text(lesson.next)]
    else:
        step, asked = playing.current, playing.asks
        text = render_text(step.text)
        if step.question is not None and playing.guess is not None:
            answered = [("  Your guess: ", MUTED), (plain_text(step.question.describe(playing.guess, 6)), TEXT)]
        if note:
            must.append([(note, Ink("warning"))])
        if 0 < playing.hints <= len(step.hints):
            must.append([("Hint ", Ink("accent", bold=True)), *render_text(step.hints[playing.hints - 1])])
        if asked is not None:
            must.append(_question(asked, typed, live=direct or open))
    needed = _wrapped(must, width)
    room = rows - 1 - len(needed)
    body = _wrapped([[*before, *text, *answered]], width)
    if answered and len(body) > room:  # the first to go
        body = _wrapped([[*before, *text]], width)
    cut = len(body) > room
    if cut and room > 0:
        body = _cut(body, room, width)
    elif cut:  # what is asked comes before the text, and before the keys
        needed = []
        body = _wrapped([[*before, *(run for part in must for run in (*part, ("  ", TEXT)))]], width)
        body = _cut(body, rows, width) if len(body) > rows else body
    last = _last(playing, width, open=open, folds=unfolded or cut, unfolded=unfolded)
    return [*body, *needed, last][:rows]


def _verdict(playing: Playing) -> list[Run]:
    """Compare the guess of the step before with the truth; nothing once the reader does something in this one."""
    result, question = playing.result, playing.result_question
    if result is None or question is None or playing.guess is not None or playing.hints:
        return []
    guess, right = plain_text(question.describe(result.guess, 6)), result.is_right(question)
    if result.truth is None:
        return [("  ", TEXT), (f"You said {guess}; this could not be measured here.", TEXT)]
    truth = plain_text(question.describe(result.truth))
    if question.is_number:
        words = f"You said {guess}, it is {truth}."
    else:
        words = f"You said: {guess}. {'Right.' if right else f'The answer: {truth}.'}"
    return [("  ", TEXT), (f"✓ {words}", _GOOD) if right else (f"✗ {words}", _BAD)]


def _question(asked: LessonQuestion, typed: str, *, live: bool) -> list[Run]:
    """Make the runs of a question; its digits are badges while they go to it, and only then."""
    runs: list[Run] = [(plain_text(asked.ask), Ink("text", bold=True))]
    way: list[Run] = [
        ("  To answer, press ", MUTED),
        (name_of("learn").replace(" ", _TIED), ACCENT._replace(does="app.learn", bold=True)),
    ]
    if asked.is_number:
        field = f"{_TIED}{typed or '__'}{'▏' * live}{_TIED}{asked.unit}{_TIED}".replace(" ", _TIED)
        runs += [("  ", TEXT), (field, _BADGE if live else Ink("text", ground="surface", bold=True))]
        return [
            *runs,
            *([("  type a number, Enter", MUTED)] if live else [*way, (", then the number and Enter", MUTED)]),
        ]
    if not live:
        runs += [*way, (", then", MUTED)]
    for number, answer in enumerate(map(plain_text, asked.answers), 1):
        does = f"app.lesson('answer', {number})"
        key, ink = (f"{_TIED}{number}{_TIED}", _BADGE) if live else (str(number), MUTED)
        runs += [
            ("  ", TEXT), (key, ink._replace(does=does)), (_TIED, TEXT),
            (answer.replace(" ", _TIED) if len(answer) < 40 else answer, Ink(does=does)),
        ]  # fmt: skip
    return runs


def _last(playing: Playing, width: int, *, open: bool, folds: bool, unfolded: bool) -> Line:
    """Render the keys, and a dot for each step: done, at hand, and to come."""
    steps, over = len(playing.lesson.steps), playing.finished
    done = steps if over else playing.step
    dots: list[Run] = [(f"{done}/{steps}", MUTED)]
    if steps <= _DOTS:
        dots = [("●" * done, ACCENT), ("◆" * (not over), STRONG), ("○" * (steps - done - (not over)), MUTED)]
    labels = [("hint", "hint"), ("lesson-skip", "skip"), ("lesson-list", "list"), ("lesson-leave", "leave")]
    if over:
        labels = [("lesson-next", "next lesson"), ("lesson-list", "all lessons"), ("lesson-leave", "leave")]
    if folds:
        labels.insert(0, ("lesson-more", "less" if unfolded else "more"))
    badge = (" LESSON ", _BADGE) if open else (name_of("learn"), ACCENT._replace(does="app.learn"))
    runs: list[Run] = [_EDGE, badge]
    room = width - length(dots) - 2
    for id, says in labels:
        name = name_of(id).partition(" ")[0]
        item: list[Run] = [("  ", TEXT), (name, ACCENT._replace(does=_DOES[id])), (f" {says}", MUTED)]
        if name and length([*runs, *item]) <= room:
            runs += item
    return Line(spread(runs, dots, width), GROUND)


_DOES = {
    "hint": "app.lesson('hint')", "lesson-next": "app.lesson('go', 1)",
    "lesson-list": "app.lesson('list')", "lesson-leave": "app.lesson('leave')", "lesson-more": "app.lesson('more')",
    "lesson-skip": "app.lesson('skip')",
}  # fmt: skip


def _wrapped(parts: Iterable[Iterable[Run]], width: int) -> list[Line]:
    """Wrap each part to lines of its own."""
    lines: list[Line] = []
    for runs in parts:
        wrapper = Wrapper(max(width, 8), (_EDGE,), (_EDGE,))
        for text, ink in runs:
            wrapper.feed(text, ink)
        lines += (
            Line(tuple((text.replace(_TIED, " "), ink) for text, ink in line.runs), GROUND) for line in wrapper.lines
        )
    return lines


def _cut(lines: list[Line], room: int, width: int) -> list[Line]:
    """Keep so many lines; end the last one between two words, with the key for the rest."""
    *kept, last = lines[:room]
    mark: list[Run] = [(f" … {name_of('lesson-more')} more", ACCENT._replace(does=_DOES["lesson-more"]))]
    runs: list[Run] = []
    for text, ink in last.runs:
        left = width - length(mark) - length(runs)
        if left > 0:
            runs.append((text if length([(text, ink)]) <= left else one_line(text, left).rpartition(" ")[0], ink))
    return [*kept, Line((*runs, *mark), GROUND)]
