"""The walks view on a fake engine: a group of walks that has begun to part."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

from termchat.decoding import walk_plan
from termchat.decoding.walk_plan import WalkPlan
from termchat.tui.screen import walks_view
from termchat.tui.screen.walks_view import WalksView
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import Desktop, desktop

PROMPT = "What is the best thing about the sea?"
SHARED = ("The", " best", " thing", " about", " the", " sea", " is")
ENDINGS = (
    " its vastness , and the way the light plays on the waves .",
    " its vastness . You can look out and see nothing but water .",
    " the sound of waves on the shore at night .",
    " that nobody owns it , and that it is always there .",
)
_FIRST = 5000


def say(engine: FakeEngine, walk: int, *words: str) -> None:
    """The walk says the words, each a token of the same id wherever it stands, and of its own numbers."""
    for at, word in enumerate(words):
        number = engine.words.ids(word)[0]
        engine.say(
            word, walk=walk, id=number, logprob=-0.02 - 0.11 * (number % 13), probability=0.9 - 0.06 * (number % 14),
            entropy=0.5 + 0.3 * ((number + at) % 11), decode_us=20_000, sample_us=400,
        )  # fmt: skip


def speak(engine: FakeEngine, walks: int) -> None:
    """All walks say how they begin, and then what is their own."""
    for walk in range(walks):
        ending = ENDINGS[walk % len(ENDINGS)].split(" ")[1:]
        own = [f" {word}" if word not in ",." else word for word in ending]
        say(engine, walk, *SHARED, *own[: 4 + 3 * walk] if walk < len(ENDINGS) else own[: walk % 9 + 1])


async def walk(desk: Desktop, plan: WalkPlan, text: str = PROMPT) -> None:
    """A message whose reply is walked, as far as `speak` goes."""
    desk.chat.walks.start(plan, text=text)
    await desk.settle()
    speak(desk.engine, plan.group.size)
    await desk.settle()


@asynccontextmanager
async def walking(
    walks: int = 4, size: tuple[int, int] = (120, 40), *, plan: WalkPlan | None = None, **options: object
) -> AsyncIterator[Desktop]:
    """The app with so many walks, which run."""
    async with desktop(size, **options) as desk:  # type: ignore[arg-type]
        with patch.object(walks_view, "SELDOM", 0.0):
            await walk(desk, plan or walk_plan.walks(walks))
            yield desk


def view(desk: Desktop) -> WalksView:
    return desk.app.query_one(WalksView)
