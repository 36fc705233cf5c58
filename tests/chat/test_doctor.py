"""The doctor's report: what it finds, what it says to do, and what it never tells."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from pathlib import Path
from time import monotonic

import pytest
from click.testing import CliRunner, Result

from termchat import __version__
from termchat.cli import main
from termchat.commands import doctor
from termchat.commands.doctor import DoctorReport
from termchat.config import per_model
from termchat.config.settings import load
from termchat.conversation.store import repair
from termchat.conversation.store.store import Store
from termchat.engine import gpu_wheel
from termchat.engine.local import LocalEngine
from termchat.models import memory
from tests.fake_ssh import WORKER, install
from tests.fewer_blocks import with_vocabulary, without_blocks

SECRET = "hf_abcdefSECRETxyz"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of a user called ines."""
    for name in list(os.environ):
        if name.startswith(("XDG_", "HF_", "TERMCHAT_", "OLLAMA", "LLAMA", "TMUX", "COLUMNS", "LINES")):
            monkeypatch.delenv(name)
    folder = tmp_path / "ines"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("LOGNAME", "ines")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(doctor, "_ANSWERS_WITHIN", 120.0)  # a machine that runs tests has other things to do
    return folder


def config_of(home: Path, text: str) -> None:
    file = home / ".config/termchat/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def asked(*args: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *args])


def rows(title: str, *args: str) -> dict[str, str]:
    found = json.loads(asked("--json", *args).stdout)
    return {row["name"]: row["text"] for row in found["sections"][title]}


def test_a_machine_on_which_all_is_well(home: Path) -> None:
    result = asked()
    assert result.exit_code == 0, result.output
    assert result.stdout.rstrip().endswith("nothing; no problems found")
    assert "AVX" in rows("Engine")["backend CPU"] or "NEON" in rows("Engine")["backend CPU"]
    assert rows("Versions")["llama-cpp-python"].startswith("0.3.")
    assert rows("Models")["chat with"].startswith("smollm2, 98.4 MB")
    assert not list(home.rglob("*.db*"))  # nothing was made
    assert not (home / ".config").exists()


def test_free_memory_is_counted_as_in_the_list_of_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 5_000_000_000)
    assert ", 5.00 GB of " in rows("Engine")["device CPU"]


def test_nothing_private_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setenv("HF_ENDPOINT", f"https://ines:{SECRET}@hub.example")
    monkeypatch.setenv("TERMCHAT_MODEL", str(home / "private" / f"{SECRET}.gguf"))
    config_of(home, f'system = "my diagnosis"\n[engine]\nthreads = "{SECRET}"\nkv_type = "\\u001b]0;x\\u0007"\n')
    for output in (asked().stdout, asked("--json").stdout):
        assert str(home) not in output
        assert "ines" not in output.replace("lines", "").replace("machines", "")
        assert SECRET not in output
        assert "diagnosis" not in output
        assert "\x1b" not in output
        assert "\\u001b" not in output
        assert "~/.config/termchat/config.toml" in output
    assert rows("Terminal")["HF_TOKEN"] == "set"
    assert rows("Settings")["system"] == "set (config.toml)"


def test_each_thing_that_is_wrong_says_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config_of(home, "thread = 4\n[engine]\nthreads = -1\n")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(gpu_wheel, "find_gpu", lambda: gpu_wheel.Hardware("NVIDIA GPU", 12040))
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((30, 10)))
    store = home / ".local/share/termchat/sessions.db"
    store.parent.mkdir(parents=True)
    store.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    result = asked("--model", "nonsense")
    assert result.exit_code == 1
    todo = result.stdout.partition("What to do\n")[2]
    for said in (
        "thread'",
        "threads must be",
        "TERM is dumb or not set",
        "40×12",
        "whl/cu124",
        "no model named 'nonsense'",
        "chats cannot be read",
    ):
        assert said in todo, (said, todo)


def test_an_engine_that_dies_does_not_take_the_report_along(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")  # no Python starts with that
    engine = LocalEngine()
    report = doctor.examine(load({}, {}, home / "none.toml"), engine)
    assert not engine.alive
    assert any(line.startswith("The engine does not start: the engine process ended") for line in report.todo)
    assert {section.title for section in report.sections} >= {"Versions", "Engine", "Models", "Chats"}


def test_engines_elsewhere_are_asked_at_once_and_a_dead_one_holds_nobody_up(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    install(tmp_path / "bin", monkeypatch)
    monkeypatch.setattr(doctor, "_ELSEWHERE_WITHIN", 15.0)
    config_of(
        home,
        f"[engines.lab]\nurl = 'ssh://lab'\nmodel = 'smollm2'\nremote_command = {WORKER!r}\n"
        f"[engines.other]\nurl = 'ssh://other'\nmodel = 'none-such'\nremote_command = {WORKER!r}\n"
        "[engines.dead]\nurl = 'ssh://dead'\nremote_command = 'echo Connection refused >&2; exit 255'\n"
        "[engines.silent]\nurl = 'ssh://silent'\nremote_command = 'sleep 600'\n"
        "[engines.locked]\nurl = 'https://locked.invalid'\nkey_env = 'LOCKED_KEY'\n"
        "[engines.own]\nurl = 'https://own.invalid'\nssl_cert_file = '~/none.pem'\n"
        "[engines.open]\nurl = 'http://open.invalid'\n",
    )
    monkeypatch.setenv("LOCKED_KEY", SECRET)
    begin = monotonic()
    report = doctor.examine(load())
    assert monotonic() - begin < 60
    found = {section.title: dict(section.rows) for section in report.sections if section.title.startswith("Engine ")}
    lab = found["Engine lab"]
    assert re.fullmatch(r"[\d.]+ ms \(median of 3\)", lab.pop("answer"))
    assert re.fullmatch(rf"termchat {__version__}, llama-cpp-python [\d.]+", lab.pop("is"))
    assert lab == {
        "address": "ssh://lab", "offers": "here everything works", "rpc": "not built in", "model": "smollm2 (ready)",
        "encryption": "ssh", "key": "none",
    }  # fmt: skip
    assert found["Engine other"]["model"] == "none-such (not in its list of models)"
    assert found["Engine dead"]["answer"] == "none: dead cannot be reached: Connection refused"
    assert found["Engine silent"]["answer"] == "none: it takes too long"
    locked = found["Engine locked"]
    assert locked["answer"].startswith("none: locked cannot be reached")
    assert locked["encryption"] == "TLS, verified by the system's authorities"
    assert locked["key"] == "from the variable LOCKED_KEY"
    assert found["Engine own"]["encryption"] == "TLS, verified by ~/none.pem"
    advised = [line for line in report.todo if line.startswith("The engine")]
    assert len(advised) == 5
    assert "What you write to the engine open travels unencrypted: use https://, or an ssh tunnel." in report.todo
    assert found["Engine open"]["encryption"] == "none"
    assert "Check it with: ssh dead." in advised[0]
    assert SECRET not in "".join(report.lines())


def test_what_was_tuned_or_set_for_a_model_is_shown() -> None:
    per_model.keep_measured(per_model.Tuned("sha", "gemma", per_model.machine(), {"threads": 3}, 21.5, 80.0, 0.0))
    per_model.keep_pick(per_model.Pick("sha", "gemma", per_model.hardware(), {"kv_type": "q8_0", "threads": 2}))
    per_model.keep_pick(per_model.Pick("sha", "gemma", "another machine", {"threads": 9}))
    shown = rows("Engine")
    assert shown["tuned gemma"] == "threads 3 (21.5 tokens/s)"
    assert shown["set for gemma"] == "kv_type q8_0, threads 2"


def test_the_model_that_drafts_is_checked_against_the_model(home: Path, model_path: Path, tmp_path: Path) -> None:
    small = without_blocks(model_path, tmp_path / "small.gguf", 14)
    assert rows("Models", "--draft-model", str(small))["drafts with"].startswith("small, ")
    assert not [
        line for line in json.loads(asked("--json", "--draft-model", str(small)).stdout)["todo"] if "draft" in line
    ]
    other = with_vocabulary(small, tmp_path / "other.gguf", renamed={4200: "zzz"})
    config_of(home, f'[engine]\ndraft_model = "{other}"\n')
    assert "Choose another draft_model: other cannot draft for " in asked().stdout
    config_of(home, '[engine]\ndraft_model = "nowhere"\n')
    assert "No model to draft with: no model named 'nowhere'" in asked().stdout


def test_chats_are_counted_without_a_touch(home: Path) -> None:
    path = home / "sessions.db"
    assert repair.check(path) is None
    assert Store.open(path).close()
    before = path.read_bytes()
    found = repair.check(path)
    assert found is not None
    assert (found.chats, found.problem) == (0, "")
    assert path.read_bytes() == before


def test_a_damaged_page_is_found(home: Path) -> None:
    path = home / "sessions.db"
    assert Store.open(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode=DELETE")
        db.executemany("INSERT INTO records VALUES (?, 's', 1, 0, ?)", [(n, b"x" * 900) for n in range(200)])
    db.close()
    data = bytearray(path.read_bytes())
    data[8 * 4096 : 9 * 4096] = b"\xff" * 4096
    path.write_bytes(data)
    found = repair.check(path)
    assert found is not None
    assert found.problem


def test_a_name_that_only_begins_like_the_home_folder_stays(home: Path) -> None:
    report = DoctorReport()
    report.section("x").rows.append(("a", f"{home}/models {home}x/models"))
    assert report.cleaned().sections[0].rows[0][1].startswith("~/models ")
    assert "~x" not in report.cleaned().sections[0].rows[0][1]


def test_models_in_the_folders_of_the_settings_are_counted(home: Path, model_path: Path) -> None:
    folder = home / "mine"
    folder.mkdir()
    (folder / "fox.gguf").write_bytes(model_path.read_bytes() + b"\0")  # not the catalogue's own file
    before = rows("Models")["on this machine"]
    config_of(home, f'model_folders = ["{folder}"]\n')
    assert rows("Models")["on this machine"] != before
    assert "fox, 98.4 MB" in asked().stdout
    assert "~/mine" in rows("Settings")["model_folders"]
