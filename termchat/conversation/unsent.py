"""What a person has written in a chat and not sent."""

from __future__ import annotations

from collections import deque


class Unsent:
    """The texts of one chat that are in none of its turns.

    `draft` is what the composer has; `returned` could not be sent, and goes into the composer before the draft. `queue` waits
    for the reply to end, the next one to go out first; `asked` has left the queue, and its turn is not on record yet.
    """

    def __init__(self) -> None:
        self.draft = self.returned = self.asked = ""
        self.queue: deque[str] = deque()

    def give_back(self, *texts: str) -> None:
        self.returned = "\n".join(filter(None, (self.returned, *texts)))
        self.asked = ""

    @property
    def written(self) -> str:
        """What the composer has, and is about to have."""
        return "\n".join(filter(None, (self.returned, self.draft)))

    @property
    def waiting(self) -> list[str]:
        return [*filter(None, [self.asked]), *self.queue]
