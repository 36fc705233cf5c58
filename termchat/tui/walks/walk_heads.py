"""Lines that say which walks there are: over all of them, the end of their prompt, and each one's head or line in a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from rich.cells import cell_len

from termchat.chat.reply_group import ReplyGroup
from termchat.conversation.node import Node
from termchat.conversation.tree import Conversation
from termchat.decoding.group import GroupKind
from termchat.decoding.samplers import KNOBS, Value
from termchat.decoding.walk_plan import shown_value
from termchat.text import cells, one_line
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, STRONG, TEXT, column, length, spread
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.transcript.body import PLAIN
from termchat.tui.transcript.looks import Look, heat_inks, heats, kinds
from termchat.tui.walks.walk_facts import FEWEST, apart, rates_of, state_runs

TITLES: dict[GroupKind, str] = {
    "walks": "WALKS", "grid": "GRID", "compare": "A/B", "best": "BEST OF", "vote": "VOTE", "beams": "BEAMS",
}  # fmt: skip
_HEAD = Ink("accent", bold=True)
_HERE = Ink("text", ground="panel", bold=True)
_READ = 6
"""Times as many characters are read from the end of a text as there are cells for it: then it is surely full."""
_COUNTED: tuple[GroupKind, ...] = ("walks", "beams")
"""Kinds whose title says what is counted; for the others a noun does, where there is room."""
_NOUN = " walks"
_VARIED = 12
"""Cells that are kept for what varies."""
_LABEL = 24
"""Cells of a walk's label in a list, at most."""


def title_line(
    group: ReplyGroup, width: int, alone: float | None = None, pages: Sequence[str] = (), page: str = ""
) -> Line:
    """What is walked, how many times and over which values, how fast, and the names of the `pages`, of which a click turns to
    one. `alone`: tokens a second of one reply."""
    left: list[Run] = [(f"{TITLES[group.group.kind]}  ", _HEAD), (str(_count(group)), STRONG)]
    told = [*_varied(group), *(["same dice"] if group.group.same_dice else [])]
    tabs = [(f" {name} ", _HERE if name == page else MUTED._replace(does=f"walks('page', '{name}')")) for name in pages]
    rates = _rates(group, alone)
    while rates and length([*left, *rates, *tabs]) + _VARIED > width:
        rates.pop()
    right = [*rates, ("  ", MUTED), *tabs] if rates else tabs
    said = "".join(f" · {one}" for one in told)
    room = width - length(left) - length(right) - 1
    if group.group.kind not in _COUNTED and len(_NOUN) + cells(said) <= room:
        said = _NOUN + said
    left.append((one_line(said, room), MUTED))
    return Line(spread(left, right, width))


def _count(group: ReplyGroup) -> int:
    """The walks, or the beams of a search."""
    beams = group.group.beams
    return beams.width if beams is not None else len(group.nodes)


def _varied(group: ReplyGroup) -> list[str]:
    """The knobs that differ, each with its values in order; of a search how it scores, and how far it is."""
    if (beams := group.group.beams) is not None:
        by = "after the chain" if beams.after_chain else "by the model"
        step = [f"step {len(group.beams)}"] if group.beams else []
        return [*step, f"length penalty {beams.length_penalty:g}", f"scores {by}"]
    if group.group.knobs:
        return [
            f"{knob.name} {' '.join(shown_value(KNOBS[knob.name], value) for value in knob.values)}"
            for knob in group.group.knobs
        ]
    columns: dict[str, list[Value]] = {}
    for differing in apart(group.nodes).values():
        for name, value in differing.items():
            columns.setdefault(name, []).append(value)
    return [
        f"{name} {' | '.join(shown_value(KNOBS[name], value) for value in dict.fromkeys(column))}"
        for name, column in columns.items()
    ]


def _rates(group: ReplyGroup, alone: float | None) -> list[Run]:
    if group.ended is not None:
        total, steps = group.ended.tokens_per_second, group.ended.steps
        if not total:
            return []
        said: list[Run] = [(f"{total:.0f} t/s total", TEXT)]
    elif (rates := rates_of(group.nodes.values())) is not None:
        said, total = [(f"{rates.each:.0f} t/s each", TEXT), (f" · {rates.total:.0f} t/s total", TEXT)], rates.total
        steps = max(len(node.tokens) for node in group.nodes.values())
    else:
        return []
    if alone and steps >= FEWEST:
        said.append((f" · {total / alone:.1f}× a single reply", MUTED))
    return said


def prompt_lines(conversation: Conversation, group: ReplyGroup, width: int, rows: int) -> list[Line]:
    """The last lines of what all walks go on from: of the message, or of the reply up to the token."""
    if rows <= 0 or group.origin.node not in conversation.nodes:
        return []
    node = conversation.nodes[group.origin.node]
    text = (node.written if node.role == "user" else node.tokens.texts.join_texts(group.origin.at)).rstrip("\n")
    most = _READ * width * rows
    wrapper = Wrapper(width)
    wrapper.feed("you  " if node.role == "user" and len(text) <= most else "", Ink("user", bold=True))
    wrapper.feed(text[-most:], MUTED)
    lines = wrapper.lines
    if len(lines) > rows:
        first = lines[-rows]
        lines = [Line((("… ", FAINT), *_cut(first.runs, width - 2))), *lines[len(lines) - rows + 1 :]]
    return lines


def _cut(runs: Sequence[Run], width: int) -> list[Run]:
    return [(one_line("".join(text for text, _ in runs), width), MUTED)]


def head_line(number: int, node: Node, label: str, width: int, *, here: bool, paused: bool = False) -> Line:
    """What stands above a walk's column: its number, from 1, what sets it apart, and what it does."""
    ink = _HERE if here else MUTED
    right = state_runs(node, paused=paused)
    left: list[Run] = [(f" {number + 1} ", _HEAD._replace(ground="panel") if here else ACCENT)]
    left.append((one_line(label, max(width - length(left) - length(right) - 2, 0)), ink))
    gap = width - length(left) - length(right) - 2
    fill: list[Run] = [(" ", ink), ("─" * gap if gap > 0 else "", FAINT if not here else ink), (" ", ink)]
    runs = [*left, *fill, *right] if gap >= 0 else left
    return Line(tuple(doing(f"walks('choose', {number + 1})", runs)), "panel" if here else "")


def list_lines(
    group: ReplyGroup, walks: Sequence[int], labels: Mapping[int, str], look: Look, width: int, rows: int
) -> list[Line]:
    """A line a walk, as many as fit around the one under the cursor: its beginning in the look."""
    cursor = group.cursor
    wide = min(max(map(len, labels.values()), default=0), _LABEL)
    at = walks.index(cursor) if cursor in walks else 0
    first = min(max(at - rows // 2, 0), max(len(walks) - rows, 0))
    return [
        _listed(walk, group.nodes[walk], column(labels[walk], wide), look, width, walk == cursor, walk in group.paused)
        for walk in walks[first : first + rows]
    ]


def _listed(number: int, node: Node, label: str, look: Look, width: int, here: bool, paused: bool) -> Line:
    ink = STRONG if here else MUTED
    state = state_runs(node, paused=paused)
    runs: list[Run] = [(f"{number + 1:>2} ", _HEAD if here else ACCENT), (label, ink), ("  ", ink)]
    runs += [(" " * max(7 - length(state), 0), ink), *state, ("  ", ink)]
    runs += head_runs(node, look, width - length(runs))
    return Line(tuple(doing(f"walks('choose', {number + 1})", runs)), "panel" if here else "")


@lru_cache(1 << 12)
def _measured(text: str, width: int) -> tuple[str, int]:
    """A token on a line, and its cells: each stands in many frames."""
    shown = one_line(text, width)
    return shown, cell_len(shown)


def head_runs(node: Node, look: Look, width: int) -> list[Run]:
    """The beginning of a walk's text on one line, each token in the ink of its heat."""
    tokens = node.tokens
    runs: list[Run] = []
    used = 0
    hot, inks = heats(tokens, look) if look != "reading" else None, heat_inks(look)
    for at in range(len(tokens)):
        text = tokens.texts[at]
        if not text or (not runs and text.isspace()):
            continue
        shown, wide = _measured(text, width)
        runs.append((shown, inks[kinds(tokens, at, at + 1)[0]][hot[at]] if hot is not None else PLAIN))
        used += wide
        if used > width:
            break
    if used > width:
        while runs and used > width - 1:
            used -= length([runs.pop()])
        runs.append(("…", FAINT))
    return runs
