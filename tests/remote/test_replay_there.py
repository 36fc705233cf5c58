"""A reply that was drawn here on what a server computes is made again there, and refused elsewhere and where a server
would draw it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import scripts
from tests.remote.conftest import RealServer
from tests.scripts import TERMCHAT


@pytest.fixture
def environment(tmp_path: Path, real: RealServer) -> dict[str, str]:
    """A home of its own, whose config.toml names the server twice."""
    made = scripts.environment(tmp_path)
    folder = Path(made["XDG_CONFIG_HOME"]) / "termchat"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(
        f'[engines.lab]\nurl = "{real.url}"\n[engines.streams]\nurl = "{real.url}"\ndraws = "server"\n'
    )
    return made


def termchat(environment: dict[str, str], *args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TERMCHAT, *map(str, args)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_reply_of_a_server_is_made_again_there(environment: dict[str, str], tmp_path: Path) -> None:
    made = termchat(environment, "run", "hi", "--engine", "lab", "--seed", "3", "--max-tokens", "8", "--json")
    assert made.returncode == 0, made.stderr
    file = tmp_path / "reply.json"
    file.write_text(made.stdout)
    again = termchat(environment, "replay", file, "--engine", "lab")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.splitlines()[-1] == "identical, 8 tokens"
    there = termchat(environment, "replay", file, "--engine", "streams")
    assert there.returncode == 1
    assert there.stderr.startswith("termchat: streams cannot redraw with the same dice: it draws there\n")
    here = termchat(environment, "replay", file)
    assert here.returncode == 1
    assert here.stderr == (
        "termchat: a server computed this reply, so it cannot be replayed on this machine\n"
        "  Pass --engine with its name or URL to replay it there.\n"
    )
    local = tmp_path / "local.json"
    local.write_text(made.stdout.replace('"kv_type":""', '"kv_type":"f16"', 1))
    assert local.read_text() != made.stdout
    elsewhere = termchat(environment, "replay", local, "--engine", "lab")
    assert elsewhere.stderr.endswith("cannot be replayed on lab\n  Pass --engine here to replay it there.\n")
