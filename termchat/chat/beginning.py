"""Where a reply begins: what is known of it before an engine is asked, for one reply as for several from the same place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from termchat.conversation.node import Node
from termchat.decoding.conditions import Condition, Length
from termchat.engine.port import Scripted

Then = Literal["go on", "wait", "end"]
"""What follows forced tokens at the begin of a reply: the dice's own, a pause, or its end."""


class ReplyBeginning(NamedTuple):
    """A new reply, or a piece of one, that grows from the first `at` ids of `parent`.

    `done` of the ids before it are the reply's own; their cells are made again in the batches in which they were made
    first, where those are known. It may have `longer` more tokens than the knob says, but no more than `limit` (0: as
    many as there is room for). The first of them are `ids`, whatever the dice say; `then` is what follows these. `prefill`
    is their text, where a person said that the reply begins with it. `remembered` is the state of the chain's stages where
    it goes on, `constraint_begun` the step of the reply with which the chat's constraint began.
    """

    parent: Node
    at: int
    seed: int
    done: int
    longer: int = 0
    limit: int = 0
    ids: Sequence[int] = ()
    then: Then = "go on"
    prefill: str = ""
    remembered: Mapping[str, float] = {}
    constraint_begun: int = 0

    @property
    def script(self) -> tuple[Scripted, ...]:
        return tuple(Scripted(self.done + number, i) for number, i in enumerate(self.ids))

    @property
    def limits(self) -> tuple[Condition, ...]:
        """What ends it beside the knobs."""
        return (Length(self.limit),) if self.limit else ()


Make = Callable[[ReplyBeginning], None]
"""Makes a reply, or several, that begin there."""
