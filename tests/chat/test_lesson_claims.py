"""Claims of lessons are measured in chats of their own on the host of another."""

from __future__ import annotations

import pytest

from termchat.decoding.samplers import Tuning
from termchat.lessons.expressions import LessonCheck
from termchat.lessons.lesson import Claim, LessonText
from termchat.lessons.lesson_chat import measure_claim
from tests.chat.driven_chat import Make

pytestmark = pytest.mark.model


def claim(*checks: str, prompt: str = "The sea is", **more: object) -> Claim:
    given = {"raw": True, "knobs": {"temperature": 0.0, "max_tokens": 8}} | more
    return Claim(LessonText("it is so"), prompt, tuple(map(LessonCheck, checks)), LessonText("it is not"), **given)  # type: ignore[arg-type]


def test_what_holds_and_what_does_not(make: Make) -> None:
    driven = make(Tuning(max_tokens=4))
    driven.idle()
    claims = [
        claim("tokens == 8", "ending == 'length'", "prompt_tokens == 3"),
        claim("tokens == 9"),
        claim("same", "not same_prompt", again=True),
        claim("position == 2", "rank == 0", at=2),
        claim("walks == 3", "distinct_walks == 1", walks=3),
        claim("walks_kind == 'vote'", "answer == ''", walks=3, vote=r"(\w+)"),
        claim("walks_kind == 'beams'", "beams_steps > 0", beams=2),
    ]
    results = [measure_claim(driven.chat.host, one) for one in claims]
    assert [result.holds for result in results] == [True, False, False, True, True, True, True]
    assert results[1].failed == "tokens == 9 (tokens is 8)"
    assert results[2].failed == "not same_prompt (same_prompt is True)"
    assert driven.chat.conversation.nodes == {}, "nobody sees any of it"
    assert driven.chat.phase == "idle"
    driven.say("Hello")
    assert len(driven.reply.tokens) == 4
