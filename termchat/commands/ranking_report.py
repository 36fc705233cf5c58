"""What `run` says of walks of which it prints only the best: why it is that one, and which were left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from termchat.conversation.tree import Node, Span
from termchat.conversation.walk_groups import walked_of
from termchat.decoding.ranking import compute_agreement, count_votes, left_out
from termchat.decoding.records import Ranking
from termchat.decoding.walk_plan import WalkPlan
from termchat.text import one_line

_LONGEST = 60
"""Cells of an answer."""


def ranking_lines(plan: WalkPlan, nodes: Mapping[int, Node], ranking: Ranking) -> Iterator[str]:
    """The report on a vote, or on the best of several; none on other kinds."""
    if plan.group.kind not in ("best", "vote"):
        return
    walked = {walk: walked_of(walk, [Span(node, len(node.ids))]) for walk, node in nodes.items()}
    counted = count_votes(ranking, {walk: one.text for walk, one in walked.items()})
    missing = left_out(ranking)
    if plan.group.kind == "vote":
        votes, share = sum(each.votes for each in counted), compute_agreement(counted)
        for each in counted:
            percent = f" ({share:.0%})" if each is counted[0] and share is not None else ""
            yield f"{one_line(each.text, _LONGEST)}: {each.votes} of {votes} votes{percent}, {walks_named(each.walks)}"
    elif counted:
        best, start = ranking.walks[0], nodes[ranking.walks[0].walk].start
        what = "mean logprob" if plan.group.length_penalty == 1 else "score"
        seed = f", seed {start.seed}" if start is not None else ""
        same = [walk for walk in counted[0].walks if walk != best.walk]
        equal = f"; {walks_named(same)} {'is' if len(same) == 1 else 'are'} equal to it" if same else ""
        yield f"walk {best.walk + 1} of {plan.group.size}{seed}: {what} {best.score:.3f}{equal}"
        if not any(one.is_finished for one in walked.values()):
            yield "no walk ended by itself, so all are compared as they are"
    yield from _left_out([walk for walk in missing if not walked[walk].is_finished], "did not end by {itself}")
    yield from _left_out([walk for walk in missing if walked[walk].is_finished], "{has} no answer")


def _left_out(walks: Sequence[int], why: str) -> Iterator[str]:
    if walks:
        alone = len(walks) == 1
        told = why.format(itself="itself" if alone else "themselves", has="has" if alone else "have")
        yield f"left out: {walks_named(walks)} {told}"


def walks_named(walks: Sequence[int]) -> str:
    """How walks are named for people, who count from 1."""
    return f"walk{'' if len(walks) == 1 else 's'} {', '.join(str(walk + 1) for walk in sorted(walks))}"
