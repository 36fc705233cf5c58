"""The whole program in terminals of many kinds: a reply streams, TUNE and panels open, and what is sent is what they know."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.whole.chat_steps import FLAGS, Open, ready
from tests.whole.terminal import Terminal

SHORT = (*FLAGS, "--max-tokens", "60")
COLOR = re.compile(r"[34][0-7]|9[0-7]|10[0-7]|[34]8")


def rendered(terminal: Terminal) -> Iterator[list[str]]:
    """The parameters of every rendition that was sent."""
    for found in re.finditer(rb"\x1b\[([0-9;:]*)m", bytes(terminal.output)):
        yield found[1].decode().split(";")


def played(terminal: Terminal) -> Terminal:
    """A reply streams, its tokens are coloured, a knob is turned, a token and the themes are looked at; it ends."""
    ready(terminal)
    terminal.keys("Tell me a very long story about a fox and a bear.", "enter")
    terminal.wait(lambda: re.search(r"entropy \d", terminal.text))
    terminal.keys("ctrl+l")
    terminal.wait("probability (model) 0%")
    terminal.keys("ctrl+t", "t", "1.5", "enter")
    terminal.wait(lambda: re.search(r"t temp +1\.5", terminal.text))
    terminal.keys("esc")
    terminal.wait(lambda: terminal.is_ready)
    terminal.keys("ctrl+g")
    terminal.wait("hjkl move")
    terminal.keys("\x1b")  # alone, as a person presses it
    terminal.wait("Enter send")
    terminal.keys("\x1b[20~")
    terminal.wait("Themes")
    terminal.keys("down")
    terminal.settle(0.2)
    terminal.keys("esc")
    terminal.wait(lambda: "Themes" not in terminal.text)
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    assert terminal.restored()
    return terminal


# How many colours each has by its name alone, as over ssh, where COLORTERM is not passed on.
DEEP = {"linux": 16, "screen": 16, "xterm-256color": 256}


@pytest.mark.parametrize("term", DEEP)
def test_a_terminal_gets_the_colours_that_it_has(open_terminal: Open, term: str) -> None:
    terminal = played(open_terminal(*SHORT, TERM=term, COLORTERM=""))
    sent = list(rendered(terminal))
    assert any(COLOR.fullmatch(part) for parts in sent for part in parts)
    extended = [parts[parts.index(which) + 1] for parts in sent for which in ("38", "48") if which in parts]
    assert set(extended) == ({"5"} if DEEP[term] == 256 else set())
    if term == "linux":
        assert not re.search("[▁-▇▉-▏━⏎⇥❚]", terminal.output.decode())
        assert b"]11;?" not in terminal.output


def test_without_colours(open_terminal: Open) -> None:
    terminal = played(open_terminal(*SHORT, NO_COLOR="1"))
    sent = list(rendered(terminal))
    assert not [parts for parts in sent for part in parts if COLOR.fullmatch(part)]
    assert any("7" in parts for parts in sent), "what is selected is reversed"
    assert any("4" in parts for parts in sent), "what is improbable is underlined"
    assert any("1" in parts for parts in sent)


def test_without_unicode(open_terminal: Open) -> None:
    terminal = open_terminal(*SHORT, LANG="C")
    ready(terminal)
    terminal.paste("Was heißt »狐狸« auf Englisch? é 👩\u200d🌾: ")
    played(terminal)
    assert terminal.output.isascii()
    assert b"Was hei?t >????< auf Englisch? e ??:" in terminal.output
    assert b"====" in terminal.output, "bars"
