"""The worker as a process: a long prompt is left at once, bad files, stray prints, an app that is killed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import msgspec
import pytest

from termchat.decoding.records import Failed, Finished, Prefill, Start
from termchat.decoding.samplers import Tuning
from termchat.engine.port import (
    Cancel,
    Load,
    Loaded,
    ModelSpec,
    Prefilling,
)
from tests.engine.conftest import Driver, request, tokens


def test_a_long_prefill_is_cancelled_at_once_and_what_is_decoded_stays(driver: Driver) -> None:
    ids = driver.prompt("word " * 400)
    waits = []
    for _ in range(2):
        number = driver.engine.send(request(ids, Tuning(max_tokens=1)))
        while not any(isinstance(e, Prefilling) for _, e in driver.engine.receive(1.0)):
            pass
        asked = monotonic()
        driver.engine.send(Cancel())
        last = driver.until(number, Finished)[-1]
        waits.append(monotonic() - asked)
        assert isinstance(last, Finished)
        assert (last.reason, last.detail, last.tokens, last.ttft_ms) == ("user", "during prefill", 0, None)
    assert min(waits) < 0.2  # a busy machine holds one up, and another
    whole = driver.ask(request(ids, Tuning(max_tokens=1)))
    prefill = next(e for e in whole if isinstance(e, Prefill))
    assert prefill.reused >= 2 * 63
    fresh = tokens(whole)[0]
    driver.ask(Load(driver.spec), Loaded)
    again = tokens(driver.ask(request(ids, Tuning(max_tokens=1))))[0]
    assert (again.id, again.logit) == (fresh.id, fresh.logit)  # an aborted batch leaves no trace


def test_the_worker_leaves_when_the_app_is_killed() -> None:
    code = (
        "import sys, time; from termchat.engine.local import LocalEngine; e = LocalEngine(); "
        "from termchat.engine.port import Probe; e.send(Probe()); print(e.pid, flush=True); time.sleep(600)"
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
