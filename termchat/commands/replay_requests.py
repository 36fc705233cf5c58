"""What is asked of an engine so that a recorded reply, or walks that were made together, are generated again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from termchat.commands.comparison import is_cut_off, is_drafted_inexactly, is_timed, limit, wanted_candidates
from termchat.conversation.batch_shapes import shapes_of_tokens
from termchat.conversation.tree import Node
from termchat.decoding.conditions import Condition, IgnoreEnd, Length
from termchat.decoding.group import Group
from termchat.decoding.records import IN_ROUND, Record, SettingsRecord, Shape, Token
from termchat.engine.port import Generate, GenerateWalks, Scripted, SearchBeams, Walk

_CANDIDATES = 1000
"""Candidates requested at most, as in `termchat run`."""


class Prompt(NamedTuple):
    """What stands before replies, and in which shapes it was decoded, as far as that is known."""

    ids: list[int]
    shapes: list[Shape]


class Replayed(NamedTuple):
    """A recorded reply, and how it goes again: the settings that it begins with, what ends it, and a script of what was steered
    while it ran: knobs, stops, threads and forced tokens. `counts` are each token's candidates and its rank."""

    node: Node
    first: Token
    settings: SettingsRecord
    ends: tuple[Condition, ...]
    script: tuple[Scripted, ...]
    counts: list[tuple[int, int]]

    @property
    def seed(self) -> int:
        return self.node.start.seed if self.node.start is not None else 0


def replayed(
    node: Node, first: Token, records: Iterable[Record], fixed_threads: int = 0, *, anywhere: bool = False
) -> Replayed:
    """How a reply with tokens and settings goes again: with so many threads, whatever is on record, if that is not 0.

    `anywhere`: the engine chooses the threads, what was drawn is pinned, and only the number of tokens ends the reply.
    """
    length = Length(first.step + len(node.tokens)) if anywhere else limit(node, first.step)
    begun = node.settings[0]
    used = 0 if anywhere or node.start is None else fixed_threads or node.start.threads
    # Threads named in a script are fixed: the engine does not reduce them on a busy machine.
    script = [Scripted(first.step, threads=used)]
    counts: list[tuple[int, int]] = []
    step, recorded = first.step, used
    rounds = [] if anywhere or fixed_threads or not is_drafted_inexactly(node) else shapes_of_tokens(node)
    for record in records:
        if isinstance(record, SettingsRecord) and record.number != begun.number:
            ends = _ends(record, length, anywhere=anywhere)
            threads = 0 if anywhere else fixed_threads or record.threads
            script.append(
                Scripted(step, samplers=record.samplers, conditions=ends, threads=threads, constraint=record.constraint)
            )
            used = recorded = threads or used
        elif isinstance(record, Token):
            if rounds:
                # Decoded alone, with one thread, it has the bits of a row of a round.
                threads = 1 if rounds[record.step - first.step].threads == IN_ROUND else recorded
                if threads != used:
                    script.append(Scripted(record.step, threads=threads))
                    used = threads
            if record.forced or anywhere:
                pinned = None if record.forced else bool(record.near_tie)
                script.append(Scripted(record.step, id=record.id, pinned=pinned))
            counts.append((len(record.candidates), record.rank))
            step = record.step + 1
    return Replayed(node, first, begun, _ends(begun, length, anywhere=anywhere), tuple(script), counts)


def alone(prompt: Prompt, reply: Replayed) -> Generate:
    """One reply by itself."""
    return Generate(
        **_begun(prompt, [reply]),
        samplers=reply.settings.samplers,
        conditions=reply.ends,
        seed=reply.seed,
        script=reply.script,
        keep_logits=False,
        state=reply.first.state,
        constraint=reply.settings.constraint,
    )


def together(prompt: Prompt, replies: Sequence[Replayed], group: Group) -> GenerateWalks:
    """Walks that began together, in one batch; each has one thread, whatever the script says."""
    walks = [
        Walk(
            reply.node.walk or 0,
            reply.settings.samplers,
            reply.ends,
            reply.seed,
            script=reply.script,
            constraint=reply.settings.constraint,
            state=reply.first.state,
        )
        for reply in replies
    ]
    exact = all(reply.node.start is not None and reply.node.start.exact for reply in replies)
    return GenerateWalks(**_begun(prompt, replies), walks=walks, group=group, exact=exact)


def search(prompt: Prompt, replies: Sequence[Replayed], group: Group) -> SearchBeams:
    """The search that found these replies, the first of them the best. One that was cut off takes as
    many steps as it is told: with a limit it could find that it has room for all its tokens, and have other numbers."""
    best = replies[0]
    return SearchBeams(
        **_begun(prompt, replies),
        samplers=best.settings.samplers,
        conditions=best.settings.conditions,
        seed=best.seed,
        group=group,
        paused=is_cut_off(best.node),
        state=best.first.state,
        constraint=best.settings.constraint,
    )


def _begun(prompt: Prompt, replies: Sequence[Replayed]) -> dict[str, Any]:
    """The fields that all three have."""
    first = replies[0]
    counts = [count for reply in replies for count in reply.counts]
    return {
        "ids": prompt.ids,
        "shapes": prompt.shapes,
        "rebuild_exactly": bool(prompt.shapes),
        "done": first.first.step,
        "raw": first.node.start is not None and first.node.start.raw,
        "candidates": min(max(wanted_candidates(counts), 0), _CANDIDATES),
        "constraint_begun": first.settings.constraint_begun,
    }


def _ends(settings: SettingsRecord, length: Length, *, anywhere: bool) -> tuple[Condition, ...]:
    """What can end the reply under these settings; nothing pauses it, and a time is over when it was over then. `anywhere` the
    numbers that rules look at may be others, so none ends it."""
    lasting = (c for c in settings.conditions if c.action != "pause" and not is_timed(c))
    return (*(c for c in lasting if isinstance(c, IgnoreEnd) or not anywhere), length)
