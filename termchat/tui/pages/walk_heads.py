"""Lines that say which walks there are: over all of them, the end of their prompt, and each one's head or line in a list."""

from __future__ import annotations

from collections.abc import Sequence
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
from termchat.tui.pages.grid_table import GAP, Cell, Column, GridTable
from termchat.tui.pages.shown_group import ShownGroup, knobs_apart
from termchat.tui.transcript.looks import Look, token_inks

_STEPS = 32
"""The newest steps, over which a rate is told."""


FEWEST = 16
"""Steps from which on a rate can be compared with another."""


def _newest_mean(column: Sequence[int]) -> float:
    """Over the newest steps; the first token is none, since the prompt was decoded before it."""
    newest = column[max(len(column) - _STEPS, 1) :]
    return sum(newest) / len(newest)


def alone_rate(conversation: Conversation) -> float | None:
    """Find the tokens a second of the newest single reply of some length."""
    for number in sorted(conversation.nodes, reverse=True):
        node = conversation.nodes[number]
        alone = node.start is not None and node.start.group is None
        if alone and node.finished is not None and node.finished.tokens >= FEWEST:
            return node.finished.tokens_per_second
    return None


TITLES: dict[GroupKind, str] = {
    "walks": "WALKS", "grid": "GRID", "compare": "A/B", "best": "BEST OF", "vote": "VOTE", "beams": "BEAMS",
}  # fmt: skip
_HEAD = Ink("accent", bold=True)
_HERE = Ink("text", ground="panel", bold=True)
_READ = 6
"""Times as many characters are read from the end of a text as there are cells for it: then it is surely full."""
_NOUN = " walks"
_VARIED = 12
"""Cells that are kept for what varies."""
_DIGITS, _LABEL, _STATE = 3, 24, 7
"""Cells of a walk's number in a list, of its label, at most, and of its state."""


def title_line(
    group: ReplyGroup, width: int, alone: float | None = None, pages: Sequence[str] = (), page: str = ""
) -> Line:
    """Render the title: the kind of group, its number of walks and their settings, the rates, and the names of the `pages`,
    of which a click turns to one. `alone`: tokens a second of one reply."""
    beams, kind = group.group.beams, group.group.kind
    left: list[Run] = [(f"{TITLES[kind]}  ", _HEAD)]
    left.append((str(beams.width if beams is not None else len(group.nodes)), STRONG))
    tabs = [(f" {name} ", _HERE if name == page else MUTED._replace(does=f"walks('page', '{name}')")) for name in pages]
    rates = _render_rates(group, alone)
    while rates and length([*left, *rates, *tabs]) + _VARIED > width:
        rates.pop()
    right = [*rates, ("  ", MUTED), *tabs] if rates else tabs
    varied = "".join(f" · {one}" for one in [*_list_varied(group), *(["same dice"] if group.group.same_dice else [])])
    room = width - length(left) - length(right) - 1
    if kind not in ("walks", "beams") and len(_NOUN) + cells(varied) <= room:  # whose titles say what is counted
        varied = _NOUN + varied
    left.append((one_line(varied, room), MUTED))
    return Line(spread(left, right, width))


def _list_varied(group: ReplyGroup) -> list[str]:
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
    for differing in knobs_apart(group.nodes).values():
        for name, value in differing.items():
            columns.setdefault(name, []).append(value)
    return [
        f"{name} {' | '.join(shown_value(KNOBS[name], value) for value in dict.fromkeys(column))}"
        for name, column in columns.items()
    ]


def _render_rates(group: ReplyGroup, alone: float | None) -> list[Run]:
    """Render the tokens a second of each running walk and of all together, over the newest steps; of an ended group the mean. A
    step takes its decode, which all share, and the draws of all."""
    rate: list[Run] = []
    if group.ended is not None:
        total, steps = group.ended.tokens_per_second, group.ended.steps
    else:
        running = [node.tokens for node in group.nodes.values() if not node.done and len(node.tokens) > 1]
        decode = max((_newest_mean(tokens.decode_us) for tokens in running), default=0.0)
        step = decode + sum(_newest_mean(tokens.sample_us) for tokens in running)
        total, steps = (
            len(running) * 1e6 / step if step else 0.0,
            max(len(node.tokens) for node in group.nodes.values()),
        )
        rate = [(f"{1e6 / step:.0f} t/s each", TEXT)] if step else []
    if not total:
        return []
    rate.append((f"{' · ' if rate else ''}{total:.0f} t/s total", TEXT))
    if alone and steps >= FEWEST:
        rate.append((f" · {total / alone:.1f}× a single reply", MUTED))
    return rate


def prompt_lines(conversation: Conversation, group: ReplyGroup, width: int, rows: int) -> list[Line]:
    """Render the last lines of the prompt: of the message, or of the reply up to the token."""
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
        lines = [Line((("… ", FAINT), (one_line(first.text, width - 2), MUTED))), *lines[len(lines) - rows + 1 :]]
    return lines


def head_line(shown: ShownGroup, walk: int, width: int) -> Line:
    """Render the head of a walk's column: its number, from 1, its label and its state."""
    here = walk == shown.cursor
    ink = _HERE if here else MUTED
    right = _state_runs(shown, walk)
    left: list[Run] = [(f" {walk + 1} ", _HEAD._replace(ground="panel") if here else ACCENT)]
    left.append((one_line(shown.labels[walk], max(width - length(left) - length(right) - 2, 0)), ink))
    gap = width - length(left) - length(right) - 2
    fill: list[Run] = [(" ", ink), ("─" * gap if gap > 0 else "", FAINT if not here else ink), (" ", ink)]
    runs = [*left, *fill, *right] if gap >= 0 else left
    return Line(tuple(doing(f"walks('choose', {walk + 1})", runs)), "panel" if here else "")


def list_lines(shown: ShownGroup, width: int, rows: int) -> list[Line]:
    """Render a line per walk, as many as fit around the cursor: its beginning in the look."""
    walks, cursor = shown.walks, shown.cursor
    wide = _DIGITS + min(max(map(len, shown.labels.values()), default=0), _LABEL)
    left = width - wide - _STATE - 2 * len(GAP)

    def name(walk: int) -> Cell:
        head, ink = (_HEAD, STRONG) if walk == cursor else (ACCENT, MUTED)
        return [(f"{walk + 1:>2} ", head), (column(shown.labels[walk], wide - _DIGITS), ink)]

    columns: tuple[Column[int], ...] = (
        Column("", name, wide),
        Column("", lambda walk: _state_runs(shown, walk), _STATE, right=True),
        Column("", lambda walk: _render_beginning(shown.group.nodes[walk], shown.look, left), left),
    )
    at = walks.index(cursor) if cursor in walks else -1
    return GridTable(columns, walks, at, lambda walk: f"walks('choose', {walk + 1})", marked=False).lines(width, rows)


def _state_runs(shown: ShownGroup, walk: int) -> list[Run]:
    """How many tokens, and a sign of whether it runs, waits or is over."""
    node = shown.group.nodes[walk]
    paused = walk in shown.group.paused
    sign = ("❚❚", Ink("stamp")) if paused else ("■", MUTED) if node.done else ("●", Ink("success"))
    return [(f"{len(node.tokens)} ", MUTED), sign]


@lru_cache(1 << 12)
def _measure_token(text: str, width: int) -> tuple[str, int]:
    """Render a token on a line, with its cells; each appears in many frames."""
    line = one_line(text, width)
    return line, cell_len(line)


def _render_beginning(node: Node, look: Look, width: int) -> list[Run]:
    """The beginning of a walk's text on one line, each token in the ink of its heat."""
    tokens = node.tokens
    runs: list[Run] = []
    used, count = 0, min(len(tokens), 2 * max(width, 0))  # more do not fit, as hardly any has no cells
    inks = token_inks(tokens, look, 0, count) if look != "reading" else [TEXT] * count
    for text, ink in zip(tokens.texts[:count], inks, strict=True):
        if not text or (not runs and text.isspace()):
            continue
        line, wide = _measure_token(text, width)
        runs.append((line, ink))
        used += wide
        if used > width:
            break
    if used > width:
        while runs and used > width - 1:
            used -= length([runs.pop()])
        runs.append(("…", FAINT))
    return runs
