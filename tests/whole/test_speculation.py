"""Speculation with the real model: what was drafted, a round step by step, a knob turned in the middle of one,
and how it switches itself off and on."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from termchat.config import per_model
from termchat.decoding.records import Finished, SettingsRecord, Start, Token
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Measurement, ModelSpec
from termchat.models.gguf.header import read_header
from tests.engine.drafting import COSTS
from tests.whole.chat_steps import ENDLESS, FLAGS, Open, over, ready, replayed, stop, stored, used
from tests.whole.terminal import Terminal

QUOTE = (
    "Repeat this text: The lighthouse keeper wrote in his journal every night, describing the waves, the wind and the ships"
    " that passed far away in the dark."
)
COPYING = (*FLAGS, "--temperature", "0", "--max-tokens", "30", "--draft", "ngram")
DIGITS = (
    "3 1 4 1 5 9 2 6 5 3 5 8 9 7 9 3 2 3 8 4 6 2 6 4 3 3 8 3 2 7 9 5 0 2 8 8 4 1 9 7 1 6 9 3 9 9 3 7 5 1 0 5 8 2 0 9"
)
"""Goes on with digits as random: half of what followed the same three tokens before, the spaces, follows again. That does not
pay on any processor."""


@pytest.fixture
def measured(model_path: Path, tmp_path: Path) -> None:
    """Keep what batches of the model cost: a machine that is busy with other tests cannot measure it."""
    with closing(ModelSession(ModelSpec(str(model_path), "m", context=512, threads=1), lambda _: None)) as session:
        known = Measurement(session.cache.how, 1, COSTS, 63)
    per_model.keep_rows(known, read_header(model_path).identity(), "m", tmp_path / "state/termchat/tuned.json")


def sides(terminal: Terminal) -> tuple[str, str]:
    """The chat and the panels, without line breaks."""
    halves = [line.partition("│") for line in terminal.lines[1:]]
    chat = " ".join(chat for chat, edge, _ in halves if edge)
    return " ".join(chat.split()), " ".join(" ".join(panel for _, edge, panel in halves if edge).split())


def panel(terminal: Terminal) -> str:
    return sides(terminal)[1]


@pytest.mark.usefixtures("measured")
def test_the_look_the_figures_a_round_and_a_knob_in_the_middle_of_one(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal(*COPYING)
    ready(terminal)
    terminal.keys(QUOTE, "enter")
    terminal.wait(lambda: over(tmp_path) == 1 and terminal.is_ready, 240)
    end = [record for record in stored(tmp_path) if isinstance(record, Finished)][-1]
    assert end.drafted
    terminal.keys("/look drafts", "esc", "enter")
    terminal.wait(lambda: "drafts accepted rejected plain forced" in sides(terminal)[0])
    terminal.keys("/draft", "esc", "enter")
    terminal.wait("SPECULATION")
    assert f"{end.accepted} of {end.drafted}" in panel(terminal)
    assert f"{end.rounds} round" in panel(terminal)

    # From the first token on, paused, then step by step until it stands in the middle of a round.
    terminal.keys("ctrl+g", "g", "X")
    terminal.wait("paused", 240)
    for _ in range(30):
        if "so far" in panel(terminal):
            break
        before = used(terminal)
        terminal.keys("n")
        terminal.wait(lambda before=before: used(terminal) > before)
        terminal.settle()
    assert re.search(r"accept \d+ of \d+ so far", panel(terminal))
    assert "▸" in panel(terminal)
    terminal.keys("ctrl+t", "t", "0.3", "enter", "esc")
    terminal.wait("paused", 240)
    terminal.keys(" ")
    terminal.wait(lambda: over(tmp_path) == 2 and terminal.is_ready, 240)
    records = stored(tmp_path)
    begin = max(at for at, record in enumerate(records) if isinstance(record, Start))
    tokens = [record for record in records[begin:] if isinstance(record, Token)]
    assert [token.step for token in tokens] == list(range(len(tokens)))
    knobs = [record.samplers.temperature for record in records[begin:] if isinstance(record, SettingsRecord)]
    assert (knobs[0], knobs[-1]) == (0.0, 0.3)
    assert any(token.draft is not None for token in tokens)

    again = replayed(terminal, tmp_path)
    assert "identical" in again.stdout, again.stdout + again.stderr


@pytest.mark.usefixtures("measured")
def test_it_switches_itself_off_and_on_and_says_why(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal(*ENDLESS, "--draft", "ngram", "--temperature", "1.2")
    ready(terminal)
    terminal.keys(DIGITS, "enter")
    why = r"drafting off: accepted \d+%(, breaks even at \d+%|, never pays here)?"
    terminal.wait(lambda: re.search(rf"┊ {why} at token \d+", sides(terminal)[0]), 240)
    terminal.wait(lambda: "drafting off" in terminal.header)
    # The likeliest token each time: soon the same ones again and again.
    terminal.keys("/temperature 0", "enter")
    terminal.wait(lambda: "drafting on again" in sides(terminal)[0], 240)
    terminal.wait(lambda: "drafting +" in terminal.header or "drafting −" in terminal.header, 240)
    stop(terminal)
    told = [record.drafting for record in stored(tmp_path) if isinstance(record, SettingsRecord)]
    assert told[0] == ""
    assert any(told)
    assert told[-1] == "" or "accepted" in told[-1]
