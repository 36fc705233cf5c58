"""A person changes models: switches in mid-chat, lets go, downloads, begins with none."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fewer_blocks import with_vocabulary
from tests.pull.file_server import FileServer, file_server, sha256
from tests.requantized import requantized
from tests.whole.chat_steps import over
from tests.whole.terminal import Terminal

Open = Callable[..., Terminal]
FLAGS = ("--context", "2048", "--threads", "1", "--max-tokens", "12")
F3, DELETE = "\x1bOR", "\x1b[3~"


@pytest.fixture(scope="module")
def other(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model in another quantisation, alone in its folder."""
    return requantized(model_path, tmp_path_factory.mktemp("other") / "Other-Q8_0.gguf", "Q8_0")


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as made:
        yield made


def catalogued(home: Path, name: str, url: str, data: bytes) -> None:
    """An entry of the user's own catalogue."""
    file = home / "config/termchat/models.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = f'description = "{name}"\nurl = "{url}"\nsize = {len(data)}\nsha256 = "{sha256(data)}"\n'
    file.write_text(f'["{name}"]\n{lines}')


def line(terminal: Terminal, name: str) -> str:
    """The line of a model in the list."""
    found = re.search(rf"[●◌○◆◇↓✗] {re.escape(name)} .*", terminal.text)
    return found[0] if found else ""


def came(terminal: Terminal) -> float:
    """MB of the download, as its line says."""
    found = re.search(r"━.* \d+%  ([\d.]+) MB of 98.4 MB", line(terminal, "remote"))
    return float(found[1]) if found else 0.0


def resident(pid: int) -> int:
    """Bytes of memory that a process holds; 0 once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(one.split()[1]) << 10 for one in lines if one.startswith("VmRSS")), 0)


def ready(terminal: Terminal, replies: int) -> None:
    """Waits until so many replies are there."""
    terminal.wait(lambda: over(terminal.home) == replies)
    terminal.wait(lambda: terminal.text.count("· seed ") == replies and terminal.is_ready)


def test_a_draft_model_is_chosen_drafts_and_is_kept(
    open_terminal: Open, tmp_path: Path, model_path: Path, other: Path
) -> None:
    with_vocabulary(model_path, other.parent / "Renamed.gguf", renamed={260: "Ġtho"})
    flags = (*FLAGS, "--model-folders", str(other.parent), "--model", str(other))
    terminal = open_terminal(*flags, HOME=str(tmp_path), columns=140)
    terminal.wait(lambda: terminal.is_ready)
    terminal.keys(F3)
    terminal.wait(lambda: line(terminal, "smollm2").startswith("◇") and line(terminal, "Renamed").startswith("○"))
    terminal.keys("down")
    terminal.wait("differs from token 260")
    terminal.keys("ctrl+g")
    terminal.wait(
        "Renamed cannot draft for Other-Q8_0: its vocabulary differs from token 260 on: ' tho' instead of ' the'"
    )
    terminal.keys("down", "ctrl+g")
    terminal.wait(lambda: line(terminal, "smollm2").startswith("◆"))
    terminal.keys("esc", "Name the sea.", "enter")
    ready(terminal, 1)
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0

    again = open_terminal(*flags, "--draft", "model", HOME=str(tmp_path), columns=140)
    again.wait(lambda: again.is_ready)
    again.keys(F3)
    again.wait(lambda: line(again, "smollm2").startswith("◆"))


def test_switch_in_mid_chat_go_on_let_go_and_load_again(open_terminal: Open, tmp_path: Path, other: Path) -> None:
    home = str(tmp_path)
    terminal = open_terminal(*FLAGS, "--model-folders", str(other.parent), HOME=home, columns=140)
    terminal.wait(lambda: terminal.is_ready)
    terminal.keys("Tell me a long story.", "enter")
    ready(terminal, 1)
    old = terminal.worker()
    terminal.keys("half a message", F3)
    terminal.wait(lambda: line(terminal, "Other-Q8_0") and "●" in line(terminal, "smollm2"))
    terminal.keys("other q8")
    terminal.wait(lambda: not line(terminal, "smollm2") and re.search(r" fits ", line(terminal, "Other-Q8_0")))
    terminal.wait("recommends temperature 0.5")
    terminal.keys("enter")
    terminal.wait("termchat    Other-Q8_0 ")
    terminal.wait(lambda: terminal.is_ready)
    assert resident(old) == 0
    assert "Tell me a long story." in terminal.text
    assert "half a message" in terminal.text
    terminal.keys(", and go on", "enter")
    ready(terminal, 2)
    assert "┊ model smollm2 Q4_1 → Other-Q8_0 Q8_0" in terminal.text

    new = terminal.worker()
    terminal.keys(F3)
    terminal.wait(lambda: "●" in line(terminal, "Other-Q8_0"))
    terminal.wait("threads 1 (flag)")
    terminal.keys("ctrl+o")
    terminal.wait("Other-Q8_0 is unloaded")
    assert resident(new) == 0
    terminal.keys("ctrl+r")
    terminal.wait(lambda: terminal.is_ready)
    terminal.keys("Thank you.", "enter")
    ready(terminal, 3)
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    assert terminal.restored()


def test_begin_without_a_model_download_one_stop_go_on_and_chat(
    open_terminal: Open, tmp_path: Path, server: FileServer, model_path: Path
) -> None:
    data = model_path.read_bytes()
    go_on = threading.Event()
    url = server.put("/tiny.gguf", data, hold=(40_000_000, go_on))
    catalogued(tmp_path, "remote", url, data)
    terminal = open_terminal(*FLAGS, "--model", "remote", HOME=str(tmp_path))
    terminal.wait("remote is not downloaded yet")
    terminal.wait(lambda: "98.4 MB" in line(terminal, "remote"))
    terminal.keys("esc")
    terminal.keys("Hello", "enter")
    terminal.wait("queued  Hello")
    terminal.keys(F3, "remote", "enter")
    terminal.wait(lambda: came(terminal) > 20)  # of the 40 that there are for now
    terminal.keys(DELETE)
    terminal.wait(lambda: "already downloaded" in line(terminal, "remote"))
    (part,) = (tmp_path / "data/termchat/models").rglob("*.part")
    assert part.stat().st_size > 10_000_000
    terminal.keys("enter")
    terminal.wait(lambda: re.search(r"━.* \d+%", line(terminal, "remote")))

    # Leaving in the middle of it restores the terminal, and the next time goes on from there.
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    assert terminal.restored()
    assert part.exists()
    go_on.set()
    server.files["/tiny.gguf"].hold = None
    again = open_terminal(*FLAGS, "--model", "remote", HOME=str(tmp_path))
    again.wait(lambda: line(again, "remote"))
    again.keys("remote", "enter")
    again.wait(lambda: again.is_ready)
    assert server.ranges()[-1].startswith("bytes=")
    assert part.with_suffix("").read_bytes() == data
    again.keys("Hello", "enter")
    ready(again, 1)
    again.keys("ctrl+q")
    assert again.ended() == 0
