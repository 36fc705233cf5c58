"""The whole program, with the real model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.whole.terminal import Terminal


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Starts termchat in a terminal; all share one home."""
    opened: list[Terminal] = []

    def start(*args: str, **more: object) -> Terminal:
        terminal = Terminal(tmp_path, *args, **more)  # type: ignore[arg-type]
        opened.append(terminal)
        return terminal

    yield start
    for terminal in opened:
        terminal.close()
