"""A chat that a test drives by hand."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from termchat.chat.changes import Change, Notice
from termchat.chat.service import Chat
from termchat.conversation.tree import Node
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelSpec
from tests.chats import chat_on
from tests.tui.fake_engine import FakeEngine


class Driven:
    """A chat and everything it told."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.told: list[Change] = []

    def until(self, condition: Callable[[], object], limit: float = 240.0) -> None:
        """Pumps until something is true."""
        end = monotonic() + limit
        while not condition():
            assert monotonic() < end, (self.chat.phase, self.told[-5:])
            self.told += self.chat.pump_events(0.05)

    def idle(self) -> None:
        """Pumps until nothing is going on."""
        self.until(
            lambda: self.chat.phase in ("idle", "failed") and not (self.chat.phase == "idle" and self.chat.turns.queue)
        )

    def say(self, text: str) -> Node:
        """Sends, waits for the reply, and returns its node; says why if there is none."""
        before = len(self.chat.conversation.nodes)
        self.chat.send(text)
        self.idle()
        assert len(self.chat.conversation.nodes) > before, (self.chat.phase, self.chat.failure, self.notices)
        return self.reply

    @property
    def reply(self) -> Node:
        """The last piece of the last reply."""
        return self.chat.conversation.find_reply()[-1].node

    @property
    def notices(self) -> list[str]:
        """What a person was told."""
        return [change.message for change in self.told if isinstance(change, Notice)]

    def stepped(self, text: str, tokens: int) -> Node:
        """Sends, and stops for a while behind so many tokens: however late this process is, the reply waits for it."""
        self.idle()
        self.chat.send(text)
        self.chat.replies.pause()
        self.until(lambda: self.chat.phase == "paused")
        return self.step(tokens)

    def step(self, tokens: int) -> Node:
        """So many tokens more of the reply that waits."""
        end = len(self.reply.tokens) + tokens
        while len(self.reply.tokens) < end:
            count = len(self.reply.tokens)
            self.chat.replies.step("token")
            self.until(lambda: len(self.reply.tokens) > count and self.chat.paused is not None)  # noqa: B023
        return self.reply

    def streaming(self, tokens: int) -> Node:
        """Pumps until the running reply has so many tokens."""
        self.until(lambda: len(self.chat.conversation.find_reply() and self.reply.tokens) >= tokens)
        return self.reply


Make = Callable[..., Driven]
"""Makes a chat on the real engine: the knobs, then what else `Chat` takes."""


class Faked(Driven):
    """A chat on an engine that says what it is told to; its model is loaded."""

    def __init__(self, tuning: Tuning | None = None, **more: object) -> None:
        self.engine = FakeEngine()
        super().__init__(chat_on(self.engine, tuning or Tuning(seed=7), **more))  # type: ignore[arg-type]
        self.chat.loading.load(ModelSpec("/tiny.gguf", "tiny"))
        self.pump()

    def pump(self) -> None:
        """Takes in all that the engine has said, and what it says to that."""
        for _ in range(8):
            self.told += self.chat.pump_events()

    def replied(self, text: str, *pieces: str, reason: str = "end") -> Node:
        """A message and its whole reply."""
        self.chat.send(text)
        self.pump()
        self.engine.say(*pieces)
        self.engine.end(reason)
        self.pump()
        return self.reply

    def continued(self, *pieces: str) -> Node:
        """The next piece of the last reply, to its end."""
        self.chat.forks.continue_reply()
        self.pump()
        self.engine.say(*pieces)
        self.engine.end()
        self.pump()
        return self.reply

    def writing(self, text: str, *pieces: str) -> Node:
        """A message and the beginning of its reply."""
        self.chat.send(text)
        self.pump()
        self.engine.say(*pieces)
        self.pump()
        return self.reply
