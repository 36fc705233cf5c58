"""Presets with the real model: on the command line and while a reply streams."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from termchat.config import presets
from termchat.config.presets import CHAIN
from termchat.decoding.records import SettingsRecord, Token
from termchat.decoding.samplers import Tuning
from tests.whole.chat_steps import ENDLESS, Open, counting, stop, stored
from tests.whole.terminal import environment

F10 = "\x1b[21~"


def run(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "termchat", "run", "--json", "--threads", "1", "--context", "2048", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment(home, {}), check=False)


def records(home: Path, *args: str) -> list[dict[str, Any]]:
    done = run(home, "--seed", "5", "--max-tokens", "25", *args, "Tell me about the sea.")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.usefixtures("model_path")
@pytest.mark.parametrize("name", ["creative", "brainstorm"])
def test_a_run_with_a_preset_is_the_run_with_its_flags(tmp_path: Path, name: str) -> None:
    preset = presets.load(tmp_path / "none").get(name)
    flags = [part for knob, value in preset.named.items() for part in (f"--{knob}".replace("_", "-"), str(value))]
    named, spelled = records(tmp_path, "--preset", name), records(tmp_path, *flags)
    drawn = [[record for record in stream if record["record"] == "token"] for stream in (named, spelled)]
    assert len(drawn[0]) > 10
    assert [(token["id"], token["probability"], token["logit"]) for token in drawn[0]] == [
        (token["id"], token["probability"], token["logit"]) for token in drawn[1]
    ]
    (settings,), (others,) = ([one for one in stream if one["record"] == "settings"] for stream in (named, spelled))
    assert settings["samplers"] == others["samplers"]
    assert {settings["origin"][knob] for knob in CHAIN} == {f"preset {name}"}
    assert {others["origin"][knob] for knob in preset.named} == {"flag"}


def test_a_preset_that_there_is_not_ends_the_run_with_a_guess(tmp_path: Path) -> None:
    done = run(tmp_path, "--preset", "creativ", "hi")
    assert done.returncode == 2
    assert "unknown preset 'creativ' (did you mean creative?)" in " ".join(done.stderr.split())


def test_a_preset_is_applied_and_undone_while_a_reply_streams(open_terminal: Open) -> None:
    terminal = open_terminal(*ENDLESS, "--preset", "deterministic")
    counting(terminal)
    terminal.keys(F10)
    terminal.wait("nothing: the chain is set like this")
    terminal.keys("j", "j")
    terminal.wait("temperature  0.0 → 0.2")
    terminal.keys("enter")
    terminal.wait("┊ preset code: temperature 0.0 → 0.2 at token")
    terminal.keys("ctrl+t", "z")
    terminal.wait("┊ preset deterministic: temperature 0.2 → 0.0 at token")
    stop(terminal)
    said = stored(terminal.home)
    settings = [record for record in said if isinstance(record, SettingsRecord)]
    places = [{one.origin[name] for name in CHAIN} for one in settings]
    assert places == [{"preset deterministic"}, {"preset code"}, {"preset deterministic"}]
    known = presets.load(terminal.home / "none").entries
    wanted = [Tuning().turn_knobs(known[name].knobs).samplers() for name in ("deterministic", "code", "deterministic")]
    assert [one.samplers for one in settings] == wanted
    drawn = {one.number: [token for token in said if isinstance(token, Token) and token.settings == one.number]
             for one in settings}  # fmt: skip
    assert all(drawn.values())
    assert all(token.rank == 0 for number in (0, 2) for token in drawn[number])
