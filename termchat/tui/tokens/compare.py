"""Two branches side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from termchat.conversation.tree import Conversation
from termchat.tui.dialogs.base import ReadListing
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.marks import FAINT, MUTED, TEXT, column, length
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.themes.theme_file import Palette

_BEFORE = 12
"""Tokens shown before the first difference."""
_MARKED = Ink("background", ground="accent", bold=True)
_BETWEEN = " │ "


class ComparedPiece(NamedTuple):
    """A token of a reply, or the whole of what a person wrote: what it is, and its text."""

    key: int | str
    text: str
    said: bool = False


class Comparison(NamedTuple):
    """Two branches, and how many of their first pieces are the same."""

    left: Sequence[ComparedPiece]
    right: Sequence[ComparedPiece]
    common: int


def compare(conversation: Conversation, left: int, right: int) -> Comparison:
    """The paths to two leaves, by ids."""
    one, other = _pieces(conversation, left), _pieces(conversation, right)
    common = 0
    for a, b in zip(one, other, strict=False):
        if a.key != b.key:
            break
        common += 1
    return Comparison(one, other, common)


def summary(comparison: Comparison) -> str:
    """Where they part, and how long each is from there, in tokens of replies."""
    left, right, common = comparison
    same, one, other = (
        sum(not piece.said for piece in part) for part in (left[:common], left[common:], right[common:])
    )
    if common == len(left) == len(right):
        return f"identical, {same} tokens"
    return f"the first {same} tokens are identical; then {one} left, {other} right"


def compare_lines(comparison: Comparison, width: int, names: tuple[str, str] = ("", "")) -> list[Line]:
    """Both texts in columns under their names; what is common is faint, the first difference is marked."""
    half = max((width - len(_BETWEEN)) // 2, 10)
    columns = [_column(side, comparison.common, half) for side in comparison[:2]]
    heads: list[list[Run]] = [[(column(name, half), Ink("accent", bold=True))] for name in names]
    lines = [_beside(heads[0], heads[1], half)]
    for row in range(max(map(len, columns))):
        left, right = (list(side[row].runs) if row < len(side) else list(BLANK.runs) for side in columns)
        lines.append(_beside(left, right, half))
    return lines


def _pieces(conversation: Conversation, leaf: int) -> list[ComparedPiece]:
    pieces: list[ComparedPiece] = []
    for node, count in ((span.node, span.count) for span in conversation.path(leaf)):
        if node.role == "user":
            pieces.append(ComparedPiece(f"{node.number}", f"\n› {node.written}\n", said=True))
        else:
            texts = node.tokens.texts
            pieces += [ComparedPiece(token_id, text) for token_id, text in zip(node.ids[:count], texts, strict=False)]
    return pieces


def _column(pieces: Sequence[ComparedPiece], common: int, width: int) -> list[Line]:
    wrapper = Wrapper(width)
    begin = max(common - _BEFORE, 0)
    if begin:
        wrapper.feed("…" if pieces[begin : begin + 1] and pieces[begin].text.startswith(" ") else "… ", MUTED)
    for index, piece in enumerate(pieces[begin:], begin):
        if index == common:
            wrapper.feed(piece.text.replace("\n", "⏎") or "∅", _MARKED)
            wrapper.feed("\n" if piece.text.endswith("\n") else "", TEXT)
        else:
            wrapper.feed(piece.text, MUTED if index < common else Ink("user") if piece.said else TEXT)
    if common >= len(pieces):
        wrapper.feed(" (ends here)", MUTED)
    return wrapper.lines


def _beside(left: list[Run], right: list[Run], half: int) -> Line:
    gap = " " * max(half - length(left), 0)
    return Line((*left, (gap, TEXT), (_BETWEEN, FAINT), *right))


class CompareDialog(ReadListing):
    """From the first token that is not the same; `names` stand over the columns."""

    DEFAULT_CSS = "CompareDialog > Vertical { width: 160; }"
    TITLE = "Compare"

    def __init__(
        self, palette: Palette, conversation: Conversation, leaves: tuple[int, int], names: tuple[str, str]
    ) -> None:
        super().__init__(palette)
        self._comparison, self._names = compare(conversation, *leaves), names

    def lay_out(self) -> None:
        super().lay_out()
        self.retitle(f"{self.TITLE}: {summary(self._comparison)}")

    def made(self, width: int) -> list[Line]:
        return compare_lines(self._comparison, width, self._names)
