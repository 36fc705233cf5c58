"""A home and a server, for tests that look for models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pull.file_server import FileServer, file_server


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
