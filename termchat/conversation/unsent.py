"""What a person has written in a chat and not sent."""

from __future__ import annotations

from collections import deque
from typing import Literal, NamedTuple

from termchat.decoding.walk_plan import ONE, WalkPlan

Then = Literal["go on", "wait", "end"]
"""What follows forced tokens at the begin of a reply: the dice's own, a pause, or its end."""


class Wish(NamedTuple):
    """How a message is to be answered.

    The replies are those of `plan`. They begin with `words`, or with what the next reply is to begin with where that is "";
    `then` follows. `unsent` is the text to give back if the message cannot be sent; None is the message itself.
    """

    plan: WalkPlan = ONE
    then: Then = "go on"
    words: str = ""
    unsent: str | None = None


ALONE = Wish()
"""One reply, as the settings say."""


class Queued(NamedTuple):
    """A message in the queue."""

    text: str
    wish: Wish = ALONE


class Unsent:
    """The texts of one chat that are in none of its turns.

    `draft` is what the composer has; `returned` could not be sent, and goes into the composer before the draft. `queue` waits
    for the reply to end, the next one to go out first; `asked` has left the queue, and its turn is not on record yet.
    """

    def __init__(self) -> None:
        self.draft = self.returned = self.asked = ""
        self.queue: deque[Queued] = deque()

    def give_back(self, *texts: str) -> None:
        self.returned = "\n".join(filter(None, (self.returned, *texts)))
        self.asked = ""

    @property
    def written(self) -> str:
        """What the composer has, and is about to have."""
        return "\n".join(filter(None, (self.returned, self.draft)))

    @property
    def waiting(self) -> list[str]:
        return [*filter(None, [self.asked]), *(message.text for message in self.queue)]
