"""Tables of a group: a cell of a grid for each combination of its knobs' values; the ranked replies of best of n; the answers
of a vote. The selected row is that of the walk under the cursor; below the table are the replies of that row.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from termchat.conversation.thoughts import answer_of
from termchat.conversation.walk_groups import ranking_of
from termchat.decoding.answers import AnswerError, is_path
from termchat.decoding.ranking import BY_THEMSELVES, count_votes, left_out
from termchat.decoding.records import Ranked
from termchat.decoding.samplers import KNOBS
from termchat.decoding.walk_plan import shown_value
from termchat.text import one_line
from termchat.tui.draw.ink import BLANK, Ink, Line, Run, doing
from termchat.tui.draw.marks import (
    ACCENT,
    MUTED,
    STRONG,
    TEXT,
    bar,
    column,
    fitting,
    flowing,
    format_number,
    length,
    percent,
    spread,
)
from termchat.tui.draw.wrap import wrap_runs
from termchat.tui.pages.grid_table import GAP, MARK, Cell, GridColumn, GridTable
from termchat.tui.pages.scene import Scene, by_of
from termchat.tui.pages.shown_group import TEXT_PAGE, GroupPage, ShownGroup

_INDENT: tuple[Run, ...] = (("  ", TEXT),)
_WORDS = 80
"""Tokens of a walk that are looked at for its first words."""
_MOST = 1000
"""Characters of them."""
_LEAST_WORDS, _WIDE = 16, 100
_CELL = 18
"""Cells of a column of a table of two knobs, at least."""
_ALIKE = "all alike"

_LONGEST_BAR = 24
_ANSWER = 28
"""Cells of an answer, at most."""
_PLACE, _WALKS, _SCORE, _SHARE, _TOKENS = 3, 12, 12, 7, 6
"""Cells of a place, of the numbers of walks, and of their figures."""
_LEFT_OUT, _ANSWERS = Ink("stamp"), Ink("accent", bold=True, underline=True)


class _GridCell(NamedTuple):
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


class GridPage(GroupPage):
    """One knob's values stand one below the other, with a column for each fact; of two knobs the last one's are the columns,
    and a cell has a line of words and one or two of facts."""

    name = "grid"
    words: Mapping[str, str] = {"walk-1": "", "walk-keep": "open", "walk-left": "cell"}

    def __init__(self, shown: ShownGroup) -> None:
        super().__init__(shown)
        group = shown.group.group
        self._knobs, self._runs, self._size = group.knobs, group.runs, len(shown.group.plan.changes)
        self._values = [[shown_value(KNOBS[knob.name], value) for value in knob.values] for knob in group.knobs]
        self._across = len(self._values[1]) if len(self._values) > 1 else 1
        """Cells of a row of the table."""

    def lines(self, scene: Scene) -> list[Line]:
        cells = [self._read_cell(at) for at in range(self._size // self._runs)]
        at = min(self._shown.cursor, self._size - 1) // self._runs
        if len(self._knobs) == 1:
            lines = self._make_table(cells, at, scene.width).lines(scene.width, scene.rows)
        else:
            lines = self._render_two_knobs(cells, at, scene)
        room = scene.rows - len(lines) - 1
        return [*lines, BLANK, *self._render_runs(cells[at].walks, scene.width, room)] if room > self._runs else lines

    def act(self, what: str, *arguments: object) -> bool:
        if self._shown.cursor >= self._size or what not in ("line", "go", "keep"):
            return False
        at, run = divmod(self._shown.cursor, self._runs)
        across, by = self._across, by_of(arguments)
        if what == "keep":
            self._shown.page = self._shown.pages[TEXT_PAGE]
            self._shown.only = range(at * self._runs, (at + 1) * self._runs)
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

    def _read_cell(self, at: int) -> _GridCell:
        shown, trie, walks = self._shown, self._shown.figures.trie, range(at * self._runs, (at + 1) * self._runs)
        value = self._values[0][at // self._across]
        begun = [walk for walk in walks if walk in shown.group.nodes]
        if not begun:
            return _GridCell(value, walks)
        figures = [shown.figures.of[walk] for walk in begun]
        endings = Counter(map(shown.ending, begun))
        ending = next(iter(endings))
        if len(endings) > 1:
            ending = ", ".join(f"{count} {word}" for word, count in endings.items())
        tokens = sum(one.tokens for one in figures)
        known = [one.sum_logprob for one in figures if one.sum_logprob is not None]
        mean = format_number(sum(known) / tokens) if tokens and len(known) == len(figures) else ""
        distinct: list[int] = []
        for walk in begun:  # of two that run, one may only be further
            if all(trie.parted(walk, other) is not None for other in distinct):
                distinct.append(walk)
        different = ""
        if len(distinct) > 1:
            different = f"{len(distinct)} of {len(walks)}"
        elif len(walks) > 1 and all(shown.group.nodes[walk].done for walk in begun):
            different = _ALIKE
        words = one_line("".join(shown.texts(begun[0], 0, _WORDS)).strip(), _MOST)
        return _GridCell(value, walks, words, ending, f"{tokens / len(begun):.0f}", mean, different)

    def _make_table(self, cells: Sequence[_GridCell], at: int, width: int) -> GridTable[_GridCell]:
        def value(cell: _GridCell) -> Cell:
            return [(cell.value, STRONG if cell is cells[at] else ACCENT)]

        columns = [
            GridColumn[_GridCell](self._knobs[0].name, value, max(map(len, self._values[0]))),
            GridColumn("first words", lambda one: one.words, _LEAST_WORDS, fills=True),
            GridColumn("ending", lambda one: one.ending, max(len("running"), *(len(one.ending) for one in cells))),
            GridColumn("tokens", lambda one: one.tokens, right=True),
            GridColumn("mean logprob" if width >= _WIDE else "mean logp", lambda one: one.logprob, right=True),
        ]
        if self._runs > 1:
            least = max(len(one.different) for one in cells)
            columns.append(GridColumn("different", lambda one: one.different, least, right=True))
        return GridTable(columns, cells, at, lambda one: one.does)

    def _render_two_knobs(self, cells: Sequence[_GridCell], at: int, scene: Scene) -> list[Line]:
        """Render the head, and the rows around the cursor's. Of columns that do not fit, those around it are shown."""
        rows, columns = self._values
        first, across = max(len(self._knobs[0].name), *map(len, rows)), self._across
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
            texts = [_render_cell(cells[row * across + place], size) for place in shown]
            for line in range(max(map(len, texts))):
                name_ink = STRONG if row == row_here else ACCENT
                runs: list[Run] = [("  ", TEXT), (column(value if line == 0 else "", first), name_ink)]
                for place, text in zip(shown, texts, strict=True):
                    here = (row, place) == (row_here, column_here)
                    part: list[Run] = [("▌ " if here else GAP, ACCENT)]
                    cell_runs = text[line] if line < len(text) else ()
                    part += [(words, ink._replace(bold=here and line == 0)) for words, ink in cell_runs]
                    part.append((" " * max(size - length(part) + len(GAP), 0), TEXT))
                    part = [(words, ink._replace(ground="panel" if here else "")) for words, ink in part]
                    runs += doing(cells[row * across + place].does, part)
                lines.append(Line(tuple(runs)))
            last = len(lines) if row == row_here else last
            lines += [BLANK] * (row < len(rows) - 1)
        room = max(scene.rows - 1, 1)
        top = max(last - room, 0)
        return [Line(tuple(title)), *lines[top : top + room]]

    def _render_runs(self, walks: Sequence[int], width: int, rows: int) -> list[Line]:
        """Render each run as far as it fits, the text of equal runs once."""
        shown, trie = self._shown, self._shown.figures.trie
        begun = [walk for walk in walks if walk in shown.group.nodes]
        alike = {walk: next(one for one in begun if trie.equal(one, walk)) for walk in begun}
        each = max((rows - len(begun)) // max(len({*alike.values()}), 1), 1)
        lines: list[Line] = []
        for walk in begun:
            node, is_first = shown.group.nodes[walk], alike[walk] == walk
            label = shown.labels[walk] + (f" · seed {node.start.seed}" if node.start is not None else "")
            facts = "" if is_first else f" · same as walk {alike[walk] + 1}"
            text = "".join(shown.texts(walk, 0, each * width)).strip() if is_first else ""
            ink = TEXT if walk == shown.cursor or shown.cursor not in walks else MUTED
            lines += _render_reply(shown, walk, label, facts, text, width, each if is_first else 0, ink)
        return lines[:rows]


def _render_reply(
    shown: ShownGroup,
    walk: int,
    label: str,
    facts: str,
    text: str,
    width: int,
    rows: int,
    ink: Ink = TEXT,
    answer: str = "",
) -> list[Line]:
    """Render a walk: a head with its `label`, numbers and `facts`, and `rows` lines of its text, the `answer` in it marked."""
    here, tokens = walk == shown.cursor, shown.figures.of[walk].tokens
    facts = f" · {tokens} token{'' if tokens == 1 else 's'} · {shown.ending(walk)}{facts}"
    head: list[Run] = [("▌ " if here else "  ", ACCENT), (f"{walk + 1} ", ACCENT)]
    head += [(label, STRONG if here else TEXT), (facts, MUTED)]
    before, answer, after = text.rpartition(answer) if answer else (text, "", "")
    most = (rows + 1) * width  # no more of it is in view
    runs = [(before[:most], ink), (answer, _ANSWERS), (after[:most], ink)]
    lines = wrap_runs(runs, width, _INDENT, _INDENT) if text else []
    if 0 < rows < len(lines):
        lines[rows - 1] = Line((*fitting(lines[rows - 1].runs, width - 1), ("…", ink)))
    lines = lines[:rows]
    return [Line(tuple(doing(f"walks('choose', {walk + 1})", fitting(head, width)))), *lines]


def _render_cell(cell: _GridCell, size: int) -> list[tuple[Run, ...]]:
    different = cell.different if cell.different in ("", _ALIKE) else f"{cell.different} different"
    facts = (cell.ending, cell.tokens and f"{cell.tokens} tok", cell.logprob and f"{cell.logprob} logp", different)
    items: list[list[Run]] = [[(text, MUTED)] for text in facts if text]
    return [((one_line(cell.words, size), TEXT),), *(line.runs for line in flowing(items, size))]


class _Place(NamedTuple):
    """A row: its answer or reply, the walks that have it, the best first, and the figures of the first; `why` it is left out,
    "" if it is counted."""

    text: str
    walks: tuple[int, ...]
    first: Ranked
    why: str = ""

    @property
    def numbers(self) -> str:
        return " ".join(str(walk + 1) for walk in self.walks)


class RankingPage(GroupPage):
    """Ranked replies, best first, equal ones once with their number; below them the reply under the cursor.

    While walks run, the order is provisional. Walks that are left out are listed with the reason.
    """

    name = "ranking"
    words: Mapping[str, str] = {"walk-1": "", "walk-left": "walk in row", "walk-up": "row"}

    def __init__(self, shown: ShownGroup) -> None:
        super().__init__(shown)
        self._ranked: tuple[object, list[_Place]] = (None, [])
        self._refused = ""

    def lines(self, scene: Scene) -> list[Line]:
        places = self._read_places()
        at = next((at for at, place in enumerate(places) if self._shown.cursor in place.walks), 0)
        head = self.render_head(places, scene.width)
        columns = self.make_columns(places, at, scene.width)
        table = GridTable(columns, places, at, lambda place: f"walks('choose', {place.walks[0] + 1})")
        lines = [*head, *table.lines(scene.width, scene.rows - len(head))]
        room = scene.rows - len(lines) - 1
        if not places or room < 2:
            return lines
        place, shown = places[at], self._shown
        walk = shown.cursor if shown.cursor in place.walks else place.walks[0]
        facts = f" ‹ {place.walks.index(walk) + 1}/{len(place.walks)} ›" if len(place.walks) > 1 else ""
        label, answer = shown.labels[walk], place.first.answer or ""
        text = answer_of(shown.group.list_spans(walk)).strip()
        return [*lines, BLANK, *_render_reply(shown, walk, label, facts, text, scene.width, room - 1, answer=answer)]

    def act(self, what: str, *arguments: object) -> bool:
        by, places, cursor = by_of(arguments), self._read_places(), self._shown.cursor
        at = next((at for at, place in enumerate(places) if cursor in place.walks), None)
        if what not in ("line", "go") or at is None:
            return False
        if what == "line":
            walk = places[min(max(at + by, 0), len(places) - 1)].walks[0]
        else:
            walks = places[at].walks
            walk = walks[(walks.index(cursor) + by) % len(walks)]
        self._shown.chat.walks.select_reply(walk)
        return True

    def _read_places(self) -> list[_Place]:
        """Rank the walks, then list the others. Answers are read again only after a walk has ended: a pattern may be slow."""
        group, vote = self._shown.group, self._shown.group.group.kind == "vote"
        now = [
            (walk, node.done if vote else node.done or len(node.ids), walk in group.paused)
            for walk, node in sorted(group.nodes.items())
        ]
        if self._ranked[0] != now:
            self._ranked = now, self._rank_walks()
        return self._ranked[1]

    def _rank_walks(self) -> list[_Place]:
        group = self._shown.group
        spans = {walk: group.list_spans(walk) for walk in sorted(group.nodes)}
        problems: list[AnswerError] = []
        ranking = ranking_of(spans, group.group, problems.append)
        self._refused = problems[0].message if problems else ""
        of = {one.walk: one for one in ranking.walks}
        texts = {walk: answer_of(reply) for walk, reply in spans.items()}
        counted = [_Place(one.text, one.walks, of[one.walks[0]]) for one in count_votes(ranking, texts)]
        reasons: dict[str, list[int]] = {}
        for walk in left_out(ranking):
            node, why = group.nodes[walk], self._shown.ending(walk)
            if node.done and (node.finished is None or node.finished.reason not in BY_THEMSELVES):
                why = f"unfinished, {why}"
            elif node.done:
                why = "no answer in it"
            reasons.setdefault(why, []).append(walk)
        others = [_Place(texts[walks[0]], tuple(walks), of[walks[0]], why) for why, walks in reasons.items()]
        return [*counted, *sorted(others, key=lambda place: place.walks)]

    def render_head(self, places: Sequence[_Place], width: int) -> list[Line]:
        """Render the lines above the table."""
        return []

    def make_columns(self, places: Sequence[_Place], at: int, width: int) -> Sequence[GridColumn[_Place]]:
        """Make the columns of the table, in which the row `at` is selected."""
        group, size, votes = self._shown.group.group, min(max(width // 6, 6), _LONGEST_BAR), _count_votes(places)
        is_vote = group.kind == "vote"

        def numbers(place: _Place) -> Cell:
            """Render the place of a reply, and its walks: equal replies are counted once."""
            times = f" ×{len(place.walks)}" if len(place.walks) > 1 and not place.why else ""
            name = "–" if place.why else str(places.index(place) + 1)
            ink = STRONG if place is places[at] else MUTED
            return [(f"{name:<{_PLACE}}", ink), (column(place.numbers, _WALKS - len(times)) + times, ACCENT)]

        def score(place: _Place) -> Cell:
            if place.why:
                return [(f"  left out: {place.why}", _LEFT_OUT)]
            return str(len(place.walks)) if is_vote else format_number(place.first.score)

        def share(place: _Place) -> Cell:
            """Render the part of the votes, else the geometric mean probability of a token."""
            if place.why:
                return None
            mean = math.log(len(place.walks) / votes) if is_vote else place.first.mean_logprob
            part = math.exp(min(mean, 0.0)) if mean is not None else 0.0
            return [*bar(part, size), (f"{percent(part):>{_SHARE}}", MUTED)]

        def text(place: _Place) -> Cell:
            return [(one_line(place.text.strip(), width), TEXT if place is places[at] else MUTED)]

        figure = "votes" if is_vote else "mean logprob" if group.length_penalty == 1 else "score"
        return (
            GridColumn(f"{'':{_PLACE}}walk", numbers, _PLACE + _WALKS),
            GridColumn(figure, score, _SCORE, right=True),
            GridColumn("of the votes" if is_vote else "geom. mean prob.", share, size + _SHARE),
            GridColumn("tokens", lambda place: [(str(place.first.tokens), MUTED)], _TOKENS, right=True),
            GridColumn("answer" if is_vote else "reply", text, fills=True),
        )


class VotePage(RankingPage):
    """The answers, most votes first, each with the walks that gave it; below them the reply under the cursor."""

    name = "vote"

    def render_head(self, places: Sequence[_Place], width: int) -> list[Line]:
        votes, answer = _count_votes(places), self._shown.group.group.answer
        left: list[Run] = [(f"  answers {'at' if is_path(answer) else 'matching'} ", MUTED)]
        left.append((one_line(answer, _ANSWER), TEXT))
        if self._refused:
            return [Line((*left, (f"  {one_line(self._refused, width - length(left) - 2)}", Ink("error"))))]
        if not votes:
            over = all(node.done for node in self._shown.group.nodes.values())
            return [Line((*left, ("  no walk has one" if over else "  no answer yet", MUTED)))]
        first = len(places[0].walks)
        right: list[Run] = [(f"{first} of {votes} agree ({percent(first / votes, 0)})", STRONG)]
        if out := sum(len(place.walks) for place in places if place.why):
            right.append((f" · {out} left out", _LEFT_OUT))
        return [Line(spread(left if length([*left, *right]) < width else [], right, width))]


def _count_votes(places: Sequence[_Place]) -> int:
    return sum(len(place.walks) for place in places if not place.why)
