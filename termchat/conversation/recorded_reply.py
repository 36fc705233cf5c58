"""A reply as it is on record, in one piece: each of its steps with what it was drawn from and with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from termchat.conversation.batch_shapes import shapes_of_prompt, shapes_of_tokens
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import UNKNOWN, Finished, SettingsRecord, Shape, Start, Token

TokenSource = Callable[[Node, int], Token | None]
"""The record of a node's token, with its candidates; None where there is none."""


class ReplyPiece(NamedTuple):
    """The first `length` tokens of a node, and what stood before them: the ids, and the shapes in which those were decoded
    (None: not known)."""

    node: Node
    length: int
    prompt: Sequence[int]
    shapes: Sequence[Shape] | None


class RecordedStep(NamedTuple):
    """A step of a reply. `id` is None behind its last token, `token` where the record is not there.

    `context` are all ids before it, `shapes` how those were decoded. Of a token without an id `said` is the text, and there is
    no `token` then, from which anything could be drawn again.
    """

    id: int | None
    start: Start | None
    settings: SettingsRecord | None
    context: Sequence[int]
    shapes: Sequence[Shape] | None
    forced: bool
    prescribed: bool
    token: Token | None
    said: str = ""


class RecordedReply:
    def __init__(self, pieces: Sequence[ReplyPiece], token: TokenSource) -> None:
        self._pieces, self._token = [piece for piece in pieces if piece.length] or list(pieces), token
        self.ids = [i for piece in self._pieces for i in piece.node.tokens.list_signs(0, piece.length)]
        self.texts = [text for piece in self._pieces for text in list(piece.node.tokens.texts)[: piece.length]]

    @property
    def start(self) -> Start | None:
        return self._pieces[-1].node.start

    @property
    def finished(self) -> Finished | None:
        """None where it was left in its middle, too."""
        last = self._pieces[-1]
        return last.node.finished if last.length == len(last.node.ids) else None

    def iterate_settings(self) -> Iterator[SettingsRecord | None]:
        """Yield the settings of each token, and of the one that would follow."""
        for piece in self._pieces:
            yield from (piece.node.settings_before(index) for index in range(piece.length))
        yield self._pieces[-1].node.settings_before(self._pieces[-1].length)

    def iterate_numbers(self) -> Iterator[tuple[float, float]]:
        """Yield of each token its logit, or its log-probability if only that is known, and the entropy; 0 for unknown."""
        for node, length in (piece[:2] for piece in self._pieces):
            tokens = node.tokens
            for numbers in zip(
                tokens.logits[:length], tokens.logprobs[:length], tokens.entropies[:length], strict=True
            ):
                logit, logprob, entropy = (0.0 if math.isnan(number) else number for number in numbers)
                yield logit or logprob, entropy

    def step(self, index: int) -> RecordedStep:
        """Step `index`, as far as one behind the last token."""
        piece, at = self._pieces[0], index
        for piece in self._pieces:
            if at < piece.length or piece is self._pieces[-1]:
                break
            at -= piece.length
        node = piece.node
        decoded = shapes_of_tokens(node)[:at]
        there = at < piece.length
        nameless = there and node.ids[at] == UNKNOWN
        return RecordedStep(
            node.tokens.list_signs(at, at + 1)[0] if there else None,
            node.start,
            node.settings_before(at),
            [*piece.prompt, *node.ids[:at]],
            None if piece.shapes is None else [*piece.shapes, *decoded],
            there and bool(node.tokens.forced[at]),
            there and node.start is not None and bool(node.start.prefill),
            self._token(node, at) if there and not nameless else None,
            node.tokens[at].bytes.decode("utf-8", "replace") if nameless else "",
        )


def reply_on_record(conversation: Conversation, end: int, token: TokenSource) -> RecordedReply:
    """Return the reply that ends in a node."""
    spans = [(span.node, span.count, span.node.number) for span in conversation.find_reply(end)]
    pieces = [
        ReplyPiece(node, count, conversation.list_prompt(number), shapes_of_prompt(conversation, number))
        for node, count, number in spans
    ]
    return RecordedReply(pieces, token)
