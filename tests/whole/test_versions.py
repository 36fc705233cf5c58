"""Versions of a reply in the real program, with the real model: by mouse, by key, and after it was closed."""

from __future__ import annotations

from tests.whole.chat_steps import SHORT, Open, over, place, ready, said
from tests.whole.terminal import Terminal


def shows(terminal: Terminal, sign: str, text: str) -> None:
    """Waits for a version and what it says."""
    terminal.wait(lambda: f" · {sign} · " in terminal.text and any(text in line for line in terminal.text.splitlines()))
    terminal.settle()


def test_two_versions_of_a_reply_are_stepped_between_and_both_are_there_after_a_restart(open_terminal: Open) -> None:
    terminal = open_terminal(*SHORT)
    ready(terminal)
    said(terminal, "alphaville")
    assert "‹" not in terminal.text
    terminal.keys("/prefill", "esc", "enter")
    terminal.wait("Enter accept")
    terminal.keys("ctrl+u", "betatown", "enter")
    terminal.wait("/prefill changes it")
    terminal.keys("ctrl+r")
    terminal.wait(lambda: over(terminal.home) == 2 and terminal.is_ready)
    shows(terminal, "‹ 2/2 ›", "betatown")

    x, y = place(terminal, "‹ 2/2")
    terminal.keys(f"\x1b[<0;{x + 1};{y + 1}M", f"\x1b[<0;{x + 1};{y + 1}m")
    shows(terminal, "‹ 1/2 ›", "alphaville")
    assert "betatown" not in terminal.text
    assert place(terminal, "‹ 1/2") == (x, y)

    terminal.keys("ctrl+g", ">")
    shows(terminal, "‹ 2/2 ›", "betatown")
    terminal.keys("<")
    shows(terminal, "‹ 1/2 ›", "alphaville")
    terminal.keys("esc", "ctrl+q")
    assert terminal.ended() == 0

    again = open_terminal("--resume", *SHORT)
    ready(again)
    shows(again, "‹ 1/2 ›", "alphaville")
    again.keys("/version-next", "esc", "enter")
    shows(again, "‹ 2/2 ›", "betatown")
    again.keys("ctrl+q")
    assert again.ended() == 0
