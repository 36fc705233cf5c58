"""What the transcripts for people say of replies that were made together: the group, and each walk beside the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum, isfinite
from typing import NamedTuple

from termchat.conversation.reply_facts import list_varying
from termchat.conversation.setting_changes import value_texts
from termchat.conversation.transcripts.facts import ending_of, plain_line
from termchat.conversation.tree import Conversation, Node, Span
from termchat.conversation.walk_groups import RANKED, groups_of, origin_of
from termchat.decoding.group import Group
from termchat.decoding.records import Beams, Ranked
from termchat.decoding.samplers import KNOBS
from termchat.decoding.walk_plan import shown_value
from termchat.text import one_line

_LONGEST = 60
"""Cells of an answer, or of a pattern that takes it out."""


class WalkOnPage(NamedTuple):
    """A reply of a group as pages show it. `number` counts from 1, `label` names its own settings, `figures` are names and
    values; `goes_on`: the shown chat contains it.
    """

    number: int
    node: Node
    label: str
    figures: list[tuple[str, str]]
    goes_on: bool

    @property
    def told(self) -> str:
        """The figures on one line."""
        told = []
        for name, value in self.figures:
            if name in ("tokens", "votes"):
                told.append(f"{value} {name.removesuffix('s') if value == '1' else name}")
            else:
                told.append(value if name == "ending" else f"{name} {value}")
        return " · ".join(told)


class GroupOnPage(NamedTuple):
    """A group, its replies by number, or best first if they were ranked, and the steps of its beam search."""

    title: str
    origin: Node
    at: int
    walks: list[WalkOnPage]
    beams: Sequence[Beams]


class GroupsOnPage:
    """The groups of a conversation, for the turns of the path that is shown. `nodes` are the numbers of all walks that stand
    beside others."""

    def __init__(self, conversation: Conversation) -> None:
        groups = groups_of(conversation).values()
        path = {span.node.number for span in conversation.find_path()}
        self.nodes = {node.number for walks in groups if len(walks) > 1 for node in walks.values()}
        # A walk alone is none, unless it was searched for.
        seen = (walks for walks in groups if len(walks) > 1 or any(node.beams for node in walks.values()))
        shown = (_group_on_page(conversation, walks, path) for walks in seen)
        self._waiting = [group for group in shown if group is not None]

    def of_turn(self, spans: Sequence[Span]) -> list[GroupOnPage]:
        """Take the groups that begin in a reply, or where it does."""
        reached = {span.node.number: span.count for span in spans}
        groups = [
            group
            for group in self._waiting
            if group.origin.number == spans[0].node.parent or group.at <= reached.get(group.origin.number, -1)
        ]
        self._waiting = [group for group in self._waiting if group not in groups]
        return groups

    def list_elsewhere(self) -> list[GroupOnPage]:
        """Return the groups that no turn took."""
        return self._waiting


def _group_on_page(conversation: Conversation, walks: Mapping[int, Node], path: set[int]) -> GroupOnPage | None:
    parent, at = origin_of(walks)
    if parent is None:
        return None
    origin = conversation.nodes[parent]
    group = next(node.group for node in walks.values() if node.group is not None)
    ranking = next((node.ranking for node in walks.values() if node.ranking is not None), None)
    ranked = {one.walk: one for one in ranking.walks} if ranking is not None and group.kind in RANKED else {}
    labels = labels_of(walks)
    order = [*(walk for walk in ranked if walk in walks), *(walk for walk in walks if walk not in ranked)]
    shown = [
        WalkOnPage(
            walk + 1, walks[walk], labels[walk], list(_list_figures(walks[walk], ranked.get(walk))), walks[walk].number in path
        )
        for walk in order
    ]  # fmt: skip
    title = _build_title(group, len(walks), at if origin.role == "assistant" else 0)
    return GroupOnPage(title, origin, at, shown, next((node.beams for node in walks.values() if node.beams), []))


def labels_of(walks: Mapping[int, Node]) -> dict[int, str]:
    """Label each walk by its own settings, as "temperature 0.5 · seed 43"; of a knob that was turned all values in turn."""
    facts = dict[int, dict[str, str]]()
    for walk, node in walks.items():
        facts[walk] = value_texts(node.settings, shown_value)
        if node.start is not None:
            facts[walk]["seed"] = str(node.start.seed)
    names = list_varying(list(facts.values()))
    return {walk: " · ".join(f"{name} {each[name]}" for name in names if name in each) for walk, each in facts.items()}


def _build_title(group: Group, walks: int, at: int) -> str:
    """Build the title, as "Grid of 12 walks: temperature 0, 0.5, 1, 1.5; from token 7"."""
    of = f" of {group.size}" if walks < group.size else ""  # some were deleted, or have no room
    count = f"{walks}{of} walk{'s' if max(walks, group.size) > 1 else ''}"
    if group.kind == "grid":
        knobs = (
            f"{knob.name} {', '.join(shown_value(KNOBS[knob.name], value) for value in knob.values)}"
            for knob in group.knobs
        )
        told = [f"Grid of {count}: {'; '.join(knobs)}"]
    elif group.kind == "beams" and group.beams is not None:
        told = [f"Beam search: width {group.beams.width}, length penalty {group.beams.length_penalty:g}"]
    elif group.kind == "vote":
        told = [f"Vote of {count}: answer {one_line(group.answer, _LONGEST)}"]
    else:
        told = [{"best": f"Best of {count}", "compare": f"{count} compared"}.get(group.kind, count)]
    told += [f"length penalty {group.length_penalty:g}"] if group.kind == "best" and group.length_penalty != 1 else []
    told += ["same dice"] if group.same_dice else []
    told += [f"from token {at}"] if at else []
    return plain_line("; ".join(told))


def _list_figures(node: Node, ranked: Ranked | None) -> Iterator[tuple[str, str]]:
    if ranked is not None and ranked.score is not None and ranked.votes is None:
        yield "score", format_figure(ranked.score)
    if ranked is not None and ranked.answer is not None:
        yield "answer", plain_line(one_line(ranked.answer, _LONGEST))
    if ranked is not None and ranked.votes is not None:
        yield "votes", str(ranked.votes)
    yield "ending", ending_of(node) or "ended"
    yield "tokens", str(len(node.tokens))
    yield "mean logprob", format_figure(fsum(node.tokens.logprobs) / len(node.tokens) if len(node.tokens) else None)


def format_figure(number: float | None) -> str:
    """Three digits behind the point, or a dash where it is not known."""
    return f"{number:.3f}".replace("-", "−") if number is not None and isfinite(number) else "–"
