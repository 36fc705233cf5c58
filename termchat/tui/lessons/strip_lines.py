"""The lines of the strip: what to do and why, what is asked, what came of it, the keys, and how far the lesson is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from termchat.text import one_line
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, length, spread
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.keys.tables import name_of

GROUND = "panel"
_EDGE = ("▎ ", Ink("accent", bold=True))
_BADGE = Ink("background", ground="accent", bold=True)
_GOOD, _BAD = Ink("success", bold=True), Ink("warning", bold=True)
_TIED = "\N{NO-BREAK SPACE}"
_BUDGET = ((24, 8), (20, 5), (0, 3))
"""From so many rows of the screen on, at most so many rows of a strip: on 80x24 a step of the course has all it says."""
_SENTENCE = re.compile(r"[.!?][ \n]+(?=\S|\Z)")
_DOTS = 14
"""Steps up to which there is a dot for each."""


class AskedWords(NamedTuple):
    """A question: `answers` for the keys 1 to 4, or a number in a `unit`, of which `typed` stands there so far."""

    ask: str
    answers: Sequence[str] = ()
    unit: str = ""
    typed: str = ""


class StripWords(NamedTuple):
    """What a strip says: of a lesson, its step, from 1, of so many.

    `told` is what is said first, with whether it is good news: how a guess compares with the truth. `text` is runs with keys
    in them. `hint` is the one asked for, `asked` a question that waits, `guess` what was answered. `over`: the lesson is done.
    """

    title: str
    step: int
    steps: int
    text: Sequence[Run] = ()
    told: str = ""
    good: bool | None = None
    asked: AskedWords | None = None
    guess: str = ""
    hint: Sequence[Run] = ()
    note: str = ""
    over: bool = False


def rows_for(height: int, *, unfolded: bool = False) -> int:
    """Rows that a strip may have on a screen of so many."""
    most = next(rows for least, rows in _BUDGET if height >= least)
    return max(height // 2 - 2, most) if unfolded else most


def strip_lines(
    words: StripWords, width: int, rows: int, *, direct: bool, open: bool, unfolded: bool = False
) -> list[Line]:
    """At most `rows` lines. `direct`: a digit answers without the key that leads to the strip; `open`: the strip has the
    keyboard."""
    head: list[Run] = [(words.title + _TIED, STRONG)]
    if words.over:
        head.append(("done", _GOOD))
    else:
        head.append((f"{words.step} of {words.steps}".replace(" ", _TIED), MUTED))
    before = [*head, *_told(words), ("  ", TEXT)]
    after = [("  Your guess: ", MUTED), (words.guess, TEXT)] if words.guess else []
    must: list[list[Run]] = [
        [(words.note, Ink("warning"))] if words.note else [],
        [("Hint ", Ink("accent", bold=True)), *words.hint] if words.hint else [],
        _question(words.asked, direct=direct, open=open) if words.asked is not None else [],
    ]
    parts = [part for part in ([*before, *words.text, *after], *must) if part]
    body = [line for part in parts for line in _wrapped(part, width)]
    if len(body) > rows - 1 and after:  # what was answered is the first to go
        parts[0] = [*before, *words.text]
        body, after = [line for part in parts for line in _wrapped(part, width)], []
    cut = len(body) > rows - 1
    if cut:
        body = _tight(before, words.text, after, [part for part in must if part], width, rows - 1)
    last = _last(words, width, open=open, folds=unfolded or cut, unfolded=unfolded)
    return [*body, last][:rows]


def _tight(
    before: Sequence[Run],
    text: Sequence[Run],
    after: Sequence[Run],
    must: Sequence[Sequence[Run]],
    width: int,
    room: int,
) -> list[Line]:
    """One paragraph with as many sentences of the text as there is room for, the first ones: they say why. Where there is no
    room for any, what must be said has it all, but for what is too long for the strip, too."""
    behind = [*after, *(run for part in must for run in (("  ", TEXT), *part))]
    for end in reversed(list(_ends(text))):
        lines = _wrapped(
            [*before, *_until(text, end), ("…", ACCENT._replace(does=_DOES["lesson-more"])), *behind], width
        )
        if len(lines) <= room:
            return lines
    if must:
        return _cut(
            _wrapped([*before, *(run for part in must for run in (*part, ("  ", TEXT)))], width), room + 1, width
        )
    return _cut(_wrapped([*before, *text, *after], width), room, width)


def _ends(text: Sequence[Run]) -> Iterator[int]:
    """Where its sentences end, but for the last. The end of what is to be typed, a run of its own, ends none."""
    at = 0
    for part, _ in text:
        yield from (at + found.end() for found in _SENTENCE.finditer(part))
        at += len(part)


def _until(text: Sequence[Run], end: int) -> list[Run]:
    """The runs up to a character."""
    kept: list[Run] = []
    at = 0
    for part, ink in text:
        if at < end:
            kept.append((part[: end - at], ink))
        at += len(part)
    return kept


def _told(words: StripWords) -> list[Run]:
    if not words.told:
        return []
    mark = {True: "✓ ", False: "✗ ", None: ""}[words.good]
    return [("  ", TEXT), (mark + words.told, _BAD if words.good is False else _GOOD if words.good else TEXT)]


def _question(asked: AskedWords, *, direct: bool, open: bool) -> list[Run]:
    """Make the runs of a question; its digits are badges while they go to it, and only then."""
    live = direct or open
    runs: list[Run] = [(asked.ask, Ink("text", bold=True))]
    if asked.answers and not live:
        runs += [("  To answer, press ", MUTED), *_lead(), (", then", MUTED)]
    if asked.answers:
        for number, answer in enumerate(asked.answers, 1):
            does = f"app.lesson('answer', {number})"
            key, ink = (f"{_TIED}{number}{_TIED}", _BADGE) if live else (str(number), MUTED)
            runs += [
                ("  ", TEXT), (key, ink._replace(does=does)), (_TIED, TEXT),
                (answer.replace(" ", _TIED) if len(answer) < 40 else answer, Ink(does=does)),
            ]  # fmt: skip
        return runs
    field = (asked.typed or "__") + ("▏" if live else "")
    field = f"{_TIED}{field}{_TIED}{asked.unit}{_TIED}".replace(" ", _TIED)
    runs += [("  ", TEXT), (field, _BADGE if live else Ink("text", ground="surface", bold=True))]
    if live:
        return [*runs, ("  type a number, Enter", MUTED)]
    return [*runs, ("  To answer, press ", MUTED), *_lead(), (", then the number and Enter", MUTED)]


def _lead() -> list[Run]:
    """The key that leads to the strip."""
    return [(name_of("learn").replace(" ", _TIED), ACCENT._replace(does="app.learn", bold=True))]


def _last(words: StripWords, width: int, *, open: bool, folds: bool, unfolded: bool) -> Line:
    """The keys and the dots."""
    dots = _dots(words)
    labels = [("hint", "hint"), ("lesson-skip", "skip"), ("lesson-list", "list"),
              ("lesson-leave", "leave")]  # fmt: skip
    if words.over:
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


def _dots(words: StripWords) -> list[Run]:
    done = words.steps if words.over else words.step - 1
    if words.steps > _DOTS:
        return [(f"{done}/{words.steps}", MUTED)]
    here = 0 if words.over else 1
    return [("●" * done, ACCENT), ("◆" * here, STRONG), ("○" * (words.steps - done - here), MUTED)]


def _wrapped(runs: Iterable[Run], width: int) -> list[Line]:
    wrapper = Wrapper(max(width, 8), (_EDGE,), (_EDGE,))
    for text, ink in runs:
        wrapper.feed(text, ink)
    return [Line(tuple((text.replace(_TIED, " "), ink) for text, ink in line.runs), GROUND) for line in wrapper.lines]


def _cut(lines: list[Line], room: int, width: int) -> list[Line]:
    if len(lines) <= room or not room:
        return lines[:room]
    *kept, last = lines[:room]
    mark: list[Run] = [(f" … {name_of('lesson-more')} more", ACCENT._replace(does="app.lesson('more')"))]
    left = width - length(mark)
    return [*kept, Line((*_shortened(last.runs, left), *mark), GROUND)]


def _shortened(runs: Sequence[Run], room: int) -> list[Run]:
    kept: list[Run] = []
    for text, ink in runs:
        left = room - length(kept)
        if left <= 0:
            break
        if length([(text, ink)]) > left:  # between two words
            text, _, _ = one_line(text, left).rpartition(" ")
        kept.append((text, ink))
    return kept
