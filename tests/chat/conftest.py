"""Chats on the real engine, ended with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from termchat.chat.service import Chat
from termchat.decoding.samplers import Tuning
from termchat.engine.local import LocalEngine
from termchat.engine.port import ModelSpec
from tests.chat.driven_chat import Driven


@pytest.fixture
def make(spec: ModelSpec) -> Iterator[Callable[..., Driven]]:
    made: list[Driven] = []

    def new(tuning: Tuning, **more: object) -> Driven:
        driven = Driven(Chat(LocalEngine(), tuning, **more))  # type: ignore[arg-type]
        driven.chat.loading.load(spec)
        made.append(driven)
        return driven

    yield new
    for driven in made:
        driven.chat.close()
