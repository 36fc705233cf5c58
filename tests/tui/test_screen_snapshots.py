"""Pictures of the whole screen in every size, on a fake engine. After a wanted change, run them with `--snapshot-update`."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from termchat.decoding.records import Candidate, Stage
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelSpec
from termchat.tui.app import TermchatApp
from termchat.tui.transcript.view import TranscriptView
from tests.chats import chat_on, chosen
from tests.tui import fake_engine
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import Desktop, without_naps
from tests.tui.snapshots import STORY, Snapshot, pieces

MESSAGE = "Write a story about a fox and a bear."
PAGE = "ctrl+right_square_bracket"
OTHERS = (
    " hungry", " old", " tired", " kind", " clever", " slow", " big", " brown", " sleepy", " sad", " gentle", " wise",
    " quiet", " lonely", " cold", " wild", " small", " calm", " lost",
)  # fmt: skip
KEPT, HEAVIEST = 6, 40
LONG = "An-Extraordinarily-Long-Model-Name-From-A-Merge-Of-Merges-v2.1-Instruct-Uncensored-Q4_K_M"


def narrate(engine: FakeEngine, rounds: int = 1, story: str = STORY) -> None:
    """The running reply tells a story, with the numbers that a model could have: the same ones each time."""
    dice = random.Random(6)
    for at, piece in enumerate(pieces(story) * rounds):
        slope = dice.uniform(0.25, 1.6)
        logits = [18.0 - slope * rank - dice.uniform(0, 0.2) for rank in range(20)]
        total = sum(math.exp(logit - logits[0]) for logit in logits) * 1.06  # the rest of the vocabulary
        model = [math.exp(logit - logits[0]) / total for logit in logits]
        drawn = min(int(dice.expovariate(1.3)), KEPT - 1)
        names = [*OTHERS[:drawn], piece, *OTHERS[drawn:]]
        kept = sum(share**1.25 for share in model[:KEPT])
        candidates = [
            Candidate(
                at * 20 + rank, names[rank], logits[rank], math.log(share), share**1.25 / kept if rank < KEPT else 0.0,
                dice.gauss(0.5, 1.2), None if rank < KEPT else "min_p" if rank < 12 else "top_p",
            )
            for rank, share in enumerate(model)
        ]  # fmt: skip
        entropy = -sum(share * math.log2(share) for share in model)
        slow = HEAVIEST if at in (41, 97) else dice.lognormvariate(0, 0.08)
        engine.say(
            piece, id=at * 20 + drawn, rank=drawn, logit=logits[drawn], logprob=math.log(model[drawn]), entropy=entropy,
            probability=candidates[drawn].probability, candidates=candidates, p_end=0.002 * (at % 7),
            stages=[Stage("penalties", 49152, 1.0), Stage("top_k", 40, 0.943), Stage("top_p", 12, sum(model[:12]) / 0.943),
                    Stage("min_p", KEPT, sum(model[:KEPT]) / sum(model[:12])), Stage("temperature", KEPT, 1.0),
                    Stage("dice", 1, candidates[drawn].probability)],
            decode_us=int(6100 * slow), sample_us=310,
        )  # fmt: skip


async def sent(desk: Desktop, *texts: str) -> None:
    """Messages that somebody sent; to press each key would take longer than all else."""
    for text in texts:
        desk.chat.send(text)
        await desk.settle()


async def begun(desk: Desktop) -> None:
    await sent(desk, MESSAGE)
    narrate(desk.engine)
    await desk.settle()


async def streaming(desk: Desktop) -> None:
    await begun(desk)
    await desk.type("and then they")


async def tuning(desk: Desktop) -> None:
    """A knob is turned between two sentences, and another one is typed."""
    await begun(desk)
    await desk.type("", "ctrl+t", "t")
    await desk.type("1.2", "enter")
    narrate(desk.engine, story=" The bear thanked the fox, and they slept until spring.")
    await desk.settle()
    await desk.type("", "m")
    await desk.type("0.1")


async def turned_to(desk: Desktop, title: str) -> None:
    """The page of the panels with that title; where they are hidden the first key shows them."""
    while title not in desk.text:
        await desk.type("", PAGE)


async def reply(desk: Desktop) -> None:
    await sent(desk, MESSAGE)
    narrate(desk.engine, 3)
    desk.engine.end()
    await desk.settle()
    await turned_to(desk, "ENTROPY")


async def next_token(desk: Desktop) -> None:
    """The temperature is turned while the reply runs."""
    await begun(desk)
    await turned_to(desk, "LEFT AFTER")
    await desk.type("", "ctrl+t", "t")
    await desk.type("1.6", "enter")
    narrate(desk.engine)
    await desk.settle()


async def big(desk: Desktop) -> None:
    """Token mode in the big view, the cursor on the slowest token."""
    await reply(desk)
    await desk.type("", "f6", "ctrl+g", "g", "s", "s")


async def large(desk: Desktop) -> None:
    """The large view of the newest token."""
    await begun(desk)
    await desk.type("", "f6", *["tab"] * 5)


async def rolled(desk: Desktop) -> None:
    """The large view of a token in the middle of a reply, with rolls of the dice."""
    await begun(desk)
    desk.engine.end()
    await desk.settle()
    await desk.type("", "ctrl+g", "g", "s", "s", "f6")
    await desk.app.run_action("screen.roll(100, 42)")


async def cut_off(desk: Desktop) -> None:
    """Names that are too long for where they stand."""
    await begun(desk)
    await sent(desk, "a queued message that is far too long for the line it stands on " * 3)
    await sent(desk, "物語をもう一つ聞かせてください。" * 9)


async def dead(desk: Desktop) -> None:
    await begun(desk)
    await desk.type("next")
    desk.engine.die()
    await desk.settle()


async def full(desk: Desktop) -> None:
    desk.engine.prompt = [1] * 4
    for _ in range(2):
        await begun(desk)
        desk.engine.end()
        await desk.settle()
    desk.engine.prompt = [1] * 190
    await sent(desk, "And the bear?")


Scene = Callable[[Desktop], Awaitable[None]]


@pytest.mark.parametrize(
    ("scene", "size", "theme"),
    [
        (streaming, (80, 24), "light"), (streaming, (120, 40), "dark"), (streaming, (200, 60), "light"),
        (tuning, (120, 40), "light"), (tuning, (200, 60), "dark"),
        (reply, (80, 24), "dark"), (reply, (120, 40), "light"), (reply, (200, 60), "dark"),
        (next_token, (80, 24), "light"), (next_token, (120, 40), "dark"), (next_token, (200, 60), "light"),
        (big, (80, 24), "light"), (big, (120, 40), "dark"), (big, (200, 60), "light"),
        (large, (80, 24), "dark"), (large, (120, 40), "light"), (large, (200, 60), "dark"),
        (rolled, (80, 24), "light"), (rolled, (120, 40), "dark"), (rolled, (200, 60), "light"),
        (cut_off, (80, 24), "dark"), (cut_off, (120, 40), "light"),
        (dead, (80, 24), "light"), (dead, (120, 40), "dark"),
        (full, (80, 24), "dark"), (full, (200, 60), "light"),
    ],
    ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else getattr(value, "__name__", value),
)  # fmt: skip
def test_the_screen(
    snap_compare: Snapshot, monkeypatch: pytest.MonkeyPatch, scene: Scene, size: tuple[int, int], theme: str
) -> None:
    context = 200 if scene is full else 2048
    name = LONG if scene is cut_off else "SmolLM2-135M-Instruct"
    monkeypatch.setattr(fake_engine, "INFO", msgspec.structs.replace(fake_engine.INFO, name=name, context=context))
    engine = FakeEngine()
    chat = chat_on(engine, Tuning(seed=42), kept=True, on_full="ask")
    chat.conversation.title = (
        "A fox, a bear and a very long winter: 狐と熊と長い冬の物語" if scene is cut_off else "fox and bear"
    )
    app = TermchatApp(chat, chosen(ModelSpec("/tiny.gguf", name)), theme=theme)

    async def play(pilot: Pilot[None]) -> None:
        desk = Desktop(app, engine, pilot)
        await desk.settle()
        await scene(desk)
        for view in app.screen.query(TranscriptView):  # the bar stays for less than half a row, wherever it was before
            view._bar_place = (0, 0, 0)
            view._scroll()
        await desk.settle()
        for line in app.screen.query(Input):
            line.cursor_blink = False

    with without_naps():
        assert snap_compare(app, terminal_size=size, run_before=play)
