"""A person walks a prompt several times in the whole program: a knob is turned for all, one is kept, and the chat goes on."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from time import monotonic, sleep

from termchat.decoding.records import Finished, Prefill, SettingsRecord, Start, Token
from tests.stalls import Stalls
from tests.whole.chat_steps import COUNT, ENDLESS, Open, over, ready, stop, stored
from tests.whole.terminal import Terminal


def tokens(terminal: Terminal) -> list[int]:
    """How many each walk has, as the heads of the columns say."""
    return [int(found) for found in re.findall(r" (\d+) [●■]", terminal.text)]


def four_walks(open_terminal: Open) -> Terminal:
    """Walks that do not end by themselves; each has said a little."""
    terminal = open_terminal(*ENDLESS)
    ready(terminal)
    terminal.keys(f"/walks 4 : {COUNT}", "enter")
    terminal.wait(lambda: len(tokens(terminal)) == 4 and min(tokens(terminal)) > 8)
    return terminal


def test_four_walks_stream_a_knob_is_turned_for_all_one_is_kept_and_the_chat_goes_on(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = four_walks(open_terminal)
    assert "WALKS  4" in terminal.text
    assert COUNT in terminal.text.splitlines()[2]
    assert re.search(r"\d+ t/s each · \d+ t/s total", terminal.text)

    terminal.keys("ctrl+t", "t", "0", "enter", "esc")
    terminal.wait(lambda: terminal.text.count("temperature 0.8 →") == 4 and len(tokens(terminal)) == 4)
    before = min(tokens(terminal))
    terminal.wait(lambda: len(tokens(terminal)) == 4 and min(tokens(terminal)) > before + 4)

    terminal.keys("3", "enter")
    terminal.wait(lambda: "WALKS" not in terminal.text and "walk 3 of 4" in terminal.text)
    terminal.wait(lambda: over(tmp_path) == 3)
    stop(terminal)
    terminal.wait(lambda: over(tmp_path) == 4)
    terminal.keys(" and", "enter")
    terminal.wait(lambda: re.search(r"reused|decode \d", terminal.text) and "writing" in terminal.header)
    stop(terminal)
    terminal.wait(lambda: over(tmp_path) == 5)

    records = stored(tmp_path)
    walks = {record.walk: record for record in records if isinstance(record, Start) and record.group is not None}
    assert sorted(walk for walk in walks if walk is not None) == [0, 1, 2, 3]
    turned = [record.walk for record in records if isinstance(record, SettingsRecord) and record.number == 1]
    assert sorted(walk for walk in turned if walk is not None) == [0, 1, 2, 3]
    prompt = {record.walk: record for record in records if isinstance(record, Prefill)}
    kept = next(record for record in records if isinstance(record, Finished) and record.walk == 2)
    ids = prompt[2].tokens + kept.tokens  # the last one was drawn, and not decoded
    assert prompt[None].reused in (ids - 1, ids)
    assert prompt[None].tokens - prompt[None].reused < 8


def test_killed_in_mid_walk_a_finished_one_is_whole_and_the_others_lack_a_second_at_most(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = four_walks(open_terminal)
    terminal.keys("2", "k")
    terminal.wait(lambda: over(tmp_path) == 1 and len(tokens(terminal)) == 4)
    shown = tokens(terminal)
    with Stalls(tmp_path) as stalls:
        begun = monotonic()
        sleep(1.2)
        sleep(stalls.longest(begun))
    terminal.process.kill()

    records = stored(tmp_path)
    kept = Counter(record.walk for record in records if isinstance(record, Token))
    ended = {record.walk: record for record in records if isinstance(record, Finished)}
    assert list(ended) == [1]
    assert kept[1] == ended[1].tokens >= shown[1]
    assert all(kept[walk] >= shown[walk] for walk in (0, 2, 3)), (kept, shown)

    again = open_terminal(*ENDLESS, "--resume")
    again.wait(lambda: "of 4" in again.text or "/4" in again.text)
