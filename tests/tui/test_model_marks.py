"""Where another model went on with the chat: what the transcript and the header say of it."""

from __future__ import annotations

import msgspec
import pytest

from termchat.conversation.tree import Conversation, Node
from termchat.engine.port import ModelSpec
from termchat.tui.screen.header_line import header_line
from termchat.tui.transcript import Look
from tests.chats import chat_on
from tests.tui import fake_engine
from tests.tui.transcripts import LOOKS, Host, ask, chat_of, finished, reply, start, texts, token

MARK = "┊ model smollm2 → gemma"


def other(chat: Conversation, text: str = "") -> Node:
    """A reply of another model, as its records come."""
    node = reply(chat)
    node.start = msgspec.structs.replace(
        start(), model=msgspec.structs.replace(start().model, name="gemma", sha256="1" * 64)
    )
    if text:
        node.add(token(0, text))
        node.add(finished())
    return node


@pytest.mark.parametrize("look", LOOKS)
async def test_the_first_reply_of_another_model_is_marked_and_only_that(look: Look) -> None:
    chat = chat_of("Hello", "Hi.", "And?")
    other(chat, "Well.")
    ask(chat, "So?")
    other(chat, "Yes.")
    app = Host(chat, look)
    async with app.run_test(size=(60, 30)):
        shown = [line.rstrip() for line in texts(app)]
        assert shown.count(MARK) == 1
        at = shown.index(MARK)
        assert shown[at - 1] == "gemma · seed 42"
        assert shown[at + 1] == "Well."


@pytest.mark.parametrize("look", LOOKS)
async def test_the_mark_is_there_before_the_first_word_and_stays_where_it_is(look: Look) -> None:
    chat = chat_of("Hello", "Hi.", "And?")
    node = other(chat)
    app = Host(chat, look)
    async with app.run_test(size=(60, 30)):
        for piece in ("Well", ", yes.", "\n\nNo."):
            assert [line.rstrip() for line in texts(app)].count(MARK) == 1
            node.add(token(len(node.tokens), piece))
            app.transcript.grew(node.number)
        shown = [line.rstrip() for line in texts(app)]
        assert shown[shown.index(MARK) :] == [MARK, "Well, yes.", "", "No.▌"]


def test_the_header_says_how_many_layers_are_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    info = msgspec.structs.replace(fake_engine.INFO, device="NVIDIA H200", layers=30, gpu_layers=20)
    monkeypatch.setattr(fake_engine, "INFO", info)
    chat = chat_on(fake_engine.FakeEngine())
    chat.loading.load(ModelSpec("/tiny.gguf", "tiny"))
    chat.pump_events()
    assert "NVIDIA H200 20/31 layers, 2 threads" in header_line(chat, 120).text
