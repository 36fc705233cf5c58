"""Pipes, sockets, devices, folders and rings of links in the place of every file that termchat opens: nothing waits."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from click.testing import CliRunner

from termchat import atomic, paths
from termchat.cli.main import main
from termchat.config import per_model, personas, presets, settings
from termchat.config.file import ConfigFileError, put
from termchat.conversation.store import store_files
from termchat.conversation.transcripts import jsonl_reader
from termchat.conversation.transcripts.importing import chats
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.engine.local import LocalEngine
from termchat.models import catalogue
from termchat.models.disk import discovery, program_folders
from termchat.models.download import hub, lock, transfer
from termchat.models.errors import ModelError
from termchat.models.gguf.brief import read_brief
from termchat.tui.composer.chat_composer import Unreadable, include
from termchat.tui.composer.composer import edit_text
from termchat.tui.themes.theme_file import ThemeError, load_theme
from tests.models.gguf_files import named

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")

_PATIENCE_S = 20
"""After this a test that hangs fails; each is done in milliseconds."""


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    """A hang is a failure, not a suite without an end."""

    def tired(_number: int, _frame: FrameType | None) -> None:
        raise AssertionError("it waits for what nobody writes")

    before = signal.signal(signal.SIGALRM, tired)
    signal.alarm(_PATIENCE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every folder of ours, empty."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("DATA", "CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    paths.config_file().parent.mkdir()
    return tmp_path


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))  # its name may have a hundred characters


TERMINAL = os.ttyname(os.openpty()[1])
"""A device that no mistake can harm: nobody may replace it, and nobody types."""

KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": _socket,
    "a device": lambda path: path.symlink_to(TERMINAL),
    "Too many levels": lambda path: path.symlink_to(path),
}


@pytest.fixture(params=KINDS)
def odd(request: pytest.FixtureRequest) -> tuple[str, Callable[[Path], object]]:
    """What a message about it says, and how it is made."""
    return request.param, KINDS[request.param]


Odd = tuple[str, Callable[[Path], object]]


def test_the_users_own_lists_are_told_and_left_out(odd: Odd) -> None:
    kind, make = odd
    for file, problems in (
        (paths.config_file(), lambda: settings.load().problems),
        (paths.user_models_file(), lambda: catalogue.load().problems),
        (paths.presets_file(), lambda: presets.load().problems),
        (paths.personas_file(), lambda: personas.load().problems),
    ):
        make(file)
        (problem,) = problems()
        assert problem.startswith(f"{file} cannot be read: ")
        assert kind in problem
        assert ("; remove or replace it" in problem) == (kind in ("a pipe", "a folder", "a socket", "a device"))
    with pytest.raises(ConfigFileError, match=kind):
        put("theme", "dark")
    theme = paths.config_file().with_name("mine.toml")
    make(theme)
    with pytest.raises(ThemeError, match=kind):
        load_theme(theme)


def test_a_program_that_starts_among_pipes_says_so_and_ends(model_path: Path) -> None:
    files = (paths.config_file(), paths.user_models_file(), paths.personas_file(), paths.tuned_file(), paths.log_file())
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(file)
    done = CliRunner().invoke(main, ["config", "check"])
    assert done.exit_code == 1
    for file in files[:3]:
        assert f"{file} cannot be read: it is a pipe, not a regular file; remove or replace it" in done.stdout
    done = CliRunner().invoke(main, ["doctor"])
    for file in files:
        assert f"Remove or replace ~/{file.relative_to(Path.home())}: it is a pipe, not a regular file" in done.stdout
    assert per_model.find("0" * 64) is None
    with pytest.raises(ModelError, match="no model named 'mine'") as caught:
        catalogue.resolve("mine")
    assert f"{paths.user_models_file()} cannot be read: it is a pipe" in caught.value.hint
    command = [sys.executable, "-m", "termchat", "run", "hi", "--max-tokens", "1", "--model", str(model_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout
    for file in files[:2]:
        assert f"termchat: {file} cannot be read: it is a pipe" in ran.stderr


def test_what_was_measured_is_not_read_and_nothing_takes_its_place(odd: Odd) -> None:
    kind, make = odd
    make(paths.tuned_file())
    before = paths.tuned_file().lstat()
    assert per_model.entries() == []
    assert per_model.find_pick("0" * 64) is None
    with pytest.raises(OSError, match="broken link" if kind.startswith("Too") else kind):
        per_model.keep_pick(per_model.Pick("0" * 64, "x", per_model.hardware(), {"threads": 1}))
    assert (paths.tuned_file().lstat().st_mode, paths.tuned_file().lstat().st_ino) == (before.st_mode, before.st_ino)


def test_a_device_behind_a_link_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(TERMINAL)
    with pytest.raises(OSError, match="it is a device"):
        atomic.replace(tmp_path / "link", b"x")
    assert Path(TERMINAL).is_char_device()


def test_the_engine_starts_without_a_log(odd: Odd) -> None:
    _, make = odd
    make(paths.log_file())
    engine = LocalEngine(paths.log_file())
    try:
        engine.start()
        assert engine.alive
    finally:
        engine.close()


def test_files_of_other_programs_are_skipped_with_the_reason(odd: Odd, home: Path) -> None:
    kind, make = odd
    manifest = home / "models" / "manifests" / "registry.ollama.ai" / "library" / "m" / "latest"
    manifest.parent.mkdir(parents=True)
    (home / "models" / "blobs").mkdir()
    make(manifest)
    (tagged,) = discovery.ollama_models(home / "models")
    assert kind in tagged.found.reason  # type: ignore[union-attr]
    pointer = home / ".lmstudio-home-pointer"
    make(pointer)
    assert all(root.place != "LM Studio" for root in program_folders.roots({}))
    make(home / "x.gguf")
    with pytest.raises(ModelError, match=f"{kind}|a folder"):
        catalogue.resolve(str(home / "x.gguf"))
    with pytest.raises(ModelError, match=kind):
        read_brief(home / "x.gguf")


def test_what_a_download_leaves_is_not_waited_for(odd: Odd, home: Path) -> None:
    kind, make = odd
    make(home / "token")
    assert hub.Hub.from_environment({"HF_TOKEN_PATH": str(home / "token")}).token == ""
    make(home / "x.gguf.json")
    assert transfer.read_note(home / "x.gguf.json") is None
    make(home / "x.gguf.part")
    with pytest.raises(OSError, match=kind):
        transfer.PartFile(home / "x.gguf", lambda _: None)
    with pytest.raises(OSError, match=kind):
        transfer.digest(home / "x.gguf.part", lambda _: None)
    make(home / "x.gguf.lock")
    assert lock._holder(home / "x.gguf.lock") == ""


def test_a_transcript_that_is_no_file_is_refused(odd: Odd, home: Path) -> None:
    kind, make = odd
    make(home / "chat.jsonl")
    for read in (jsonl_reader.read, chats):
        with pytest.raises(TranscriptError, match=kind):
            read(home / "chat.jsonl")


def test_what_a_message_names_is_not_waited_for(odd: Odd, home: Path) -> None:
    kind, make = odd
    make(home / "notes")
    with pytest.raises(Unreadable, match=kind):
        include("see @notes", "see @notes")


def test_what_an_editor_left_is_not_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import nullcontext

    from termchat.external_editor import EditorError

    swap = home / "swap"
    swap.write_text('#!/bin/sh\nrm "$1"\nmkfifo "$1"\n')
    swap.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(swap))
    with pytest.raises(EditorError, match="it is a pipe"):
        asyncio.run(edit_text("hi", nullcontext))


def test_marks_beside_the_chats_are_not_waited_for(odd: Odd, home: Path) -> None:
    _, make = odd
    store = home / "sessions.db"
    store.touch()
    make(store.with_name("sessions.db.broken"))
    store_files.mark_broken(store, store_files.identify_file(store))
    assert not store_files.is_broken(store)


def test_a_file_that_is_there_is_read_and_one_that_is_too_large_is_not(home: Path) -> None:
    model = named("one", home)
    assert read_brief(model).name == "one"
    paths.tuned_file().parent.mkdir(exist_ok=True)
    with paths.tuned_file().open("wb") as sparse:
        sparse.truncate(1 << 40)
    assert per_model.entries() == []
