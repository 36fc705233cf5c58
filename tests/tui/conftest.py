"""A home and a server, for tests that look for models; and what is the same in every picture."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from termchat.tui.composer import chat_composer
from termchat.tui.screen import notices
from tests.pull.file_server import FileServer, file_server


@pytest.fixture(autouse=True)
def untimed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture takes as long as it likes: notices stay, and a draft, whose tokens are counted once it rests, has no number."""
    if "snap_compare" in request.fixturenames:
        monkeypatch.setattr(notices, "_GLANCE", 3600.0)
        monkeypatch.setattr(chat_composer, "_AT_REST", 3600.0)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, where no other program has models."""
    for name in list(os.environ):
        if name.startswith(("HF_", "HUGGING", "LLAMA_", "OLLAMA", "TERMCHAT_", "XDG_")) or "proxy" in name.lower():
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as made:
        yield made
