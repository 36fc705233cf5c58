"""Chats on the real engine, ended with the test, and folders, settings and a store of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from termchat.config.settings import Settings, load
from termchat.conversation.store.store import Store
from termchat.decoding.samplers import Tuning
from termchat.engine.local import LocalEngine
from termchat.engine.port import ModelSpec
from tests.chat.driven_chat import Driven
from tests.chats import chat_on


@pytest.fixture
def spec(request: pytest.FixtureRequest, model_path: Path, small_model_path: Path) -> ModelSpec:
    """Two blocks of the model, but all of it where a test asks for `model`."""
    whole = request.node.get_closest_marker("model") is not None
    path = model_path if whole else small_model_path
    return ModelSpec(str(path), "smollm2" if whole else "small", context=2048, threads=1)


@pytest.fixture
def make(spec: ModelSpec) -> Iterator[Callable[..., Driven]]:
    made: list[Driven] = []

    def new(tuning: Tuning, **more: object) -> Driven:
        driven = Driven(chat_on(LocalEngine(), tuning, **more))  # type: ignore[arg-type]
        driven.chat.loading.load(spec)
        made.append(driven)
        return driven

    yield new
    for driven in made:
        driven.chat.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))


@pytest.fixture
def config(tmp_path: Path) -> Settings:
    return load({}, {}, tmp_path / "none.toml")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "sessions.db")
    yield store
    store.close()
