"""The screen with an engine that tells texts alone: what it does not tell is not shown, and nothing breaks on it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from termchat.chat.service import Chat
from termchat.decoding.records import ABSENT, UNKNOWN, Candidate
from termchat.decoding.samplers import Tuning
from termchat.engine.abilities import TEXT_ONLY
from tests.chats import chat_on
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import Desktop, desktop

_TOLD = {
    "id": UNKNOWN, "position": UNKNOWN, "rank": UNKNOWN, "logit": ABSENT, "logprob": ABSENT, "probability": ABSENT,
    "entropy": ABSENT, "p_end": ABSENT, "stages": [], "candidates": [], "sample_us": 0,
}  # fmt: skip
_LISTED = [
    Candidate(UNKNOWN, text, ABSENT, logprob, ABSENT, ABSENT, None)
    for text, logprob in ((" upon", -0.5), (" more", -1.5), ("<|end|>", -2.5))
]
_SIZES = [(80, 24), (120, 40)]


def _text_only(engine: FakeEngine) -> Chat:
    engine.info = msgspec.structs.replace(engine.info, abilities=TEXT_ONLY, context=0, end_ids=[], sha256="")
    engine.offers = TEXT_ONLY.list_features()
    engine.prompt = []
    return chat_on(engine, Tuning(seed=1))


@asynccontextmanager
async def _told(size: tuple[int, int], **fields: object) -> AsyncIterator[Desktop]:
    """A desktop on which a reply is over."""
    async with desktop(size, chat=_text_only) as desk:
        desk.chat.session.kept = {}
        await desk.sent("tell me")
        for piece in ("Once", " upon", " a time.\nThe", " end"):
            desk.engine.say(piece, **(_TOLD | fields))
        desk.engine.end()
        await desk.settle()
        yield desk


def _is_honest(desk: Desktop) -> None:
    assert re.search(r"\bnan\b|(?<![\w.])-1\b|\binf\b", desk.text, re.IGNORECASE) is None, desk.text


@pytest.mark.parametrize("size", _SIZES)
@pytest.mark.parametrize(
    "fields", [{}, {"logprob": -0.5, "rank": 0, "candidates": _LISTED}], ids=["text", "candidates"]
)
async def test_no_page_look_or_key_shows_what_is_not_told(size: tuple[int, int], fields: dict[str, object]) -> None:
    async with _told(size, **fields) as desk:
        _is_honest(desk)
        for keys in (["ctrl+b"], ["ctrl+]"] * 6, ["ctrl+l"] * 7, ["ctrl+g"], ["ctrl+]"] * 6, list("esESocrjkbhlw")):
            for key in keys:
                await desk.type("", key)
                _is_honest(desk)
        await desk.type("", "escape", "escape", "ctrl+g", "f6")
        for key in ["ctrl+]"] * 6:
            await desk.type("", key)
            _is_honest(desk)


async def test_the_taken_token_is_marked_by_its_text() -> None:
    async with _told((120, 40), logprob=-0.5, rank=0, candidates=_LISTED) as desk:
        await desk.type("", "ctrl+g", "left", "left")
        rows = [line for line in desk.text.splitlines() if "●" in line]
        assert len(rows) == 1
        assert "upon" in rows[0]
        assert "60.7%" in rows[0]


async def test_the_same_text_again_and_again_is_a_loop_and_other_text_is_none() -> None:
    async with _told((120, 40)) as desk:
        assert "loop:" not in desk.text
        await desk.sent("again")
        for _ in range(40):
            desk.engine.say(" on", " and", **_TOLD)
        desk.engine.end()
        await desk.settle()
        assert 'loop: " on and" 40 times' in desk.text


async def test_the_rate_and_the_size_are_not_guessed() -> None:
    async with _told((120, 40)) as desk:
        await desk.sent("again")
        for _ in range(5):
            desk.engine.say(" on and on", **_TOLD, decode_us=20_000)
        await desk.settle()
        assert "t/s" not in desk.text
        assert "context" not in desk.text.splitlines()[0]
        desk.engine.end()
        await desk.type("how long am I?")
        assert "tokens with" not in desk.text
