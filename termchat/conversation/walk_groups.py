"""The groups of a conversation: replies that were made together from one prompt, by the number of their group and their walk.

Nothing but the replies' own Start says that there is a group. Its walks grow from one place of the tree, or, where one began as
a fork of another, from that one's tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from termchat.conversation.thoughts import answer_of
from termchat.conversation.tree import Conversation, Node, Span
from termchat.decoding.answers import AnswerError
from termchat.decoding.group import Group, GroupKind
from termchat.decoding.ranking import Walked, rank_best, rank_votes
from termchat.decoding.records import Beam, Beams, Ranked, Ranking

RANKED: tuple[GroupKind, ...] = ("best", "vote", "beams")
"""Groups that are made for their best walk; the others keep their order."""


def groups_of(conversation: Conversation) -> dict[int, dict[int, Node]]:
    """Collect the living replies of each group by number, in order; the groups oldest first."""
    found: dict[int, dict[int, Node]] = {}
    hidden: set[int | None] = set()
    for number, node in sorted(conversation.nodes.items()):  # a parent was there before what grew from it
        if node.deleted or node.parent in hidden:
            hidden.add(number)
        elif node.group is not None and node.walk is not None:
            found.setdefault(node.group.number, {}).setdefault(node.walk, node)
    return {number: dict(sorted(walks.items())) for number, walks in found.items()}


def origin_of(walks: Mapping[int, Node]) -> tuple[int | None, int]:
    """Return the node that a group's walks grow from, and at which of its ids."""
    own = {node.number for node in walks.values()}
    return next((node.parent, node.at) for node in walks.values() if node.parent not in own)


def ranking_of(
    walks: Mapping[int, Sequence[Span]], group: Group, refused: Callable[[AnswerError], object] = lambda _: None
) -> Ranking:
    """Return the walks of a group by number, each given as its spans since the place from which all grow.

    A vote is ranked by votes, a search with beams by their scores, everything else by mean logprob (see
    `decoding.ranking`, for `refused`, too).
    """
    walked = [walked_of(walk, spans) for walk, spans in walks.items()]
    if group.kind == "vote":
        return rank_votes(walked, group.answer, refused)
    if group.beams is not None:  # the engine numbers what it found from the best on
        steps = walks[0][-1].node.beams if walks.get(0) else []
        return Ranking([_rank_beam(one, walks[one.walk], steps) for one in sorted(walked)])
    return rank_best(walked, group.length_penalty)


def walked_of(walk: int, spans: Sequence[Span]) -> Walked:
    """Return a reply as it is ranked."""
    counts = [(span.node, span.count) for span in spans]
    end = counts[-1][0].finished if counts else None
    total = sum(sum(node.tokens.logprobs[:count]) for node, count in counts)
    tokens = sum(count for _, count in counts)
    return Walked(walk, answer_of(spans), tokens, total if math.isfinite(total) else None, end.reason if end else None)


def ids_of_beam(steps: Sequence[Beams], beam: Beam, at: int) -> list[int]:
    """Return the tokens of a beam of step `at` of a search."""
    ids = [beam.id]
    for step in reversed(steps[:at]):
        before = next((one for one in step.beams if one.walk == beam.parent), None)
        if before is None:
            break
        beam = before
        ids.append(beam.id)
    return ids[::-1]


def _rank_beam(walked: Walked, spans: Sequence[Span], steps: Sequence[Beams]) -> Ranked:
    """Return a beam with the score that it had in the search."""
    ids = [i for span in spans for i in span.node.ids[: span.count]]
    last = steps[len(ids) - 1].beams if 0 < len(ids) <= len(steps) else []
    beam = next((beam for beam in last if beam.id == ids[-1] and ids_of_beam(steps, beam, len(ids) - 1) == ids), None)
    return Ranked(walked.walk, beam.score if beam is not None else None, walked.mean_logprob, walked.tokens)
