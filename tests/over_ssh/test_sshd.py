"""The real ssh: logged in by key, through a banner, cut in every way, and refused with ssh's own words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from time import monotonic, sleep

import pytest

from termchat.commands.doctor import examine
from termchat.config.settings import load
from termchat.decoding.records import Failed
from termchat.decoding.samplers import Tuning
from termchat.engine.address import EngineAddress
from termchat.engine.checkup import check
from termchat.engine.local import LocalEngine
from termchat.engine.make import engine_at
from termchat.engine.port import ModelSpec
from termchat.models.elsewhere import models_of
from tests.chat.driven_chat import Driven
from tests.chats import chat_on
from tests.over_ssh.conftest import Sshd

pytestmark = pytest.mark.sshd


@pytest.fixture
def made() -> Iterator[list[Driven]]:
    chats: list[Driven] = []
    yield chats
    for driven in chats:
        driven.chat.close()


def chat(made: list[Driven], engine: LocalEngine, address: EngineAddress | None = None, model: str = "") -> Driven:
    driven = Driven(chat_on(engine, Tuning(max_tokens=60, seed=11, temperature=1.0)))
    more = {"engine": address} if address is not None else {}
    driven.chat.loading.load(ModelSpec(model or "smollm2", "smollm2", context=2048, threads=1, **more))  # type: ignore[arg-type]
    made.append(driven)
    return driven


def gone(sshd: Sshd) -> None:
    end = monotonic() + 20
    while sshd.workers():
        assert monotonic() < end
        sleep(0.02)


def test_a_chat_over_ssh_is_the_chat_at_home(sshd: Sshd, made: list[Driven]) -> None:
    there = chat(made, engine_at(sshd.lab()), sshd.lab())
    here = chat(made, LocalEngine(), model=str(sshd.model))
    for text in ("Name three rivers.", "And one more?"):
        replies = here.say(text), there.say(text)
        numbers = [
            (one.ids, one.logits, one.probabilities, one.entropies) for one in (reply.tokens for reply in replies)
        ]
        assert len(replies[0].tokens) >= 5
        assert numbers[0] == numbers[1]
    assert len(sshd.workers()) >= 1
    there.chat.engine.close()
    gone(sshd)


@pytest.mark.parametrize(
    ("who", "sent"), [("client", signal.SIGKILL), ("server", signal.SIGKILL), ("client", signal.SIGSTOP)]
)
def test_a_line_that_is_cut_or_silent_keeps_the_reply_ends_the_worker_and_is_taken_up_again(
    sshd: Sshd, made: list[Driven], who: str, sent: signal.Signals
) -> None:
    engine = engine_at(sshd.lab())
    driven = chat(made, engine, sshd.lab())
    whole = driven.say("Tell me about the desert.")
    driven.chat.new()
    cut = driven.stepped("Tell me about the desert.", 8)
    assert engine.pid is not None
    begun = monotonic()
    for pid in [engine.pid] if who == "client" else sshd.sessions():
        os.kill(pid, sent)
    driven.until(lambda: driven.chat.phase == "failed")
    assert monotonic() - begun < 30
    assert cut.failed is not None
    assert ("the line to lab is silent" if sent == signal.SIGSTOP else "lab") in cut.failed.message
    assert len(cut.tokens) >= 8
    gone(sshd)
    driven.chat.loading.restart_engine()
    driven.idle()
    assert [id for span in driven.chat.conversation.find_reply() for id in span.node.ids[: span.count]] == list(
        whole.ids
    )


def refused(sshd: Sshd) -> Failed:
    found = check(sshd.lab(), 30.0).failure
    assert found is not None
    return found


def test_a_key_that_is_not_welcome_is_told_in_the_words_of_ssh(sshd: Sshd) -> None:
    sshd.identity("stranger")
    failed = refused(sshd)
    assert failed.message.startswith("lab cannot be reached: ")
    assert "Permission denied (publickey)" in failed.message
    assert failed.hint == "check it with: ssh lab"


def test_another_host_key_than_the_known_one_is_refused(sshd: Sshd) -> None:
    sshd.trust((sshd.folder / "stranger.pub").read_text())
    assert "Host key verification failed" in refused(sshd).message
    assert sshd.workers() == []


def test_a_machine_that_is_off_is_told(sshd: Sshd) -> None:
    sshd.close()
    assert "Connection refused" in refused(sshd).message


def test_run_models_and_doctor_reach_it(sshd: Sshd) -> None:
    config = sshd.folder / "CONFIG" / "termchat" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f"[engines.lab]\nurl = 'ssh://lab'\nmodel = 'smollm2'\nremote_command = \"{sshd.command}\"\n")
    asked = [
        sys.executable,
        "-P",
        "-m",
        "termchat",
        "run",
        "--threads",
        "1",
        "--seed",
        "3",
        "--max-tokens",
        "12",
        "Hello",
    ]
    here, there = (
        subprocess.run([*asked, *more], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
        for more in ([], ["--engine", "lab"])
    )
    assert there.stdout == here.stdout != ""
    assert [row.state for row in models_of(sshd.lab()) if row.wanted == "smollm2"] == ["ready"]
    rows = dict(next(part for part in examine(load()).sections if part.title == "Engine lab").rows)
    assert rows["model"] == "smollm2 (ready)"
    gone(sshd)
