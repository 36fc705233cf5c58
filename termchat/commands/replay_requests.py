"""What is asked of an engine so that a recorded reply, or walks that were made together, are generated again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from termchat.commands.comparison import is_cut_off, is_drafted_inexactly, is_timed, limit, wanted_candidates
from termchat.conversation.batch_shapes import shapes_of_tokens
from termchat.conversation.tree import Node
from termchat.decoding.conditions import Condition, IgnoreEnd, Length
from termchat.decoding.group import Group
from termchat.decoding.records import IN_ROUND, Record, SettingsRecord, Shape, Token
from termchat.engine.port import Generate, ReplyRequest, Scripted

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


def request_replies(prompt: Prompt, replies: Sequence[Replayed], group: Group | None = None) -> Generate:
    """Build the request for one reply, for replies that began together, or for the search that found these, the best first.

    Replies of a group have one thread, whatever the script says. A search that was cut off takes as many steps as it is told:
    with a limit it could find that it has room for all its tokens, and have other numbers.
    """
    counts = [count for reply in replies for count in reply.counts]
    search = group is not None and group.beams is not None
    first = replies[0].node
    return Generate(
        [_request_reply(prompt, reply, replies[0], search=search) for reply in (replies[:1] if search else replies)],
        group=group,
        raw=first.start is not None and first.start.raw,
        candidates=min(max(wanted_candidates(counts), 0), _CANDIDATES),
        keep_logits=False,
        exact=all(reply.node.start is not None and reply.node.start.exact for reply in replies),
    )


def _request_reply(prompt: Prompt, reply: Replayed, first: Replayed, *, search: bool) -> ReplyRequest:
    """Build the request for one of the replies; its place behind the prompt is that of the `first`."""
    return ReplyRequest(
        prompt.ids,
        reply.settings.samplers,
        reply.settings.conditions if search else reply.ends,
        reply.seed,
        number=reply.node.walk or 0,
        done=first.first.step,
        script=() if search else reply.script,
        paused=search and is_cut_off(reply.node),
        state=reply.first.state,
        constraint=reply.settings.constraint,
        constraint_begun=first.settings.constraint_begun,
        shapes=prompt.shapes,
        rebuild_exactly=bool(prompt.shapes),
    )


def _ends(settings: SettingsRecord, length: Length, *, anywhere: bool) -> tuple[Condition, ...]:
    """What can end the reply under these settings; nothing pauses it, and a time is over when it was over then. `anywhere` the
    numbers that rules look at may be others, so none ends it."""
    lasting = (c for c in settings.conditions if c.action != "pause" and not is_timed(c))
    return (*(c for c in lasting if isinstance(c, IgnoreEnd) or not anywhere), length)
