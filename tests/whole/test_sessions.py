"""A person goes from chat to chat: two chats, a search, the first of them opened again and gone on with."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.whole.chat_steps import over
from tests.whole.terminal import Terminal

Open = Callable[..., Terminal]
FLAGS = ("--context", "2048", "--threads", "1", "--max-tokens", "12", "--seed", "3")
F4 = "\x1bOS"


def replied(terminal: Terminal, text: str, replies: int) -> None:
    """Sends a message and waits until the chat has so many replies."""
    before = over(terminal.home)
    terminal.keys(text, "enter")
    terminal.wait(lambda: over(terminal.home) > before)
    terminal.wait(lambda: terminal.text.count("· seed ") == replies and terminal.is_ready)
    terminal.settle()


def context(terminal: Terminal) -> int:
    """Tokens of the chat, as the header says."""
    found = re.search(r"(\d+)/2048", terminal.text)
    assert found is not None
    return int(found[1])


def closed(terminal: Terminal) -> bool:
    """Whether nothing is left of the list."""
    return "│ Chats" not in terminal.text and terminal.text.startswith("  termchat")


def test_two_chats_search_and_go_on_with_the_first(open_terminal: Open) -> None:
    terminal = open_terminal(*FLAGS)
    terminal.wait(lambda: terminal.is_ready)
    replied(terminal, "Name a walrus.", 1)
    first = context(terminal)
    terminal.keys("ctrl+n")
    terminal.wait("A new chat")
    replied(terminal, "Name a teapot.", 1)
    second = terminal.text
    terminal.keys("half a message", F4)
    terminal.wait("2 saved")
    terminal.wait("● Name a teapot.")
    terminal.keys("walr")
    terminal.wait("1 found")
    terminal.keys("enter")
    terminal.wait(lambda: "Name a walrus." in terminal.text and closed(terminal))
    terminal.settle()
    assert "Name a teapot." not in terminal.text
    assert "half a message" not in terminal.text  # it belongs to the other chat
    assert context(terminal) == first
    replied(terminal, "And another one.", 2)
    assert context(terminal) > first

    # Another title is in the header at once, and there is nothing of the other chat in this one.
    terminal.keys(F4)
    terminal.wait("● Name a walrus.")
    terminal.keys("ctrl+r")
    terminal.wait("Enter renames")
    terminal.keys(" Tusks", "enter")
    terminal.wait("● Name a walrus. Tusks")
    terminal.keys("esc")
    terminal.wait(lambda: closed(terminal))
    terminal.settle()
    assert "Name a walrus. Tusks" in terminal.text.splitlines()[0]

    terminal.keys(F4, "teapot", "enter")
    terminal.wait(lambda: body(terminal.text) == body(second))
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    assert terminal.restored()


def body(text: str) -> list[str]:
    """The lines of the chat itself: without header, panels and what is below."""
    return [line.split("│")[0].rstrip() for line in text.splitlines()[1:-4]]
