"""The worker as a process: the same ids everywhere, quick cancels, deaths, bad files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import msgspec
import pytest

from termchat.decoding.records import Failed, Finished, Prefill, SettingsRecord, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.requests import Generate
from termchat.engine.port import (
    Adjust,
    Cancel,
    Inspect,
    Inspected,
    Load,
    Loaded,
    ModelSpec,
    Prefilling,
    Tokenize,
    Unload,
    Unloaded,
)
from tests.engine.conftest import Driver, request, tokens
from tests.packed import send


def test_same_seed_same_ids_twice_and_across_processes(driver: Driver, spec: ModelSpec) -> None:
    tuning = Tuning(max_tokens=260, temperature=1.0, repeat_penalty=1.1)
    for animal in ("cats", "dogs", "gulls", "seals"):  # other processors draw other replies, and one may end sooner
        ids = driver.prompt(f"Write a long story about a lighthouse keeper and his three {animal}.")
        first = tokens(driver.ask(request(ids, tuning, seed=99)))
        if len(first) >= 200:
            break
    second = tokens(driver.ask(request(ids, tuning, seed=99)))
    other = Driver(spec)
    third = tokens(other.ask(request(ids, tuning, seed=99)))
    other.engine.close()
    assert len(first) >= 200
    numbers = [[(t.id, t.logit, t.probability, t.entropy) for t in run] for run in (first, second, third)]
    assert numbers[0] == numbers[1] == numbers[2]
    assert [t.id for t in tokens(driver.ask(request(ids, tuning, seed=100)))] != [t.id for t in first]


def test_a_long_prefill_is_cancelled_at_once_and_what_is_decoded_stays(driver: Driver) -> None:
    ids = driver.prompt("word " * 900)
    waits = []
    for _ in range(3):
        number = send(driver.engine, request(ids, Tuning(max_tokens=1)))
        while not any(isinstance(e, Prefilling) for _, e in driver.engine.receive(1.0)):
            pass
        asked = monotonic()
        send(driver.engine, Cancel())
        last = driver.until(number, Finished)[-1]
        waits.append(monotonic() - asked)
        assert isinstance(last, Finished)
        assert (last.reason, last.detail, last.tokens, last.ttft_ms) == ("user", "during prefill", 0, None)
    assert min(waits) < 0.2  # a busy machine holds one up, and another
    whole = driver.ask(request(ids, Tuning(max_tokens=1)))
    prefill = next(e for e in whole if isinstance(e, Prefill))
    assert prefill.reused >= 3 * 63
    fresh = tokens(whole)[0]
    driver.ask(Load(driver.spec), Loaded)
    again = tokens(driver.ask(request(ids, Tuning(max_tokens=1))))[0]
    assert (again.id, again.logit) == (fresh.id, fresh.logit)  # an aborted batch leaves no trace


def test_steering_reaches_a_running_reply(driver: Driver) -> None:
    ids = driver.prompt("Tell me everything about trees.")
    number = send(driver.engine, request(ids, Tuning(temperature=1.2, max_tokens=400)))
    seen: list[object] = []
    while len([e for e in seen if isinstance(e, Token)]) < 15:
        seen += [event for _, event in driver.engine.receive(1.0)]
    cold = Tuning(temperature=0, max_tokens=400)
    send(driver.engine, Adjust(cold.samplers(), cold.conditions(), {"temperature": "panel"}))
    while len([e for e in seen if isinstance(e, SettingsRecord)]) < 2:
        seen += [event for _, event in driver.engine.receive(1.0)]
    send(driver.engine, Cancel())
    seen += driver.until(number, Finished)
    change = next(e for e in seen if isinstance(e, SettingsRecord) and e.number == 1)
    at = seen.index(change)
    assert change.samplers.temperature == 0
    assert change.origin == {"temperature": "panel"}
    assert all(t.settings == 0 for t in seen[:at] if isinstance(t, Token))
    later = [t for t in seen[at:] if isinstance(t, Token)]
    assert all((t.settings, t.probability) == (1, 1.0) for t in later)
    assert isinstance(seen[-1], Finished)
    assert seen[-1].reason == "user"


def test_other_questions_are_answered_while_a_reply_streams(driver: Driver) -> None:
    ids = driver.prompt("Tell me everything about stones.")
    tuning = Tuning(max_tokens=80)
    alone = tokens(driver.ask(request(ids, tuning)))
    number = send(driver.engine, request(ids, tuning))
    counted = send(driver.engine, Tokenize("how many tokens?"))
    asked = send(driver.engine, Inspect(ids, tuning.samplers(), 7, 0))
    order, stream = [], []
    while not any(isinstance(e, Finished) for e in stream):
        for of, event in driver.engine.receive(1.0):
            order.append(of)
            if of == number:
                stream.append(event)
            if isinstance(event, Inspected):
                assert event.token.id == alone[0].id
    assert counted in order[:-1]
    assert asked in order[:-1]
    assert [(t.id, t.logit) for t in tokens(stream)] == [(t.id, t.logit) for t in alone]


def test_a_cancel_for_nothing_does_not_hurt_the_next_reply(driver: Driver) -> None:
    send(driver.engine, Cancel())
    stream = driver.ask(request(driver.prompt("Tell me a story. " * 60), Tuning(max_tokens=3)))
    assert isinstance(stream[-1], Finished)
    assert stream[-1].reason == "length"


def test_killed_in_mid_reply_it_says_so_and_can_start_again(driver: Driver) -> None:
    ids = driver.prompt("Tell me a story.")
    number = send(driver.engine, request(ids, Tuning(max_tokens=500)))
    stream: list[object] = []
    while len([e for e in stream if isinstance(e, Token)]) < 10:
        stream += [event for _, event in driver.engine.receive(1.0)]
    assert driver.engine.pid is not None
    os.kill(driver.engine.pid, signal.SIGKILL)
    last = driver.until(number, Failed)[-1]
    assert isinstance(last, Failed)
    assert last.kind == "engine"
    assert "SIGKILL" in last.message
    assert not driver.engine.alive
    assert driver.engine.receive(0.0) == []
    assert isinstance(driver.ask(Load(driver.spec), Loaded)[-1], Loaded)
    assert tokens(driver.ask(request(ids, Tuning(max_tokens=3))))


def test_the_worker_leaves_when_the_app_is_killed() -> None:
    code = (
        "import sys, time; from termchat.engine.local import LocalEngine; e = LocalEngine(); "
        "from termchat.engine.port import Unload; e.send(Unload()); print(e.pid, flush=True); time.sleep(600)"
    )
    app = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert app.stdout is not None
    worker = int(app.stdout.readline())
    app.kill()
    app.wait()
    app.stdout.close()
    end = monotonic() + 60
    while runs(worker):
        assert monotonic() < end
        sleep(0.02)


def runs(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_unload_and_questions_without_a_model(driver: Driver) -> None:
    assert isinstance(driver.ask(Unload(), Unloaded)[-1], Unloaded)
    failed = driver.ask(Generate([1], Tuning().samplers(), (), 1, {}))[-1]
    assert isinstance(failed, Failed)
    assert "no model" in failed.message


@pytest.mark.parametrize("content", [b"", b"GGUF", b"<html>not found</html>", b"GGUF\x03\x00\x00\x00" + b"\xff" * 64])
def test_files_that_are_no_model_fail_plainly(tmp_path: Path, content: bytes) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(content)
    driver = Driver(None)
    failed = driver.ask(Load(ModelSpec(str(bad), "bad")), Loaded)[-1]
    driver.engine.close()
    assert isinstance(failed, Failed)
    assert "bad.gguf" in failed.message


def test_unusable_context_settings_fail_plainly(spec: ModelSpec) -> None:
    driver = Driver(None)
    failed = driver.ask(Load(msgspec.structs.replace(spec, kv_type="q9")), Loaded)[-1]
    assert isinstance(failed, Failed)
    assert "q9" in failed.message
    loaded = driver.ask(Load(spec), Loaded)[-1]
    assert isinstance(loaded, Loaded)
    assert loaded.info.context == 2048
    assert loaded.info.vocabulary == 49152
    driver.engine.close()


def test_no_native_print_reaches_our_pipes_or_terminal(model_path: Path, tmp_path: Path) -> None:
    """Loading a broken file makes llama.cpp complain loudly; stdout and stderr of the app stay empty."""
    half = tmp_path / "half.gguf"
    with model_path.open("rb") as source, half.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.truncate(20_000_000)
    code = (
        "from termchat.engine.local import LocalEngine; from termchat.engine.port import *; import sys\n"
        f"e = LocalEngine(); e.send(Load(ModelSpec({str(half)!r}, 'half')))\n"
        "events = []\n"
        "while not events or not type(events[-1][1]).__name__ == 'Failed': events += e.receive(1.0)\n"
        "e.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_start_names_what_made_the_records(driver: Driver) -> None:
    start = driver.ask(request(driver.prompt("x"), Tuning(max_tokens=1)))[0]
    assert isinstance(start, Start)
    assert (start.version, start.seed, start.dice, start.threads, start.ubatch) == (1, 7, 1, 1, 63)
    assert (start.model.name, start.model.path) == ("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    assert start.model.architecture == "llama"
