"""Copying, selecting with the mouse, editing and finding in the real program, with the real model."""

from __future__ import annotations

import base64
import os
import re
import stat
from pathlib import Path

from tests.whole.chat_steps import FLAGS, SHORT, Open, place, ready, said
from tests.whole.terminal import Terminal

CODE = "```python\nfor fox in den:\n\n    print(fox)  # 狐狸\n```"


def osc52(terminal: Terminal) -> list[str]:
    """The texts that went to the terminal's clipboard."""
    found = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", bytes(terminal.output))
    return [base64.b64decode(data).decode() for data in found]


def fake(folder: Path, name: str, status: int = 0) -> Path:
    """A tool in a folder of its own that keeps what it is given beside itself, and ends with a status."""
    folder.mkdir(exist_ok=True)
    tool = folder / name
    tool.write_text(f'#!/bin/sh\ncat > "{folder}/{name}.took"\necho "$@" > "{folder}/{name}.args"\nexit {status}\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return folder / f"{name}.took"


def drag(terminal: Terminal, *places: tuple[int, int], release: bool = True) -> None:
    """The mouse is pressed on the first cell, drawn over the others and let go; columns and rows count from 0."""
    for number, (x, y) in enumerate(places):
        code = 0 if number == 0 else 32
        terminal.keys(f"\x1b[<{code};{x + 1};{y + 1}M")
        terminal.settle(0.05)
    if release:
        x, y = places[-1]
        terminal.keys(f"\x1b[<0;{x + 1};{y + 1}m")


def test_what_is_copied_goes_through_the_terminal_and_to_the_systems_tool(open_terminal: Open, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    took, path = fake(tools, "xclip"), f"{tools}:{os.environ['PATH']}"
    terminal = open_terminal(*SHORT, DISPLAY=":9", WAYLAND_DISPLAY="", PATH=path)
    ready(terminal)
    said(terminal, CODE + "\nand\n~~~\nsecond\n~~~\n")
    terminal.keys("/copy-code", "esc", "enter")
    terminal.wait("copied code block 2 of 2")
    terminal.wait("by xclip and through the terminal")
    assert took.read_text() == "second"
    terminal.keys("/copy-code", "esc", "enter")
    terminal.wait("copied code block 1 of 2 (python)")
    code = "for fox in den:\n\n    print(fox)  # 狐狸"
    terminal.wait(lambda: took.read_text() == code)
    terminal.wait(lambda: "-selection clipboard" in (tools / "xclip.args").read_text())  # which it writes last
    terminal.keys("/copy-reply", "esc", "enter")
    terminal.wait("copied the last reply")
    assert osc52(terminal)[:2] == ["second", code]
    assert osc52(terminal)[2].startswith(CODE + "\nand\n~~~\nsecond\n~~~\n")


def test_a_tool_that_fails_is_not_believed(open_terminal: Open, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    fake(tools, "xclip", 1)
    took, path = fake(tools, "xsel"), f"{tools}:{os.environ['PATH']}"
    terminal = open_terminal(*SHORT, DISPLAY=":9", WAYLAND_DISPLAY="", PATH=path)
    ready(terminal)
    said(terminal, "A fox.")
    terminal.keys("/copy-reply", "esc", "enter")
    terminal.wait("by xsel and through the terminal")
    assert took.read_text().startswith("A fox.")


LONG = "The quick brown fox jumps over the lazy dog, which did not see it, while 狐狸和熊 sleep under a very old tree."


def test_what_is_selected_with_the_mouse_is_copied_as_it_was_written(open_terminal: Open) -> None:
    terminal = open_terminal(*SHORT, columns=60, rows=30, DISPLAY="", WAYLAND_DISPLAY="")
    ready(terminal)
    said(terminal, LONG + "\n\n" + CODE + "\n\nend of it")
    terminal.wait("end of it")
    terminal.settle()
    first, last = place(terminal, "quick brown"), place(terminal, "和熊", after=True)
    assert last[1] > first[1]  # over a line break that only the width made
    drag(terminal, first, (first[0] + 4, first[1]), last)
    terminal.keys("ctrl+c")
    terminal.wait("copied the selection")
    assert osc52(terminal) == ["quick brown fox jumps over the lazy dog, which did not see it, while 狐狸和熊"]
    wide = place(terminal, "狐狸")
    drag(terminal, (wide[0] + 1, wide[1]), (wide[0] + 2, wide[1]), (wide[0] + 3, wide[1]))
    terminal.keys("ctrl+c")
    terminal.wait(lambda: len(osc52(terminal)) == 2)
    assert osc52(terminal)[1] == "狐狸"  # from the second cell of the one to the second of the other
    drag(terminal, place(terminal, "for fox"), place(terminal, "print(fox)", after=True))
    terminal.keys("ctrl+c")
    terminal.wait(lambda: len(osc52(terminal)) == 3)
    assert osc52(terminal)[2] == "for fox in den:\n\n    print(fox)"


def test_a_selection_goes_on_beyond_the_edge_and_while_a_reply_streams(open_terminal: Open) -> None:
    terminal = open_terminal(*FLAGS, columns=80, rows=24, DISPLAY="", WAYLAND_DISPLAY="")
    ready(terminal)
    terminal.keys("/prefill", "esc", "enter")
    terminal.wait("first words of the reply")
    terminal.keys("\\n\\n".join(f"line {n} of it" for n in range(40)), "enter")
    terminal.wait("/prefill changes it")
    terminal.keys("Tell me a very long story about a fox and a bear.", "enter")
    terminal.wait("writing")
    terminal.wait(lambda: re.search(r"entropy|line [23]\d of it", terminal.text), limit=120)
    terminal.keys("\x1b[1;5H")  # Ctrl+Home
    terminal.wait("line 2 of it")
    begin = place(terminal, "line 2 of it")
    edge = place(terminal, re.findall(r"line \d+ of it", terminal.text)[-1], after=True)
    drag(terminal, begin, (10, begin[1] + 1), edge, release=False)
    # It scrolls under the mouse, on a busy machine by many lines between two looks.
    terminal.wait(lambda: re.search(r"line (2[5-9]|[3-9]\d|\d{3}) of it", terminal.text))
    terminal.keys(f"\x1b[<0;{edge[0] + 1};{edge[1] + 1}m", "ctrl+c")
    terminal.wait("copied the selection")
    lines = [line for line in osc52(terminal)[0].split("\n") if line]
    assert len(lines) > 20  # more than the screen has
    assert lines[:20] == [f"line {n} of it" for n in range(2, 22)]
