"""What the composer offers while a person writes: each kind of completion is a source of its own."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Offer(NamedTuple):
    """One thing that can be put in: the `text` itself, and a word on what it is. Both may be foreign; who draws sanitises."""

    text: str
    help: str = ""


class Completion(NamedTuple):
    """What could stand in place of `line[start:column]`, the best first."""

    start: int
    offers: tuple[Offer, ...]


class Source(Protocol):
    """Knows one kind of thing that can be completed: paths behind @, commands behind /."""

    def complete(self, line: str, column: int, *, first: bool) -> Completion | None:
        """What fits before the cursor, which stands at `column` of this line; None where this source has nothing to say.

        `first`: it is the first line of the message. Called at every key, in the event loop: it takes a millisecond at most.
        """
        ...
