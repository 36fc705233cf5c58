"""A/B in lockstep: two replies with the same dice, token under token, with the first difference marked and explained; below
them the candidates of both at the token under the cursor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from termchat.conversation.node import Node
from termchat.decoding.parting import find_parting, first_difference
from termchat.decoding.records import Token
from termchat.text import cells, one_line
from termchat.tui.draw.ink import BLANK, Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, STRONG, TEXT, beside, prose
from termchat.tui.pages.candidates import candidate_table
from termchat.tui.pages.page import Page, Scene, by_of
from termchat.tui.pages.shown_group import ShownGroup
from termchat.tui.transcript.looks import token_inks

_SIDES = ("A", "B")
_HERE = Ink("background", ground="accent", bold=True)
_PARTS = Ink("stamp", bold=True, underline=True)
_NEXT = Ink("stamp", italic=True)
_END = " (end)"
"""An end token, which has no text."""
_BEFORE = 2
"""Cells before a line of tokens."""
_LONGEST = 40
_CANDIDATES, _LEAST = 9, 4
"""Candidates that are shown, and that are worth showing."""


class _Side(NamedTuple):
    """One of the two: its tokens as they are shown, each with its ink; `waits` has what a paused walk would take next."""

    walk: int
    node: Node
    ids: list[int]
    pieces: list[str]
    inks: list[Ink]
    waits: Token | None


class LockstepPage(Page):
    """The cursor is a step, and the side of the walk under the cursor. Until it is moved it follows the newest step, and is on
    the first difference once both are over."""

    name = "A/B"
    words: Mapping[str, str] = {"walk-1": "fork", "walk-fork": "", "walk-left": "token", "walk-up": "side"}

    def __init__(self, shown: ShownGroup) -> None:
        self._shown = shown
        self._step: int | None = None
        self._record: dict[tuple[int, int], Token | None] = {}

    def lines(self, scene: Scene) -> list[Line]:
        sides = self._read_sides()
        if len(sides) < len(_SIDES):
            return [Line((("waiting for the first tokens", MUTED),))]
        step, here = self._cursor_step(sides), self._side_here(sides)
        parts = first_difference(sides[0].ids, sides[1].ids)
        below = [
            *self._explain_difference(sides, parts, scene.width),
            *self._render_candidates(sides, step, here, scene),
        ]
        lines, at = _render_pairs(sides, here, step, parts, scene.width)
        room = max(scene.rows - len(_SIDES) - len(below) - 1, 3)
        top = min(max(at - room + 2, 0), max(len(lines) - room, 0))
        heads = []
        for number, side in enumerate(sides):
            runs: list[Run] = [(f"{_SIDES[number]} ", ACCENT)]
            runs.append((self._shown.labels.get(side.walk, ""), STRONG if number == here else TEXT))
            runs.append((f"  {len(side.ids)} tokens · {self._shown.ending(side.walk)}", MUTED))
            heads.append(Line(tuple(doing(f"walks('line', {number or -1})", runs)), "panel" if number == here else ""))
        return [*heads, *lines[top : top + room], BLANK, *below]

    def act(self, what: str, *arguments: object) -> bool:
        sides, by, walks = self._read_sides(), by_of(arguments), self._shown.chat.walks
        if len(sides) < len(_SIDES) or what not in ("go", "line", "choose", "jump", "point"):
            return False
        if what == "line":
            walks.select_reply(sides[0 if by < 0 else 1].walk)
        elif what == "point" and isinstance(arguments[0], tuple):
            number, self._step = arguments[0]
            walks.select_reply(sides[number].walk)
        elif what == "jump":
            self._step = 0 if by < 0 else None
        elif what == "go":
            newest = max(len(side.pieces) for side in sides) - 1
            step = min(max(self._cursor_step(sides) + by, 0), newest)
            runs = not all(side.node.done for side in sides)
            self._step = None if runs and step == newest and by > 0 else step
        else:  # another walk with that candidate at the cursor, from 1
            side, step = sides[self._side_here(sides)], self._cursor_step(sides)
            token = self._read_token(side, step)
            if token is not None and 1 <= by <= len(token.candidates):
                walks.fork_reply(side.walk, step, [token.candidates[by - 1].id])
        return True

    def _read_sides(self) -> list[_Side]:
        group = self._shown.group
        return [
            self._read_side(walk)
            for walk in (0, 1)
            if walk in group.nodes and (group.nodes[walk].ids or walk in group.paused)
        ]

    def _read_side(self, walk: int) -> _Side:
        node, look = self._shown.group.nodes[walk], self._shown.look
        tokens, count = node.tokens, len(node.ids)
        pieces = [_show_text(text) for text in tokens.texts[:count]]
        inks = token_inks(tokens, look, 0, count) if look != "reading" else [TEXT] * count
        if count and not tokens.texts[count - 1] and node.finished is not None and node.finished.reason == "end":
            pieces[-1] = _END
        paused = self._shown.group.paused.get(walk)
        if paused is not None:
            pieces.append(_show_text(paused.token.text))
            inks.append(_NEXT)
        return _Side(walk, node, list(node.ids), pieces, inks, paused.token if paused is not None else None)

    def _side_here(self, sides: Sequence[_Side]) -> int:
        return next((at for at, side in enumerate(sides) if side.walk == self._shown.cursor), 0)

    def _cursor_step(self, sides: Sequence[_Side]) -> int:
        newest = max(len(side.pieces) for side in sides) - 1
        if self._step is None and all(side.node.done for side in sides):
            parts = first_difference(sides[0].ids, sides[1].ids)
            return newest if parts is None else parts
        return max(newest if self._step is None else min(self._step, newest), 0)

    def _explain_difference(self, sides: Sequence[_Side], parts: int | None, width: int) -> list[Line]:
        """Explain the first difference."""
        if parts is None:
            common = min(len(side.ids) for side in sides)
            same = all(side.node.done for side in sides) and len(sides[0].ids) == len(sides[1].ids)
            words = f"both replies are the same, {common} tokens" if same else f"the same so far, {common} tokens"
            return [Line(((words, MUTED),))]
        one, other = (self._read_token(side, parts) for side in sides)
        if one is None or other is None:
            return [Line(((f"they part at token {parts + 1}", STRONG),))]
        return prose(str(find_parting(one, other)._replace(step=parts)), width, STRONG)

    def _render_candidates(self, sides: Sequence[_Side], step: int, here: int, scene: Scene) -> list[Line]:
        """Of both sides, one beside the other; those of the side under the cursor have their keys."""
        rows, half = min(_CANDIDATES, scene.rows // 2 - _LEAST), (scene.width - 3) // 2
        if rows < _LEAST:
            return []
        tables: list[list[Line]] = []
        for at, side in enumerate(sides):
            token = self._read_token(side, step)
            title: list[Run] = [(f"{_SIDES[at]} token {step + 1} ", STRONG if at == here else MUTED)]
            does = "walks('choose', {})" if at == here else ""
            table = (
                candidate_table(token, title, half, rows, numbered=at == here, does=does) if token is not None else None
            )
            tables.append(table or [Line(tuple(title))])
        return beside(tables[0], tables[1], half)

    def _read_token(self, side: _Side, step: int) -> Token | None:
        """The record of a token; the newest ones are in memory, the others are read once."""
        if step >= len(side.ids):
            return side.waits if step == len(side.ids) else None
        key = side.node.number, step
        if self._record.get(key) is None:
            self._record[key] = self._shown.chat.session.read_token(side.node, step)
        return self._record[key]


def _show_text(text: str) -> str:
    """As it reads, on one line."""
    return one_line(text, _LONGEST).replace("\t", " ") or "∅"


def _render_pairs(
    sides: Sequence[_Side], here: int, step: int, parts: int | None, width: int
) -> tuple[list[Line], int]:
    """Lines of tokens, one of each side and then one with the mark of the first difference, and which has the cursor."""
    lines: list[Line] = []
    rows: list[list[Run]] = [[], []]
    mark: list[Run] = []
    used, line_here = _BEFORE, 0
    for at in range(last := max(len(side.pieces) for side in sides)):
        pieces = [side.pieces[at] if at < len(side.pieces) else "" for side in sides]
        wide = max(map(cells, pieces))
        if used + wide > width and used > _BEFORE:
            lines += _render_pair(rows, mark)
            used, rows, mark = _BEFORE, [[], []], []
        if at == parts:
            mark = [(" " * used, TEXT), (f"▲ {at + 1}", _PARTS._replace(underline=False))]
        same = all(at < len(side.ids) for side in sides) and sides[0].ids[at] == sides[1].ids[at]
        for number, (side, row, piece) in enumerate(zip(sides, rows, pieces, strict=True)):
            ink = side.inks[at] if at < len(side.pieces) else FAINT
            ink = ink._replace(color="muted") if same and ink == TEXT and parts is not None else ink
            ink = _PARTS if at == parts else ink
            if at == step:
                ink = _HERE if number == here else ink._replace(ground="panel")
                line_here = len(lines) + number
            does = f"walks('point', ({number}, {at}))"
            row += [(piece, ink._replace(does=does)), (" " * (wide - cells(piece)), TEXT)]
        used += wide
        if (same and pieces[0].endswith("⏎")) or at == last - 1:
            lines += _render_pair(rows, mark)
            used, rows, mark = _BEFORE, [[], []], []
    return lines[:-1] if lines and not lines[-1].runs else lines, line_here


def _render_pair(rows: Sequence[Sequence[Run]], mark: Sequence[Run]) -> list[Line]:
    pair = [Line(((f"{name} ", ACCENT), *row)) for name, row in zip(_SIDES, rows, strict=True)]
    return [*pair, Line(tuple(mark)) if mark else BLANK]
