"""Completion: what is offered, and that real shells take it."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from termchat import paths
from termchat.cli import main
from termchat.config.fields import OPTIONS
from tests.conversation.stored import saved_in_home

Offered = Callable[[str], list[str]]

SHELLS = [shell for shell in ("bash", "zsh", "fish") if shutil.which(shell)]
PROMPT = "ready$ "
PROGRAM = "termchat"


@pytest.fixture
def offered() -> Offered:
    """What is offered for a line of bash, as its script asks for it."""

    def offered(line: str) -> list[str]:
        variables = {"COMP_WORDS": line, "_TERMCHAT_COMPLETE": "bash_complete"}
        asked = [sys.executable, "-m", "termchat"]
        done = subprocess.run(
            asked, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stderr == ""
        return [item.partition(",")[2] for item in done.stdout.splitlines() if item]

    return offered


@pytest.fixture
def bin(tmp_path: Path) -> Path:
    """A folder with the program in it, as a shell finds it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / PROGRAM).write_text(f'#!/bin/sh\nexec {sys.executable} -m termchat "$@"\n')
    (folder / PROGRAM).chmod(0o755)
    return folder


def test_commands_flags_and_choices_are_offered(offered: Offered) -> None:
    assert set(offered("termchat ")) == set(main.list_commands(click.Context(main)))
    assert offered("termchat models p") == ["pull"]
    assert {"--top-k", "--top-p", "--temperature"} <= set(offered("termchat run --t"))
    assert offered("termchat --kv-type q5") == ["q5_1", "q5_0"]
    assert offered("termchat --kv-type=q8") == ["q8_0"]
    assert set(offered("termchat run --seed ")) == {"fresh"}


def test_names_are_offered(offered: Offered, home: Path) -> None:
    assert "smollm2" in offered("termchat run --model sm")
    assert "smollm2" in offered("termchat models show ")
    (home / "CONFIG/termchat/themes").mkdir(parents=True)
    (home / "CONFIG/termchat/themes/x.toml").write_text("name = 'daring'\n")
    (home / "CONFIG/termchat/themes/bad.toml").write_text("name = \n")
    assert set(offered("termchat --theme da")) == {"dark", "daring"}
    (home / "CONFIG/termchat/presets.toml").write_text("[brave]\ntop_k = 1\n")
    assert set(offered("termchat run --preset b")) == {"balanced", "brainstorm", "brave"}
    assert offered("termchat config set preset cre") == ["creative"]
    assert offered("termchat config set kv_t") == ["kv_type"]
    assert offered("termchat config set mlock ") == ["on", "off"]
    assert set(offered("termchat config set flash_attention ")) == set(OPTIONS["flash_attention"].choices)
    assert offered("termchat locate sto") == ["store"]


def test_saved_chats_are_offered_and_none_where_there_is_no_store(offered: Offered) -> None:
    assert offered("termchat sessions show ") == []
    id = saved_in_home("a\x1b[2J title", "hello", "there")
    assert offered("termchat sessions show ") == ["last", id]
    assert offered(f"termchat --resume {id[:3]}") == [id]


def test_what_is_broken_offers_nothing_and_says_nothing(offered: Offered, home: Path) -> None:
    file = paths.store_file()
    file.parent.mkdir(parents=True)
    file.write_bytes(b"not a database" * 100)
    assert offered("termchat --resume ") == []
    (home / "CONFIG/termchat").mkdir(parents=True)
    (home / "CONFIG/termchat/config.toml").write_text("[broken")
    (home / "CONFIG/termchat/models.toml").write_text("[broken")
    assert "smollm2" in offered("termchat --model sm")
    offered('termchat "unclosed')


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_for_its_shell(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert f"_TERMCHAT_COMPLETE={shell}_complete" in done.stdout
    assert CliRunner().invoke(main, ["completion", "csh"]).exit_code == 2


@pytest.mark.parametrize("shell", SHELLS)
def test_a_real_shell_takes_the_script(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(CliRunner().invoke(main, ["completion", shell]).stdout)
    checked = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shell != "fish"])
def test_tab_completes_in_a_real_shell(shell: str, bin: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(CliRunner().invoke(main, ["completion", shell]).stdout)
    started = {"bash": ["bash", "--norc", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
    before = {"bash": "", "zsh": "autoload -Uz compinit && compinit -u -D; unsetopt prompt_cr; "}[shell]
    with Typed(started, {"PATH": f"{bin}:{os.environ['PATH']}", "PS1": PROMPT, "HOME": str(tmp_path)}) as typed:
        typed.line(f"{before}source {script}; echo taken''in")
        typed.until("takenin")
        typed.keys("termchat models sh\t")
        typed.until("models show ")
        typed.keys("smollm2-1\t")
        typed.until("smollm2-1.7b ")
        typed.keys("--js\t")
        typed.until("--json ")


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shell == "fish"])
def test_fish_completes(shell: str, bin: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(CliRunner().invoke(main, ["completion", shell]).stdout)
    code = f"source {script}; complete -C 'termchat models show smollm2-1'; complete -C 'termchat conf'"
    done = subprocess.run(
        [shell, "--no-config", "-c", code],
        env={**os.environ, "PATH": f"{bin}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("smollm2-1.7b")
    assert "config\tShow, check and change the settings." in done.stdout


def test_bash_completes_behind_a_colon(bin: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(CliRunner().invoke(main, ["completion", "bash"]).stdout)
    (bin / PROGRAM).write_text("#!/bin/sh\necho plain,llama3.2:1b\n")
    line = "termchat run --model=llama3.2:1"
    code = f"source {script}; COMP_LINE='{line}' COMP_POINT={len(line)} _termchat_completion termchat; echo $COMPREPLY"
    done = subprocess.run(
        ["bash", "-c", code],
        env={**os.environ, "PATH": f"{bin}:{os.environ['PATH']}", "COMP_WORDBREAKS": " =:"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1b\n"


def test_bash_gets_no_name_that_would_be_a_command(bin: Path, tmp_path: Path) -> None:
    """A theme from elsewhere may have any name."""
    script = tmp_path / "script"
    script.write_text(CliRunner().invoke(main, ["completion", "bash"]).stdout)
    names = ["two words", "$(touch owned)", "a;b", "`b`", "plain-1.5:x/y"]
    (bin / PROGRAM).write_text("#!/bin/sh\ncat <<'END'\n" + "".join(f"plain,{name}\n" for name in names) + "END\n")
    code = f'source {script}; COMP_LINE="termchat --theme " COMP_POINT=17 _termchat_completion termchat'
    typed = f"{code}; eval \"printf '%s\\n' ${{COMPREPLY[*]}}\""  # what a person gets who presses Enter
    done = subprocess.run(
        ["bash", "-c", typed],
        env={**os.environ, "PATH": f"{bin}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == names
    assert not (tmp_path / "owned").exists()


class Typed:
    """A shell in a terminal of its own, which is typed to."""

    def __init__(self, command: list[str], variables: dict[str, str]) -> None:
        self._command, self._env = command, {**os.environ, "TERM": "dumb", **variables}
        self._seen = ""

    def __enter__(self) -> Typed:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            self._command, stdin=theirs, stdout=theirs, stderr=theirs, env=self._env, start_new_session=True
        )
        os.close(theirs)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def keys(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def line(self, text: str) -> None:
        self.keys(text + "\n")

    def until(self, text: str) -> None:
        """Reads until this was shown; what was shown up to there is forgotten."""
        end = time.monotonic() + 60
        while text not in self._seen:
            ready, _, _ = select.select([self._ours], [], [], max(end - time.monotonic(), 0))
            assert ready, f"{text!r} is not in {self._seen!r}"
            self._seen += os.read(self._ours, 65536).decode(errors="replace")
        self._seen = self._seen.rpartition(text)[2]
