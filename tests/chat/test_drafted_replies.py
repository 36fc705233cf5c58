"""Everything that can be done to a reply is done to drafted ones, on the real engine: cut, drawn again, continued in another
process, paused within a round, forced, and asked about."""

from __future__ import annotations

from pathlib import Path

import pytest

from termchat.chat.opening import load_latest
from termchat.config.settings import load
from termchat.conversation.node import Node
from termchat.conversation.session import Breakpoint
from termchat.conversation.store.store import Store
from termchat.decoding import conditions
from termchat.decoding.samplers import Tuning
from tests.chat.driven_chat import Driven, Make
from tests.made_drafts import rounds_of

QUOTING = (
    "Repeat this text: The lighthouse keeper wrote in his journal every night, describing the waves, the wind and the ships"
    " that passed far away in the dark."
)
DRAFTED = Tuning(temperature=0.3, seed=5, max_tokens=30, draft="ngram", draft_always=1)
PLAIN = Tuning(temperature=0.3, seed=5, max_tokens=30)


def reopened(make: Make, path: Path) -> Driven:
    """The chat in another process, with the model loaded again."""
    found = load_latest(Store.open(path), load({}, environ={}, file=path.parent / "none.toml"))
    assert found is not None
    driven = make(found.tuning, session=found)
    driven.idle()
    return driven


def numbers(reply: Node, begin: int = 0) -> list[tuple[int, float, float]]:
    tokens = reply.tokens
    return list(zip(reply.ids, tokens.logprobs, tokens.probabilities, strict=True))[begin:]


def middle_of_a_round(reply: Node) -> int:
    """A token within the longest round, neither its first nor its last."""
    longest = max(rounds_of(reply.tokens), key=lambda made: made.tokens)
    assert longest.tokens > 2
    return longest.begin + longest.tokens // 2


def test_a_reply_that_is_cut_within_a_round_goes_on_the_same_here_and_in_another_process(
    make: Make, tmp_path: Path
) -> None:
    plain = make(PLAIN).say(QUOTING)
    store = Store.open(tmp_path / "s.db")
    it = make(DRAFTED, store=store)
    reply = it.say(QUOTING)
    assert numbers(reply) == numbers(plain)
    at = middle_of_a_round(reply)
    it.chat.forks.fork_reply(reply, at)
    it.idle()
    assert numbers(it.reply) == numbers(plain, at)
    assert it.reply.prefill is not None
    assert it.reply.prefill.reused >= it.reply.prefill.tokens - 1
    kept = [reply.tokens.find_draft(index) for index in range(len(reply.tokens))]
    it.chat.close()
    store.close()

    again = reopened(make, tmp_path / "s.db")
    found = again.chat.conversation.nodes[reply.number]
    assert [found.tokens.find_draft(index) for index in range(len(found.tokens))] == kept
    again.chat.forks.fork_reply(found, at + 1)
    again.idle()
    assert numbers(again.reply) == numbers(plain, at + 1)
    assert again.reply.start is not None
    assert again.reply.start.exact
    assert again.chat.tuning.draft == "ngram"


def test_a_reply_stopped_within_a_round_is_continued_as_if_it_had_not_been(make: Make) -> None:
    plain = make(PLAIN).say(QUOTING)
    it = make(DRAFTED)
    first = it.stepped(QUOTING, 12)
    it.chat.stop()
    it.idle()
    assert len(first.ids) < len(plain.ids)
    it.chat.forks.continue_reply()
    it.idle()
    assert [*numbers(first), *numbers(it.reply)] == numbers(plain)
    it.chat.forks.regenerate()
    it.idle()
    assert list(it.reply.tokens.texts)


def test_breakpoints_steps_and_forced_tokens_are_the_same_with_drafts(make: Make) -> None:
    replies = []
    for tuning in (PLAIN, DRAFTED):
        it = make(tuning)
        reply = it.stepped(QUOTING, 12)
        it.chat.set_breakpoints([Breakpoint(conditions.parse("every 4"))])
        it.chat.replies.resume()
        it.until(lambda: it.chat.phase == "paused" and len(reply.tokens) > 12)  # noqa: B023
        taken = len(reply.tokens)
        it.chat.replies.force_text(" purple")
        it.until(lambda: len(reply.tokens) > taken and it.chat.phase == "paused")  # noqa: B023
        it.chat.set_breakpoints([])
        it.chat.replies.resume()
        it.idle()
        replies.append(reply)
    assert list(replies[0].tokens.forced) == list(replies[1].tokens.forced)
    assert sum(replies[0].tokens.forced)
    assert numbers(replies[1]) == numbers(replies[0])
    assert replies[1].finished is not None
    assert replies[1].finished.drafted


def test_questions_about_a_drafted_reply_agree_with_what_was_drawn(make: Make, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s.db")
    it = make(DRAFTED, store=store)
    reply = it.say(QUOTING)
    at, questions = middle_of_a_round(reply), it.chat.questions
    questions.score_reply(reply)
    it.until(lambda: questions.scored)
    assert questions.scored is not None
    assert questions.scored.summary.kept == 1.0
    record = it.chat.session.read_token(reply, at)
    assert record is not None
    assert record.draft == reply.tokens.find_draft(at)
    questions.inspect_token(reply, at)
    it.until(lambda: questions.inspected)
    assert questions.inspected is not None
    seen = questions.inspected.inspected.token
    assert [candidate.logit for candidate in seen.candidates] == [candidate.logit for candidate in record.candidates]
    questions.explain_token(reply, at, record.id)
    it.until(lambda: questions.explained)
    assert questions.explained is not None
    assert questions.explained.explained.explanation.logprob == pytest.approx(record.logprob, abs=1e-4)
    store.close()
