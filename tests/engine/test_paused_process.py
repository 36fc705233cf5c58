"""A worker whose reply is paused: it does not spin, and it wakes at once."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic, sleep

from termchat.decoding.records import Failed, Finished, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.port import (
    Cancel,
    Describe,
    Event,
    Paused,
    Step,
    Tokenize,
    Tokenized,
)
from tests.engine.conftest import Driver, request

TUNING = Tuning(max_tokens=40, temperature=1.0)
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def test_it_sleeps_while_it_waits_and_wakes_at_once(driver: Driver) -> None:
    engine = driver.engine
    number = engine.send(request(driver.prompt("Tell me about bells."), TUNING, paused=True))
    driver.until(number, Paused)
    assert engine.pid is not None
    before = cpu_seconds(engine.pid)
    sleep(1.0)
    assert cpu_seconds(engine.pid) - before <= 0.1
    waits = []
    for _ in range(15):
        asked = monotonic()
        engine.send(Step())
        came: list[Event] = []
        while not any(isinstance(event, Token) for event in came):
            came = [event for _, event in engine.receive(1.0)]
        waits.append(monotonic() - asked)
        if not any(isinstance(event, Paused) for event in came):  # both at once where this process was held up
            driver.until(number, Paused)
    assert min(waits) < 0.01  # its token was drawn already; a busy machine holds some of them up
    engine.send(Cancel())
    last = driver.until(number, Finished)[-1]
    assert isinstance(last, Finished)
    assert (last.reason, last.tokens) == ("user", 15)


def test_what_ids_are_is_told_with_names_and_control_tokens(driver: Driver) -> None:
    described = driver.ask(Describe(driver.prompt("naïve 😀")), Tokenized)[-1]
    assert isinstance(described, Tokenized)
    assert "".join(described.names).startswith("<|im_start|>system\n")
    assert [described.names[i] for i in described.control] == ["<|im_start|>", "<|im_end|>"] * 2 + ["<|im_start|>"]
    assert all(described.pieces[i] == b"" for i in described.control)
    assert "naïve 😀" in b"".join(described.pieces).decode()
    text = driver.ask(Tokenize("<|im_end|> 😀"), Tokenized)[-1]
    assert isinstance(text, Tokenized)
    assert text.control == []
    assert b"".join(text.pieces).decode() == "<|im_end|> 😀"
    assert any("\ufffd" in name for name in text.names)  # parts of the emoji
    assert len(text.names) == len(text.ids)
    refused = driver.ask(Describe([1, 999_999]), Tokenized)[-1]
    assert isinstance(refused, Failed)
    assert "token 999999 is not in this model's vocabulary" in refused.message
