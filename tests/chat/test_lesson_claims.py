"""Claims of lessons are measured beside the chat, on its engine, and kept by model."""

from __future__ import annotations

from pathlib import Path

import pytest

from termchat.decoding.samplers import Tuning
from termchat.lessons.lesson import Claim, LessonText
from termchat.lessons.expressions import parse_check
from termchat.lessons.lesson_claims import ClaimMeasuring, ClaimResults, claim_key
from tests.chat.driven_chat import Driven, Make

pytestmark = pytest.mark.model


def claim(*checks: str, prompt: str = "The sea is", **more: object) -> Claim:
    given = {"raw": True, "knobs": {"temperature": 0.0, "max_tokens": 8}} | more
    return Claim(LessonText("it is so"), prompt, tuple(map(parse_check, checks)), LessonText("it is not"), **given)  # type: ignore[arg-type]


def measured(driven: Driven, *claims: Claim, known: ClaimResults | None = None) -> ClaimMeasuring:
    measuring = ClaimMeasuring(driven.chat, claims, known)
    driven.until(lambda: (measuring.pump(), measuring.done)[1])
    return measuring


def test_what_holds_and_what_does_not(make: Make) -> None:
    driven = make(Tuning(max_tokens=4))
    measuring = measured(
        driven,
        claim("tokens == 8", "ending == 'length'", "prompt_tokens == 3"),
        claim("tokens == 9"),
        claim("same", "not same_prompt", again=True),
        claim("position == 2", "rank == 0", at=2),
        claim("walks == 3", "distinct_walks == 1", walks=3),
        claim("walks_kind == 'vote'", "answer == ''", walks=3, vote=r"(\w+)"),
        claim("walks_kind == 'beams'", "beams_steps > 0", beams=2),
    )  # fmt: skip
    assert [result.holds for result in measuring.results] == [True, False, False, True, True, True, True]
    assert measuring.results[1].failed == "tokens == 9 (tokens is 8)"
    assert measuring.results[2].failed == "not same_prompt (same_prompt is True)"
    assert len(measuring.otherwise) == 2
    assert driven.chat.conversation.nodes == {}, "nobody sees any of it"
    assert driven.chat.phase == "idle"
    driven.say("Hello")
    assert len(driven.reply.tokens) == 4


def test_the_chat_may_be_used_meanwhile(make: Make) -> None:
    driven = make(Tuning(max_tokens=4))
    driven.idle()
    measuring = ClaimMeasuring(driven.chat, [claim("tokens == 60", knobs={"temperature": 0.0, "max_tokens": 60})])
    measuring.pump()
    driven.say("Hello")
    assert len(driven.reply.tokens) == 4
    driven.until(lambda: (measuring.pump(), measuring.done)[1])
    assert measuring.results[0].holds
    other = ClaimMeasuring(driven.chat, [claim("loops", knobs={"temperature": 0.0, "max_tokens": 2000})])
    other.pump()
    other.cancel()
    driven.say("Hello again")
    assert driven.chat.phase == "idle"
    assert other.results == []


def test_results_are_kept_by_model(make: Make, tmp_path: Path) -> None:
    known, one = ClaimResults(tmp_path / "a" / "claims.json"), claim("tokens == 9")
    driven = make(Tuning())
    assert [result.holds for result in measured(driven, one, known=known).results] == [False]
    assert known.known(driven.chat.host.loaded) == {claim_key(one): False}
    assert known.known("another model") == {}
    again = ClaimMeasuring(driven.chat, [one], ClaimResults(tmp_path / "a" / "claims.json"))
    assert again.pump()
    assert again.done, "at once: nothing is made"
    assert again.otherwise == [one]


def test_a_claim_is_known_by_what_is_measured() -> None:
    one = claim("tokens == 9")
    assert claim_key(one) == claim_key(one._replace(otherwise=LessonText("in other words"), step=2))
    assert claim_key(one) != claim_key(claim("tokens == 8"))
    assert claim_key(one) != claim_key(claim("tokens == 9", prompt="The sea"))
    assert claim_key(one) != claim_key(claim("tokens == 9", knobs={"temperature": 0.1, "max_tokens": 8}))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 1, "models": 3}', b'{"version": 9, "models": {}}'])
def test_an_unreadable_file_of_results_is_measured_anew(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "claims.json"
    file.write_bytes(content)
    results = ClaimResults(file)
    assert results.known("m") == {}
    results.keep("m", {"a": True})
    assert results.known("m") == {"a": True}
