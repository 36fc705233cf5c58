"""What a chat tells whoever shows it: once that there is something new, and then, when it is asked, what that is."""

from __future__ import annotations

from termchat.chat.changes import Notice, StatusChanged, TuningChanged
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelSpec
from tests.chats import chat_on
from tests.tui.fake_engine import FakeEngine


def test_a_change_is_told_once_until_it_is_taken_in() -> None:
    chat = chat_on(FakeEngine(), Tuning(seed=1))
    chat.pump_events()
    heard: list[int] = []
    chat.on_change = lambda: heard.append(1)
    chat.adjust_setting("top_k", 7)
    chat.rename_chat("Foxes")
    assert heard == [1]
    assert {TuningChanged(), StatusChanged()} <= {*chat.pump_events()}
    chat.rename_chat("Bears")
    assert heard == [1, 1]


def test_what_the_engine_says_is_what_pump_returns_and_is_not_told_besides() -> None:
    engine = FakeEngine()
    chat = chat_on(engine, Tuning(seed=1))
    chat.loading.load(ModelSpec("/tiny.gguf", "tiny"))
    chat.pump_events()
    chat.send("hi")
    chat.pump_events()
    heard: list[int] = []
    chat.on_change = lambda: heard.append(1)
    engine.say("One", " two")
    assert chat.pump_events()
    assert not heard


def test_a_text_that_comes_back_is_a_change() -> None:
    chat = chat_on(FakeEngine(), Tuning(seed=1))
    chat.pump_events()
    heard: list[int] = []
    chat.on_change = lambda: heard.append(1)
    chat.give_back(chat.session, "not sent")
    assert heard
    assert not any(isinstance(change, Notice) for change in chat.pump_events())
