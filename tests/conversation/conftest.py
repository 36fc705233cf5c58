"""A file for chats, and its store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from termchat.conversation.store.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "termchat" / "chats.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = Store.open(path)
    yield opened
    opened.close()
