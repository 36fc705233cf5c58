"""An engine on another machine, with a program that stands for ssh; `tests/over_ssh` meets the real one."""

from __future__ import annotations

import json
import math
import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Literal

import msgspec
import pytest

import termchat
from termchat.decoding.records import Failed, Finished, Token
from termchat.decoding.samplers import Tuning
from termchat.engine import ssh, wire
from termchat.engine.address import EngineAddress
from termchat.engine.make import engine_at
from termchat.engine.port import (
    DraftLoaded,
    EngineError,
    Event,
    Load,
    LoadDraft,
    Loaded,
    ModelSpec,
    Probe,
    Probed,
    Tokenize,
)
from termchat.engine.ssh import ssh_command
from termchat.models.elsewhere import models_of
from tests.engine.conftest import Driver, request, tokens
from tests.fake_ssh import WORKER, hasty, install, lab
from tests.processes import wait_for_group_end

SPEC = ModelSpec("smollm2", "smollm2", context=2048, threads=1)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The other machine's own folders, and what stands for ssh."""
    for kind in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    (tmp_path / "bin").mkdir()
    install(tmp_path / "bin", monkeypatch)
    return tmp_path


class Remote(Driver):
    """A worker behind a line, driven one question after the other."""

    def __init__(self, address: EngineAddress, log: Path | None = None) -> None:
        super().__init__(None)
        self.engine, self.address = engine_at(address, log), address

    def load(self, spec: ModelSpec = SPEC) -> Event:
        """The answer to a command to load a model there."""
        return self.ask(Load(msgspec.structs.replace(spec, engine=self.address)), Loaded)[-1]


@pytest.fixture
def remote() -> Iterator[Remote]:
    made = Remote(lab())
    yield made
    made.engine.close()


def failure(address: EngineAddress, log: Path | None = None) -> Failed:
    remote = Remote(address, log)
    answer = remote.ask(Probe(), Probed)[-1]
    assert isinstance(answer, Failed)
    assert not remote.engine.alive
    return answer


def test_the_other_machine_runs_a_model_as_configured_there_but_for_what_is_said_here(home: Path) -> None:
    file = home / "CONFIG" / "termchat" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('model = "smollm2"\n[engine]\ncontext = 1024\nthreads = 1\n')
    (home / "CONFIG" / "termchat" / "models.toml").write_text("")
    for spec, context in ((ModelSpec("", "lab"), 1024), (ModelSpec("", "lab", context=512), 512)):
        remote = Remote(lab(model=""))
        loaded = remote.load(spec)
        assert isinstance(loaded, Loaded), loaded
        assert (loaded.info.name, loaded.info.context, loaded.info.threads) == ("smollm2", context, 1)
        assert len(loaded.info.sha256) == 64
        remote.engine.close()


def test_what_a_shell_prints_before_the_worker_is_skipped() -> None:
    for stray in ("echo Welcome to lab.", r"printf '\000termchat\000\377'", "head -c 60000 /dev/zero"):
        remote = Remote(lab(f"{stray}; {WORKER}"))
        assert isinstance(remote.ask(Probe(), Probed)[-1], Probed)
        remote.engine.close()


def test_nothing_is_sent_before_the_worker_says_hello(tmp_path: Path) -> None:
    """Whoever reads there may be a shell."""
    got = tmp_path / "got"
    remote = Remote(lab(f"echo Password:; cat > {shlex.quote(str(got))}"))
    remote.engine.send(Tokenize("rm -rf ."))
    assert remote.engine.receive(0.3) == []
    remote.engine.close()
    assert got.read_bytes() == b""


@pytest.mark.parametrize("logged", [True, False])
@pytest.mark.parametrize(
    ("command", "message", "hint"),
    [
        ("nosuchtermchat worker", "lab could not run 'nosuchtermchat worker'", "install termchat there"),
        ("echo 'Permission denied (publickey).' >&2; exit 255", "lab cannot be reached: Permission denied", "ssh lab"),
        ("echo This account is closed.", "This account is closed.", "see what a login there prints"),
        ("echo broken >&2; exit 3", "broken", "see the log"),
        ("true", "lab could not run 'true'", "install termchat there"),
        ("yes hello", "lab printed a lot, and no worker started: hello", "see what a login there prints"),
    ],
)
def test_a_worker_that_does_not_start_is_told_with_what_was_said(
    command: str, message: str, hint: str, logged: bool, tmp_path: Path
) -> None:
    answer = failure(lab(command), tmp_path / "log" if logged else None)
    assert answer.kind == "engine"
    assert message in answer.message
    assert hint in answer.hint


def test_what_the_other_machine_says_steers_no_terminal() -> None:
    answer = failure(lab(r"printf 'a\033]0;owned\007b' >&2; exit 255"))
    assert "\x1b" not in answer.message
    assert "\x07" not in answer.message


def said(hello: wire.Hello, place: Path) -> str:
    """A command that says this hello and then nothing."""
    body = msgspec.json.encode(hello)
    real = wire.hello()
    sign = real[: real.index(b"{") - 4]
    place.write_bytes(sign + len(body).to_bytes(4, "little") + body)
    return f"cat {shlex.quote(str(place))}; cat > /dev/null"


@pytest.mark.parametrize(
    ("version", "message", "hint"),
    [
        ("0.0.9", "lab runs termchat 0.0.9, this machine {here}", "install termchat {here} on lab, as on this machine"),
        ("9.10", "lab runs termchat 9.10, this machine {here}", "install termchat 9.10 on this machine, as on lab"),
        ("{here}", "lab runs another build of termchat {here}", "install the same build on both"),
    ],
)
def test_another_termchat_there_says_what_to_install_where(
    version: str, message: str, hint: str, tmp_path: Path
) -> None:
    here = termchat.__version__
    answer = failure(lab(said(wire.Hello(version.format(here=here), "another"), tmp_path / "hello")))
    assert answer.message.startswith(message.format(here=here))
    assert answer.hint == hint.format(here=here)


def sent(data: bytes, place: Path, *, for_ever: bool = False) -> EngineAddress:
    """An engine behind a line on which these bytes come, once or again and again."""
    place.write_bytes(data)
    once = f"cat {shlex.quote(str(place))}"
    return lab(f"while {once}; do :; done" if for_ever else f"{once}; cat > /dev/null")


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "little") + body


def event(*values: object) -> bytes:
    return framed(msgspec.msgpack.encode(values))


def greeting(body: bytes) -> bytes:
    real = wire.hello()
    return real[: real.index(b"{") - 4] + framed(body)


DEEP = 60_000
HELLOS = {
    "superscript": '{"termchat":"0.²","protocol":"x"}'.encode(),
    "5,000 digits": b'{"termchat":"' + b"9" * 3_000 + b'","protocol":"x"}',
    "escapes": b'{"termchat":"1.\\u001b]0;own\\u0007","protocol":"x"}',
    "no UTF-8": b'{"termchat":"\xff\xfe","protocol":"x"}',
    "deep": b'{"termchat":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep and unknown": b'{"termchat":"1","protocol":"x","z":' + b"[" * 1_500 + b"]" * 1_500 + b"}",
    "negative": b'{"termchat":"1","protocol":"x","beats":-1}',
    "endless": b'{"termchat":"1","protocol":"x","beats":1e308}',
    "no JSON": b"hello",
    "other": b"[]",
}


@pytest.mark.parametrize("body", HELLOS.values(), ids=HELLOS)
def test_a_hello_that_is_none_is_told(body: bytes, tmp_path: Path) -> None:
    answer = failure(sent(greeting(body), tmp_path / "hello"))
    assert answer.message.startswith("invalid message from lab: ")
    assert answer.message.isprintable()
    assert len(answer.message) < 200
    assert answer.hint == "install the same termchat on both machines"


TOKEN = (1, ["token", 0, 0, 5, b"a", "a", 1.0, -1.0, 0, 0.5, 1.0, 0.1, 0, False, [], [], {}, 1, 1])


def token_with(field: int, value: object) -> bytes:
    record = list(TOKEN[1])
    record[field] = value
    return event(1, record)


MESSAGES = {
    "garbage": framed(b"garbage"),
    "4 GB": b"\xff\xff\xff\xff" + b"x" * 100_000,
    "deep": framed(b"\x92\x01" + b"\x91" * DEEP + b"\xc0"),
    "deep and unknown": framed(b"\x92\x01\x93\xa8Progress\xca\x3f\x00\x00\x00" + b"\x91" * DEEP + b"\xc0"),
    "no UTF-8": framed(b"\x92\x01\x91\xa2\xff\xfe"),
    "unknown": event(1, ["Nonsense", 1]),
    "large id": token_with(3, 1 << 40),
    "large rank": token_with(8, 1 << 31),
    "large number": event(1, ["Prefilling", 1 << 63, 1]),
    "no fraction": event(1, ["Progress", float("nan")]),
    "ids without pieces": event(1, ["Tokenized", [1, 2], [b"a"]]),
    "a missing index": event(1, ["Tokenized", [1], [b"a"], [], [5]]),
    "large prompt id": event(1, ["Rendered", [1 << 31], True]),
    "other lengths": event(1, ["Scored", [1], [], [0.5]]),
}


@pytest.mark.parametrize("data", MESSAGES.values(), ids=MESSAGES)
def test_a_message_that_is_none_is_told(data: bytes, tmp_path: Path) -> None:
    answer = failure(sent(wire.hello() + data, tmp_path / "frames"))
    assert answer.message.startswith("invalid message from lab: ")
    assert len(answer.message) < 200


@pytest.mark.parametrize(
    ("field", "name", "value"),
    [
        (6, "logit", 1e308),
        (7, "logprob", 1e308),
        (7, "logprob", 0.5),
        (9, "probability", -1.0),
        (9, "probability", float("inf")),
        (10, "entropy", -5.0),
        (11, "p_end", 2.0),
    ],
)
def test_a_number_that_cannot_be_is_absent(field: int, name: str, value: float, tmp_path: Path) -> None:
    remote = Remote(sent(wire.hello() + token_with(field, value), tmp_path / "frames"))
    remote.engine.send(Probe())
    ((_, token),) = remote.engine.receive(10.0)
    assert isinstance(token, Token)
    assert math.isnan(getattr(token, name))
    assert token.id == 5
    remote.engine.close()


def test_so_is_one_of_a_candidate_or_a_stage(tmp_path: Path) -> None:
    data = token_with(15, [[1, "a", 1e308, 1e308, 7.0, 1e308, None], [2, "b", 1.0, -1.0, 0.5, 0.1, None]])
    data += token_with(14, [["grammar", 5, -0.5]]) + token_with(16, {"tail": 9.0, "mu": 9.5})
    remote = Remote(sent(wire.hello() + data, tmp_path / "frames"))
    remote.engine.send(Probe())
    found: list[Event] = []
    while len(found) < 3:
        found += [event for _, event in remote.engine.receive(10.0)]
    first, stage, state = (one for one in found if isinstance(one, Token))
    odd, right = first.candidates
    assert [*map(math.isnan, (odd.logit, odd.logprob, odd.probability, odd.noise))] == [True] * 4
    assert (right.logit, right.probability) == (1.0, 0.5)
    assert stage.stages[0].mass is None
    assert state.state == {"mu": 9.5}
    remote.engine.close()


@pytest.mark.parametrize("data", [event(1, ["Progress", 0.5]) * 20_000, wire.BEAT * 200_000], ids=["events", "beats"])
def test_a_flood_gives_the_screen_its_turn(data: bytes, tmp_path: Path) -> None:
    remote = Remote(sent(wire.hello() + data, tmp_path / "frames", for_ever=True))
    remote.engine.send(Probe())
    took: list[int] = []
    reading = Thread(target=lambda: took.extend(len(remote.engine.receive(0.05)) for _ in range(20)), daemon=True)
    reading.start()
    reading.join(60)
    assert len(took) == 20
    assert max(took) < 20_000
    remote.engine.close()


LISTS = {
    "deep": b'{\n"models":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "no UTF-8": b'{\n"models":[{"name":"\xff\xfe"}]}',
    "cut": b'{\n"models":[{"name":"a',
    "many": b'{\n"models":[' + b"{}," * 20_000 + b"{}]}",
    "no list": b'{\n"models":5}',
}


@pytest.mark.parametrize("printed", LISTS.values(), ids=LISTS)
def test_a_list_of_models_that_is_none_is_told(printed: bytes, tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(printed)
    with pytest.raises(EngineError, match="invalid list of models from lab: ") as refused:
        models_of(lab(f"cat {shlex.quote(str(tmp_path / 'list'))}; true worker"))
    assert len(refused.value.message) < 200


def test_a_list_of_models_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(EngineError, match=r"it printed more than 16\.8 MB"):
        models_of(lab("yes; true worker"))
    with pytest.raises(EngineError, match=r"no answer within 1 s"):
        models_of(lab("yes >&2; true worker"), within=1.0)


def test_one_bad_model_takes_no_other_along(tmp_path: Path) -> None:
    good = {"wanted": "w", "name": "good", "state": "ready"}
    rows = [good | {"size": 1 << 70}, good | {"context": -5}, good | {"state": "odd"}, {}, good]
    (tmp_path / "list").write_bytes(b"Welcome.\n" + json.dumps({"models": rows}, indent=1).encode())
    assert [row.name for row in models_of(lab(f"cat {shlex.quote(str(tmp_path / 'list'))}; true worker"))] == ["good"]


def test_a_newer_termchat_that_speaks_the_same_is_good_enough(tmp_path: Path) -> None:
    remote = Remote(lab(said(wire.Hello("99.0", wire.digest_protocol()), tmp_path / "hello")))
    remote.engine.send(Probe())
    assert remote.engine.receive(0.3) == []
    assert remote.engine.alive
    remote.engine.close()


def test_the_digest_of_the_protocol_is_the_same_in_every_process_and_changes_with_it(monkeypatch) -> None:
    code = "from termchat.engine import wire; print(wire.digest_protocol())"
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        other = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert other.stdout.strip() == wire.digest_protocol()
    before = wire.digest_protocol()
    monkeypatch.setattr(wire, "Event", Loaded | Failed | Finished)
    assert wire.digest_protocol() != before
    digests = []
    for names in (Literal["token", "line"], Literal["token", "word"]):
        monkeypatch.setattr(wire, "Event", msgspec.defstruct("Unit", [("unit", names)]))
        digests.append(wire.digest_protocol())
    assert len({*digests}) == 2, "a value that only one of the two knows"


def test_a_cut_line_is_told_and_nothing_is_left_running(remote: Remote) -> None:
    remote.load()
    ids = remote.prompt("Tell me a long story.")
    number = remote.engine.send(request(ids, Tuning(max_tokens=400, temperature=0.5)))
    pid = remote.engine.pid
    assert pid is not None
    found: list[Event] = []
    while not tokens(found):
        found += [event for _, event in remote.engine.receive(1.0)]
    os.kill(pid, signal.SIGTERM)
    answer = remote.until(number, Finished)[-1]
    assert isinstance(answer, Failed)
    assert answer.message == ("the line to lab was cut, or its worker ended: client_loop: send disconnect: Broken pipe")
    wait_for_group_end(pid)
    assert isinstance(remote.load(), Loaded)


def test_what_a_worker_said_before_it_was_killed_is_no_reason(tmp_path: Path) -> None:
    hello = tmp_path / "hello"
    hello.write_bytes(wire.hello())
    noted = "llama_context: n_ctx_seq (8448) > n_ctx_train (8192) -- possible training context overflow"
    for line, because in ((noted, ""), ("GGML_ASSERT(rows) failed", ": GGML_ASSERT(rows) failed")):
        answer = failure(lab(f"cat {shlex.quote(str(hello))}; sleep 0.5; echo {shlex.quote(line)} >&2; exit 255"))
        assert answer.message == f"the line to lab was cut, or its worker ended{because}"


def test_a_line_that_falls_silent_is_told_and_nothing_is_left_running() -> None:
    remote = Remote(lab(hasty(0.5)))
    remote.load()
    number = remote.engine.send(request(remote.prompt("Tell me a long story."), Tuning(max_tokens=400)))
    pid = remote.engine.pid
    assert pid is not None
    found: list[Event] = []
    while not tokens(found):
        found += [event for _, event in remote.engine.receive(1.0)]
    os.killpg(pid, signal.SIGSTOP)
    stopped = monotonic()
    answer = remote.until(number, Finished)[-1]
    assert 2.5 < monotonic() - stopped < 30
    assert isinstance(answer, Failed)
    assert (answer.kind, answer.message) == ("engine", "the line to lab is silent: no word for 3 s")
    assert not remote.engine.alive
    os.killpg(pid, signal.SIGCONT)  # the line is back, and its worker hears that nobody waits for it
    wait_for_group_end(pid)
    assert isinstance(remote.load(), Loaded)
    remote.engine.close()


@pytest.mark.parametrize("said", ["", "Welcome."])
def test_a_command_that_never_says_hello_is_given_up(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setattr(ssh, "_HELLO_WITHIN", 2.0)
    remote = Remote(lab(f"echo {said}; exec sleep 600"))
    begun = monotonic()
    number = remote.engine.send(Probe())
    answer = remote.until(number, Probed)[-1]
    assert 1.9 < monotonic() - begun < 30
    assert isinstance(answer, Failed)
    assert (answer.kind, answer.message) == (
        "engine",
        "lab started no worker within 2 s" + (f": {said}" if said else ""),
    )
    assert "a login there prints" in answer.hint if said else "remote_command" in answer.hint
    assert not remote.engine.alive
    remote.engine.close()


def test_what_takes_long_is_no_silence_nor_is_an_app_that_stands_still() -> None:
    remote = Remote(lab(hasty(0.5, late=7.0)))
    number = remote.engine.send(Probe())
    sleep(4)
    assert isinstance(remote.until(number, Probed)[-1], Probed)
    remote.engine.close()


def test_nothing_comes_while_nobody_waits() -> None:
    """Else a screen at rest would wake up for it."""
    remote = Remote(lab(hasty(0.05)))
    remote.ask(Probe(), Probed)
    remote.engine.receive(0.2)
    assert not select.select([remote.engine.fileno()], [], [], 0.5)[0]
    remote.engine.close()


def test_signs_of_life_are_given_only_to_who_knows_them(tmp_path: Path) -> None:
    """An older app asks for none, and an older worker is asked for none."""
    line = subprocess.Popen(
        ["/bin/sh", "-c", hasty(0.05, late=1.0)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert line.stdin is not None
    assert line.stdout is not None
    line.stdin.write(wire.frame(1, Probe()))
    data = b""
    frames: wire.Frames[Event] = wire.Frames(Event)
    while not (heard := wire.find_hello(data)) or not frames.feed_bytes(heard[2]):
        data += line.stdout.read(1 << 16)
        frames = wire.Frames(Event)
    assert frames.beats == 0
    line.stdin.close()
    line.wait()
    line.stdout.close()

    for beats, asked in ((0.0, b""), (2.5, wire.BEAT)):
        got = tmp_path / "got"
        hello = said(wire.Hello(termchat.__version__, wire.digest_protocol(), beats), tmp_path / "hello")
        remote = Remote(lab(hello.replace("/dev/null", str(got))))
        number = remote.engine.send(Probe())
        remote.engine.receive(0.5)
        remote.engine.close()
        assert got.read_bytes() == asked + wire.frame(number, Probe())


def test_the_worker_leaves_when_the_line_ends(remote: Remote) -> None:
    remote.ask(Probe(), Probed)
    pid = remote.engine.pid
    assert pid is not None
    remote.engine.close()
    wait_for_group_end(pid)


def test_the_command_line_holds_no_question_and_no_key() -> None:
    address = EngineAddress(url="ssh://ada@lab:2222")
    assert ssh_command(address, "termchat worker") == [
        *("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"),
        *("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"),
        *("-p", "2222", "-l", "ada", "--", "lab", "termchat worker"),
    ]
    assert ssh_command(EngineAddress(url="ssh://[::1]"), "w")[-2:] == ["::1", "w"]


def test_tokens_arrive_one_by_one(remote: Remote) -> None:
    """A line that gathers would make the knobs late."""
    remote.load()
    number = remote.engine.send(request(remote.prompt("Count to ten."), Tuning(max_tokens=12, temperature=0.0)))
    sizes: list[int] = []
    while not (found := [event for of, event in remote.engine.receive(1.0) if of == number]) or not isinstance(
        found[-1], Finished
    ):
        sizes.append(sum(isinstance(event, Token) for event in found))
    assert max(sizes) <= 3


def test_the_models_there_are_listed() -> None:
    rows = {row.wanted: row for row in models_of(lab(f"echo Welcome.; {WORKER}"))}
    assert (rows["smollm2"].state, rows["smollm2"].context, rows["smollm2"].path) == ("ready", 8192, None)
    with pytest.raises(EngineError, match="lab: it broke"):
        models_of(lab("echo it broke >&2; exit 3; worker"))
    with pytest.raises(EngineError, match="does not end with worker"):
        models_of(lab("run-it"))
    with pytest.raises(EngineError, match="no answer within 0 s"):
        models_of(lab("sleep 60; worker"), within=0.2)
    with pytest.raises(EngineError, match="invalid list of models from lab"):
        models_of(lab("echo '{}'; true worker"))


def test_flags_alone_reach_a_termchat_at_an_odd_place() -> None:
    there = ["--engine", "ssh://lab", "--remote-command", "false worker"]
    for asked in (["models", "list"], ["run", "--model", "smollm2", "Hello"]):
        refused = subprocess.run(
            [sys.executable, "-P", "-m", "termchat", *asked, *there], capture_output=True, text=True, check=False
        )
        assert refused.returncode == 1
        assert "ssh://lab" in refused.stderr
    there[-1] = WORKER
    short = ["--max-tokens", "3", "--threads", "1", "--context", "512"]
    for asked in (["models", "list"], ["run", "--model", "smollm2", *short, "Hello"]):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "termchat", *asked, *there], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()


def test_windows_is_told_what_to_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(EngineError, match="ssh:// engines do not work on Windows") as refused:
        engine_at(lab()).send(Probe())
    assert refused.value.hint == "use a server's URL, or WSL"


def test_a_draft_model_of_the_other_machine_drafts_there(remote: Remote) -> None:
    remote.load()
    loaded = remote.ask(LoadDraft(ModelSpec("smollm2", "smollm2", engine=lab())), DraftLoaded)[-1]
    assert isinstance(loaded, DraftLoaded), loaded
    assert loaded.info is not None
    assert loaded.info.name == "smollm2"
