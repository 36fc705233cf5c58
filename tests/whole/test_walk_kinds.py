"""A person makes a grid, has replies vote, and searches with beams: with the real model, in a terminal."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

from termchat.decoding.records import Finished, Record, Start, Token
from tests.whole.chat_steps import FLAGS, Open, over, ready, stored
from tests.whole.terminal import Terminal


def row(terminal: Terminal, begin: str) -> str:
    """The line of the screen that begins so, "" if none does."""
    return next((line for line in terminal.text.splitlines() if line.strip(" ▌").startswith(begin)), "")


def walked(home: Path, kind: str) -> dict[int, list[Record]]:
    """The records of the walks of a group of that kind, by walk, out of the store."""
    found: defaultdict[int, list[Record]] = defaultdict(list)
    walk = None
    for record in stored(home):
        if isinstance(record, Start):
            walk = record.walk if record.group is not None and record.group.kind == kind else None
        if walk is not None:
            found[walk].append(record)
    return found


def said(records: list[Record]) -> str:
    return "".join(record.text for record in records if isinstance(record, Token))


def test_a_grid_a_vote_and_beams(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal(*FLAGS, "--max-tokens", "10")
    ready(terminal)

    # A grid: the greedy runs are alike; a cell opens, and one of its walks is kept.
    terminal.keys("/grid temperature 0 1.5 runs 2 : Name a colour.", "enter")
    terminal.wait(lambda: over(tmp_path) == 4 and terminal.is_ready)
    terminal.wait(lambda: "all alike" in row(terminal, "0 ") and "2 of 2" in row(terminal, "1.5 "))
    grid = walked(tmp_path, "grid")
    assert said(grid[0]) == said(grid[1])
    assert said(grid[0]).strip()[:12] in row(terminal, "0 ")
    terminal.keys("down", "enter")
    terminal.wait(lambda: "3 temp 1.5 · run 1" in terminal.text and "4 temp 1.5 · run 2" in terminal.text)
    terminal.keys("enter")
    terminal.wait(lambda: "GRID" not in terminal.text and said(grid[2]).strip()[:12] in terminal.text)

    # A vote, counted by hand.
    terminal.keys(r'/vote "\w+" 4 : Answer with one word: red or blue?', "enter")
    terminal.wait(lambda: over(tmp_path) == 8 and terminal.is_ready)
    votes = walked(tmp_path, "vote").values()
    ended = [records for records in votes if any(isinstance(one, Finished) and one.reason == "end" for one in records)]
    answers = Counter(found[-1] for records in ended if (found := re.findall(r"\w+", said(records))))
    most = answers.most_common(1)[0][1] if answers else 0
    terminal.wait(f"{most} of {answers.total()} agree" if answers else "no walk has one")
    rows = [(str(count), answer) for answer, count in answers.items()]
    terminal.wait(lambda: all(any({*one} <= {*line.split()} for line in terminal.lines) for one in rows))
    terminal.keys("enter")
    terminal.wait(lambda: "VOTE" not in terminal.text)

    # Beams: their tables, then a branch of one that is not the best.
    terminal.keys("/beams 3 n-best 2 : Name a colour.", "enter")
    terminal.wait(lambda: over(tmp_path) == 10 and terminal.is_ready)
    terminal.wait(lambda: "of the best" in terminal.text and "100%" in terminal.text)
    terminal.keys("down", "enter")
    terminal.wait(lambda: over(tmp_path) == 11 and "BEAMS" not in terminal.text)
    forced = [record for record in stored(tmp_path)[-12:] if isinstance(record, Token)]
    assert all(token.forced for token in forced)
