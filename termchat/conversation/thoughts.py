"""What a reply thought before it answered: the two apart, and how long the thoughts took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from termchat.conversation.tree import Node, Span


class Thoughts(NamedTuple):
    """The thoughts of a reply: their tokens, tags and all (None: the engine does not tell how many), and the seconds that those
    took; the text is without the tags."""

    tokens: int | None
    seconds: float
    text: str

    def __str__(self) -> str:
        if self.tokens is None and not self.seconds:  # of an imported reply
            return "thoughts"
        if self.tokens is None:
            return f"thought for {self.seconds:.1f} s"
        return f"thought for {self.tokens:,} token{'s' if self.tokens != 1 else ''}, {self.seconds:.1f} s"


def count_thought(node: Node, count: int | None = None) -> int:
    """Return how many of a node's first `count` tokens are thoughts; None is all."""
    return min(node.tokens.thought, len(node.ids) if count is None else count)


def is_thinking(node: Node) -> bool:
    """Return whether a reply that runs is in its thoughts."""
    return not node.done and 0 < node.tokens.thought == len(node.tokens)


def thoughts_of(spans: Sequence[Span]) -> Thoughts | None:
    """Return the thoughts of a reply, given as its pieces."""
    counts = [count_thought(span.node, span.count) for span in spans]
    if not any(counts):
        return None
    pieces = [(span.node.tokens, count) for span, count in zip(spans, counts, strict=True)]
    us = sum(tokens.spent_us(0, count) for tokens, count in pieces)
    text = "".join(tokens.texts.join_texts(count) for tokens, count in pieces).strip()
    start = spans[0].node.start
    if start is not None and start.thinking:
        opening, closing = start.thinking
        text = text.removeprefix(opening).removesuffix(closing).strip()
    told = all(span.node.tokens.has_ids for span in spans)
    return Thoughts(sum(counts) if told else None, us / 1e6, text)


def answer_of(spans: Sequence[Span]) -> str:
    """Return the text of a reply behind its thoughts; all of it without thoughts."""
    text = "".join(span.node.text(span.count) for span in spans)
    thoughts = sum(span.node.tokens.texts.start(count_thought(span.node, span.count)) for span in spans)
    return text[thoughts:].lstrip() if thoughts else text
