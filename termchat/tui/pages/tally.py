"""Best of n and a vote: the ranked replies or answers, best first, equal ones once with their number; below them the reply
under the cursor.

While walks run, the order is provisional. Walks that are left out are listed with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from termchat.conversation.thoughts import answer_of
from termchat.conversation.walk_groups import ranking_of
from termchat.decoding.answers import AnswerError, is_path
from termchat.decoding.ranking import BY_THEMSELVES, Tally, compute_agreement, count_votes, left_out
from termchat.decoding.records import Ranked
from termchat.text import cells, one_line
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, bar, column, length, number, percent, spread
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.pages.grid_table import GAP, Cell, Column, GridTable
from termchat.tui.pages.page import Page, Scene, by_of
from termchat.tui.pages.shown_group import ShownGroup

_LONGEST_BAR = 24
_WORD = 28
"""Cells of an answer, at most."""
_PLACE, _WALKS, _SCORE, _SHARE, _TOKENS, _VOTES = 3, 12, 12, 7, 6, 8
"""Cells of a place, of the numbers of walks, and of their figures."""
_LEFT_OUT = Ink("stamp")


class _Place(NamedTuple):
    """A row: its answer or reply, the walks that have it, the best first, and what the first of them is ranked by; `why` it is
    left out, "" if it is counted."""

    text: str
    walks: tuple[int, ...]
    first: Ranked
    why: str = ""

    @property
    def numbers(self) -> str:
        return " ".join(str(walk + 1) for walk in self.walks)


class TallyPage(Page):
    """The cursor is the walk under the cursor: its row, and which of those with the same answer."""

    words: Mapping[str, str] = {"walk-1": "", "walk-left": "walk in row", "walk-up": "row"}

    def __init__(self, shown: ShownGroup) -> None:
        self._shown = shown
        self._ranked: tuple[object, list[_Place]] = (None, [])
        self._refused = ""

    def table(self, places: Sequence[_Place], at: int, width: int) -> tuple[list[Line], Sequence[Column[_Place]]]:
        """Return the lines above the rows, and the columns."""
        raise NotImplementedError

    def lines(self, scene: Scene) -> list[Line]:
        places = self._read_places()
        at = next((at for at, place in enumerate(places) if self._shown.cursor in place.walks), 0)
        head, columns = self.table(places, at, scene.width)
        table = GridTable(columns, places, at, lambda place: f"walks('choose', {place.walks[0] + 1})")
        lines = [*head, *table.lines(scene.width, scene.rows - len(head))]
        room = scene.rows - len(lines) - 1
        return [*lines, BLANK, *self._render_reply(places[at], scene.width, room)] if places and room > 1 else lines

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
        """Rank the walks, then list the others. Answers are read again only once a walk has ended, as a pattern may be
        slow."""
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

    def _render_reply(self, place: _Place, width: int, rows: int) -> list[Line]:
        """Render the reply under the cursor, its answer marked."""
        shown = self._shown
        walk = shown.cursor if shown.cursor in place.walks else place.walks[0]
        head: list[Run] = [("  ", TEXT), (f"walk {walk + 1}", STRONG)]
        if len(place.walks) > 1:
            head.append((f" ‹ {place.walks.index(walk) + 1}/{len(place.walks)} ›", ACCENT))
        head.append((f" · {shown.labels.get(walk, '')} · {shown.ending(walk)}", MUTED))
        wrapper = Wrapper(width, (("  ", TEXT),), (("  ", TEXT),))
        text, answer = answer_of(shown.group.list_spans(walk)).strip(), place.first.answer or ""
        begin = text.rfind(answer) if answer else len(text)
        end = begin + len(answer) if begin >= 0 else 0
        wrapper.feed(text[: max(begin, 0)], TEXT)
        wrapper.feed(text[max(begin, 0) : end], Ink("accent", bold=True, underline=True))
        wrapper.feed(text[end:], TEXT)
        return [Line(tuple(head)), *wrapper.lines[: max(rows - 1, 0)]]


class RankingPage(TallyPage):
    name = "ranking"

    def table(self, places: Sequence[_Place], at: int, width: int) -> tuple[list[Line], Sequence[Column[_Place]]]:
        size = _bar_width(width)

        def numbers(place: _Place) -> Cell:
            """The place of a reply, and its walks: equal replies are counted once."""
            times = f" ×{len(place.walks)}" if len(place.walks) > 1 and not place.why else ""
            name = "–" if place.why else str(places.index(place) + 1)
            ink = STRONG if place is places[at] else MUTED
            return [(f"{name:<{_PLACE}}", ink), (column(place.numbers, _WALKS - len(times)) + times, ACCENT)]

        def score(place: _Place) -> Cell:
            return [(f"  left out: {place.why}", _LEFT_OUT)] if place.why else number(place.first.score)

        def share(place: _Place) -> Cell:
            """The geometric mean probability of a token."""
            mean = place.first.mean_logprob
            part = math.exp(min(mean, 0.0)) if mean is not None else 0.0
            return None if place.why else [*bar(part, size), (f"{percent(part):>{_SHARE}}", MUTED)]

        def text(place: _Place) -> Cell:
            return [(one_line(place.text.strip(), width), TEXT if place is places[at] else MUTED)]

        ranked_by = "mean logprob" if self._shown.group.group.length_penalty == 1 else "score"
        return [], (
            Column(f"{'':{_PLACE}}walk", numbers, _PLACE + _WALKS),
            Column(ranked_by, score, _SCORE, right=True),
            Column("geom. mean prob.", share, size + _SHARE),
            Column("tokens", lambda place: [(str(place.first.tokens), MUTED)], _TOKENS, right=True),
            Column("reply", text, fills=True),
        )


class VotePage(TallyPage):
    name = "vote"

    def table(self, places: Sequence[_Place], at: int, width: int) -> tuple[list[Line], Sequence[Column[_Place]]]:
        votes = sum(len(place.walks) for place in places if not place.why)

        def walks(place: _Place) -> list[Run]:
            return [("walk " if len(place.walks) == 1 else "walks ", MUTED), (place.numbers, ACCENT)]

        def count(place: _Place) -> Cell:
            if place.why:
                return [(f"{len(place.walks):>2} left out: {place.why}", _LEFT_OUT), (GAP, TEXT), *walks(place)]
            return f"{len(place.walks):>2} vote{'' if len(place.walks) == 1 else 's'}"

        def share(place: _Place) -> Cell:
            part = len(place.walks) / votes if votes else 0.0
            return None if place.why else [*bar(part, _bar_width(width)), (f"{percent(part, 0):>5}", MUTED)]

        answers = [cells(one_line(place.text, _WORD)) for place in places if not place.why]
        return [self._render_head(places, votes, width)], (
            Column("", lambda place: [("–", MUTED)] if place.why else place.text, min(max(*answers, 8, 0), _WORD)),
            Column("", count, _VOTES),
            Column("", share, _bar_width(width) + 5),
            Column("", lambda place: None if place.why else walks(place), fills=True),
        )

    def _render_head(self, places: Sequence[_Place], votes: int, width: int) -> Line:
        counted = [Tally(place.text, place.walks) for place in places if not place.why]
        share, answer = compute_agreement(counted), self._shown.group.group.answer
        left: list[Run] = [(f"  answers {'at' if is_path(answer) else 'matching'} ", MUTED)]
        left.append((one_line(answer, _WORD), TEXT))
        if self._refused:
            return Line((*left, (f"  {one_line(self._refused, width - length(left) - 2)}", Ink("error"))))
        if share is None:
            over = all(node.done for node in self._shown.group.nodes.values())
            return Line((*left, ("  no walk has one" if over else "  no answer yet", MUTED)))
        right: list[Run] = [(f"{counted[0].votes} of {votes} agree ({percent(share, 0)})", STRONG)]
        if out := sum(len(place.walks) for place in places if place.why):
            right.append((f" · {out} left out", _LEFT_OUT))
        return Line(spread(left if length([*left, *right]) < width else [], right, width))


def _bar_width(width: int) -> int:
    return min(max(width // 6, 6), _LONGEST_BAR)
