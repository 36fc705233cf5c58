"""The program as the README starts it: without a flag."""

from __future__ import annotations

import pytest

from tests.whole.chat_steps import Open, ready


@pytest.mark.model
def test_it_opens_a_chat_without_any_flag(open_terminal: Open) -> None:
    terminal = open_terminal()
    ready(terminal)
    assert "smollm2" in terminal.header
