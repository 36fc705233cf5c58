"""In which batches a path's ids were decoded, so that an engine can make their cells again just as they were.

What a run of the loop says of the cache (see `Prefill`) stands on the run before it: some of its cells were kept, the rest
was decoded. So the runs are followed back, newest first, each telling of the cells that it added and the next one kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from termchat.conversation.tree import Conversation, Node


def shapes_of(conversation: Conversation, leaf: int | None = None) -> list[int] | None:
    """The batch sizes, from the first cell on, of all the path's ids that a run has decoded; None for the chat's leaf.

    They add up to the number of those cells: all ids but a reply's last token, which nobody has decoded yet, and what a
    person wrote since. A batch of which only the beginning was kept counts as that beginning. Cells that a chat took over
    from another one count as one batch, if they were within its first; where more is not known, the answer is None.
    """
    runs = [span for span in conversation.path(leaf) if span.node.prefill is not None]
    if not runs:
        return []
    node, count = runs[-1].node, runs[-1].count
    assert node.prefill is not None
    return _shapes(conversation, node, node.prefill.tokens + min(count, max(len(node.tokens) - 1, 0)))


def shapes_of_prompt(conversation: Conversation, number: int) -> list[int] | None:
    """The same for the ids before a reply that was made; they add up to the length of its prompt."""
    node = conversation.nodes[number]
    return [] if node.prefill is None else _shapes(conversation, node, node.prefill.tokens)


def _shapes(conversation: Conversation, node: Node, cells: int) -> list[int] | None:
    """The batches of the first `cells` cells that the run of `node` left in the cache."""
    if node.start is None:
        return None
    segments: list[list[int]] = []
    ids: list[int] | None = None
    shared = _shared(conversation, node)
    batch = 0
    # By numbers, which are the order of time; those of deleted branches were made too.
    for number in sorted((number for number in conversation.nodes if number <= node.number), reverse=True):
        run = conversation.nodes[number]
        if run.start is None or run.prefill is None:
            continue
        if run.start.model != node.start.model:
            break
        # Along one path the ids need no comparing, which would take time with the square of the chat.
        if shared.get(number, -1) < cells:
            ids = _cached(conversation, node) if ids is None else ids
            if _cached(conversation, run)[:cells] != ids[:cells]:
                break
        reused = run.prefill.reused
        if cells > reused:
            # The last token has a cell only where somebody stopped the reply after it was decoded.
            added = [*run.prefill.shapes, *[1] * len(run.tokens)]
            segment = list(_cut(added, cells - reused))
            if sum(segment) != cells - reused or not all(0 < size <= run.start.ubatch for size in segment):
                return None
            segments.append(segment)
            cells, batch = reused, run.start.ubatch
        if not cells:
            break
    if cells > batch:
        return None
    if cells:
        segments.append([cells])
    return [size for segment in reversed(segments) for size in segment]


def _cached(conversation: Conversation, run: Node) -> list[int]:
    return [*conversation.prompt(run.number), *run.tokens.ids] if run.start is not None else []


def _shared(conversation: Conversation, node: Node) -> dict[int, int]:
    """For the nodes before a node on its path, how many of its ids are theirs too, counted from the first."""
    found: dict[int, int] = {}
    length = 0
    for span in conversation.path(node.number):
        if span.node.whole:
            found, length = {}, 0
        length += span.count
        if span.node.start is None or not span.node.start.prompt_ids:  # else it stood on something else than its path
            found[span.node.number] = length
    return found if node.number in found else {}


def _cut(sizes: list[int], total: int) -> Iterator[int]:
    for size in sizes:
        if total <= 0:
            return
        yield min(size, total)
        total -= size
