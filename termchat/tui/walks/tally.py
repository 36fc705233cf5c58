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
from termchat.tui.draw.ink import BLANK, Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, bar, column, fitting, length, number, percent, spread
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.walks.walk_facts import ending_word
from termchat.tui.walks.walk_scene import WalksScene

_LONGEST_BAR = 24
_WORD = 28
"""Cells of an answer, at most."""
_WALKS, _SCORE, _SHARE, _TOKENS = 14, 12, 7, 6
"""Cells of the numbers of walks, and of their figures."""
_WIDE = 100
_LEFT_OUT = Ink("stamp")


class _Place(NamedTuple):
    """A row: its answer or reply, the walks that have it, the best first, and what the first of them is ranked by; None where
    it is left out."""

    text: str
    walks: tuple[int, ...]
    first: Ranked
    why: str = ""

    @property
    def is_counted(self) -> bool:
        return not self.why


class TallyPage:
    """The cursor is the walk under the cursor: its row, and which of those with the same answer."""

    words: Mapping[str, str] = {"walk-1": "", "walk-left": "walk in row", "walk-up": "row"}

    def __init__(self) -> None:
        self.line_in_view: int | None = None
        self._ranked: tuple[object, list[_Place]] | None = None
        self._refused = ""

    def draw(self, scene: WalksScene) -> list[Line]:
        places = self._places(scene)
        here = next((at for at, place in enumerate(places) if scene.cursor in place.walks), 0)
        votes = scene.group.group.kind == "vote"
        head = [_vote_head(scene, places, self._refused)] if votes else [_best_head(scene)]
        row = _vote_line if votes else _best_line
        lines = [*head, *(row(scene, places, at, here=at == here) for at in range(len(places)))]
        self.line_in_view = here + 1
        room = scene.rows - len(lines) - 1
        return [*lines, BLANK, *_reply(scene, places[here], room)] if places and room > 1 else lines

    def act(self, scene: WalksScene, what: str, *arguments: object) -> bool:
        by = arguments[0] if arguments and isinstance(arguments[0], int) else 0
        places = self._places(scene)
        at = next((at for at, place in enumerate(places) if scene.cursor in place.walks), None)
        if what not in ("line", "go") or at is None:
            return False
        if what == "line":
            scene.chat.walks.select_reply(places[min(max(at + by, 0), len(places) - 1)].walks[0])
        else:
            walks = places[at].walks
            scene.chat.walks.select_reply(walks[(walks.index(scene.cursor) + by) % len(walks)])
        return True

    def _places(self, scene: WalksScene) -> list[_Place]:
        """What is ranked, then what is left out. Answers are read again only when a walk has ended: a pattern may be slow."""
        group = scene.group
        now = [(walk, node.done or len(node.ids), walk in group.paused) for walk, node in sorted(group.nodes.items())]
        if group.group.kind == "vote":
            now = [(walk, done is True, paused) for walk, done, paused in now]
        if self._ranked is None or self._ranked[0] != now:
            self._ranked = now, self._rank(scene)
        return self._ranked[1]

    def _rank(self, scene: WalksScene) -> list[_Place]:
        group = scene.group
        spans = {walk: group.list_spans(walk) for walk in sorted(group.nodes)}
        problems: list[AnswerError] = []
        ranking = ranking_of(spans, group.group, problems.append)
        self._refused = problems[0].message if problems else ""
        of = {one.walk: one for one in ranking.walks}
        texts = {walk: answer_of(reply) for walk, reply in spans.items()}
        counted = [_Place(one.text, one.walks, of[one.walks[0]]) for one in count_votes(ranking, texts)]
        reasons: dict[str, list[int]] = {}
        for walk in left_out(ranking):
            reasons.setdefault(_why_not(scene, walk), []).append(walk)
        others = [_Place(texts[walks[0]], tuple(walks), of[walks[0]], why) for why, walks in reasons.items()]
        return [*counted, *sorted(others, key=lambda place: place.walks)]


def _why_not(scene: WalksScene, walk: int) -> str:
    """Why a walk is left out."""
    node = scene.group.nodes[walk]
    if not node.done:
        return "paused" if walk in scene.group.paused else "running"
    if node.finished is None or node.finished.reason not in BY_THEMSELVES:
        return f"unfinished, {ending_word(node)}"
    return "no answer in it"


def _share(place: _Place) -> float:
    """The geometric mean probability of a token."""
    mean = place.first.mean_logprob
    return math.exp(min(mean, 0.0)) if mean is not None else 0.0


def _best_head(scene: WalksScene) -> Line:
    ranked_by = "mean logprob" if scene.group.group.length_penalty == 1 else "score"
    left: list[Run] = [(f"  {'':3}{'walk':<{_WALKS}}", MUTED), (f"{ranked_by:>{_SCORE}}", MUTED)]
    left.append((f"  {'geom. mean prob.':<{_bar(scene.width) + _SHARE}}", MUTED))
    left.append((f"  {'tokens':>{_TOKENS}}  reply", MUTED))
    return Line(fitting(left, scene.width))


def _best_line(scene: WalksScene, places: Sequence[_Place], at: int, *, here: bool) -> Line:
    place, width = places[at], scene.width
    runs = _begin(str(at + 1) if place.is_counted else "–", place, here=here)
    if place.is_counted:
        runs.append((f"{number(place.first.score):>{_SCORE}}", STRONG if here else TEXT))
        runs += [("  ", TEXT), *bar(_share(place), _bar(width)), (f"{percent(_share(place)):>{_SHARE}}", MUTED)]
    else:
        runs.append(("  " + column(f"left out: {place.why}", _SCORE + _bar(width) + _SHARE), _LEFT_OUT))
    runs.append((f"  {place.first.tokens:>{_TOKENS}}  ", MUTED))
    words = place.text.strip()
    room = width - length(runs)
    runs.append((one_line(words, room) if room > 4 else "", TEXT if here else MUTED))
    return Line(tuple(doing(f"walks('choose', {place.walks[0] + 1})", fitting(runs, width))), "panel" if here else "")


def _vote_head(scene: WalksScene, places: Sequence[_Place], refused: str) -> Line:
    counted = [Tally(place.text, place.walks) for place in places if place.is_counted]
    share, votes = compute_agreement(counted), sum(map(len, (one.walks for one in counted)))
    answer = scene.group.group.answer
    left: list[Run] = [
        (f"  answers {'at' if is_path(answer) else 'matching'} ", MUTED),
        (one_line(answer, _WORD), TEXT),
    ]
    if refused:
        return Line((*left, (f"  {one_line(refused, scene.width - length(left) - 2)}", Ink("error"))))
    if share is None:
        over = all(node.done for node in scene.group.nodes.values())
        return Line((*left, ("  no walk has one" if over else "  no answer yet", MUTED)))
    right: list[Run] = [(f"{counted[0].votes} of {votes} agree (", STRONG), (f"{percent(share, 0)})", STRONG)]
    if len(places) > len(counted):
        out = sum(len(place.walks) for place in places if not place.is_counted)
        right.append((f" · {out} left out", _LEFT_OUT))
    return Line(spread(left if length([*left, *right]) < scene.width else [], right, scene.width))


def _vote_line(scene: WalksScene, places: Sequence[_Place], at: int, *, here: bool) -> Line:
    place, width = places[at], scene.width
    wide = min(max(*(cells(one_line(one.text, _WORD)) for one in places if one.is_counted), 8, 0), _WORD)
    ink = STRONG if here else TEXT
    runs: list[Run] = [("▌ " if here else "  ", ACCENT)]
    if place.is_counted:
        votes = sum(len(one.walks) for one in places if one.is_counted)
        share = len(place.walks) / votes
        runs += [(column(place.text, wide), ink), (f"{_votes(len(place.walks))}  ", ink), *bar(share, _bar(width))]
        runs.append((f"{percent(share, 0):>5}", MUTED))
    else:
        runs += [(column("–", wide), MUTED), (f"{len(place.walks):>4} left out: {place.why}", _LEFT_OUT)]
    runs += [("  walk " if len(place.walks) == 1 else "  walks ", MUTED), (_numbers(place.walks), ACCENT)]
    return Line(tuple(doing(f"walks('choose', {place.walks[0] + 1})", fitting(runs, width))), "panel" if here else "")


def _votes(count: int) -> str:
    return f"{count:>4} vote{'' if count == 1 else 's'}".ljust(len("   1 votes"))


def _begin(place: str, row: _Place, *, here: bool) -> list[Run]:
    """The place of a reply, and its walks: equal replies are counted once."""
    times = f" ×{len(row.walks)}" if len(row.walks) > 1 and row.is_counted else ""
    return [
        ("▌ " if here else "  ", ACCENT), (f"{place:<3}", STRONG if here else MUTED),
        (column(_numbers(row.walks), _WALKS - len(times) - 1) + times + " ", ACCENT),
    ]  # fmt: skip


def _reply(scene: WalksScene, place: _Place, rows: int) -> list[Line]:
    """The reply under the cursor, its answer marked."""
    walk = scene.cursor if scene.cursor in place.walks else place.walks[0]
    node = scene.group.nodes[walk]
    said: list[Run] = [("  ", TEXT), (f"walk {walk + 1}", STRONG)]
    if len(place.walks) > 1:
        said.append((f" ‹ {place.walks.index(walk) + 1}/{len(place.walks)} ›", ACCENT))
    said.append((f" · {scene.labels.get(walk, '')} · {ending_word(node, paused=walk in scene.group.paused)}", MUTED))
    wrapper = Wrapper(scene.width, (("  ", TEXT),), (("  ", TEXT),))
    text = answer_of(scene.group.list_spans(walk)).strip()
    answer = place.first.answer
    begin = text.rfind(answer) if answer else -1
    if begin < 0:
        wrapper.feed(text, TEXT)
    else:
        wrapper.feed(text[:begin], TEXT)
        wrapper.feed(text[begin : begin + len(answer or "")], Ink("accent", bold=True, underline=True))
        wrapper.feed(text[begin + len(answer or "") :], TEXT)
    return [Line(tuple(said)), *wrapper.lines[: max(rows - 1, 0)]]


def _numbers(walks: Sequence[int]) -> str:
    return " ".join(str(walk + 1) for walk in walks)


def _bar(width: int) -> int:
    return min(max(width // 6, 6), _LONGEST_BAR)
