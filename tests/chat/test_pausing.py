"""A reply that waits: pausing, stepping, forcing tokens, breakpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from termchat.chat.opening import load_latest
from termchat.config.settings import load
from termchat.conversation.session import Breakpoint, View
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Place
from termchat.decoding.conditions import Length, Threshold
from termchat.decoding.samplers import Tuning
from termchat.engine.port import Adjust, Force, Pause, Unit
from tests.chat.driven_chat import Faked

UNSURE = Breakpoint(Threshold("entropy", ">", 3.0))


def test_a_paused_reply_shows_what_waits_and_goes_on() -> None:
    it = Faked()
    it.writing("hi", " one", " two")
    it.chat.replies.pause()
    it.pump()
    assert it.chat.phase == "paused"
    assert it.chat.busy
    assert it.chat.paused is not None
    assert it.chat.live.shown == it.chat.paused.token
    assert it.chat.live.token is not None
    assert it.chat.live.token.text == " two"
    it.chat.replies.resume()
    assert it.chat.phase == "decoding"
    assert it.chat.paused is None
    it.engine.say(" three")
    it.pump()
    assert it.chat.live.shown is it.chat.live.token
    it.engine.end()
    it.pump()
    assert it.reply.text() == " one two three"


def test_a_condition_that_was_met_is_told() -> None:
    it = Faked()
    it.writing("hi", " one")
    it.engine.wait("entropy > 3")
    it.pump()
    assert it.chat.phase == "paused"
    assert it.chat.paused is not None
    assert it.chat.paused.why == "entropy > 3"


@pytest.mark.parametrize(("unit", "tokens"), [("token", 1), ("line", 3), ("sentence", 3)])
def test_a_step_ends_in_a_pause(unit: Unit, tokens: int) -> None:
    it = Faked()
    reply = it.writing("hi", " one")
    it.chat.replies.pause()
    it.pump()
    it.chat.replies.step(unit)
    it.pump()
    assert it.chat.phase == "paused"
    assert len(reply.tokens) == 1 + tokens
    assert it.chat.paused is not None
    assert it.chat.paused.token.step == 1 + tokens


def test_turning_a_knob_while_it_waits_moves_what_waits() -> None:
    it = Faked()
    it.writing("hi", " one")
    it.chat.replies.pause()
    it.pump()
    before = it.chat.paused
    it.chat.adjust_setting("temperature", 1.5)
    it.pump()
    assert it.chat.phase == "paused"
    assert it.chat.paused is not None
    assert it.chat.paused is not before
    assert it.chat.paused.token.settings == 1
    assert it.chat.live.shown is it.chat.paused.token


def test_forced_tokens_and_texts_are_taken_and_it_pauses_again() -> None:
    it = Faked()
    reply = it.writing("hi", " one")
    it.chat.replies.pause()
    it.pump()
    it.chat.replies.force_tokens([17])
    it.pump()
    it.chat.replies.force_text(" and then")
    it.pump()
    assert it.chat.phase == "paused"
    assert reply.tokens.texts == [" one", " c17", " and", " then"]
    assert list(reply.tokens.forced) == [0, 1, 1, 1]
    it.chat.stop()
    it.pump()
    it.chat.replies.force_tokens([17])
    it.pump()
    assert it.notices == ["cannot force a token: no reply is running"]
    assert len(it.engine.asked(Force)) == 2


def test_stopping_a_paused_reply_ends_it() -> None:
    it = Faked()
    reply = it.writing("hi", " one")
    it.chat.replies.pause()
    it.pump()
    it.chat.stop()
    it.pump()
    assert it.chat.phase == "idle"
    assert it.chat.paused is None
    assert it.chat.live.pending is None
    assert reply.finished is not None
    assert reply.finished.reason == "user"


def test_a_pause_that_comes_late_does_not_look_like_one() -> None:
    """Turned and gone on at once: the engine says that it still waits, then it writes."""
    it = Faked()
    it.writing("hi", " one")
    it.chat.replies.pause()
    it.pump()
    it.chat.adjust_setting("temperature", 1.5)
    it.chat.replies.resume()
    it.engine.say(" two")
    it.pump()
    assert it.chat.phase == "decoding"
    assert it.chat.paused is None


def test_who_pauses_before_the_prompt_is_there_pauses_before_the_first_token() -> None:
    it = Faked()
    it.chat.send("hi")
    assert it.chat.phase == "rendering"
    it.chat.replies.pause()
    it.pump()
    assert it.chat.phase == "paused"
    assert len(it.reply.tokens) == 0
    assert it.engine.generated[-1].paused
    assert not it.engine.asked(Pause)


def test_breakpoints_act_on_the_running_reply_and_the_next() -> None:
    it = Faked(Tuning(max_tokens=9))
    it.writing("hi", " one")
    it.chat.set_breakpoints([UNSURE, Breakpoint(Threshold("rank", ">", 5.0), enabled=False)])
    assert it.engine.asked(Adjust)[-1].conditions == (Length(9), UNSURE.condition)
    it.engine.end()
    it.pump()
    it.chat.forks.regenerate()
    assert it.engine.generated[-1].conditions == (Length(9), UNSURE.condition)
    it.chat.set_breakpoints([])
    assert it.engine.asked(Adjust)[-1].conditions == (Length(9),)


def test_breakpoints_and_the_view_are_kept_with_the_chat(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    it = Faked(store=store)
    it.chat.set_breakpoints([UNSURE])  # before there is a chat to keep them with
    reply = it.replied("hi", " one")
    disabled = Breakpoint(Threshold("rank", ">", 5.0), enabled=False)
    it.chat.set_breakpoints([UNSURE, disabled])
    it.chat.set_view(View(Place(reply.number, 0), "entropy"))
    assert store.close()
    store = Store.open(tmp_path / "sessions.db")
    found = load_latest(store, load({}, environ={}, file=tmp_path / "none.toml"))
    store.close()
    assert found is not None
    assert found.breakpoints == (UNSURE, disabled)
    assert found.view == View(Place(reply.number, 0), "entropy")
