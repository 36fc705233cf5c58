"""Facts about each walk, read from its records: what sets it apart, its state or ending, its speed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from termchat.chat.reply_group import ReplyGroup
from termchat.conversation.node import Node
from termchat.conversation.setting_changes import list_values
from termchat.conversation.tree import Conversation
from termchat.decoding.records import Reason
from termchat.decoding.samplers import KNOBS, Value
from termchat.decoding.walk_plan import shown_value
from termchat.tui.draw.ink import Ink, Run
from termchat.tui.draw.marks import MUTED

ENDED: dict[Reason, str] = {
    "end": "end", "length": "max_tokens", "stop": "stop sequence", "rule": "rule", "user": "stopped", "context": "context full",
}  # fmt: skip
"""How a reply ended, in a column."""

_STEPS = 32
"""The newest steps, over which a rate is told."""


FEWEST = 16
"""Steps from which on a rate can be compared with another."""


class Rates(NamedTuple):
    """Tokens a second of each walk that runs, and of all together."""

    each: float
    total: float


def rates_of(nodes: Iterable[Node]) -> Rates | None:
    """Over the newest steps of the walks that run; None while there are none. A step takes its decode, which all share, and
    the draws of all."""
    running = [node.tokens for node in nodes if not node.done and len(node.tokens) > 1]
    if not running:
        return None
    decode = max(_newest_mean(tokens.decode_us) for tokens in running)
    step = decode + sum(_newest_mean(tokens.sample_us) for tokens in running)
    return Rates(1e6 / step, len(running) * 1e6 / step) if step else None


def _newest_mean(column: Sequence[int]) -> float:
    """Over the newest steps; the first token is none, since the prompt was decoded before it."""
    newest = column[max(len(column) - _STEPS, 1) :]
    return sum(newest) / len(newest)


def alone_rate(conversation: Conversation) -> float | None:
    """Tokens a second of the newest reply that was made alone, and is not too short to tell; None where there is none."""
    for number in sorted(conversation.nodes, reverse=True):
        node = conversation.nodes[number]
        alone = node.start is not None and node.start.group is None
        if alone and node.finished is not None and node.finished.tokens >= FEWEST:
            return node.finished.tokens_per_second
    return None


def apart(nodes: Mapping[int, Node]) -> dict[int, dict[str, Value]]:
    """By walk, the knobs whose newest values are not the same for all walks."""
    known = {walk: list_values(node.settings[-1]) for walk, node in nodes.items() if node.settings}
    every = list(known.values())
    names = [name for name in KNOBS if name in every[0]] if every else []
    differing = [name for name in names if any(one[name] != every[0][name] for one in every)]
    return {walk: {name: one[name] for name in differing} for walk, one in known.items()}


def labels_of(group: ReplyGroup) -> dict[int, str]:
    """What sets each walk apart: the knobs that do, as they are now; of a grid the run; of one that joined where it comes from;
    where nothing does its seed."""
    differing = apart(group.nodes)
    labels: dict[int, str] = {}
    for walk, node in group.nodes.items():
        told = [
            f"{KNOBS[name].label} {shown_value(KNOBS[name], value)}" for name, value in differing.get(walk, {}).items()
        ]
        if walk >= group.group.size:
            told.insert(0, group.labels[walk])
        elif group.group.runs > 1 and group.group.kind == "grid":
            told.append(f"run {walk % group.group.runs + 1}")
        labels[walk] = " · ".join(told) or (f"seed {node.start.seed}" if node.start is not None else "")
    return labels


def ending_word(node: Node, *, paused: bool = False) -> str:
    """What a walk does, or how it ended, in a word or two."""
    if paused:
        return "paused"
    if not node.done:
        return "running"
    return ENDED[node.finished.reason] if node.finished is not None else "interrupted"


def state_runs(node: Node, *, paused: bool = False) -> list[Run]:
    """How many tokens, and a sign of whether it runs, waits or is over."""
    sign = ("❚❚", Ink("stamp")) if paused else ("■", MUTED) if node.done else ("●", Ink("success"))
    return [(f"{len(node.tokens)} ", MUTED), sign]
