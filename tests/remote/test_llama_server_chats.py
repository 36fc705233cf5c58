"""Chats with a llama-server that goes away in the middle of a reply and comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import pytest

from termchat.decoding.samplers import Tuning
from termchat.engine.address import EngineAddress
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.make import make_engine
from termchat.engine.port import ModelSpec
from tests.chat.driven_chat import Driven
from tests.chats import chat_on
from tests.remote.twin_server import TwinServer

Draws = Literal["here", "server"]


@pytest.fixture
def begin() -> Iterator[Callable[[str, Draws], Driven]]:
    """Begins a chat with a server."""
    made: list[Driven] = []

    def begin(url: str, draws: Draws) -> Driven:
        made.append(Driven(chat_on(make_engine(), Tuning(max_tokens=8, temperature=0.0))))
        address = EngineAddress(name="lab", url=url, draws=draws)
        made[-1].chat.loading.load(ModelSpec("", "lab", engine=address))
        made[-1].idle()
        return made[-1]

    yield begin
    for one in made:
        one.chat.close()


@pytest.mark.parametrize("draws", ["here", "server"])
def test_a_reply_outlives_its_server_and_goes_on_when_it_is_back(
    twin_session: ModelSession, begin: Callable[[str, Draws], Driven], draws: Draws
) -> None:
    server = TwinServer(twin_session)
    it = begin(server.url, draws)
    whole = it.say("Tell me about rivers.").text()
    it.chat.new()
    it.stepped("Tell me about rivers.", 3)
    server.close()
    it.chat.replies.resume()
    it.idle()
    cut = it.reply
    assert 3 <= len(cut.tokens) < 8
    assert cut.failed is not None
    assert cut.failed.message.startswith("lab ")
    it.chat.forks.continue_reply()
    it.idle()
    assert it.reply.failed is not None  # it is not back yet
    assert "cannot be reached" in it.reply.failed.message
    back = TwinServer(twin_session, port=server.server_address[1])
    try:
        it.chat.forks.continue_reply()
        it.idle()
        assert "".join(span.node.text() for span in it.chat.conversation.find_reply()) == whole
        assert it.reply.failed is None
    finally:
        back.close()
