"""The figures of each walk in a table, and a line of those of all together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from termchat.decoding.walk_figures import WalkFigures
from termchat.tui.draw.ink import Line, Run
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, at_most, column, length, number, percent
from termchat.tui.pages.grid_table import Cell, Column, GridTable
from termchat.tui.pages.page import Page, Scene
from termchat.tui.pages.shown_group import ShownGroup

_LABEL = 24
"""Cells of what sets a walk apart, at most."""
_LEAST, _ENDING = 6, 13
"""Cells of numbers, at least, and of how a walk ended. Numbers do not make a column wider while they grow."""


class TablePage(Page):
    name = "table"

    def __init__(self, shown: ShownGroup) -> None:
        self._shown = shown

    def lines(self, scene: Scene) -> list[Line]:
        return table_lines(self._shown, scene.width)


def table_lines(shown: ShownGroup, width: int) -> list[Line]:
    """Render a head and a line for each walk, then one for all of them. The walk under the cursor stands out; the last
    column counts the tokens that the others share with it."""
    figures, cursor = shown.figures.of, shown.cursor
    wide = min(max(map(len, shown.labels.values()), default=0), _LABEL)

    def label(walk: int) -> Cell:
        here = walk == cursor
        name = column(shown.labels[walk], wide)
        return [(f"{walk + 1:>3} ", ACCENT._replace(bold=here)), (name, STRONG if here else TEXT)]

    def figure(show: Callable[[WalkFigures], float | None]) -> Callable[[int], str]:
        return lambda walk: number(show(figures[walk]))

    columns: tuple[Column[int], ...] = (
        Column("", label, wide + 4),
        Column("tokens", lambda walk: str(figures[walk].tokens), right=True),
        Column("ending", shown.ending, _ENDING),
        Column("mean logprob", figure(lambda one: one.mean_logprob), right=True, short="mean logp"),
        Column("perplexity", figure(lambda one: one.perplexity), _LEAST, right=True, short="ppl", rank=1),
        Column("entropy bits", partial(_format_entropy, shown), right=True, short="entropy", rank=3),
        Column("distinct-1", figure(lambda one: one.count_distinct(1)), right=True, short="dist-1", rank=4),
        Column("-2", figure(lambda one: one.count_distinct(2)), _LEAST, right=True, short="dist-2", rank=2),
        Column("-3", figure(lambda one: one.count_distinct(3)), _LEAST, right=True, short="dist-3", rank=3),
        Column("shared", partial(_count_shared, shown), right=True),
    )
    walks = sorted(walk for walk in shown.group.nodes if walk in figures)
    at = walks.index(cursor) if cursor in walks else -1
    table = GridTable(columns, walks, at, lambda walk: f"walks('choose', {walk + 1})", marked=False)
    return [*table.lines(width), all_line(shown, width)]


def _count_shared(shown: ShownGroup, walk: int) -> str:
    """Count the tokens that a walk begins with as the walk under the cursor does."""
    if walk == shown.cursor:
        return "this"
    if shown.cursor not in shown.figures.of:
        return ""
    trie = shown.figures.trie
    parted = trie.parted(walk, shown.cursor)
    return str(min(len(trie.ids(walk)), len(trie.ids(shown.cursor))) if parted is None else parted)


def _format_entropy(shown: ShownGroup, walk: int) -> str:
    mean = shown.figures.of[walk].mean_entropy
    unlisted = max(span.node.tokens.most_unlisted for span in shown.group.list_spans(walk))
    return "" if mean is None else at_most(mean, unlisted) + number(mean)


def all_line(shown: ShownGroup, width: int) -> Line:
    """Render how many walks differ, where the first two part, and how much they are alike."""
    figures, trie = shown.figures, shown.figures.trie
    facts = [f"{trie.different} of {len(shown.group.nodes)} different" if trie.different > 1 else "all alike"]
    facts.append(
        f"the first two part at token {trie.first_parted + 1}" if trie.first_parted is not None else "none part"
    )
    if (shared := trie.shared) is not None:
        facts.append(f"{percent(shared, 0)} of tokens shared")
    if (overlap := figures.self_overlap) is not None:
        facts.append(f"self-overlap {percent(overlap, 0)}")
    runs: list[Run] = []
    for fact in facts:
        more: list[Run] = [(" · " if runs else "", MUTED), (fact, MUTED if runs else TEXT)]
        if length([*runs, *more]) > width:
            break
        runs += more
    return Line(tuple(runs))
