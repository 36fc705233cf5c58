"""A worker whose reply is paused: it answers, it does not spin, it wakes at once, and it forgets what came too late."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic, sleep

import pytest

from termchat.decoding.records import Failed, Finished, SettingsRecord, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.requests import Generate
from termchat.engine.port import (
    Adjust,
    Cancel,
    Command,
    Describe,
    Event,
    Explain,
    Explained,
    Force,
    Inspect,
    Inspected,
    Load,
    Loaded,
    Message,
    Pause,
    Paused,
    Render,
    Rendered,
    Resume,
    Score,
    Scored,
    Step,
    Tokenize,
    Tokenized,
)
from tests.engine.conftest import Driver, request, tokens
from tests.packed import send

TUNING = Tuning(max_tokens=40, temperature=1.0)
TICKS = os.sysconf("SC_CLK_TCK")


def numbers(stream: list[Event]) -> list[tuple[object, ...]]:
    return [(t.step, t.id, t.logit, t.probability, t.candidates) for t in tokens(stream)]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def test_everything_is_answered_while_a_reply_waits_and_nothing_of_it_changes(driver: Driver) -> None:
    ids = driver.prompt("Tell me everything about bridges.")
    alone = driver.ask(request(ids, TUNING))
    engine = driver.engine
    number = send(engine, request(ids, TUNING, paused=True))
    stream: list[Event] = driver.until(number, Paused)
    for _ in range(10):
        send(engine, Step())
        stream += driver.until(number, Paused)
    waiting = stream[-1]
    assert isinstance(waiting, Paused)
    done = waiting.token.step
    path = [*ids, *(t.id for t in tokens(stream))]
    samplers = TUNING.samplers()
    questions: list[tuple[Command, type[Event]]] = [
        (Tokenize("how are you?"), Tokenized),
        (Describe(path), Tokenized),
        (Render([Message("user", "hi")]), Rendered),
        (Inspect(path[:-5], samplers, 7, done - 5), Inspected),
        (Explain(path[:-7], 260, samplers, 7, done - 7), Explained),
        (Score(path, done, Tuning(temperature=0.3).samplers(), 7), Scored),
    ]
    for command, answer in questions:
        assert isinstance(driver.ask(command, answer)[-1], answer)
    pending = driver.ask(Inspect(path, samplers, 7, done), Inspected)[-1]
    assert isinstance(pending, Inspected)
    assert not pending.recomputed
    assert (pending.token.id, pending.token.candidates) == (waiting.token.id, waiting.token.candidates)
    send(engine, Resume())
    stream += driver.until(number, Finished)
    assert numbers(stream) == numbers(alone)


def test_it_sleeps_while_it_waits_and_wakes_at_once(driver: Driver) -> None:
    engine = driver.engine
    number = send(engine, request(driver.prompt("Tell me about bells."), TUNING, paused=True))
    driver.until(number, Paused)
    assert engine.pid is not None
    before = cpu_seconds(engine.pid)
    sleep(1.0)
    assert cpu_seconds(engine.pid) - before <= 0.1
    waits = []
    for _ in range(15):
        asked = monotonic()
        send(engine, Step())
        came: list[Event] = []
        while not any(isinstance(event, Token) for event in came):
            came = [event for _, event in engine.receive(1.0)]
        waits.append(monotonic() - asked)
        if not any(isinstance(event, Paused) for event in came):  # both at once where this process was held up
            driver.until(number, Paused)
    assert min(waits) < 0.01  # its token was drawn already; a busy machine holds some of them up
    send(engine, Cancel())
    last = driver.until(number, Finished)[-1]
    assert isinstance(last, Finished)
    assert (last.reason, last.tokens) == ("user", 15)


def test_what_steers_a_reply_that_has_ended_is_dropped(driver: Driver) -> None:
    command = request(driver.prompt("Tell me about ropes."), TUNING)
    first = driver.ask(command)
    cold = Tuning(temperature=0)
    for late in (Pause(), Force([1, 2, 3]), Step(), Adjust(cold.samplers(), ()), Cancel()):
        send(driver.engine, late)
    second = driver.ask(command)
    assert numbers(second) == numbers(first)
    assert len([event for event in second if isinstance(event, SettingsRecord)]) == 1
    # Nor do they wake a reply that waits: what came late is not even looked at.
    send(driver.engine, Resume())
    number = send(driver.engine, request(command.ids, TUNING, paused=True))
    driver.until(number, Paused)
    assert driver.engine.receive(0.3) == []


def test_knobs_turned_while_it_waits_come_back_reshaped(driver: Driver) -> None:
    number = send(driver.engine, request(driver.prompt("Tell me about wool."), TUNING, paused=True))
    driver.until(number, Paused)
    cold = Tuning(max_tokens=3, temperature=0)
    send(driver.engine, Adjust(cold.samplers(), cold.conditions(), {"temperature": "panel"}))
    settings, reshaped = driver.until(number, Paused)
    assert isinstance(settings, SettingsRecord)
    assert isinstance(reshaped, Paused)
    assert (settings.number, settings.origin) == (1, {"temperature": "panel"})
    assert (reshaped.token.settings, reshaped.token.probability, reshaped.token.rank) == (1, 1.0, 0)
    send(driver.engine, Force([260, 261]))
    told = driver.until(number, Paused)
    assert [(t.id, t.forced) for t in tokens(told)] == [(260, True), (261, True)]
    send(driver.engine, Resume())
    assert isinstance(driver.until(number, Finished)[-1], Finished)


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


@pytest.mark.parametrize("again", [False, True])
def test_a_paused_reply_dies_like_any_other(driver: Driver, again: bool) -> None:
    ids = driver.prompt("Tell me about ink.")
    number = send(driver.engine, request(ids, TUNING, paused=True))
    driver.until(number, Paused)
    assert driver.engine.pid is not None
    os.kill(driver.engine.pid, 9)
    failed = driver.until(number, Failed)[-1]
    assert isinstance(failed, Failed)
    assert failed.kind == "engine"
    if again:
        send(driver.engine, Resume())  # to nobody: starts a process, which drops it
        driver.ask(Load(driver.spec), Loaded)
        last = driver.ask(Generate(ids, TUNING.samplers(), TUNING.conditions(), 7))[-1]
        assert isinstance(last, Finished)
        assert last.tokens > 0
