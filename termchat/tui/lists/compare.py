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
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.list_dialog import ReadDialog
from termchat.tui.draw.marks import MUTED, TEXT, beside, column, prose
from termchat.tui.draw.wrap import wrap_runs
from termchat.tui.themes.theme_file import Palette

_BEFORE = 12
"""Tokens shown before the first difference."""
_FACT_LINES = 3
"""Lines of a fact, at most: a system prompt may be long."""
_MARKED = Ink("background", ground="accent", bold=True)
_BETWEEN = 3
"""Cells between the columns."""
_SIDES = ("left", "right")
Piece = tuple[int | str, str]
"""A token, or text that came with none: its id or text, by which pieces are compared, and its text."""


class ComparedReply(NamedTuple):
    """A reply, by the node that it ends in, the title of its column, and the source of the records of its tokens."""

    conversation: Conversation
    end: int
    name: str = ""
    token: TokenSource = lambda *_: None


class Comparison(NamedTuple):
    """Two replies, how many of their first pieces are the same, and what else differs."""

    left: Sequence[Piece]
    right: Sequence[Piece]
    common: int
    differing: Sequence[DifferingFact]


def compare(left: ComparedReply, right: ComparedReply) -> Comparison:
    """Compare two replies token by token: by ids if one model wrote both, else by texts."""
    facts = [facts_of(reply.conversation, reply.conversation.nodes[reply.end]) for reply in (left, right)]
    one, other = (_list_pieces(reply, ids=is_same_model(*facts)) for reply in (left, right))
    shorter = min(len(one), len(other))
    common = next((at for at in range(shorter) if one[at][0] != other[at][0]), shorter)
    return Comparison(one, other, common, compare_facts(*facts))


def summary(comparison: Comparison) -> str:
    """Describe the place where the replies part, and their lengths from there, in tokens."""
    left, right, common, _ = comparison
    if common == len(left) == len(right):
        return f"identical, {common} tokens"
    tokens = "token is" if common == 1 else f"{common} tokens are"
    same = f"the first {tokens} identical; then" if common else "different from the first token;"
    return f"{same} {len(left) - common} left, {len(right) - common} right"


def compare_lines(comparison: Comparison, width: int, names: tuple[str, str] = ("", "")) -> list[Line]:
    """Render both in columns under their names: first the differing facts, then the texts, whose common beginning is faint, and
    whose first difference is marked."""
    half = max((width - _BETWEEN) // 2, 10)
    heads = [Line(((column(name, half), Ink("accent", bold=True)),)) for name in names]
    lines = beside(heads[:1], heads[1:], half)
    for name, *values in comparison.differing:
        columns = []
        for value in values:
            shown = one_line(value, max(half * _FACT_LINES - len(name) - 1, 1)) or "none"
            columns.append(wrap_runs([(f"{name} ", MUTED), (shown, TEXT)], half)[:_FACT_LINES])
        lines += beside(columns[0], columns[1], half)
    if comparison.differing:
        lines += beside([BLANK], [], half)
    left, right = (_render_text(side, comparison.common, half) for side in comparison[:2])
    return lines + beside(left, right, half)


def _list_pieces(reply: ComparedReply, *, ids: bool) -> list[Piece]:
    pieces: list[Piece] = []
    for span in reply.conversation.find_reply(reply.end):
        node, count = span.node, span.count
        signs = zip(node.tokens.list_signs(0, count), node.tokens.texts, strict=False)
        pieces += [(sign if ids else text, text) for sign, text in signs]
        if count >= len(node.ids) and node.pending:
            pieces.append((node.pending, node.pending))
    return pieces


def _render_text(pieces: Sequence[Piece], common: int, width: int) -> list[Line]:
    begin = max(common - _BEFORE, 0)
    spaced = any(text.startswith(" ") for _, text in pieces[begin : begin + 1])
    runs: list[Run] = [("…" if spaced else "… ", MUTED)] if begin else []
    for index, (_, text) in enumerate(pieces[begin:], begin):
        if index == common:
            runs += [(text.replace("\n", "⏎") or "∅", _MARKED), ("\n" if text.endswith("\n") else "", TEXT)]
        else:
            runs.append((text, MUTED if index < common else TEXT))
    if common >= len(pieces):
        runs.append((" (ends here)", MUTED))
    return wrap_runs(runs, width)


def why_lines(reasons: WhyDifferent, width: int) -> list[Line]:
    """Render all causes, and both distributions at the first token that differs."""
    heading = f"token {reasons.index}: left {step_name(reasons.left)}, right {step_name(reasons.right)}"
    runs = [(heading + "\n\n", Ink("accent", bold=True))]
    runs += [(line + "\n", TEXT if line.startswith("cause") else MUTED) for line in cause_lines(reasons, _SIDES)]
    steps = reasons.left, reasons.right
    others = ("", *tie_lines(*steps, _SIDES), "", *distribution_lines(*steps, _SIDES))
    return wrap_runs([*runs, *((line + "\n", TEXT) for line in others)], width)


class CompareDialog(ReadDialog):
    """Two replies from the first token that is not the same, and why they differ: unknown if they are identical, or one has no
    tokens."""

    DEFAULT_CSS = "CompareDialog > Vertical { width: 160; }"
    TITLE = "Compare"
    KEYS = "COMPARE"
    HINTS = (("compare-why", "why they differ"), *ReadDialog.HINTS)

    def __init__(self, palette: Palette, left: ComparedReply, right: ComparedReply) -> None:
        super().__init__(palette)
        self._comparison, self._names = compare(left, right), (left.name, right.name)
        one, other = (reply_on_record(reply.conversation, reply.end, reply.token) for reply in (left, right))
        self._why = why_different(one, other) if one.ids and other.ids else None
        self._explained = False

    def title_line(self) -> str:
        return f"{self.TITLE}: {summary(self._comparison)}"

    def render_text(self, width: int) -> list[Line]:
        if self._why is None:
            return compare_lines(self._comparison, width, self._names)
        if self._explained:
            return why_lines(self._why, width)
        why = prose(f"why  {cause_line(self._why.causes[0], _SIDES)}\n", width, MUTED)
        return [*why, *compare_lines(self._comparison, width, self._names)]

    def action_why(self) -> None:
        if self._why is None:
            self.say("the replies do not differ, or their tokens are not known")
            return
        self._explained = not self._explained
        self.lay_out()
        self.picker.move("first")
