"""What a new chat begins with: what is configured, unless somebody keeps what the chat before had."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from termchat.chat.loading import Choice
from termchat.config.origins import DEFAULT, FLAG, MODEL
from termchat.conversation.session import Breakpoint, Session
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.conditions import Every
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.engine.port import ModelSpec, Render
from termchat.tui.models.welcome import welcome_lines
from tests.chat.driven_chat import Faked
from tests.tui.fake_engine import INFO

POINT = Breakpoint(Every(20))
FLAGS = dict.fromkeys(KNOBS, DEFAULT) | {"seed": FLAG, "max_tokens": FLAG}
CONFIGURED = Session(tuning=Tuning(seed=7, max_tokens=100), origins=FLAGS, conversation=Conversation("Be kind."))


def begun() -> Faked:
    """A chat in which much is not as configured."""
    it = Faked(
        CONFIGURED.tuning, origin=FLAGS, configured=CONFIGURED, conversation=Conversation("Be brief.", raw=False)
    )
    it.chat.adjust_setting("temperature", 1.5)
    it.chat.adjust_setting("max_tokens", 3)
    it.chat.set_breakpoints([POINT])
    it.replied("hi", " one")
    return it


def test_a_new_chat_has_what_is_configured_and_nothing_of_the_chat_before() -> None:
    it = begun()
    it.chat.new(raw=True)
    it.chat.new()
    chat = it.chat
    assert (chat.tuning, chat.origin) == (CONFIGURED.tuning, FLAGS)
    assert (chat.conversation.system, chat.conversation.raw, chat.breakpoints) == ("Be kind.", False, ())
    assert chat.list_lost() == {}
    it.replied("hello")
    generated = it.engine.generated[-1]
    assert (generated.samplers, generated.conditions) == (CONFIGURED.tuning.samplers(), CONFIGURED.tuning.conditions())


def test_it_keeps_the_knobs_where_somebody_says_so() -> None:
    it = begun()
    before = it.chat.tuning
    assert it.chat.list_lost() == {"temperature": 1.5, "max_tokens": 3}
    it.chat.new(keep=True)
    assert (it.chat.tuning, it.chat.origin["temperature"], it.chat.breakpoints) == (before, "panel", (POINT,))
    assert it.chat.conversation.system == "Be brief."
    it.chat.new("Be bold.", raw=True, keep=True)
    assert (it.chat.tuning, it.chat.conversation.raw) == (before, True)
    assert it.chat.conversation.system == ""  # a raw chat has none


def test_a_knob_that_nobody_set_is_as_the_model_recommends() -> None:
    it = begun()
    it.chat.loading.switch_model(Choice(ModelSpec("/other.gguf", "other"), {"temperature": 0.6, "max_tokens": 9}))
    it.pump()
    it.chat.new()
    assert (it.chat.tuning.temperature, it.chat.origin["temperature"]) == (0.6, MODEL)
    assert it.chat.tuning.max_tokens == 100  # a flag said so


def test_what_is_saved_of_a_new_chat_is_its_own(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    try:
        it = Faked(Tuning(seed=7), store=store)
        it.replied("one", " a")
        it.chat.adjust_setting("temperature", 1.5)
        it.chat.set_breakpoints([POINT])
        first = it.chat.session.current_id
        it.chat.new()
        it.replied("two", " b")
        second = it.chat.session.current_id
        kept = [store.load(session) for session in (first, second)]
        assert [(info.tuning.temperature, info.breakpoints) for info in kept] == [(1.5, (POINT,)), (0.8, ())]
    finally:
        store.close()


@pytest.mark.parametrize("keep", [True, False])
def test_the_start_page_says_what_is_not_at_its_default_and_who_set_it(keep: bool) -> None:
    it = begun()
    it.chat.new(keep=keep)
    shown = " ".join(line.text for line in welcome_lines(it.chat, 400))
    told = "temperature 1.5 (panel), max_tokens 3 (panel), seed 7 (flag), breakpoint every 20"
    assert (told if keep else "Not at default: max_tokens 100 (flag), seed 7 (flag) ") in shown
    assert ("temperature" in shown) is keep


def test_with_a_model_without_a_template_empty_chats_are_in_raw_mode() -> None:
    it = Faked(configured=CONFIGURED, conversation=Conversation("Be brief."))
    told = "tiny has no chat template"
    it.engine.info = msgspec.structs.replace(INFO, has_template=False)
    it.chat.loading.reload_model()
    it.pump()
    assert (it.chat.conversation.raw, it.notices) == (True, [told])
    assert it.chat.conversation.system == ""
    it.replied("Once", " upon")
    assert it.engine.asked(Render) == []
    for wanted in (None, False):
        it.chat.new(raw=wanted)
        it.pump()
        assert it.chat.conversation.raw
    assert it.notices == [told] * 3
    it.replied("Once", " more")
    it.chat.new()
    it.engine.info = INFO
    it.chat.loading.reload_model()
    it.pump()
    assert (it.chat.conversation.raw, it.chat.conversation.system) == (False, "Be kind.")
