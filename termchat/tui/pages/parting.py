"""Where the walks part: what they begin with together once, then a line for each way on, with the walks that took it and the
probability that its first token had."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from termchat.decoding.records import Candidate
from termchat.decoding.walk_figures import TrieStretch
from termchat.text import one_line, show_piece
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, STRONG, TEXT, TITLE, column, length, percent
from termchat.tui.pages.page import Page, Scene
from termchat.tui.pages.shown_group import ShownGroup, WalkToken

_AT, _AFTER, _WALKS = 7, 13, 12
"""Cells of the columns at the right: the token, its probability, and the least for the numbers of the walks."""
_UNTAKEN, _CANDIDATES = 4, 20
"""Candidates of a fork that no walk took, and of how many these are the likeliest."""
_HERE = Ink("accent", bold=True)
_WIDEST = 100
"""Cells of text beyond which the numbers would be too far from it."""
_READ = 60
"""Tokens of a run that are read: about as many as fit on a line."""


class PartingPage(Page):
    """Where the walks part, with what else could have been drawn there."""

    name = "parting"

    def __init__(self, shown: ShownGroup) -> None:
        self._shown = shown
        self._candidates: dict[WalkToken, Sequence[Candidate]] = {}

    def lines(self, scene: Scene) -> list[Line]:
        return parting_lines(self._shown, scene.width, candidates=self._read_candidates)

    def _read_candidates(self, at: WalkToken) -> Sequence[Candidate]:
        """Those of the step that drew a token; they are read once, as soon as they are kept."""
        if at not in self._candidates:
            record = self._shown.chat.session.read_token(*at)
            if record is None:
                return ()
            self._candidates[at] = record.candidates[:_CANDIDATES]
        return self._candidates[at]


Candidates = Callable[[WalkToken], Sequence[Candidate]]


def parting_lines(shown: ShownGroup, width: int, rows: int = 0, *, candidates: Candidates | None = None) -> list[Line]:
    """Render a head, then a line for each run of tokens of the same walks. With `rows` the later forks are folded until the
    rest fits. With `candidates` each fork has a line of the likeliest tokens of no walk."""
    stretches, cursor = list(shown.figures.trie.stretches()), shown.cursor
    drawn = stretches
    if rows:  # of the first levels as many as there is room for
        deepest = max((one.level for one in stretches), default=0)
        while deepest and sum(one.level <= deepest for one in stretches) > rows - 1:
            deepest -= 1
        drawn = [one for one in stretches if one.level <= deepest][: rows - 1]
    folded = len(stretches) - len(drawn)
    numbers = max(min(max((len(_format_numbers(one.walks)) for one in drawn), default=0), width // 4), _WALKS)
    room = min(width - _AT - _AFTER - numbers, _WIDEST)
    head = [("WHERE THEY PART", TITLE), *([(f"  {folded} more", MUTED)] if folded else [])]
    head.append((" " * max(room - length(head), 1), TEXT))
    head.append(("token".rjust(_AT) + "after".rjust(_AFTER - 2) + "  " + column("walks", numbers), MUTED))
    lines = [Line(tuple(head))]
    open_: list[bool] = []
    single = sum(one.level == 0 for one in drawn) == 1
    for at, one in enumerate(drawn):
        del open_[one.level :]
        stems, here = "".join("│ " if goes_on else "  " for goes_on in open_[single:]), cursor in one.walks
        if candidates is not None and (others := _list_untaken(shown, drawn, at, candidates)):
            lines.append(
                Line(((stems + "┊ ", FAINT), (one_line(f"not taken: {others}", room - len(stems) - 2), MUTED)))
            )
        branch = "" if single and one.level == 0 else "└ " if one.last else "├ "
        left: list[Run] = [(stems + branch, FAINT)]
        left += _render_text(shown, one, room - length(left) - 1, here=here)
        drawn_with = [token.node.tokens.probabilities[token.index]
                      for token in (shown.token(walk, one.begin) for walk in one.walks)]  # fmt: skip
        low, high = percent(min(drawn_with), 0), percent(max(drawn_with), 0)
        after = low if low == high else f"{low[:-1]}–{high}"
        right: list[Run] = [(str(one.begin + 1).rjust(_AT), MUTED), (after.rjust(_AFTER - 2), TEXT), ("  ", TEXT)]
        right.append((column(_format_numbers(one.walks), numbers).rstrip(), ACCENT if here else TEXT))
        lines.append(Line((*left, (" " * max(room - length(left), 0), TEXT), *right)))
        open_.append(not one.last)
    return lines


def height_of(shown: ShownGroup) -> int:
    """Lines that all of it takes."""
    return 1 + sum(1 for _ in shown.figures.trie.stretches())


def _list_untaken(shown: ShownGroup, drawn: Sequence[TrieStretch], at: int, candidates: Candidates) -> str:
    """The likeliest candidates that no walk took, with their probabilities after the chain of the first walk, where `at` is the
    first of several ways on at a fork."""
    level = drawn[at].level
    if at and drawn[at - 1].level >= level:
        return ""
    ways = [one for one in takewhile(lambda one: one.level >= level, drawn[at:]) if one.level == level]
    if len(ways) < 2:
        return ""
    taken = {one.ids[0] for one in ways}
    here = candidates(shown.token(ways[0].walks[0], ways[0].begin))
    left = (one for one in here if one.id not in taken and one.probability > 0)
    likeliest = sorted(left, key=lambda one: -one.probability)[:_UNTAKEN]
    return "  ".join(f"{show_piece(one.text)} {percent(one.probability)}" for one in likeliest)


def _render_text(shown: ShownGroup, one: TrieStretch, width: int, *, here: bool) -> list[Run]:
    """Render the run's text; its first token, the one of the fork, stands out, without the space before it."""
    texts = shown.texts(one.walks[0], one.begin, min(one.begin + len(one.ids), one.begin + _READ))
    first = "" if not texts else texts[0].removeprefix(" ") if texts[0].strip() else show_piece(texts[0])
    runs: list[Run] = [(one_line(first, width), _HERE if here else STRONG)]
    more = "".join(texts[1:])[: 2 * width] + ("…" if len(one.ids) > _READ else "")
    return [*runs, (one_line(more, width - length(runs)), TEXT if here else MUTED)]


def _format_numbers(walks: Sequence[int]) -> str:
    """From 1 on, neighbours together: 1-3 5."""
    spans: list[str] = []
    first = before = walks[0]
    for walk in (*walks[1:], -1):
        if walk != before + 1:
            spans.append(str(first + 1) if first == before else f"{first + 1}-{before + 1}")
            first = walk
        before = walk
    return " ".join(spans)
