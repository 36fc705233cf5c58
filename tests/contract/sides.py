"""The engines that the contract holds for, each with a model loaded, and one way to ask them all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from termchat.decoding.conditions import Condition, Length
from termchat.decoding.group import Group
from termchat.decoding.records import Failed, Finished, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.engine import abilities
from termchat.engine.abilities import EngineAbilities, Feature
from termchat.engine.address import EngineAddress
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.make import engine_at
from termchat.engine.port import (
    Command,
    Engine,
    Event,
    Generate,
    Load,
    Loaded,
    Message,
    ModelSpec,
    Render,
    Rendered,
    ReplyRequest,
    Scripted,
    is_last,
)
from tests import fake_ssh
from tests.remote.chat_twin import ChatHandler, ChatTwin, delta
from tests.remote.conftest import free_port
from tests.remote.record_vllm import STORY
from tests.remote.replayed_vllm import ReplayedVllm
from tests.remote.twin_server import TwinServer
from tests.tui.fake_engine import FakeEngine

ABILITIES: dict[str, EngineAbilities] = {
    "fake": abilities.LOCAL,
    "local": abilities.LOCAL,
    "ssh": abilities.LOCAL,
    "llama-server": abilities.LLAMA_SERVER,
    "llama-server draws": abilities.LLAMA_SERVER_STREAMED,
    "vllm": abilities.VLLM,
    "text": abilities.TEXT_ONLY,
}
"""The engines by name, and what each can do."""
EVERY = (*ABILITIES,)
PROCESSES = EVERY[1:]
"""Those with a process of their own: all but the fake of the screen's tests, which plays what a reply does."""

_PAUSE = 0.003
"""Seconds between two tokens of the servers that only play."""


def able(*features: Feature, among: tuple[str, ...] = EVERY) -> list[str]:
    """The engines that offer all of these features."""
    return [name for name in among if {*features} <= ABILITIES[name].list_features()]


class Side:
    """One engine with its model. `spec` is what it loads, `gone` a model that it does not find, `waiting` what it said that
    nobody has asked for yet."""

    def __init__(self, name: str, engine: Engine, spec: ModelSpec, gone: ModelSpec) -> None:
        self.name, self.engine, self.spec, self.gone = name, engine, spec, gone
        self.waiting: list[tuple[int, Event]] = []
        self.load()

    def load(self) -> Loaded:
        """Load the model and note its prompt: the ids of a message, or none where there are no ids."""
        loaded = self.ask(Load(self.spec))[-1]
        assert isinstance(loaded, Loaded), loaded
        self.info = loaded.info
        rendered = self.ask(Render([Message("user", STORY)]))[-1]
        assert isinstance(rendered, Rendered), rendered
        self.prompt = rendered.ids
        return loaded

    def ask(self, command: Command) -> list[Event]:
        """All that answers a command, whatever else runs."""
        return self.until(self.engine.send(command))

    def until(self, number: int, *kinds: type, limit: float = 120.0) -> list[Event]:
        """The events of a command up to one of these kinds, or to its last one; those of other commands wait their turn."""
        events: list[Event] = []
        end = monotonic() + limit
        batch, self.waiting = self.waiting, []
        while monotonic() < end:
            for at, (of, event) in enumerate(batch):
                if of != number:
                    self.waiting.append((of, event))
                    continue
                events.append(event)
                if is_last(event) or isinstance(event, kinds):
                    self.waiting += batch[at + 1 :]
                    return events
            batch = self.engine.receive(0.5)
        raise AssertionError(f"no end within {limit} s: {events[-3:]}")

    def is_silent(self) -> bool:
        """Whether nothing more comes, for a moment."""
        return self.waiting + self.engine.receive(0.05) == []


def ask_reply(
    side: Side,
    tokens: int = 6,
    *conditions: Condition,
    ids: list[int] | None = None,
    seed: int = 7,
    temperature: float = 0.0,
    paused: bool = False,
    script: tuple[Scripted, ...] = (),
    messages: tuple[Message, ...] = (Message("user", STORY),),
    replies: int = 1,
    group: Group | None = None,
) -> Generate:
    """A request for so many tokens of a reply, or of several `replies` in a `group`."""
    samplers = SamplerSettings(temperature=temperature)
    made = [
        ReplyRequest(
            side.prompt if ids is None else ids,
            samplers,
            (Length(tokens), *conditions),
            seed + number,
            number=number,
            paused=paused,
            script=script,
            messages=[] if side.info.abilities.ids else [*messages],
        )
        for number in range(replies)
    ]
    return Generate(made, group=group)


def tokens_of(events: list[Event]) -> list[Token]:
    return [event for event in events if isinstance(event, Token)]


def shown(events: list[Event]) -> list[tuple[object, ...]]:
    """Return what a reply says, its ids and its numbers, as far as they are known."""
    return [
        (
            token.step,
            token.id,
            token.text,
            repr((token.logit, token.logprob, token.probability)),
            repr([*token.candidates]),
        )
        for token in tokens_of(events)
    ]


def finished(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished), events[-1]
    return events[-1]


def failed(events: list[Event]) -> Failed:
    """The one event of a request that failed."""
    (failure,) = events
    assert isinstance(failure, Failed), failure
    return failure


# --- how each is made ------------------------------------------------------------------------------------------------


class SpeakingFake(FakeEngine):
    """The fake of the screen's tests; whenever somebody listens each reply that does not wait says a word, up to its length."""

    _length = 0

    def __init__(self) -> None:
        super().__init__()
        self._counts = Counter[int | None]()

    def send(self, command: Command) -> int:
        if isinstance(command, Generate):
            (self._length,) = (one.tokens for one in command.replies[0].conditions if isinstance(one, Length))
            self._counts.clear()
        return super().send(command)

    def receive(self, timeout: float | None = 0.0) -> list[tuple[int, Event]]:
        for reply in [reply for reply, waits in self.speaking.items() if self.alive and not waits]:
            if self._counts[reply] < self._length:
                self.say(" step", walk=reply)
            else:
                self.end("length", walk=reply)
        events = super().receive(timeout)
        self._counts.update(token.walk for token in tokens_of([event for _, event in events]))
        return events


def _speak(handler: ChatHandler) -> None:
    """Stream as many words as a chat API is asked for."""
    count = handler.server.asked[-1]["max_tokens"]
    handler.begin()
    for at in range(count):
        handler.send(b"data: " + json.dumps(delta(f"w{at} ")).encode() + b"\n\n")
        sleep(_PAUSE)
    handler.send(b"data: " + json.dumps(delta(finish="length")).encode() + b"\n\ndata: [DONE]\n\n")
    handler.wfile.write(b"0\r\n\r\n")


@contextmanager
def opened(name: str, model: Path, folder: Path) -> Iterator[Side]:
    """An engine with the model loaded, until it is closed, and all that stands behind it."""
    with ExitStack() as behind:
        if name == "fake":
            engine: Engine = SpeakingFake()
            spec = gone = ModelSpec("/tiny.gguf", "tiny")
        elif name in ("local", "ssh"):
            address = EngineAddress()
            if name == "ssh":
                address = _line(behind, folder)
            engine = engine_at(address, folder / "log")
            spec = ModelSpec(str(model), "small", context=1024, threads=1, engine=address)
            gone = ModelSpec(str(folder / "gone.gguf"), "gone", engine=address)
        else:
            address = _SERVERS[name](behind, model)
            engine = engine_at(address, folder / "log")
            spec = ModelSpec("", "", engine=address)
            gone = ModelSpec("", "", engine=EngineAddress(url=f"http://127.0.0.1:{free_port()}"))
        try:
            yield Side(name, engine, spec, gone)
        finally:
            engine.close()


def _line(behind: ExitStack, folder: Path) -> EngineAddress:
    patch = behind.enter_context(pytest.MonkeyPatch.context())
    for kind in ("CONFIG", "DATA", "STATE"):
        patch.setenv(f"XDG_{kind}_HOME", str(folder / kind))
    fake_ssh.install(folder, patch)
    return fake_ssh.lab(model="")


def _twin(behind: ExitStack, model: Path) -> str:
    session = ModelSession(ModelSpec(str(model), "small", context=1024, threads=1), lambda _: None)
    behind.callback(session.close)
    server = TwinServer(session, context=1024)
    behind.callback(server.close)
    return server.url


def _vllm(behind: ExitStack, model: Path) -> EngineAddress:
    session = ModelSession(ModelSpec(str(model), "small", context=1024, threads=1), lambda _: None)
    behind.callback(session.close)
    server = ReplayedVllm(session, "connect", "replies", "questions", pause=_PAUSE)
    behind.callback(server.close)
    return EngineAddress(url=server.url, kind="vllm")


def _chat_api(behind: ExitStack, _model: Path) -> EngineAddress:
    server = ChatTwin(_speak)
    behind.callback(server.close)
    return EngineAddress(url=server.url, kind="openai")


_SERVERS: dict[str, Callable[[ExitStack, Path], EngineAddress]] = {
    "llama-server": lambda behind, model: EngineAddress(url=_twin(behind, model), kind="llama-server"),
    "llama-server draws": lambda behind, model: EngineAddress(
        url=_twin(behind, model), kind="llama-server", draws="server"
    ),
    "vllm": _vllm,
    "text": _chat_api,
}
