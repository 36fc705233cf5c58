"""Pictures of token mode on a fake engine. After a wanted change, run them with `--snapshot-update`."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from termchat.conversation.session import Breakpoint
from termchat.decoding.conditions import Threshold
from termchat.decoding.records import Candidate
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelSpec
from termchat.tui.app import TermchatApp
from tests.chats import chat_on, chosen
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import Desktop, without_naps
from tests.tui.snapshots import CANDIDATES, STORY, Snapshot, pieces

MESSAGE = "Write a story about a fox and a bear."
SURPRISES = {"sea": (31, 0.04, 6.1), "clever": (2, 0.11, 4.4), "salmon": (5, 0.08, 5.2), "moon": (1, 0.22, 3.1)}
"""Words with the rank, the probability and the entropy of theirs; all others are about as likely as one expects."""


async def tell(desk: Desktop, text: str = STORY, since: int = 0) -> None:
    """The running reply says the story, each token with measures of its own."""
    for number, piece in enumerate(pieces(text), since):
        word = piece.strip(" ,.:\n")
        rank, probability, entropy = SURPRISES.get(word, (0, 0.45 + number * 37 % 50 / 100, number * 53 % 30 / 10))
        logprob = math.log(0.8 * probability)
        drawn = Candidate(1000 + number, piece, 18.9 - rank, logprob, probability, 1.31, None)
        candidates = sorted([drawn, *CANDIDATES], key=lambda candidate: -candidate.logit)
        desk.engine.say(
            piece, id=1000 + number, rank=rank, probability=probability, entropy=entropy, p_end=0.001 * (number % 9),
            logprob=logprob, candidates=candidates,
        )  # fmt: skip
    await desk.settle()


async def look(desk: Desktop) -> None:
    """Token mode, the cursor on a surprise in a reply that is over."""
    await tell(desk)
    desk.engine.say(
        "", id=2, bytes=b"", p_end=0.61, candidates=[Candidate(2, "<|im_end|>", 19.4, -0.49, 0.7, 0.2, None)]
    )
    desk.engine.end()
    await desk.settle()
    await desk.type("", "ctrl+g", "g", "s", "s")


async def record(desk: Desktop) -> None:
    await look(desk)


async def by_entropy(desk: Desktop) -> None:
    await look(desk)
    await desk.type("", "ctrl+l", "ctrl+l")


async def why(desk: Desktop) -> None:
    await look(desk)
    await desk.type("", "w", "space", *"kind", "enter")


async def what_if(desk: Desktop) -> None:
    await look(desk)
    await desk.type("", "v", "ctrl+t", "t", "1", "full_stop", "4", "enter", "escape")


async def ending(desk: Desktop) -> None:
    await look(desk)
    await desk.type("", "o")


async def paused(desk: Desktop) -> None:
    await tell(desk, STORY.split("\n\n")[0])
    desk.engine.wait("entropy > 3", piece=" hungry", id=7, candidates=CANDIDATES, entropy=3.42, sample_us=0)
    await desk.settle()
    await desk.type("", "ctrl+g")


async def branched(desk: Desktop) -> None:
    """Two more ways on from the surprise, the second named."""
    await look(desk)
    branches = (
        ("", 80, " hungry, learned to fish.\n\nIt took a while."),
        ("the wolf", 100, " kind, sang for the bear."),
    )
    for name, since, rest in branches:
        await desk.type("", "x")
        await tell(desk, rest, since)
        desk.engine.end("length")
        await desk.settle()
        await desk.type("", "y", *(("n",) if name else ()))
        await desk.type(name, *(("enter", "escape") if name else ("escape",)))


async def forced(desk: Desktop) -> None:
    """Other words in the place of the surprise, and what was drawn after them."""
    await look(desk)
    await desk.type("", "t", "space", *"wise, and", "enter")
    await tell(desk, " kind, sang for the bear.", 80)
    desk.engine.end()
    await desk.settle()


async def forced_as_read(desk: Desktop) -> None:
    await forced(desk)
    await desk.type("", "escape")


async def tree(desk: Desktop) -> None:
    await branched(desk)
    await desk.type("", "y", "up", "m", "down")


async def compared(desk: Desktop) -> None:
    await branched(desk)
    await desk.type("", "y", "up", "c")


async def breakpoints(desk: Desktop) -> None:
    desk.chat.set_breakpoints([Breakpoint(Threshold("rank", ">", 20.0), enabled=False)])
    await look(desk)
    await desk.type("", "b")
    await desk.type("entropy > 3", "enter")
    await desk.type("stop p_end > .9", "enter")
    await desk.type("entropy")


async def tokenizer(desk: Desktop) -> None:
    await look(desk)
    await desk.type("", "P")
    await desk.type("the bear, and 3 wolves")


Scene = Callable[[Desktop], Awaitable[None]]


@pytest.mark.parametrize(
    ("scene", "size", "theme"),
    [
        (record, (120, 40), "dark"), (record, (80, 24), "dark"), (by_entropy, (200, 60), "light"),
        (why, (120, 40), "dark"), (what_if, (120, 40), "light"), (ending, (120, 40), "dark"),
        (paused, (120, 40), "dark"), (paused, (80, 24), "light"), (tree, (120, 40), "dark"),
        (forced, (120, 40), "dark"), (forced_as_read, (80, 24), "light"),
        (compared, (80, 24), "dark"), (breakpoints, (80, 24), "dark"), (tokenizer, (80, 24), "light"),
    ],
    ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else getattr(value, "__name__", value),
)  # fmt: skip
def test_token_mode(snap_compare: Snapshot, scene: Scene, size: tuple[int, int], theme: str) -> None:
    engine = FakeEngine()
    chat = chat_on(engine, Tuning(seed=42), kept=True)
    chat.conversation.title = "fox and bear"
    app = TermchatApp(chat, chosen(ModelSpec("/tiny.gguf", "tiny")), theme=theme)

    async def play(pilot: Pilot[None]) -> None:
        desk = Desktop(app, engine, pilot)
        await desk.settle()
        await desk.type(MESSAGE, "enter")
        await scene(desk)
        for line in app.screen.query(Input):
            line.cursor_blink = False

    with without_naps():
        assert snap_compare(app, terminal_size=size, run_before=play)
