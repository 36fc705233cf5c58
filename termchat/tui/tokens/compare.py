"""Two replies side by side: what they were made of where that differs, and their texts from where they part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from termchat.conversation.causes import WhyDifferent, why_different
from termchat.conversation.causes_text import cause_line, cause_lines, distribution_lines, step_name, tie_lines
from termchat.conversation.recorded_reply import TokenSource, reply_on_record
from termchat.conversation.reply_facts import DifferingFact, compare_facts, facts_of, is_same_model
from termchat.conversation.tree import Conversation
from termchat.text import one_line
from termchat.tui.dialogs.base import ReadListing
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.marks import FAINT, MUTED, TEXT, column, length
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.keys import dialogs
from termchat.tui.themes.theme_file import Palette

_BEFORE = 12
"""Tokens shown before the first difference."""
_FACT_LINES = 3
"""Lines of a fact, at most: a system prompt may be long."""
_MARKED = Ink("background", ground="accent", bold=True)
_BETWEEN = " │ "


class ComparedReply(NamedTuple):
    """A reply, by the node that it ends in, what stands over its column, and where the records of its tokens are."""

    conversation: Conversation
    end: int
    name: str = ""
    token: TokenSource = lambda *_: None


class ComparedPiece(NamedTuple):
    """A token, or text that came with none: what it is, and its text."""

    key: int | str
    text: str


class Comparison(NamedTuple):
    """Two replies, how many of their first pieces are the same, and what else differs."""

    left: Sequence[ComparedPiece]
    right: Sequence[ComparedPiece]
    common: int
    differing: Sequence[DifferingFact]


def compare(left: ComparedReply, right: ComparedReply) -> Comparison:
    """Token by token: by ids if one model wrote both, else by texts."""
    facts = [facts_of(reply.conversation, reply.conversation.nodes[reply.end]) for reply in (left, right)]
    one, other = (_pieces(reply, ids=is_same_model(*facts)) for reply in (left, right))
    common = 0
    for a, b in zip(one, other, strict=False):
        if a.key != b.key:
            break
        common += 1
    return Comparison(one, other, common, compare_facts(*facts))


def summary(comparison: Comparison) -> str:
    """Where they part, and how long each is from there, in tokens."""
    left, right, common, _ = comparison
    if common == len(left) == len(right):
        return f"identical, {common} tokens"
    tokens = "token is" if common == 1 else f"{common} tokens are"
    same = f"the first {tokens} identical; then" if common else "different from the first token;"
    return f"{same} {len(left) - common} left, {len(right) - common} right"


def compare_lines(comparison: Comparison, width: int, names: tuple[str, str] = ("", "")) -> list[Line]:
    """Both in columns under their names: first what differs beside the texts. Of these what is common is faint, and the first
    difference is marked."""
    half = max((width - len(_BETWEEN)) // 2, 10)
    heads: list[list[Run]] = [[(column(one_line(name, half), half), Ink("accent", bold=True))] for name in names]
    rows = [(heads[0], heads[1])]
    for name, *both in comparison.differing:
        rows += _paired(*(_fact(name, value, half) for value in both))
    if comparison.differing:
        rows.append(([], []))
    rows += _paired(*(_column(side, comparison.common, half) for side in comparison[:2]))
    return [_beside(left, right, half) for left, right in rows]


def _pieces(reply: ComparedReply, *, ids: bool) -> list[ComparedPiece]:
    pieces: list[ComparedPiece] = []
    for node, count in ((span.node, span.count) for span in reply.conversation.find_reply(reply.end)):
        texts = node.tokens.texts
        pieces += [
            ComparedPiece(i if ids else text, text)
            for i, text in zip(node.tokens.list_signs(0, count), texts, strict=False)
        ]
        if count >= len(node.ids) and node.pending:
            pieces.append(ComparedPiece(node.pending, node.pending))
    return pieces


def _fact(name: str, value: str, width: int) -> list[Line]:
    wrapper = Wrapper(width)
    wrapper.feed(f"{name} ", MUTED)
    wrapper.feed(one_line(value, max(width * _FACT_LINES - len(name) - 1, 1)) or "none", TEXT)
    return wrapper.lines[:_FACT_LINES]


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
            wrapper.feed(piece.text, MUTED if index < common else TEXT)
    if common >= len(pieces):
        wrapper.feed(" (ends here)", MUTED)
    return wrapper.lines


def _paired(left: Sequence[Line], right: Sequence[Line]) -> list[tuple[list[Run], list[Run]]]:
    """The lines of two columns, the shorter one filled up."""
    rows = range(max(len(left), len(right)))
    both = ((side[row].runs if row < len(side) else BLANK.runs for side in (left, right)) for row in rows)
    return [(list(one), list(other)) for one, other in both]


def _beside(left: list[Run], right: list[Run], half: int) -> Line:
    gap = " " * max(half - length(left), 0)
    return Line((*left, (gap, TEXT), (_BETWEEN, FAINT), *right))


def why(left: ComparedReply, right: ComparedReply) -> WhyDifferent | None:
    """What caused the first difference; None if there is none, or one of them has no tokens."""
    replies = [reply_on_record(reply.conversation, reply.end, reply.token) for reply in (left, right)]
    return why_different(replies[0], replies[1]) if all(reply.ids for reply in replies) else None


def detail_lines(found: WhyDifferent, width: int) -> list[Line]:
    """All causes, and both distributions at the first token that differs."""
    wrapper = Wrapper(width)
    heading = f"token {found.index}: left {step_name(found.left)}, right {step_name(found.right)}"
    wrapper.feed(heading + "\n\n", Ink("accent", bold=True))
    for line in cause_lines(found, _SIDES):
        wrapper.feed(line + "\n", TEXT if line.startswith("cause") else MUTED)
    for line in (
        "",
        *tie_lines(found.left, found.right, _SIDES),
        "",
        *distribution_lines(found.left, found.right, _SIDES),
    ):
        wrapper.feed(line + "\n", TEXT)
    return wrapper.lines


_SIDES = ("left", "right")


class CompareDialog(ReadListing):
    """From the first token that is not the same."""

    DEFAULT_CSS = "CompareDialog > Vertical { width: 160; }"
    TITLE = "Compare"
    KEYS = "COMPARE"
    HINTS = (("compare-why", "why they differ"), *ReadListing.HINTS)
    BINDINGS = [key.binding for key in dialogs.COMPARE]  # noqa: RUF012

    def __init__(self, palette: Palette, left: ComparedReply, right: ComparedReply) -> None:
        super().__init__(palette)
        self._comparison, self._names = compare(left, right), (left.name, right.name)
        self._why, self._explained = why(left, right), False

    def lay_out(self) -> None:
        super().lay_out()
        self.retitle(f"{self.TITLE}: {summary(self._comparison)}")

    def made(self, width: int) -> list[Line]:
        if self._why is None:
            return compare_lines(self._comparison, width, self._names)
        if self._explained:
            return detail_lines(self._why, width)
        wrapper = Wrapper(width)
        wrapper.feed(f"why  {cause_line(self._why.causes[0], _SIDES)}\n", MUTED)
        return [*wrapper.lines, *compare_lines(self._comparison, width, self._names)]

    def action_why(self) -> None:
        if self._why is None:
            self.say("the replies do not differ, or their tokens are not known")
            return
        self._explained = not self._explained
        self.lay_out()
        self.picker.scroll_by("first")
