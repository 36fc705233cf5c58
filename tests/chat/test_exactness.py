"""Rewinding on the real engine: what is drawn again is what was drawn, in this process and in the next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termchat.chat.opening import load_latest
from termchat.config.settings import load
from termchat.conversation.session import Breakpoint
from termchat.conversation.store.store import Store
from termchat.conversation.unsent import Wish
from termchat.decoding import conditions
from termchat.decoding.samplers import Tuning
from termchat.engine.local import LocalEngine
from termchat.engine.port import ModelSpec
from tests.chat.driven_chat import Driven, Make
from tests.chats import chat_on

STORY = "Write a long story about a fox, a bear and the sea, in many chapters."
TUNINGS = st.builds(
    Tuning,
    temperature=st.sampled_from([0.0, 0.5, 0.8, 1.3]),
    top_k=st.sampled_from([0, 5, 40]),
    top_p=st.sampled_from([1.0, 0.9]),
    min_p=st.sampled_from([0.0, 0.05]),
    repeat_penalty=st.sampled_from([1.0, 1.2]),
    repeat_last_n=st.sampled_from([16, 64]),
    seed=st.integers(0, 2**31),
)


@pytest.fixture(scope="module")
def shared(small_model_path: Path) -> Iterator[Driven]:
    """One engine for many replies."""
    driven = Driven(chat_on(LocalEngine(), Tuning()))
    driven.chat.loading.load(ModelSpec(str(small_model_path), "small", context=2048, threads=1))
    yield driven
    driven.chat.close()


@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(tuning=TUNINGS, share=st.floats(0, 1))
def test_a_reply_that_is_cut_and_drawn_again_is_the_same(shared: Driven, tuning: Tuning, share: float) -> None:
    chat = shared.chat
    chat.new()
    for name in tuning.__struct_fields__:
        chat.adjust_setting(name, getattr(tuning, name))
    chat.adjust_setting("max_tokens", 220)
    reply = shared.say(STORY)
    at = round(share * (len(reply.ids) - 1))
    chat.forks.fork_reply(reply, at)
    shared.idle()
    again = shared.reply
    assert [*reply.ids[:at], *again.ids] == list(reply.ids)
    assert list(again.tokens.logprobs) == list(reply.tokens.logprobs[at:])
    assert again.prefill is not None
    assert again.prefill.reused >= again.prefill.tokens - 1
    assert again.start is not None
    assert again.start.exact


def test_another_process_draws_the_same_from_any_token(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = Store.open(path)
    tuning = Tuning(max_tokens=60, seed=11)
    driven = make(tuning, store=store)
    driven.say("Who are you?")
    driven.stepped(STORY, 20)
    driven.chat.adjust_setting("temperature", 1.2)
    driven.step(10)
    driven.chat.stop()
    driven.idle()
    driven.chat.forks.continue_reply()
    driven.idle()
    last = driven.reply
    driven.chat.close()
    store.close()

    found = load_latest(Store.open(path), load({}, environ={}, file=tmp_path / "none.toml"))
    assert found is not None
    again = make(found.tuning, session=found)
    again.idle()
    reply = found.conversation.nodes[last.number]
    assert list(reply.ids) == list(last.ids)
    again.chat.forks.fork_reply(reply, 7)
    again.idle()
    assert list(again.reply.ids) == list(last.ids[7:])
    assert list(again.reply.tokens.logprobs) == list(last.tokens.logprobs[7:])
    assert again.reply.start is not None
    assert again.reply.start.exact


@pytest.mark.model
def test_pausing_and_stepping_change_nothing(make: Make) -> None:
    tuning = Tuning(max_tokens=100, seed=3)
    whole = make(tuning).say(STORY)
    driven = make(tuning)
    driven.stepped(STORY, 5)
    driven.chat.replies.resume()
    driven.chat.replies.pause()
    driven.until(lambda: driven.chat.phase == "paused")
    for unit in ("token", "token", "sentence"):
        before = len(driven.reply.tokens)
        pending = driven.chat.paused
        assert pending is not None
        assert driven.chat.live.shown == pending.token
        driven.chat.replies.step(unit)
        driven.until(lambda: driven.chat.paused not in (None, pending) and driven.chat.phase == "paused")  # noqa: B023
        assert driven.reply.ids[before] == pending.token.id
        if unit == "sentence":
            assert driven.reply.text().rstrip().endswith((".", "!", "?"))
        else:
            assert len(driven.reply.tokens) == before + 1
    driven.chat.replies.resume()
    driven.idle()
    assert list(driven.reply.ids) == list(whole.ids)


def test_a_token_forced_while_it_waits_can_be_taken_back_by_a_fork(make: Make) -> None:
    tuning = Tuning(max_tokens=40, seed=3)
    driven = make(tuning)
    reply = driven.stepped(STORY, 5)
    taken = len(reply.tokens)
    drawn = driven.chat.paused.token.id if driven.chat.paused else -1
    driven.chat.replies.force_text(" purple")
    driven.until(lambda: len(reply.tokens) > taken and driven.chat.phase == "paused")
    assert "".join(reply.tokens.texts).endswith(" purple")
    assert sum(reply.tokens.forced) == len(reply.tokens) - taken
    driven.chat.forks.fork_reply(reply, taken)
    driven.until(lambda: driven.reply is not reply)
    driven.idle()
    assert driven.reply.ids[0] == drawn
    assert not any(driven.reply.tokens.forced)


def test_a_fork_with_a_text_waits_behind_it_and_the_tree_keeps_both(make: Make) -> None:
    driven = make(Tuning(max_tokens=30, seed=3))
    reply = driven.say(STORY)
    driven.chat.forks.fork_reply(reply, 4, text=" dragon", wish=Wish(then="wait"))
    driven.until(lambda: driven.chat.phase == "paused")
    fork = driven.reply
    assert "".join(fork.tokens.texts) == " dragon"
    driven.chat.replies.resume()
    driven.idle()
    assert fork.finished is not None
    assert len(fork.ids) == 26 or fork.finished.reason == "end"
    assert list(driven.chat.conversation.list_turns())[-1][1].startswith(reply.text(4) + " dragon")
    driven.chat.branches.select_leaf(reply.number)
    assert list(driven.chat.conversation.list_turns())[-1][1] == reply.text()


def test_a_breakpoint_stands_before_the_first_token_that_meets_it(make: Make) -> None:
    driven = make(Tuning(max_tokens=60, seed=3))
    free = driven.say(STORY)
    limit = (
        sum(sorted(free.tokens.entropies)[-5:-3]) / 2
    )  # between two of them: a rounding more or less does not matter
    first = next(at for at, entropy in enumerate(free.tokens.entropies) if entropy > limit)
    driven.chat.set_breakpoints([Breakpoint(conditions.parse(f"entropy > {limit}"))])
    driven.chat.forks.fork_reply(free, 0)
    driven.until(lambda: driven.chat.phase == "paused")
    assert len(driven.reply.tokens) == first
    assert driven.chat.paused is not None
    assert driven.chat.paused.why.startswith("entropy > ")
    driven.chat.set_breakpoints([])
    driven.chat.replies.resume()
    driven.idle()
    assert list(driven.reply.ids) == list(free.ids)


def test_questions_agree_with_what_was_drawn(make: Make, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s.db")
    driven = make(Tuning(max_tokens=40, seed=9, repeat_penalty=1.1), store=store)
    reply = driven.say(STORY)
    questions = driven.chat.questions
    at = 17
    record = driven.chat.session.read_token(reply, at)
    assert record is not None
    questions.inspect_token(reply, at)
    driven.until(lambda: questions.inspected)
    assert questions.inspected is not None
    seen = questions.inspected.inspected.token
    assert seen.step == record.step == at
    assert seen.candidates[0].noise == record.candidates[0].noise
    assert seen.candidates[0].logit == pytest.approx(record.candidates[0].logit, abs=0.1)
    questions.explain_token(reply, at, record.id)
    driven.until(lambda: questions.explained)
    assert questions.explained is not None
    assert questions.explained.explained.explanation.logprob == pytest.approx(record.logprob, abs=0.1)
    questions.score_reply(reply)
    driven.until(lambda: questions.scored)
    assert questions.scored is not None
    assert questions.scored.summary.kept == 1.0  # the rows it was drawn from are still at hand
    driven.chat.adjust_setting("temperature", 1.6)
    driven.until(lambda: questions.scored and questions.scored.settings.temperature == 1.6)
    first = questions.scored.summary.first
    assert first is not None
    driven.chat.forks.fork_reply(reply, 0)
    driven.idle()
    assert list(driven.reply.ids[:first]) == list(reply.ids[:first])
    assert driven.reply.ids[first] == questions.scored.scored.ids[first]
    questions.tokens_of(reply)
    driven.until(lambda: questions.tokenized)
    assert questions.tokenized is not None
    assert b"".join(questions.tokenized.tokenized.pieces) == bytes(reply.tokens.data)
    store.close()


def test_a_changed_model_is_not_asked_about_anothers_reply(make: Make, spec: ModelSpec) -> None:
    driven = make(Tuning(max_tokens=5))
    reply = driven.say("Hello")
    driven.chat.loading.load(msgspec.structs.replace(spec, sha256="another"))
    driven.idle()
    driven.chat.questions.inspect_token(reply, 2)
    assert driven.chat.questions.failed == "a different model wrote this"
