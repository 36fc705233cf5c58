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
from termchat.decoding.walk_plan import shown_value
from termchat.text import one_line
from termchat.tui.draw.ink import BLANK, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, column, fitting, flowing, length, number
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.pages.grid_table import GAP, MARK, Column, GridTable
from termchat.tui.pages.page import Page, Scene, by_of
from termchat.tui.pages.shown_group import TEXT_PAGE, ShownGroup

_INDENT: tuple[Run, ...] = (("  ", TEXT),)
_WORDS = 80
"""Tokens of a walk that are looked at for its first words."""
_MOST = 1000
"""Characters of them."""
_LEAST_WORDS, _WIDE = 16, 100
_CELL = 18
"""Cells of a column of a table of two knobs, at least."""
_ALIKE = "all alike"


class CellFacts(NamedTuple):
    """Facts of the runs of a cell: the words of the first, their endings, the mean number of tokens, the mean logprob of
    all tokens, and how many replies differ."""

    value: str
    walks: range
    words: str = ""
    ending: str = "waiting"
    tokens: str = ""
    logprob: str = ""
    different: str = ""

    @property
    def does(self) -> str:
        return f"walks('choose', {self.walks[0] + 1})"


class GridPage(Page):
    """The cursor is the walk under the cursor: its cell, and its run in it."""

    name = "grid"
    words: Mapping[str, str] = {"walk-1": "", "walk-keep": "open", "walk-left": "cell"}

    def __init__(self, shown: ShownGroup) -> None:
        self._shown = shown
        group = shown.group.plan.group
        self._knobs, self._runs, self._size = group.knobs, group.runs, group.size
        self._values = [[shown_value(KNOBS[knob.name], value) for value in knob.values] for knob in group.knobs]

    def lines(self, scene: Scene) -> list[Line]:
        cells = [self._read_facts(first) for first in range(0, self._size, self._runs)]
        at = min(self._shown.cursor, self._size - 1) // self._runs
        if len(self._knobs) == 1:
            table = self._one_knob(cells, at, scene.width)
            lines = table.lines(scene.width, scene.rows)
        else:
            lines = self._two_knobs(cells, at, scene)
        room = scene.rows - len(lines) - 1
        return [*lines, BLANK, *self._run_lines(cells[at].walks, scene.width, room)] if room > self._runs else lines

    def act(self, what: str, *arguments: object) -> bool:
        if self._shown.cursor >= self._size or what not in ("line", "go", "keep"):
            return False
        at, run = divmod(self._shown.cursor, self._runs)
        across, by = len(self._values[1]) if len(self._knobs) > 1 else 1, by_of(arguments)
        if what == "keep":
            self._shown.turn_to(TEXT_PAGE, range(at * self._runs, (at + 1) * self._runs))
            return True
        if what == "line":
            at += by * across
        elif across > 1:
            at = at + by if 0 <= at % across + by < across else at
        else:
            run = min(max(run + by, 0), self._runs - 1)
        if 0 <= at < self._size // self._runs:
            self._shown.chat.walks.select_reply(at * self._runs + run)
        return True

    def _read_facts(self, first: int) -> CellFacts:
        """Read the walks of the cell that begins with walk `first`."""
        shown, walks = self._shown, range(first, first + self._runs)
        value = self._values[0][first // self._runs // (len(self._values[1]) if len(self._values) > 1 else 1)]
        begun = [walk for walk in walks if walk in shown.group.nodes and walk in shown.figures.of]
        if not begun:
            return CellFacts(value, walks)
        figures = [shown.figures.of[walk] for walk in begun]
        endings = Counter(map(shown.ending, begun))
        one = next(iter(endings))
        ending = one if len(endings) == 1 else ", ".join(f"{count} {word}" for word, count in endings.items())
        tokens = sum(one.tokens for one in figures)
        known = [one.sum_logprob for one in figures if one.sum_logprob is not None]
        mean = number(sum(known) / tokens) if tokens and len(known) == len(figures) else ""
        distinct: list[int] = []
        for walk in begun:  # of two that run, one may only be further
            if all(shown.figures.trie.parted(walk, other) is not None for other in distinct):
                distinct.append(walk)
        over = all(shown.group.nodes[walk].done for walk in begun)
        different = f"{len(distinct)} of {len(walks)}" if len(distinct) > 1 else _ALIKE if over else ""
        return CellFacts(
            value, walks, one_line(shown.text(begun[0], _WORDS), _MOST), ending, f"{tokens / len(begun):.0f}", mean,
            different if len(walks) > 1 else "",
        )  # fmt: skip

    def _one_knob(self, cells: Sequence[CellFacts], at: int, width: int) -> GridTable[CellFacts]:
        name = self._knobs[0].name
        columns = [
            Column[CellFacts](name, lambda one: [(one.value, STRONG if one is cells[at] else ACCENT)],
                              max(map(len, self._values[0]))),
            Column("first words", lambda one: one.words, _LEAST_WORDS, fills=True),
            Column("ending", lambda one: one.ending, max(len("running"), *(len(one.ending) for one in cells))),
            Column("tokens", lambda one: one.tokens, right=True),
            Column("mean logprob" if width >= _WIDE else "mean logp", lambda one: one.logprob, right=True),
        ]  # fmt: skip
        if self._runs > 1:
            least = max(len(one.different) for one in cells)
            columns.append(Column("different", lambda one: one.different, least, right=True))
        return GridTable(columns, cells, at, lambda one: one.does)

    def _two_knobs(self, cells: Sequence[CellFacts], at: int, scene: Scene) -> list[Line]:
        """Render the head, and the rows around the cursor's. Of columns that do not fit, those around it are shown."""
        rows, columns = self._values
        first, across = max(len(self._knobs[0].name), *map(len, rows)), len(columns)
        most = min(across, max((scene.width - first - MARK) // (_CELL + len(GAP)), 1))
        size = (scene.width - first - MARK) // most - len(GAP)
        row_here, column_here = divmod(at, across)
        begin = min(max(column_here - most // 2, 0), across - most)
        shown = range(begin, begin + most)
        title: list[Run] = [("  ", TEXT), (column(self._knobs[0].name, first), MUTED)]
        for place in shown:
            before = "‹ " if place == begin and begin else ""
            after = " ›" if place == shown[-1] and place < across - 1 else ""
            name = f"{before}{self._knobs[1].name} {columns[place]}{after}"
            title.append((GAP + column(name, size), STRONG if place == column_here else ACCENT))
        lines, last = [], 0
        for row, value in enumerate(rows):
            texts = [_cell_lines(cells[row * across + place], size) for place in shown]
            for line in range(max(map(len, texts))):
                name_ink = STRONG if row == row_here else ACCENT
                runs: list[Run] = [("  ", TEXT), (column(value if line == 0 else "", first), name_ink)]
                for place, text in zip(shown, texts, strict=True):
                    here = (row, place) == (row_here, column_here)
                    part: list[Run] = [("▌ " if here else GAP, ACCENT)]
                    shown_runs = text[line] if line < len(text) else ()
                    part += [(words, ink._replace(bold=here and line == 0)) for words, ink in shown_runs]
                    part.append((" " * max(size - length(part) + len(GAP), 0), TEXT))
                    part = [(words, ink._replace(ground="panel" if here else "")) for words, ink in part]
                    runs += doing(cells[row * across + place].does, part)
                lines.append(Line(tuple(runs)))
            last = len(lines) if row == row_here else last
            lines += [BLANK] * (row < len(rows) - 1)
        room = max(scene.rows - 1, 1)
        top = max(last - room, 0)
        return [Line(tuple(title)), *lines[top : top + room]]

    def _run_lines(self, walks: Sequence[int], width: int, rows: int) -> list[Line]:
        """Render the text of each run as far as it fits, of equal runs once."""
        shown, trie = self._shown, self._shown.figures.trie
        begun = [walk for walk in walks if walk in shown.group.nodes and walk in shown.figures.of]
        alike = {walk: next(one for one in begun if trie.ids(one) == trie.ids(walk)) for walk in begun}
        each = max((rows - len(begun)) // max(len({*alike.values()}), 1), 1)
        lines: list[Line] = []
        for walk in begun:
            node, here = shown.group.nodes[walk], walk == shown.cursor
            seed = f" · seed {node.start.seed}" if node.start is not None else ""
            tokens = len(trie.ids(walk))
            facts = f" · {tokens} token{'' if tokens == 1 else 's'} · {shown.ending(walk)}"
            facts += f" · same as walk {alike[walk] + 1}" if alike[walk] != walk else ""
            runs: list[Run] = [("▌ " if here else "  ", ACCENT), (f"{walk + 1} ", ACCENT)]
            runs += [(shown.labels.get(walk, "") + seed, STRONG if here else TEXT), (facts, MUTED)]
            lines.append(Line(tuple(doing(f"walks('choose', {walk + 1})", fitting(runs, width)))))
            if alike[walk] == walk:
                ink = TEXT if here or shown.cursor not in walks else MUTED
                wrapper = Wrapper(width, _INDENT, _INDENT)
                wrapper.feed(shown.text(walk, each * width), ink)
                text = wrapper.lines
                lines += text[:each]
                if len(text) > each:
                    last = one_line(f"{text[each - 1].text.strip()} {text[each].text.strip()}", width - 2)
                    lines[-1] = Line((*_INDENT, (last, ink)))
        return lines[:rows]


def _cell_lines(one: CellFacts, size: int) -> list[tuple[Run, ...]]:
    different = one.different if one.different in ("", _ALIKE) else f"{one.different} different"
    facts = (one.ending, one.tokens and f"{one.tokens} tok", one.logprob and f"{one.logprob} logp", different)
    items: list[list[Run]] = [[(text, MUTED)] for text in facts if text]
    return [((one_line(one.words, size), TEXT),), *(line.runs for line in flowing(items, size))]
