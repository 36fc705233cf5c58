"""A person looks at the plots of a real reply."""

from __future__ import annotations

import re
from statistics import median

from termchat.decoding.records import Finished, Token
from termchat.tui.pages.plots import format_number
from tests.whole.chat_steps import FLAGS, Open, ready, stored

NEXT_PAGE, BIG = "\x1d", "\x1b[17~"


def test_the_plots_of_a_reply_are_those_of_its_records(open_terminal: Open) -> None:
    terminal = open_terminal(*FLAGS, "--seed", "42", "--max-tokens", "60")
    ready(terminal)
    terminal.keys(NEXT_PAGE, "Tell me a very long story about a fox and a bear.", "enter")
    terminal.wait(lambda: re.search(r"ENTROPY in bit.* [0-9]\.[0-9][0-9]", terminal.text))
    terminal.keys(BIG)  # while it streams
    terminal.wait(lambda: "F6 back" in terminal.text and "ENTROPY" in terminal.text)
    ready(terminal)
    terminal.wait(lambda: any(isinstance(record, Finished) for record in stored(terminal.home)))
    tokens = [record for record in stored(terminal.home) if isinstance(record, Token)]
    times = [token.decode_us / 1e3 for token in tokens]
    last = tokens[-1]
    terminal.wait(
        lambda: re.search(rf"ENTROPY in bit .*\b{last.step} .*{last.entropy:.2f}\s*$", terminal.text, re.MULTILINE)
    )
    terminal.wait(f"median {format_number(median(times))} ")
    terminal.wait(f"worst {format_number(max(times))} at {times.index(max(times))} ")
    terminal.keys("esc")
    terminal.wait("F6 big")
    terminal.keys(NEXT_PAGE)
    terminal.wait(rf"TOKEN {last.step} ")
    terminal.wait("as recorded")
    terminal.keys("\x14", "t", "2", "enter", "esc")  # Ctrl+T: the last token at another temperature
    terminal.wait(rf"PREVIEW {last.step} ")
    terminal.wait("with the current knobs")
