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
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, STRONG, TEXT, length, prose
from termchat.tui.panels.candidates import candidate_table
from termchat.tui.transcript.looks import heat_inks, heats, kinds
from termchat.tui.walks.walk_facts import ending_word
from termchat.tui.walks.walk_scene import WalksScene

_SIDES = ("A", "B")
_HERE = Ink("background", ground="accent", bold=True)
_PARTS = Ink("stamp", bold=True, underline=True)
_NEXT = Ink("stamp", italic=True)
_END = " (end)"
"""An end token, which has no text."""
_BEFORE = 2
"""Cells before a line of tokens."""
_LONGEST = 40
_CANDIDATES = 9
_LEAST = 4
"""Candidates that are worth showing."""


class _Side(NamedTuple):
    """One of the two: its tokens as they are shown, each with its ink; `waits` has what a paused walk would take next."""

    walk: int
    node: Node
    ids: list[int]
    pieces: list[str]
    inks: list[Ink]
    waits: Token | None

    @property
    def length(self) -> int:
        return len(self.pieces)


class LockstepPage:
    """The cursor is a step, and the side of the walk under the cursor. Until it is moved it follows the newest step, and is on
    the first difference once both are over."""

    words: Mapping[str, str] = {"walk-1": "fork", "walk-fork": "", "walk-left": "token", "walk-up": "side"}

    def __init__(self) -> None:
        self.line_in_view: int | None = None
        self._step: int | None = None
        self._record: dict[tuple[int, int], Token | None] = {}

    def draw(self, scene: WalksScene) -> list[Line]:
        sides = _sides(scene)
        if len(sides) < len(_SIDES):
            return [Line((("waiting for the first tokens", MUTED),))]
        step = self._at(sides)
        parts = first_difference(sides[0].ids, sides[1].ids)
        below = [*self._told(scene, sides, parts), *self._candidates(scene, sides, step)]
        lines, here = _pairs(sides, _here(scene, sides), step, parts, scene.width)
        room = max(scene.rows - len(_SIDES) - len(below) - 1, 3)
        top = min(max(here - room + 2, 0), max(len(lines) - room, 0))
        shown = lines[top : top + room]
        self.line_in_view = 0
        return [*(_name(scene, side, name) for side, name in zip(sides, _SIDES, strict=True)), *shown, BLANK, *below]

    def act(self, scene: WalksScene, what: str, *arguments: object) -> bool:
        sides = _sides(scene)
        by = arguments[0] if arguments and isinstance(arguments[0], int) else 0
        if len(sides) < len(_SIDES) or what not in ("go", "line", "choose", "jump", "point"):
            return False
        if what == "line":
            scene.chat.walks.select_reply(sides[0 if by < 0 else 1].walk)
        elif what == "point" and isinstance(arguments[0], tuple):
            number, self._step = arguments[0]
            scene.chat.walks.select_reply(sides[number].walk)
        elif what == "jump":
            self._step = 0 if by < 0 else None
        elif what == "go":
            newest = max(side.length for side in sides) - 1
            step = min(max(self._at(sides) + by, 0), newest)
            runs = not all(side.node.done for side in sides)
            self._step = None if runs and step == newest and by > 0 else step
        else:
            return self._fork(scene, sides, by)
        return True

    def _fork(self, scene: WalksScene, sides: Sequence[_Side], number: int) -> bool:
        """Another walk with that candidate at the cursor, from 1."""
        side, step = sides[_here(scene, sides)], self._at(sides)
        token = self._token(scene, side, step)
        if token is None or not 1 <= number <= len(token.candidates):
            return True
        scene.chat.walks.fork_reply(side.walk, step, [token.candidates[number - 1].id])
        return True

    def _at(self, sides: Sequence[_Side]) -> int:
        newest = max(side.length for side in sides) - 1
        if self._step is None and all(side.node.done for side in sides):
            parts = first_difference(sides[0].ids, sides[1].ids)
            return newest if parts is None else parts
        return max(newest if self._step is None else min(self._step, newest), 0)

    def _told(self, scene: WalksScene, sides: Sequence[_Side], parts: int | None) -> list[Line]:
        """Why they part."""
        if parts is None:
            common = min(len(side.ids) for side in sides)
            over = all(side.node.done for side in sides)
            same = over and len(sides[0].ids) == len(sides[1].ids)
            told = f"both replies are the same, {common} tokens" if same else f"the same so far, {common} tokens"
            return [Line(((told, MUTED),))]
        tokens = [self._token(scene, side, parts) for side in sides]
        if tokens[0] is None or tokens[1] is None:
            return [Line(((f"they part at token {parts + 1}", STRONG),))]
        return prose(str(find_parting(tokens[0], tokens[1])._replace(step=parts)), scene.width, STRONG)

    def _candidates(self, scene: WalksScene, sides: Sequence[_Side], step: int) -> list[Line]:
        """Of both sides, one beside the other; those of the side under the cursor have their keys."""
        rows = min(_CANDIDATES, scene.rows // 2 - _LEAST)
        if rows < _LEAST:
            return []
        half = (scene.width - 3) // 2
        here = _here(scene, sides)
        tables = []
        for at, side in enumerate(sides):
            token = self._token(scene, side, step)
            title = [(f"{_SIDES[at]} token {step + 1} ", STRONG if at == here else MUTED)]
            lines = [Line(tuple(title))]
            if token is not None:
                lines = candidate_table(token, title, half, rows, numbered=at == here)
            tables.append([_clicked(line, forks=at == here) for line in lines])
        left, right = tables
        high = max(len(left), len(right))
        return [_beside(left, right, row, half) for row in range(high)]

    def _token(self, scene: WalksScene, side: _Side, step: int) -> Token | None:
        """The record of a token; the newest ones are in memory, the others are read once."""
        if step >= len(side.ids):
            return side.waits if step == len(side.ids) else None
        key = side.node.number, step
        if self._record.get(key) is None:
            self._record[key] = scene.chat.session.read_token(side.node, step)
        return self._record[key]


def _sides(scene: WalksScene) -> list[_Side]:
    group = scene.group
    return [
        _side(scene, walk) for walk in (0, 1) if walk in group.nodes and (group.nodes[walk].ids or walk in group.paused)
    ]


def _side(scene: WalksScene, walk: int) -> _Side:
    node = scene.group.nodes[walk]
    tokens, count = node.tokens, len(node.ids)
    pieces = [_piece(text) for text in tokens.texts[:count]]
    if scene.look == "reading":
        inks = [TEXT] * count
    else:
        by_heat, hot = heat_inks(scene.look), heats(tokens, scene.look)
        inks = [by_heat[kind][heat] for kind, heat in zip(kinds(tokens, 0, count), hot, strict=False)]
    if count and not tokens.texts[count - 1] and node.finished is not None and node.finished.reason == "end":
        pieces[-1] = _END
    paused = scene.group.paused.get(walk)
    if paused is not None:
        pieces.append(_piece(paused.token.text))
        inks.append(_NEXT)
    return _Side(walk, node, list(node.ids), pieces, inks, paused.token if paused is not None else None)


def _piece(text: str) -> str:
    """As it reads, on one line."""
    return one_line(text, _LONGEST).replace("\t", " ") or "∅"


def _here(scene: WalksScene, sides: Sequence[_Side]) -> int:
    return next((at for at, side in enumerate(sides) if side.walk == scene.cursor), 0)


def _name(scene: WalksScene, side: _Side, name: str) -> Line:
    here = side.walk == scene.cursor
    state = ending_word(side.node, paused=side.walk in scene.group.paused)
    label = scene.labels.get(side.walk, "")
    runs: list[Run] = [(f"{name} ", ACCENT), (label, STRONG if here else TEXT)]
    runs.append((f"  {len(side.ids)} tokens · {state}", MUTED))
    return Line(tuple(doing(f"walks('line', {1 if name == _SIDES[1] else -1})", runs)), "panel" if here else "")


def _pairs(sides: Sequence[_Side], here: int, step: int, parts: int | None, width: int) -> tuple[list[Line], int]:
    """Lines of tokens, one of each side and then one with the mark of the first difference, and which has the cursor."""
    lines: list[Line] = []
    rows: list[list[Run]] = [[], []]
    mark: list[Run] = []
    used, line_here = _BEFORE, 0

    def close() -> None:
        nonlocal used, mark
        for name, row in zip(_SIDES, rows, strict=True):
            lines.append(Line(((f"{name} ", ACCENT), *row)))
            row.clear()
        lines.append(Line(tuple(mark)) if mark else BLANK)
        used, mark = _BEFORE, []

    for at in range(max(side.length for side in sides)):
        pieces = [side.pieces[at] if at < side.length else "" for side in sides]
        wide = max(map(cells, pieces))
        if used + wide > width and used > _BEFORE:
            close()
        if at == parts:
            mark = [(" " * used, TEXT), (f"▲ {at + 1}", _PARTS._replace(underline=False))]
        same = all(at < len(side.ids) for side in sides) and sides[0].ids[at] == sides[1].ids[at]
        for number, (side, row, piece) in enumerate(zip(sides, rows, pieces, strict=True)):
            ink = side.inks[at] if at < side.length else FAINT
            ink = ink._replace(color="muted") if same and ink == TEXT and parts is not None else ink
            ink = _PARTS if at == parts else ink
            if at == step:
                ink = _HERE if number == here else ink._replace(ground="panel")
                line_here = len(lines) + number
            row += [
                (piece, ink._replace(does=f"walks('point', ({number}, {at}))")),
                (" " * (wide - cells(piece)), TEXT),
            ]
        used += wide
        if same and pieces[0].endswith("⏎"):
            close()
    if used > _BEFORE:
        close()
    if lines and not lines[-1].runs:
        lines.pop()
    return lines, line_here


def _clicked(line: Line, *, forks: bool) -> Line:
    """A line of the table of candidates, of which a click `forks`, or does nothing."""
    runs = [(text, ink, f"walks('{ink.does.replace('(', chr(39) + ', ')}") for text, ink in line.runs]
    return line._replace(
        runs=tuple((text, ink._replace(does=does if forks and ink.does else "")) for text, ink, does in runs)
    )


def _beside(left: Sequence[Line], right: Sequence[Line], row: int, half: int) -> Line:
    runs = list(left[row].runs) if row < len(left) else []
    return Line(
        (
            *runs,
            (" " * max(half - length(runs), 0), TEXT),
            (" │ ", FAINT),
            *(right[row].runs if row < len(right) else ()),
        )
    )
