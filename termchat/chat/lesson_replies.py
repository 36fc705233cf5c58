"""Facts of replies for lessons: which replies there are in a chat, and the figures of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from termchat.conversation.reply_facts import constraint_cost
from termchat.conversation.standing_reply import standing_reply
from termchat.conversation.thoughts import thought
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.conditions import Length, Stop, Text, Threshold, compiled
from termchat.decoding.loops import LoopFinder, Repetition
from termchat.decoding.records import UNKNOWN, Finished, Prefill, SettingsRecord, Start
from termchat.decoding.samplers import KNOBS, Value
from termchat.decoding.walk_figures import WalkFigures

FactFound = float | str | bool | None
"""A fact's value; None where it is absent."""


class LessonReply:
    """One reply, from its first token to `end`, the node that it ends in. It is a picture of the moment: make a new one once
    there are more tokens."""

    def __init__(self, conversation: Conversation, end: Node) -> None:
        self._chat, self.end = conversation, end
        self.spans = conversation.reply(end.number)

    @property
    def stamp(self) -> tuple[object, ...]:
        """What is another one once its facts may be others."""
        return (self.end.number, len(self.end.tokens), len(self.end.settings), self.end.done, self.end.continued)

    @cached_property
    def ids(self) -> list[int]:
        """What tells its tokens apart, also where its engine has no ids."""
        return [sign for span in self.spans for sign in span.node.tokens.signs(0, span.count)]

    @cached_property
    def text(self) -> str:
        return "".join(span.node.text(span.count) for span in self.spans)

    @property
    def message(self) -> str | None:
        """What a person wrote before it; None for a reply to nothing."""
        parent = self.spans[0].node.parent
        return self._chat.nodes[parent].written if parent is not None else None

    @property
    def start(self) -> Start | None:
        return next((span.node.start for span in reversed(self.spans) if span.node.start is not None), None)

    @property
    def prompt(self) -> list[int]:
        return self._chat.prompt(self.spans[0].node.number)

    def fact(self, name: str, argument: str = "") -> FactFound:
        """One of the facts of a reply; those that are measured live while it runs are absent until it is over."""
        if name == "says":
            return argument in self.text
        if name == "message_says":
            return argument in self.message if self.message is not None else None
        if name == "used":
            return self._used(argument)
        return _known(_FACTS[name](self))

    def meets(self, condition: Threshold | Text) -> bool:
        """Whether a token of it, or its text, meets a condition."""
        if isinstance(condition, Text):
            return compiled(condition).search(self.text) is not None
        met = 0
        for value in self._measured(condition):
            met = met + 1 if (value > condition.value if condition.sign == ">" else value < condition.value) else 0
            if met >= condition.steps:
                return True
        return False

    # --- what the facts are made of -----------------------------------------------------------------------------------

    def column(self, name: str) -> list[float]:
        """A column of its tokens."""
        return [value for span in self.spans for value in getattr(span.node.tokens, name)[: span.count]]

    def _measured(self, condition: Threshold) -> list[float]:
        if condition.measure == "model":
            return [math.exp(value) for value in self.column("logprobs")]
        columns = {"entropy": "entropies", "p_end": "p_ends", "probability": "probabilities", "rank": "ranks"}
        return self.column(columns[condition.measure])

    @cached_property
    def figures(self) -> WalkFigures:
        figures = WalkFigures()
        for row in zip(self.ids, self.column("logprobs"), self.column("entropies"), strict=True):
            figures.append(*row)
        return figures

    @cached_property
    def chosen(self) -> list[bool]:
        """Of each token, whether somebody chose it."""
        return [bool(one) for one in self.column("by_hand")]

    def perplexity(self, *, chosen: bool) -> float | None:
        """Of the tokens that somebody chose, or that were drawn."""
        rows = zip(self.column("logprobs"), self.chosen, strict=True)
        logprobs = [logprob for logprob, by_hand in rows if by_hand == chosen]
        return math.exp(-math.fsum(logprobs) / len(logprobs)) if logprobs else None

    @cached_property
    def loop(self) -> Repetition | None:
        """Its first one."""
        finder = LoopFinder()
        finder.extend(self.ids)
        return next(iter([*finder.ended, *([finder.current] if finder.current is not None else [])]), None)

    @property
    def finished(self) -> Finished | None:
        return self.end.finished

    @property
    def prefill(self) -> Prefill | None:
        return self.end.prefill

    def summed(self, field: str) -> float | None:
        """Over its runs that are over; None where none has it."""
        ended = (span.node.finished for span in self.spans)
        values = [value for one in ended if one is not None and (value := getattr(one, field)) is not None]
        return sum(values) if values else None

    @property
    def settings(self) -> SettingsRecord | None:
        """Those of its newest token."""
        span = self.spans[-1]
        begun = zip(span.node.settings, span.node.settings_at, strict=True)
        reached = [record for record, at in begun if at < max(span.count, 1)]
        return max(reached, key=lambda record: record.number, default=None)

    def changes(self) -> int:
        """How often its settings changed, threads aside."""
        count = 0
        for span in self.spans:
            records = [(record.samplers, record.conditions, record.constraint) for record in span.node.settings]
            count += sum(before != after for before, after in pairwise(records))
        return count

    def valid(self) -> bool | None:
        if not self.end.done:
            return None
        standing = standing_reply(self._chat, self.end, self.spans[-1].count)
        if standing is None:
            return None
        from termchat.decoding.verdict import verdict_on  # compiles grammars

        kind = verdict_on(standing.constraint, standing.data).kind
        return None if kind == "unknown" else kind == "valid"

    def _used(self, knob: str) -> FactFound:
        settings, start = self.settings, self.start
        if settings is None or start is None:
            return None
        if knob == "seed":
            return float(start.seed)
        if knob == "draft":
            return settings.draft.by if settings.draft is not None else "off"
        if knob == "stop":
            return KNOBS[knob].show(tuple(one.text for one in settings.conditions if isinstance(one, Stop)))
        if knob == "max_tokens":
            lengths = [one.tokens - one.extra for one in settings.conditions if isinstance(one, Length)]
            return float(min(lengths, default=0))
        return knob_fact(knob, getattr(settings.samplers, knob)) if hasattr(settings.samplers, knob) else None


def knob_fact(name: str, value: Value) -> FactFound:
    """The value of a knob as a fact: a number, yes or no, or the text that is shown for it."""
    knob = KNOBS[name]
    if knob.kind == "switch":
        return bool(value)
    if isinstance(value, (int, float)):
        return float(value)
    return value if isinstance(value, str) else knob.show(value)


def _known(value: FactFound) -> FactFound:
    return None if isinstance(value, float) and math.isnan(value) else value


def _of_end(field: str) -> Callable[[LessonReply], FactFound]:
    return lambda reply: getattr(reply.finished, field) if reply.finished is not None else None


def _of_prefill(field: str) -> Callable[[LessonReply], FactFound]:
    def found(reply: LessonReply) -> FactFound:
        told: FactFound = getattr(reply.prefill, field) if reply.prefill is not None else None
        return None if told == UNKNOWN else told

    return found


def _prefilled(reply: LessonReply) -> FactFound:
    prefill = reply.prefill
    return None if prefill is None or UNKNOWN in (prefill.tokens, prefill.reused) else prefill.tokens - prefill.reused


def _of_start(field: str) -> Callable[[LessonReply], FactFound]:
    return lambda reply: getattr(reply.start, field) if reply.start is not None else None


def _of_loop(field: str) -> Callable[[LessonReply], FactFound]:
    return lambda reply: getattr(reply.loop, field) if reply.loop is not None else None


def _distinct(n: int) -> Callable[[LessonReply], FactFound]:
    return lambda reply: reply.figures.distinct(n)


def _extreme(column: str, pick: Callable[[list[float]], float]) -> Callable[[LessonReply], FactFound]:
    def found(reply: LessonReply) -> FactFound:
        values = [value for value in reply.column(column) if not math.isnan(value)]
        return pick(values) if values else None

    return found


def _acceptance(reply: LessonReply) -> FactFound:
    drafted, accepted = reply.summed("drafted"), reply.summed("accepted")
    return accepted / drafted if drafted and accepted is not None else None


_FACTS: dict[str, Callable[[LessonReply], FactFound]] = {
    "tokens": lambda reply: len(reply.ids),
    "reply": lambda reply: reply.text,
    "message": lambda reply: reply.message,
    "ending": _of_end("reason"),
    "detail": _of_end("detail"),
    "held": _of_end("held"),
    "prefix": _of_start("prefill"),
    "seed_used": _of_start("seed"),
    "threads": _of_start("threads"),
    "exact": _of_start("exact"),
    "settings_changes": lambda reply: reply.changes(),
    "forced": lambda reply: sum(reply.chosen),
    "drawn": lambda reply: len(reply.chosen) - sum(reply.chosen),
    "perplexity": lambda reply: reply.figures.perplexity,
    "mean_logprob": lambda reply: reply.figures.mean_logprob,
    "sum_logprob": lambda reply: reply.figures.sum_logprob if reply.ids else None,
    "forced_perplexity": lambda reply: reply.perplexity(chosen=True),
    "drawn_perplexity": lambda reply: reply.perplexity(chosen=False),
    "mean_entropy": lambda reply: reply.figures.mean_entropy,
    "highest_entropy": _extreme("entropies", max),
    "lowest_model": _extreme("logprobs", lambda logprobs: math.exp(min(logprobs))),
    "highest_rank": _extreme("ranks", max),
    "greedy_share": _extreme("ranks", lambda ranks: sum(rank == 0 for rank in ranks) / len(ranks)),
    "distinct1": _distinct(1),
    "distinct2": _distinct(2),
    "distinct3": _distinct(3),
    "loops": lambda reply: reply.loop is not None if reply.ids else None,
    "loop_at": _of_loop("begin"),
    "loop_period": _of_loop("period"),
    "loop_times": _of_loop("times"),
    "prompt_tokens": _of_prefill("tokens"),
    "reused": _of_prefill("reused"),
    "prefilled": _prefilled,
    "prefill_ms": _of_prefill("ms"),
    "ttft_ms": _of_end("ttft_ms"),
    "tokens_per_second": _of_end("tokens_per_second"),
    "decode_ms": _of_end("decode_ms"),
    "drafted": lambda reply: reply.summed("drafted"),
    "accepted": lambda reply: reply.summed("accepted"),
    "rounds": lambda reply: reply.summed("rounds"),
    "acceptance": _acceptance,
    "thoughts": lambda reply: sum(thought(span.node, span.count) for span in reply.spans),
    "bent": lambda reply: constraint_cost(reply.spans),
    "constraint_used": lambda reply: any(one.constraint for span in reply.spans for one in span.node.settings),
    "valid": lambda reply: reply.valid(),
}
REPLY_FACT_NAMES = frozenset(_FACTS) | {"says", "message_says", "used"}


# --- which replies there are -------------------------------------------------------------------------------------------


def _living(conversation: Conversation, role: str) -> Iterator[Node]:
    """Nodes that a person sees, in the order in which they were made; summaries of what left the context are none."""
    summaries = {node.omitted.summary for node in conversation.nodes.values() if node.omitted is not None}
    hidden: set[int | None] = set()
    for number, node in sorted(conversation.nodes.items()):  # a parent was there before what grew from it
        if node.deleted or node.parent in hidden or number in summaries:
            hidden.add(number)
        elif node.role == role:
            yield node


def finished_replies(conversation: Conversation) -> list[Node]:
    """The nodes in which replies end that are over, in the order in which they were made; walks are none."""
    return [
        node
        for node in _living(conversation, "assistant")
        if node.finished is not None and not node.continued and node.walk is None
    ]


def answers(conversation: Conversation, node: Node, messages: Collection[str] | None) -> bool:
    """Whether the reply that a node is of answers these messages, and no others; any, where there are none."""
    return messages is None or not any(is_strange(span.node, messages) for span in conversation.path(node.number))


def is_strange(node: Node, messages: Collection[str] | None) -> bool:
    """Whether it is a message, and none of these; none is where there are none."""
    return messages is not None and node.role == "user" and node.written.strip() not in messages


def counted(conversation: Conversation, replies_of: Sequence[Node] | None = None) -> dict[str, int]:
    """How many messages, replies, forks, versions and groups there are; of replies those that `replies_of` are the ends of."""
    replies = [node for node in _living(conversation, "assistant") if node.walk is None]
    nodes = conversation.nodes
    inside = [node for node in replies if _grows_inside(nodes, node) or _has_another_first_token(conversation, node)]
    first: set[tuple[int | None, int]] = set()
    versions = 0
    for node in replies:
        place = (node.parent, node.at)
        versions += place in first
        first.add(place)
    groups = {node.group.number for node in _living(conversation, "assistant") if node.group is not None}
    return {
        "turns": sum(1 for _ in _living(conversation, "user")),
        "replies": len(finished_replies(conversation) if replies_of is None else replies_of),
        "forks": len(inside),
        "versions": versions,
        "groups": len(groups),
    }


def _grows_inside(nodes: dict[int, Node], node: Node) -> bool:
    parent = nodes[node.parent] if node.parent is not None else None
    return parent is not None and parent.role == "assistant" and node.at < parent.kept()


def _has_another_first_token(conversation: Conversation, node: Node) -> bool:
    """Whether somebody chose the first token of a reply that stands beside another."""
    prescribed = node.start is not None and node.start.prefill
    chosen = bool(len(node.tokens)) and bool(node.tokens.by_hand[0]) and not prescribed
    elder = min((one.number for one in conversation.children(node.parent)), default=node.number)
    return chosen and node.at == conversation.nodes[elder].at and elder < node.number
