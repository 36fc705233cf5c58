"""Where the walks part: what they begin with together once, then a line for each way on, with the walks that took it and the
probability that its first token had."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from termchat.decoding.records import Candidate
from termchat.decoding.walk_figures import TrieStretch
from termchat.text import one_line, show_piece
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, STRONG, TEXT, TITLE, column, length, percent
from termchat.tui.walks.walk_reader import WalkReader, WalkToken
from termchat.tui.walks.walk_scene import ReadPage, WalksScene

_AT, _AFTER, _WALKS = 7, 13, 12
"""Cells of the columns at the right: the token, its probability, and the least for the numbers of the walks."""
_UNTAKEN, _CANDIDATES = 4, 20
"""Candidates of a fork that no walk took, and of how many these are the likeliest."""
_HERE = Ink("accent", bold=True)
_WIDEST = 100
"""Cells of text beyond which the numbers would be too far from it."""
_READ = 60
"""Tokens of a run that are read: about as many as fit on a line."""


class PartingPage(ReadPage):
    """Where the walks part, with what else could have been drawn there."""

    def __init__(self) -> None:
        super().__init__(self._lines)
        self._candidates: dict[WalkToken, Sequence[Candidate]] = {}

    def _lines(self, scene: WalksScene) -> list[Line]:
        return parting_lines(scene.reader, scene.cursor, scene.width, candidates=lambda at: self._recorded(scene, at))

    def _recorded(self, scene: WalksScene, at: WalkToken) -> Sequence[Candidate]:
        """Those of the step that drew a token; they are read once, as soon as they are kept."""
        if at not in self._candidates:
            record = scene.chat.session.read_token(*at)
            if record is None:
                return ()
            self._candidates[at] = record.candidates[:_CANDIDATES]
        return self._candidates[at]


Candidates = Callable[[WalkToken], Sequence[Candidate]]


def parting_lines(
    reader: WalkReader, cursor: int, width: int, rows: int = 0, *, candidates: Candidates | None = None
) -> list[Line]:
    """A head, then a line for each run of tokens that the same walks took. Where there is room for so many `rows` only (0: for
    all), the later forks are folded. With `candidates` each fork has a line of the likeliest that no walk took."""
    stretches = list(reader.figures.trie.stretches())
    shown, folded = _folded(stretches, rows - 1) if rows else (stretches, 0)
    numbers = max(min(max((len(_numbers(one.walks)) for one in shown), default=0), width // 4), _WALKS)
    room = min(width - _AT - _AFTER - numbers, _WIDEST)
    head = [("WHERE THEY PART", TITLE), *([(f"  {folded} more", MUTED)] if folded else [])]
    head.append((" " * max(room - length(head), 1), TEXT))
    head.append(("token".rjust(_AT) + "after".rjust(_AFTER - 2) + "  " + column("walks", numbers), MUTED))
    lines = [Line(tuple(head))]
    open_: list[bool] = []
    single = sum(one.level == 0 for one in shown) == 1
    for at, one in enumerate(shown):
        del open_[one.level :]
        ways = [] if candidates is None else _ways(shown, at)
        if len(ways) > 1 and candidates is not None and (others := _untaken(reader, ways, candidates)):
            bars = "".join("│ " if goes_on else "  " for goes_on in open_[single:]) + "┊ "
            lines.append(Line(((bars, FAINT), (one_line(f"not taken: {others}", room - len(bars)), MUTED))))
        left = [("".join("│ " if goes_on else "  " for goes_on in open_[single:]) + _branch(one, single=single), FAINT)]
        left += _text(reader, one, room - length(left) - 1, cursor)
        right: list[Run] = [(str(one.begin + 1).rjust(_AT), MUTED), (_taken(reader, one).rjust(_AFTER - 2), TEXT)]
        gap = (" " * max(room - length(left), 0), TEXT)
        lines.append(Line((*left, gap, *right, ("  ", TEXT), *_walks(one, cursor, numbers))))
        open_.append(not one.last)
    return lines


def height_of(reader: WalkReader) -> int:
    """Lines that all of it takes."""
    return 1 + sum(1 for _ in reader.figures.trie.stretches())


def _folded(stretches: Sequence[TrieStretch], rows: int) -> tuple[list[TrieStretch], int]:
    """Those of the first levels, as many as there is room for, and how many others there are."""
    deepest = max((one.level for one in stretches), default=0)
    while deepest and sum(one.level <= deepest for one in stretches) > rows:
        deepest -= 1
    shown = [one for one in stretches if one.level <= deepest][: max(rows, 0)]
    return shown, len(stretches) - len(shown)


def _ways(shown: Sequence[TrieStretch], at: int) -> list[TrieStretch]:
    """All ways on at a fork, where this one is the first of them."""
    level = shown[at].level
    if at and shown[at - 1].level >= level:
        return []
    ways: list[TrieStretch] = []
    for one in shown[at:]:
        if one.level < level:
            break
        ways += [one] if one.level == level else []
    return ways


def _untaken(reader: WalkReader, ways: Sequence[TrieStretch], candidates: Candidates) -> str:
    """The likeliest candidates at a fork that no walk took, with their probabilities after the chain of its first walk."""
    taken = {one.ids[0] for one in ways}
    here = candidates(reader.token(ways[0].walks[0], ways[0].begin))
    left = sorted(
        (one for one in here if one.id not in taken and one.probability > 0), key=lambda one: -one.probability
    )
    return "  ".join(f"{show_piece(one.text)} {percent(one.probability)}" for one in left[:_UNTAKEN])


def _branch(one: TrieStretch, *, single: bool) -> str:
    return "" if single and one.level == 0 else "└ " if one.last else "├ "


def _text(reader: WalkReader, one: TrieStretch, width: int, cursor: int) -> list[Run]:
    """The run's text; its first token, which is what was taken at the fork, stands out."""
    walk = one.walks[0]
    texts = reader.texts(walk, one.begin, min(one.begin + len(one.ids), one.begin + _READ))
    first, rest = _shown(texts[0]) if texts else "", "".join(texts[1:])[: 2 * width]
    ink = _HERE if cursor in one.walks else STRONG
    runs: list[Run] = [(one_line(first, width), ink)]
    more = "…" if len(one.ids) > _READ else ""
    runs.append((one_line(rest + more, width - length(runs)), TEXT if cursor in one.walks else MUTED))
    return runs


def _shown(text: str) -> str:
    """The first token of a line, without the space before it."""
    return text.removeprefix(" ") if text.strip() else show_piece(text)


def _taken(reader: WalkReader, one: TrieStretch) -> str:
    """The probability, after the chain, that its first token was drawn with; from the lowest to the highest where the walks'
    settings make it another."""
    found = []
    for walk in one.walks:
        node, index = reader.token(walk, one.begin)
        found.append(node.tokens.probabilities[index])
    low, high = percent(min(found), 0), percent(max(found), 0)
    return low if low == high else f"{low[:-1]}–{high}"


def _numbers(walks: Sequence[int]) -> str:
    """From 1 on, neighbours together: 1-3 5."""
    told: list[str] = []
    first = before = walks[0]
    for walk in (*walks[1:], -1):
        if walk != before + 1:
            told.append(str(first + 1) if first == before else f"{first + 1}-{before + 1}")
            first = walk
        before = walk
    return " ".join(told)


def _walks(one: TrieStretch, cursor: int, width: int) -> list[Run]:
    ink = ACCENT if cursor in one.walks else TEXT
    return [(column(_numbers(one.walks), width).rstrip(), ink)]
