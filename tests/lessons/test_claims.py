"""What the lessons rely on is measured on the real model; where another model makes it false, that is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from termchat.chat.service import Chat
from termchat.decoding.samplers import Tuning
from termchat.engine.local import LocalEngine
from termchat.engine.port import ModelSpec
from termchat.lessons.lesson import Claim
from termchat.lessons.lesson_chat import MeasuredClaim, measure_claim
from termchat.lessons.lesson_file import COURSE, read_lesson
from tests import chats
from tests.fewer_blocks import without_blocks

pytestmark = pytest.mark.model

LESSONS = {lesson.id: lesson for lesson in map(read_lesson, sorted(COURSE.glob("*.toml")))}


@contextmanager
def chat_on(path: Path) -> Iterator[Chat]:
    chat = chats.chat_on(LocalEngine(), Tuning())
    try:
        chat.loading.load(ModelSpec(str(path), path.stem, context=2048, threads=1))
        pump_until(chat, lambda: chat.phase == "idle")
        yield chat
    finally:
        chat.close()


def pump_until(chat: Chat, condition: object, limit: float = 240.0) -> None:
    end = monotonic() + limit
    assert callable(condition)
    while not condition():
        assert monotonic() < end, chat.phase
        chat.pump_events(0.01)


def measured(chat: Chat, claims: tuple[Claim, ...]) -> list[MeasuredClaim]:
    return [measure_claim(chat.host, claim) for claim in claims]


@pytest.fixture(scope="module")
def real(model_path: Path) -> Iterator[Chat]:
    with chat_on(model_path) as chat:
        yield chat


@pytest.fixture(scope="module")
def other(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chat]:
    """The same model without seven of its thirty blocks: it speaks, and says other things."""
    path = without_blocks(model_path, tmp_path_factory.mktemp("other") / "other.gguf", *range(10, 17))
    with chat_on(path) as chat:
        yield chat


@pytest.mark.parametrize("name", LESSONS)
def test_what_a_lesson_says_of_the_model_is_so(real: Chat, name: str) -> None:
    wrong = [f"{found.claim.what}: {found.failed}" for found in measured(real, LESSONS[name].claims) if not found.holds]
    assert wrong == []


@pytest.mark.parametrize("name", ["softmax", "top-p", "stops", "settings"])
def test_another_model_makes_it_false_and_that_is_told(other: Chat, name: str) -> None:
    results = measured(other, LESSONS[name].claims)
    assert all(result.holds is not None for result in results)
    false = [result for result in results if not result.holds]
    assert false, "nothing depends on the model"
    assert all(result.failed for result in false), "the reason is told"


def test_what_is_cut_into_pieces_does_not_depend_on_the_weights(other: Chat) -> None:
    told = [found.holds for found in measured(other, LESSONS["tokens"].claims[:5])]
    assert told == [True] * 5
