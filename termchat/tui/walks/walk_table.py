"""The figures of each walk in a table, and a line of those of all together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from termchat.decoding.walk_figures import WalkFigures
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, at_most, column, length, number, percent
from termchat.tui.walks.walk_facts import ending_word
from termchat.tui.walks.walk_reader import WalkReader

_LABEL = 24
"""Cells of what sets a walk apart, at most."""
_ENDING = 13
_GAP = "  "
_THIS = "this"


class _Cell(NamedTuple):
    """What a column is filled from."""

    reader: WalkReader
    walk: int
    figures: WalkFigures
    cursor: int


class _Column(NamedTuple):
    """A column: its head, a shorter one, and what stands in it. Those with a higher `rank` go first where there is no room."""

    title: str
    short: str
    shown: Callable[[_Cell], str]
    rank: int = 0
    left: bool = False


def _ending(cell: _Cell) -> str:
    group = cell.reader.group
    return ending_word(group.nodes[cell.walk], paused=cell.walk in group.paused)


def _shared(cell: _Cell) -> str:
    """Tokens that it begins with as the walk under the cursor does; `_THIS` of that one."""
    if cell.walk == cell.cursor:
        return _THIS
    if cell.cursor not in cell.reader.figures.of:
        return ""
    trie = cell.reader.figures.trie
    parted = trie.parted(cell.walk, cell.cursor)
    return str(min(len(trie.ids(cell.walk)), len(trie.ids(cell.cursor))) if parted is None else parted)


def _entropy(cell: _Cell) -> str:
    mean = cell.figures.mean_entropy
    unlisted = max(span.node.tokens.most_unlisted for span in cell.reader.group.list_spans(cell.walk))
    return "" if mean is None else at_most(mean, unlisted) + number(mean)


_COLUMNS: tuple[_Column, ...] = (
    _Column("tokens", "tokens", lambda cell: str(cell.figures.tokens)),
    _Column("ending", "ending", _ending, left=True),
    _Column("mean logprob", "mean logp", lambda cell: number(cell.figures.mean_logprob)),
    _Column("perplexity", "ppl", lambda cell: number(cell.figures.perplexity), 1),
    _Column("entropy bits", "entropy", _entropy, 3),
    _Column("distinct-1", "dist-1", lambda cell: number(cell.figures.count_distinct(1)), 4),
    _Column("-2", "dist-2", lambda cell: number(cell.figures.count_distinct(2)), 2),
    _Column("-3", "dist-3", lambda cell: number(cell.figures.count_distinct(3)), 3),
    _Column("shared", "shared", _shared),
)


def table_lines(reader: WalkReader, labels: dict[int, str], cursor: int, width: int) -> list[Line]:
    """A head and a line for each walk, then one for all of them. The walk under the cursor stands out; the last column says how
    many tokens the others share with it."""
    walks = sorted(reader.group.nodes)
    wide = min(max(map(len, labels.values()), default=0), _LABEL)
    cells = {walk: _Cell(reader, walk, reader.figures.of[walk], cursor) for walk in walks if walk in reader.figures.of}
    columns, sizes, short = _fitting(width - wide - 4)
    titles = [_title(one, short=short) for one in columns]
    head: list[Run] = [(" " * (wide + 4), MUTED)]
    head += [(_GAP + column(title, size, right=not one.left), MUTED)
             for title, size, one in zip(titles, sizes, columns, strict=True)]  # fmt: skip
    lines = [Line(tuple(head))]
    for walk, cell in cells.items():
        here = walk == cursor
        ink = STRONG if here else TEXT
        runs: list[Run] = [
            (f"{walk + 1:>3} ", ACCENT._replace(bold=here)),
            (column(labels[walk], wide), ink),
        ]
        runs += [(_GAP + column(one.shown(cell), size, right=not one.left), ink)
                 for one, size in zip(columns, sizes, strict=True)]  # fmt: skip
        lines.append(Line(tuple(doing(f"walks('choose', {walk + 1})", runs)), "panel" if here else ""))
    return [*lines, all_line(reader, width)]


def all_line(reader: WalkReader, width: int) -> Line:
    """How many of the walks differ, where the first two part, and how much they are alike."""
    figures, walks = reader.figures, len(reader.group.nodes)
    different, parted = figures.trie.different, figures.trie.first_parted
    told = [f"{different} of {walks} different" if different > 1 else "all alike"]
    told.append("the first two part at token " + str(parted + 1) if parted is not None else "none part")
    if (shared := figures.trie.shared) is not None:
        told.append(f"{percent(shared, 0)} of tokens shared")
    if (overlap := figures.self_overlap) is not None:
        told.append(f"self-overlap {percent(overlap, 0)}")
    runs: list[Run] = []
    for one in told:
        more: list[Run] = [(" · " if runs else "", MUTED), (one, Ink("text") if not runs else MUTED)]
        if length([*runs, *more]) > width:
            break
        runs += more
    return Line(tuple(runs))


def _fitting(width: int) -> tuple[list[_Column], list[int], bool]:
    """The columns that there is room for, with their widths, and whether their heads are the short ones."""
    columns = list(_COLUMNS)
    for short in (False, True):
        sizes = _sizes(columns, short=short)
        if sum(sizes) + len(_GAP) * len(sizes) <= width:
            return columns, sizes, short
    while len(columns) > 1 and sum(sizes) + len(_GAP) * len(sizes) > width:
        columns.remove(max(columns, key=lambda one: one.rank))
        sizes = _sizes(columns, short=True)
    return columns, sizes, True


def _sizes(columns: Sequence[_Column], *, short: bool) -> list[int]:
    """Wide enough for the head and the content; numbers do not make a column wider while they grow."""
    return [
        _ENDING if one.left else max(len(_title(one, short=short)), 6 if one.title != "tokens" else 0)
        for one in columns
    ]


def _title(one: _Column, *, short: bool) -> str:
    return one.short if short else one.title
