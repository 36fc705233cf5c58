"""A grid of walks as a table: a cell for each combination of the knobs' values, with what came of its runs; below it the runs
of the cell under the cursor.

One knob's values stand one below the other, with a column for each fact; of two knobs the last one's are the columns, and a
cell has a line of words and one or two of facts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from termchat.decoding.samplers import KNOBS
from termchat.decoding.walk_plan import WalkPlan, shown_value
from termchat.text import one_line
from termchat.tui.draw.ink import BLANK, Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, column, fitting, flowing, length, number
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.walks.walk_facts import ending_word
from termchat.tui.walks.walk_scene import TEXT_PAGE, WalksScene

_INDENT: tuple[Run, ...] = (("  ", TEXT),)
_WORDS = 80
"""Tokens of a walk that are looked at for its first words."""
_FACTS = (("ending", 10), ("tokens", 6), ("mean logprob", 12), ("different", 9))
_NARROW = (("ending", 10), ("tokens", 6), ("mean logp", 9), ("different", 9))
_LEAST_WORDS, _WIDE = 16, 100
_CELL = 18
"""Cells of a column of a table of two knobs, at least."""
_GAP = "  "
_ALIKE = "all alike"


class CellFacts(NamedTuple):
    """What came of the runs of a cell: the words of the first, how they ended, the mean number of tokens, the mean logprob of
    all tokens, and how many different replies there are."""

    walks: tuple[int, ...]
    words: str
    ending: str
    tokens: str
    logprob: str
    different: str


class GridPage:
    """The cursor is the walk under the cursor: its cell, and its run in it."""

    words: Mapping[str, str] = {"walk-1": "", "walk-keep": "open", "walk-left": "cell"}

    def __init__(self) -> None:
        self.line_in_view: int | None = None

    def draw(self, scene: WalksScene) -> list[Line]:
        plan, cursor = scene.group.plan, scene.cursor
        facts = [cell_facts(scene, walks) for walks in cells_of(plan)]
        at = min(cursor, plan.group.size - 1) // plan.group.runs
        if len(plan.group.knobs) == 1:
            lines, self.line_in_view = one_knob(plan, facts, at, scene.width)
        else:
            lines, self.line_in_view = two_knobs(plan, facts, at, scene.width)
        room = scene.rows - len(lines) - 1
        return [*lines, BLANK, *_runs_of(scene, facts[at].walks, room)] if room > len(facts[at].walks) else lines

    def act(self, scene: WalksScene, what: str, *arguments: object) -> bool:
        plan, cursor = scene.group.plan, scene.cursor
        if cursor >= plan.group.size:
            return False
        at, run = divmod(cursor, plan.group.runs)
        across = len(plan.group.knobs[-1].values) if len(plan.group.knobs) > 1 else 1
        by = arguments[0] if arguments and isinstance(arguments[0], int) else 0
        if what == "line":
            at += by * across
        elif what == "go" and across > 1:
            at = at + by if 0 <= at % across + by < across else at
        elif what == "go":
            run = min(max(run + by, 0), plan.group.runs - 1)
        elif what == "keep":
            scene.turn_to(TEXT_PAGE, cells_of(plan)[at])
            return True
        else:
            return False
        if 0 <= at < plan.group.size // plan.group.runs:
            scene.chat.walks.select_reply(at * plan.group.runs + run)
        return True


def cells_of(plan: WalkPlan) -> list[tuple[int, ...]]:
    """The walks of each cell, in the order of the cells."""
    return [tuple(range(first, first + plan.group.runs)) for first in range(0, plan.group.size, plan.group.runs)]


def cell_facts(scene: WalksScene, walks: tuple[int, ...]) -> CellFacts:
    there = [walk for walk in walks if walk in scene.group.nodes and walk in scene.reader.figures.of]
    if not there:
        return CellFacts(walks, "", "waiting", "", "", "")
    figures = [scene.reader.figures.of[walk] for walk in there]
    words = "".join(scene.reader.texts(there[0], 0, _WORDS)).strip()
    endings = Counter(_ending(scene, walk) for walk in there)
    ending = (
        ", ".join(f"{count} {word}" for word, count in endings.items()) if len(endings) > 1 else next(iter(endings))
    )
    tokens = sum(one.tokens for one in figures)
    sums = [one.sum_logprob for one in figures]
    known = [one for one in sums if one is not None]
    mean = number(sum(known) / tokens) if tokens and len(known) == len(sums) else ""
    each = f"{tokens / len(there):.0f}"
    count = _different(scene, there)
    over = all(scene.group.nodes[walk].done for walk in there)
    different = f"{count} of {len(walks)}" if count > 1 else _ALIKE if over else ""
    return CellFacts(walks, words, ending, each, mean, different if len(walks) > 1 else "")


def _ending(scene: WalksScene, walk: int) -> str:
    return ending_word(scene.group.nodes[walk], paused=walk in scene.group.paused)


def _different(scene: WalksScene, walks: Sequence[int]) -> int:
    """How many replies differ as far as they go: of two that run, one may only be further."""
    trie = scene.reader.figures.trie
    seen: list[int] = []
    for walk in walks:
        if all(trie.parted(walk, one) is not None for one in seen):
            seen.append(walk)
    return len(seen)


def one_knob(plan: WalkPlan, facts: Sequence[CellFacts], at: int, width: int) -> tuple[list[Line], int]:
    """The lines, and which of them is the cursor's."""
    (knob,) = plan.group.knobs
    values = [shown_value(KNOBS[knob.name], value) for value in knob.values]
    first = max(len(knob.name), *map(len, values))
    heads = list(_FACTS if width >= _WIDE else _NARROW)[: len(_FACTS) - (plan.group.runs == 1)]
    ending = max(max(len(one.ending) for one in facts), len("running"))
    sizes = [ending, *(size for _, size in heads[1:])]
    if plan.group.runs > 1:
        sizes[-1] = max(sizes[-1], *(len(one.different) for one in facts))
    words = max(width - first - 4 - sum(sizes) - len(_GAP) * len(sizes), 0)
    words = min(words, max(_LEAST_WORDS, *(len(one.words) for one in facts)))
    runs: list[Run] = [("  ", TEXT), (column(knob.name, first) + _GAP, MUTED), (column("first words", words), MUTED)]
    runs += [
        (_GAP + column(name, size, right=name != "ending"), MUTED) for (name, _), size in zip(heads, sizes, strict=True)
    ]
    lines = [Line(tuple(runs))]
    for row, (value, one) in enumerate(zip(values, facts, strict=True)):
        here = row == at
        ink = STRONG if here else TEXT
        runs = [("▌ " if here else "  ", ACCENT), (column(value, first) + _GAP, STRONG if here else ACCENT)]
        runs.append((column(one_line(one.words, words), words), ink))
        told = (one.ending, one.tokens, one.logprob, one.different)
        for (name, _), size, text in zip(heads, sizes, told, strict=False):
            runs.append((_GAP + column(text, size, right=name != "ending"), ink))
        lines.append(Line(tuple(doing(f"walks('choose', {one.walks[0] + 1})", runs)), "panel" if here else ""))
    return lines, at + 1


def two_knobs(plan: WalkPlan, facts: Sequence[CellFacts], at: int, width: int) -> tuple[list[Line], int]:
    """The lines, and the last of those of the cursor's row. Of columns that have no room, those around it are shown."""
    rows, columns = plan.group.knobs
    heads = [[shown_value(KNOBS[knob.name], value) for value in knob.values] for knob in (rows, columns)]
    first = max(len(rows.name), *map(len, heads[0]))
    across = len(heads[1])
    most = min(across, max((width - first - 2) // (_CELL + len(_GAP)), 1))
    size = (width - first - 2) // most - len(_GAP)
    row_here, column_here = divmod(at, across)
    begin = min(max(column_here - most // 2, 0), across - most)
    shown = range(begin, begin + most)
    title: list[Run] = [("  ", TEXT), (column(rows.name, first), MUTED)]
    for place in shown:
        more = "‹ " if place == begin and begin else ""
        after = " ›" if place == shown[-1] and place < across - 1 else ""
        name = f"{more}{columns.name} {heads[1][place]}{after}"
        title.append((_GAP + column(name, size), STRONG if place == column_here else ACCENT))
    lines, line_here = [Line(tuple(title))], 0
    for row, value in enumerate(heads[0]):
        told = [_cell_lines(facts[row * across + place], size) for place in shown]
        high = max(map(len, told))
        for line in range(high):
            name = value if line == 0 else ""
            runs: list[Run] = [("  ", TEXT), (column(name, first), STRONG if row == row_here else ACCENT)]
            for place, cell in zip(shown, told, strict=True):
                here = row * across + place == at
                text = cell[line] if line < len(cell) else ()
                shade = "panel" if here else ""
                part: list[Run] = [(("▌ " if here else _GAP), ACCENT._replace(ground=shade))]
                part += [(text, ink._replace(ground=shade, bold=here and line == 0)) for text, ink in text]
                part.append((" " * max(size - length(part) + len(_GAP), 0), TEXT._replace(ground=shade)))
                runs += doing(f"walks('choose', {facts[row * across + place].walks[0] + 1})", part)
            lines.append(Line(tuple(runs)))
        line_here = len(lines) - 1 if row == row_here else line_here
        lines += [BLANK] * (row < len(heads[0]) - 1)
    return lines, line_here


def _cell_lines(one: CellFacts, size: int) -> list[tuple[Run, ...]]:
    different = one.different if one.different in ("", _ALIKE) else f"{one.different} different"
    told = [
        one.ending,
        f"{one.tokens} tok" if one.tokens else "",
        f"{one.logprob} logp" if one.logprob else "",
        different,
    ]
    items: list[list[Run]] = [[(text, MUTED)] for text in told if text]
    return [((one_line(one.words, size), TEXT),), *(line.runs for line in flowing(items, size))]


def _runs_of(scene: WalksScene, walks: Sequence[int], rows: int) -> list[Line]:
    """The text of each run, as much of it as there is room for; of those that are alike once."""
    trie = scene.reader.figures.trie
    there = [walk for walk in walks if walk in scene.group.nodes and walk in scene.reader.figures.of]
    alike = {walk: next(one for one in there if trie.ids(one) == trie.ids(walk)) for walk in there}
    each = max((rows - len(there)) // max(len({*alike.values()}), 1), 1)
    lines: list[Line] = []
    for walk in there:
        node, here = scene.group.nodes[walk], walk == scene.cursor
        seed = f" · seed {node.start.seed}" if node.start is not None else ""
        tokens = len(trie.ids(walk))
        said = f" · {tokens} token{'' if tokens == 1 else 's'} · {_ending(scene, walk)}"
        said += f" · same as walk {alike[walk] + 1}" if alike[walk] != walk else ""
        runs: list[Run] = [("▌ " if here else "  ", ACCENT), (f"{walk + 1} ", ACCENT)]
        runs += [(scene.labels.get(walk, "") + seed, STRONG if here else TEXT), (said, MUTED)]
        lines.append(Line(tuple(doing(f"walks('choose', {walk + 1})", fitting(runs, scene.width)))))
        if alike[walk] == walk:
            lines += _text(scene, walk, each, TEXT if here or scene.cursor not in walks else MUTED)
    return lines[:rows]


def _text(scene: WalksScene, walk: int, rows: int, ink: Ink) -> list[Line]:
    """The first lines of a walk."""
    wrapper = Wrapper(scene.width, _INDENT, _INDENT)
    wrapper.feed("".join(scene.reader.texts(walk, 0, rows * scene.width)).strip(), ink)
    lines = wrapper.lines
    if len(lines) <= rows:
        return lines
    text = one_line(lines[rows - 1].text.strip() + " " + lines[rows].text.strip(), scene.width - 2)
    return [*lines[: rows - 1], Line((*_INDENT, (text, ink)))]
