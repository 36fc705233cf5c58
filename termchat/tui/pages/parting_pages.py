"""Where the replies of a group part: a trie of all of them; and two with the same dice, token under token."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile, zip_longest
from typing import NamedTuple

from termchat.conversation.node import Node
from termchat.decoding.parting import find_parting
from termchat.decoding.records import Token
from termchat.decoding.walk_figures import TrieStretch
from termchat.text import cells, one_line, show_piece
from termchat.tui.draw.ink import BLANK, Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, STRONG, TEXT, TITLE, beside, column, length, percent, prose
from termchat.tui.pages.candidates import candidate_table
from termchat.tui.pages.scene import Scene, by_of
from termchat.tui.pages.shown_group import GroupPage, ShownGroup
from termchat.tui.transcript.looks import Look, token_inks

_AT, _AFTER, _WALKS = 7, 13, 12
"""Cells of the columns at the right: the token, its probability, and the least for the numbers of the walks."""
_UNTAKEN, _LIKELIEST = 4, 20
"""Candidates of a fork that no walk took, and of how many these are the likeliest."""
_FORK = Ink("accent", bold=True)
_WIDEST = 100
"""Cells of text beyond which the numbers would be too far from it."""
_READ = 60
"""Tokens of a run that are read: about as many as fit on a line."""

_SIDES = ("A", "B")
_HERE = Ink("background", ground="accent", bold=True)
_PARTS = Ink("stamp", bold=True, underline=True)
_NEXT = Ink("stamp", italic=True)
_END = " (end)"
"""An end token, which has no text."""
_BEFORE = 2
"""Cells before a line of tokens."""
_LONGEST = 40
_PAIR = 3
"""Lines of some steps: one of each side, and one for the mark."""
_CANDIDATES, _LEAST = 9, 4
"""Candidates that are shown, and that are worth showing."""


class PartingPage(GroupPage):
    """Where the walks part, with what else could have been drawn there."""

    name = "parting"

    def lines(self, scene: Scene) -> list[Line]:
        return parting_lines(self._shown, scene.width)


def parting_lines(shown: ShownGroup, width: int, rows: int = 0) -> list[Line]:
    """Render a head, then a line for each run of tokens of the same walks. With `rows` the later forks are folded until the
    rest fits; without, each fork has a line of the likeliest tokens of no walk."""
    stretches, cursor, nodes = shown.stretches, shown.cursor, shown.group.conversation.nodes
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
        if not rows and (others := _list_untaken(shown, drawn, at)):
            text = one_line(f"not taken: {others}", room - len(stems) - 2)
            lines.append(Line(((stems + "┊ ", FAINT), (text, MUTED))))
        branch = "" if single and one.level == 0 else "└ " if one.last else "├ "
        left: list[Run] = [(stems + branch, FAINT)]
        # The run's first token, the one of the fork, stands out, without the space before it.
        texts = shown.texts(one.walks[0], one.begin, min(one.end, one.begin + _READ))
        first = texts[0].removeprefix(" ") if texts[0].strip() else show_piece(texts[0])
        left.append((one_line(first, room - length(left) - 1), _FORK if here else STRONG))
        more = "".join(texts[1:])[: 2 * room] + ("…" if one.end - one.begin > _READ else "")
        left.append((one_line(more, room - length(left) - 1), TEXT if here else MUTED))
        places = filter(None, (shown.group.place_of(walk, one.begin) for walk in one.walks))
        drawn_with = [nodes[place.node].tokens.probabilities[place.at] for place in places]
        low, high = percent(min(drawn_with), 0), percent(max(drawn_with), 0)
        after = low if low == high else f"{low[:-1]}–{high}"
        right: list[Run] = [(str(one.begin + 1).rjust(_AT), MUTED), (after.rjust(_AFTER - 2), TEXT), ("  ", TEXT)]
        right.append((column(_format_numbers(one.walks), numbers).rstrip(), ACCENT if here else TEXT))
        lines.append(Line((*left, (" " * max(room - length(left), 0), TEXT), *right)))
        open_.append(not one.last)
    return lines


def _list_untaken(shown: ShownGroup, drawn: Sequence[TrieStretch], at: int) -> str:
    """List the likeliest candidates that no walk took, with their probabilities after the chain of the first walk, where `at`
    is the first of several ways on at a fork."""
    level = drawn[at].level
    if at and drawn[at - 1].level >= level:
        return ""
    ways = [one for one in takewhile(lambda one: one.level >= level, drawn[at:]) if one.level == level]
    if len(ways) < 2:
        return ""
    taken = {one.id for one in ways}
    place = shown.group.place_of(ways[0].walks[0], ways[0].begin)
    record = shown.read_record(*place) if place is not None else None
    candidates = record.candidates[:_LIKELIEST] if record is not None else ()
    left = (one for one in candidates if one.id not in taken and one.probability > 0)
    likeliest = sorted(left, key=lambda one: -one.probability)[:_UNTAKEN]
    return "  ".join(f"{show_piece(one.text)} {percent(one.probability)}" for one in likeliest)


def _format_numbers(walks: Sequence[int]) -> str:
    """Format the numbers of walks from 1 on, neighbours together: 1-3 5."""
    spans: list[str] = []
    first = before = walks[0]
    for walk in (*walks[1:], -1):
        if walk != before + 1:
            spans.append(str(first + 1) if first == before else f"{first + 1}-{before + 1}")
            first = walk
        before = walk
    return " ".join(spans)


class _Side(NamedTuple):
    """One of the two: its tokens as they are shown, and behind them the one that it would take next while it is paused."""

    walk: int
    node: Node
    pieces: list[str]

    @property
    def size(self) -> int:
        """Number of the tokens that are there."""
        return len(self.node.ids)

    def make_inks(self, begin: int, end: int, look: Look) -> list[Ink]:
        """Make the inks of the pieces from one to another."""
        inks = [TEXT] * max(min(end, self.size) - begin, 0)
        if look != "reading":
            inks = token_inks(self.node.tokens, look, begin, begin + len(inks))
        inks += [_NEXT] * (self.size in range(begin, end) and self.size < len(self.pieces))
        return inks + [FAINT] * (end - begin - len(inks))


class LockstepPage(GroupPage):
    """A/B: two replies with the same dice, token under token, with the first difference marked and explained; below them the
    candidates of both at the token under the cursor.

    The cursor is a step, and the side of the walk under the cursor. Until it is moved it follows the newest step, and is on the
    first difference once both are over.
    """

    name = "A/B"
    words: Mapping[str, str] = {"walk-1": "fork", "walk-fork": "", "walk-left": "token", "walk-up": "side"}

    def __init__(self, shown: ShownGroup) -> None:
        super().__init__(shown)
        self._moved_to: int | None = None
        """The step to which the cursor was moved."""
        self._sides: list[_Side] = []
        self._widths: list[int] = []
        """The cells of each step, of whichever side needs more."""
        self._parts: int | None = None
        """The step at which the two differ first."""

    @property
    def _here(self) -> int:
        """The side under the cursor."""
        return int(self._sides[1].walk == self._shown.cursor)

    @property
    def _newest(self) -> int:
        return len(self._widths) - 1

    @property
    def _over(self) -> bool:
        return all(side.node.done for side in self._sides)

    @property
    def _step(self) -> int:
        """The step under the cursor."""
        if self._moved_to is not None:
            return max(min(self._moved_to, self._newest), 0)
        return self._parts if self._over and self._parts is not None else max(self._newest, 0)

    def lines(self, scene: Scene) -> list[Line]:
        if not self._read():
            return [Line((("waiting for the first tokens", MUTED),))]
        below = [*self._explain_difference(scene.width), *self._render_candidates(scene)]
        starts = self._break_lines(scene.width)
        rows = _PAIR * len(starts)
        if self._parts is None or self._parts < starts[-1]:
            rows -= 1  # the last mark, which is empty
        at = _PAIR * (bisect_right(starts, self._step) - 1) + 1  # both lines of the step are in view
        room = max(scene.rows - len(_SIDES) - len(below) - 1, 3)
        top = min(max(at - room + 2, 0), max(rows - room, 0))
        lines: list[Line] = []
        for line in range(top // _PAIR, min((top + room - 1) // _PAIR + 1, len(starts))):
            lines += self._render_pair(starts[line], starts[line + 1] if line + 1 < len(starts) else self._newest + 1)
        lines = lines[top % _PAIR : min(room, rows - top) + top % _PAIR]
        heads = []
        for number, side in enumerate(self._sides):
            here = number == self._here
            runs: list[Run] = [(f"{_SIDES[number]} ", ACCENT)]
            runs.append((self._shown.labels[side.walk], STRONG if here else TEXT))
            runs.append((f"  {len(side.node.ids)} tokens · {self._shown.ending(side.walk)}", MUTED))
            heads.append(Line(tuple(doing(f"walks('line', {number or -1})", runs)), "panel" if here else ""))
        return [*heads, *lines, BLANK, *below]

    def act(self, what: str, *arguments: object) -> bool:
        by, walks = by_of(arguments), self._shown.chat.walks
        if what not in ("go", "line", "choose", "jump", "point") or not self._read():
            return False
        if what == "line":
            walks.select_reply(self._sides[0 if by < 0 else 1].walk)
        elif what == "point" and isinstance(arguments[0], tuple):
            number, self._moved_to = arguments[0]
            walks.select_reply(self._sides[number].walk)
        elif what == "jump":
            self._moved_to = 0 if by < 0 else None
        elif what == "go":
            step = min(max(self._step + by, 0), self._newest)
            follows = not self._over and step == self._newest and by > 0
            self._moved_to = None if follows else step
        else:  # another walk with that candidate at the cursor, from 1
            side, step = self._sides[self._here], self._step
            token = self._read_token(side, step)
            if token is not None and 1 <= by <= len(token.candidates):
                walks.fork_reply(side.walk, step, [token.candidates[by - 1].id])
        return True

    def _read(self) -> bool:
        """Read the two sides; False before both have a token."""
        shown, group = self._shown, self._shown.group
        shown.read()
        if not all(walk in group.nodes and (group.nodes[walk].ids or walk in group.paused) for walk in (0, 1)):
            return False
        self._sides, self._parts = [], shown.figures.trie.parted(0, 1)
        for walk in (0, 1):
            node, paused = group.nodes[walk], group.paused.get(walk)
            texts = [*node.tokens.texts]
            if texts and not texts[-1] and node.finished is not None and node.finished.reason == "end":
                texts[-1] = _END
            texts += [paused.token.text] if paused is not None else []
            self._sides.append(_Side(walk, node, [*map(_show_text, texts)]))
        sizes = ([*map(cells, side.pieces)] for side in self._sides)
        self._widths = [*map(max, zip_longest(*sizes, fillvalue=0))]
        return True

    def _explain_difference(self, width: int) -> list[Line]:
        """Explain the first difference."""
        if (parts := self._parts) is None:
            sizes = [len(side.node.ids) for side in self._sides]
            words = "both replies are the same" if self._over and sizes[0] == sizes[1] else "the same so far"
            return [Line(((f"{words}, {min(sizes)} tokens", MUTED),))]
        one, other = (self._read_token(side, parts) for side in self._sides)
        if one is None or other is None:
            return [Line(((f"they part at token {parts + 1}", STRONG),))]
        return prose(str(find_parting(one, other)._replace(step=parts)), width, STRONG)

    def _render_candidates(self, scene: Scene) -> list[Line]:
        """Render those of both sides, one beside the other; those of the side under the cursor have their keys."""
        rows, half = min(_CANDIDATES, scene.rows // 2 - _LEAST), (scene.width - 3) // 2
        if rows < _LEAST:
            return []
        tables: list[list[Line]] = []
        for at, side in enumerate(self._sides):
            token, here = self._read_token(side, self._step), at == self._here
            title: list[Run] = [(f"{_SIDES[at]} token {self._step + 1} ", STRONG if here else MUTED)]
            table = [Line(tuple(title))]
            if token is not None:
                does = "walks('choose', {})" if here else ""
                table = candidate_table(token, title, half, rows, numbered=here, does=does)
            tables.append(table)
        return beside(tables[0], tables[1], half)

    def _read_token(self, side: _Side, step: int) -> Token | None:
        """Return the record of a token, or what a paused walk would take there."""
        if step < len(side.node.ids):
            return self._shown.read_record(side.node.number, step)
        paused = self._shown.group.paused.get(side.walk)
        return paused.token if paused is not None and step == len(side.node.ids) else None

    def _break_lines(self, width: int) -> list[int]:
        """Find the first step of each line."""
        starts, used = [0], _BEFORE
        for at, wide in enumerate(self._widths):
            if used + wide > width and used > _BEFORE:
                starts.append(at)
                used = _BEFORE
            used += wide
            if self._is_same(at) and self._sides[0].pieces[at].endswith("⏎") and at < self._newest:
                starts.append(at + 1)
                used = _BEFORE
        return starts

    def _is_same(self, at: int) -> bool:
        """Return whether both have the same token at a step."""
        return at < min(side.size for side in self._sides) and len({side.node.ids[at] for side in self._sides}) == 1

    def _render_pair(self, begin: int, end: int) -> list[Line]:
        """Render a line of tokens of each side, and one with the mark of the first difference."""
        lines: list[Line] = []
        widths = self._widths[begin:end]
        for number, side in enumerate(self._sides):
            runs: list[Run] = [(f"{_SIDES[number]} ", ACCENT)]
            inks = side.make_inks(begin, end, self._shown.look)
            for at, (ink, wide) in enumerate(zip(inks, widths, strict=True), begin):
                piece = side.pieces[at] if at < len(side.pieces) else ""
                if ink == TEXT and self._parts is not None and self._is_same(at):
                    ink = MUTED
                if at == self._parts:
                    ink = _PARTS
                if at == self._step:
                    ink = _HERE if number == self._here else ink._replace(ground="panel")
                runs.append((piece, ink._replace(does=f"walks('point', ({number}, {at}))")))
                runs.append((" " * (wide - cells(piece)), TEXT))
            lines.append(Line(tuple(runs)))
        if self._parts is None or not begin <= self._parts < end:
            return [*lines, BLANK]
        before = " " * (_BEFORE + sum(widths[: self._parts - begin]))
        return [*lines, Line(((before, TEXT), (f"▲ {self._parts + 1}", _PARTS._replace(underline=False))))]


@lru_cache(maxsize=8192)
def _show_text(text: str) -> str:
    """Show a token as it reads, on one line."""
    return one_line(text, _LONGEST).replace("\t", " ") or "∅"
