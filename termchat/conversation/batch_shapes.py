"""In which shapes a path's ids were decoded, so that an engine can make their cells again just as they were.

What a run of the loop says of the cache (see `Prefill`) stands on the run before it: some of its cells were kept, the rest
was decoded. So the runs are followed back, newest first, each telling of the cells that it added and the next one kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import IN_ROUND, Prefill, Shape, Start


def shapes_of(conversation: Conversation, leaf: int | None = None, kv_type: str = "") -> list[Shape] | None:
    """Return the shapes, from the first cell on, of all the path's ids that a run has decoded; None for the chat's leaf.

    Their rows add up to the number of those cells: all ids but a reply's last token, which nobody has decoded yet, and what a
    person wrote since. A batch of which only the beginning was kept counts as that beginning; with one row left it gives the
    bits of one thread. Cells that a chat took over from another one count as one batch, if they were within its first; where
    more is not known, the answer is None. So it is where the cells were not of the `kv_type` that is asked for.
    """
    runs = [span for span in conversation.find_path(leaf) if span.node.prefill is not None]
    if not runs:
        return []
    node, count = runs[-1].node, runs[-1].count
    assert node.prefill is not None
    if kv_type and node.start is not None and node.start.kv_type != kv_type:
        return None
    return _follow_runs(conversation, node, node.prefill.tokens + min(count, max(len(node.tokens) - 1, 0)))


def shapes_of_prompt(conversation: Conversation, number: int) -> list[Shape] | None:
    """Return the shapes of the ids before a reply; their rows add up to the length of its prompt."""
    node = conversation.nodes[number]
    return [] if node.prefill is None else _follow_runs(conversation, node, node.prefill.tokens)


def _follow_runs(conversation: Conversation, node: Node, cells: int) -> list[Shape] | None:
    """Return the shapes of the first `cells` cells that the run of `node` left in the cache."""
    if node.start is None:
        return None
    segments: list[list[Shape]] = []
    ids: array[int] | None = None
    shared = _count_shared(conversation, node)
    batch = 0
    told = {run.group.number for number in shared if (run := conversation.nodes[number]).group is not None}
    # By numbers, which are the order of time; those of deleted branches were made too.
    for number in sorted((number for number in conversation.nodes if number <= node.number), reverse=True):
        run = conversation.nodes[number]
        if (start := run.start) is None or (prefill := run.prefill) is None:
            continue
        runs = [run]
        if run.group is not None and number not in shared:
            # Its walks began with the same cells, and a kept one took its own along: one of them says it all.
            if run.group.number in told:
                continue
            told.add(run.group.number)
            runs = _find_walks(conversation, run.group.number, number)
        if start.model != node.start.model:
            break
        # Along one path the ids need no comparing, which would take time with the square of the chat.
        if shared.get(number, -1) < cells:
            ids = _cached_ids(conversation, node) if ids is None else ids
            alike = (each for each in runs if _cached_ids(conversation, each)[:cells] == ids[:cells])
            if (found := next(alike, None)) is None:
                break
            run = found
        reused = prefill.reused
        if cells > reused:
            segment = list(_cut_shapes(_added_shapes(run, start, prefill), cells - reused))
            rows = [shape.rows for shape in segment]
            if sum(rows) != cells - reused or not all(0 < count <= start.ubatch for count in rows):
                return None
            segments.append(segment)
            cells, batch = reused, start.ubatch
        if not cells:
            break
    if cells > batch:
        return None
    if cells:
        segments.append([Shape(cells)])
    return [shape for segment in reversed(segments) for shape in segment]


def _find_walks(conversation: Conversation, group: int, newest: int) -> list[Node]:
    """Return the walks of a group up to a node; their prompt was decoded once."""
    nodes = (node for number, node in conversation.nodes.items() if number <= newest)
    return [node for node in nodes if node.group is not None and node.group.number == group]


def _cached_ids(conversation: Conversation, run: Node) -> array[int]:
    try:
        return conversation.list_cells(run.number) if run.start is not None else array("i")
    except OverflowError:  # one of them is no token's
        return array("i")


def _count_shared(conversation: Conversation, node: Node) -> dict[int, int]:
    """Count, for the nodes before a node on its path, how many of its first ids they share."""
    found: dict[int, int] = {}
    length = 0
    for span in conversation.find_path(node.number):
        if span.node.whole:
            found, length = {}, 0
        length += span.count
        if span.node.start is None or not span.node.start.prompt_ids:  # else it stood on something else than its path
            found[span.node.number] = length
    return found if node.number in found else {}


def _added_shapes(run: Node, start: Start, prefill: Prefill) -> Iterator[Shape]:
    """Yield what a run decoded: the prompt, then its tokens. The last has a cell only if the reply was stopped after that."""
    threads = prefill.threads or [start.threads] * len(prefill.shapes)
    yield from map(Shape, prefill.shapes, threads)
    yield from shapes_of_tokens(run)


def shapes_of_tokens(run: Node) -> list[Shape]:
    """Return the shape in which each token of a run was decoded. All rows of an exact run have the bits that they have alone.
    Else those of a round of drafting do not: the newest token, and the drafted ones that were accepted."""
    tokens, drafts = run.tokens, run.tokens.drafts
    used = {record.number: record.threads for record in run.settings}
    shapes = [Shape(1, used.get(number, 0)) for number in tokens.settings]
    if drafts is None or run.start is None or run.start.exact:
        return shapes
    if shapes:  # where the reply was stopped there may have been a round that nothing was taken from
        shapes[-1] = Shape(1)
    for begin, accepted in zip(drafts.begins, drafts.accepted, strict=True):
        for at in range(max(begin - 1, 0), min(begin + accepted, len(shapes))):
            shapes[at] = Shape(1, IN_ROUND)
    return shapes


def _cut_shapes(shapes: Iterable[Shape], total: int) -> Iterator[Shape]:
    """Yield the first shapes that have `total` rows together."""
    for shape in shapes:
        if total <= 0:
            return
        yield shape if shape.rows <= total else Shape(total, 1 if total == 1 else shape.threads)
        total -= shape.rows
