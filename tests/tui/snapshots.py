"""What the pictures of the screen have in common."""

from __future__ import annotations

from collections.abc import Callable

from termchat.decoding.records import Candidate

CANDIDATES = [
    Candidate(7, " hungry", 18.2, -1.17, 0.439, 0.31, None),
    Candidate(8, " old", 17.6, -1.77, 0.267, 2.05, None),
    Candidate(9, " tired", 15.9, -3.47, 0.0, -0.4, "min_p"),
    Candidate(10, "\n", 15.1, -4.27, 0.0, 1.2, "top_p"),
]
Snapshot = Callable[..., bool]


STORY = (
    "Once upon a time, in a forest at the edge of the sea, a fox met a bear. The bear was old and tired, and he had "
    "not eaten for three days.\n\nThe fox, who was clever but not unkind, said: come with me, I know where the salmon "
    "jump. They walked until the moon stood over the hills, and the bear told of the winters that he had slept through."
)


def pieces(text: str) -> list[str]:
    """A word a token, with the space before it; a paragraph's end is one of its own."""
    words: list[str] = []
    for line in text.split("\n\n"):
        first, *others = line.split(" ")
        words += [*(["\n\n"] if words else []), first, *(f" {word}" for word in others)]
    return [word for word in words if word]
