"""Pulling from a server that is slow, lies, breaks off, moves, or is right."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from termchat.models.catalogue import Catalogue
from termchat.models.download import web
from termchat.models.download.progress import Pulling
from termchat.models.download.pull import PullCancelled, pull
from termchat.models.entry import Entry
from tests.pull.fetching import Fetch, refusal
from tests.pull.file_server import FileServer, gguf, sha256

SMALL = gguf(200_000)
LARGE = gguf(6_000_000)


def entry_for(url: str, **known: object) -> dict[str, object]:
    """Arguments that make `tiny` a model of the catalogue."""
    return {"known": Catalogue({"tiny": Entry(description="Tiny", url=url, **known)})}  # type: ignore[arg-type]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_file_comes_whole_and_says_how_it_goes(server: FileServer, fetch: Fetch, folder: Path) -> None:
    seen: list[Pulling] = []
    path = fetch(server.put("/big.gguf", LARGE), progress=seen.append)
    assert path == folder / "big.gguf"
    assert path.read_bytes() == LARGE
    assert names(folder) == ["big.gguf", "big.gguf.json"]
    assert seen[0].stage == "asking"
    assert seen[-1].stage == "placing"
    assert (seen[-1].done, seen[-1].total) == (len(LARGE), len(LARGE))
    done = [told.done for told in seen]
    assert done == sorted(done)


def test_what_is_there_is_not_asked_for_again(server: FileServer, fetch: Fetch) -> None:
    url = server.put("/a.gguf", SMALL)
    assert fetch(url) == fetch(url)
    assert len(server.asked) == 1


PULLER = """
import sys
from pathlib import Path
from termchat.models.catalogue import Catalogue
from termchat.models.errors import ModelError
from termchat.models.download.pull import pull
try:
    pull(sys.argv[1], Path(sys.argv[2]), known=Catalogue({}), backoff=(0.01,))
except ModelError as error:
    sys.exit(f"{error.message} | {error.hint}")
"""


def puller(url: str, folder: Path, **how: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PULLER, url, str(folder)], stderr=subprocess.PIPE, text=True, **how)  # type: ignore[call-overload,no-any-return]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_after_kill_9_it_goes_on_where_it_was(server: FileServer, fetch: Fetch, folder: Path) -> None:
    url = server.put("/big.gguf", LARGE, hold=(3 << 20, threading.Event()))
    part = folder / "big.gguf.part"
    child = puller(url, folder)
    until(lambda: part.exists() and part.stat().st_size >= 2 << 20)
    child.send_signal(signal.SIGKILL)
    assert child.wait(60) == -signal.SIGKILL
    kept = part.stat().st_size
    assert not (folder / "big.gguf").exists()
    server.files["/big.gguf"].hold = None
    begun = time.monotonic()
    fetched = fetch(url, cancelled=lambda: time.monotonic() - begun > 60)  # who waits for the lock of the killed one
    assert fetched.read_bytes() == LARGE
    assert server.ranges() == ["", f"bytes={kept}-"]
    assert server.asked[1].headers["if-range"] == '"one"'
    assert names(folder) == ["big.gguf", "big.gguf.json"]


def test_a_note_half_written_by_a_killed_pull_is_removed(server: FileServer, fetch: Fetch, folder: Path) -> None:
    folder.mkdir(parents=True)
    for left in (".a.gguf.json.x1.part", ".a.gguf.part.json.y2.part", ".b.gguf.json.z3.part"):
        (folder / left).write_bytes(b"{")
    fetch(server.put("/a.gguf", SMALL))
    assert names(folder) == [".b.gguf.json.z3.part", "a.gguf", "a.gguf.json"]


def test_a_lost_connection_is_taken_up_again(server: FileServer, fetch: Fetch) -> None:
    url = server.put("/a.gguf", LARGE, cut=[2_500_000, 1_000_000])
    assert fetch(url).read_bytes() == LARGE
    assert server.ranges() == ["", "bytes=2500000-", "bytes=3500000-"]


def test_a_body_that_is_always_too_short_is_given_up_and_kept(server: FileServer, fetch: Fetch, folder: Path) -> None:
    url = server.put("/a.gguf", SMALL, cut=[1000] + [0] * 99)
    said = refusal(fetch, url)
    assert "the connection was lost" in said
    assert "1,000 bytes already downloaded are kept" in said
    assert len(server.asked) == 4
    assert (folder / "a.gguf.part").read_bytes() == SMALL[:1000]


def test_a_server_without_ranges_starts_over(server: FileServer, fetch: Fetch) -> None:
    url = server.put("/a.gguf", LARGE, ranges=False, cut=[2_500_000])
    assert fetch(url).read_bytes() == LARGE
    assert server.ranges() == ["", "bytes=2500000-"]


def test_a_file_that_changed_meanwhile_starts_over(server: FileServer, fetch: Fetch) -> None:
    url = server.put("/a.gguf", SMALL, cut=[1000] + [0] * 9)
    refusal(fetch, url)
    server.put("/a.gguf", LARGE, etag='"two"')
    assert fetch(url).read_bytes() == LARGE


def test_without_a_mark_or_a_hash_nothing_is_stitched_together(server: FileServer, fetch: Fetch) -> None:
    url = server.put("/a.gguf", SMALL, etag="", cut=[1000])
    assert fetch(url).read_bytes() == SMALL
    assert server.ranges() == ["", ""]


def test_with_a_hash_no_mark_is_needed(server: FileServer, fetch: Fetch) -> None:
    url = server.put("/tiny.gguf", SMALL, etag="", cut=[1000])
    path = fetch("tiny", **entry_for(url, sha256=sha256(SMALL)))
    assert path.read_bytes() == SMALL
    assert server.ranges() == ["", "bytes=1000-"]


def test_a_part_that_is_whole_is_only_checked(server: FileServer, fetch: Fetch, folder: Path) -> None:
    url = server.put("/a.gguf", SMALL)
    folder.mkdir()
    (folder / "a.gguf.part").write_bytes(SMALL)
    (folder / "a.gguf.part.json").write_text(json.dumps({"url": url, "validator": '"one"'}))
    assert fetch(url).read_bytes() == SMALL
    assert server.ranges() == [f"bytes={len(SMALL)}-"], "the server answered 416: there is no more"


def test_a_part_that_is_longer_than_the_file_starts_over(server: FileServer, fetch: Fetch, folder: Path) -> None:
    url = server.put("/a.gguf", SMALL, cut=[1000] + [0] * 9)
    refusal(fetch, url)
    with (folder / "a.gguf.part").open("ab") as part:
        part.write(bytes(len(SMALL)))
    server.files["/a.gguf"].cut = []
    assert fetch(url).read_bytes() == SMALL


def test_a_wrong_hash_is_refused_and_removed(server: FileServer, fetch: Fetch, folder: Path) -> None:
    url = server.put("/a.gguf", SMALL)
    wanted = sha256(b"something else")
    said = refusal(fetch, "tiny", **entry_for(url, sha256=wanted))
    assert sha256(SMALL) in said
    assert wanted in said
    assert names(folder) == []


def test_a_wrong_size_is_refused_before_anything_comes(server: FileServer, fetch: Fetch, folder: Path) -> None:
    url = server.put("/a.gguf", SMALL)
    assert f"{len(SMALL)} bytes, not 12345" in refusal(fetch, "tiny", **entry_for(url, size=12_345))
    assert names(folder) == []


def test_damage_in_the_part_is_found_by_the_hash(server: FileServer, fetch: Fetch, folder: Path) -> None:
    url = server.put("/a.gguf", SMALL, cut=[100_000] + [0] * 9)
    known = entry_for(url, sha256=sha256(SMALL))
    refusal(fetch, "tiny", **known)
    part = folder / "a.gguf.part"
    part.write_bytes(part.read_bytes()[:-7] + b"changed")
    server.files["/a.gguf"].cut = []
    assert "failed its check" in refusal(fetch, "tiny", **known)
    assert fetch("tiny", **known).read_bytes() == SMALL


def test_what_is_no_model_is_refused_after_its_first_bytes(server: FileServer, fetch: Fetch, folder: Path) -> None:
    url = server.put("/a.gguf", b"<!DOCTYPE html><title>Sign in</title>" + bytes(1 << 24))
    said = refusal(fetch, url)
    assert "it looks like a web page" in said
    assert names(folder) == []


def test_a_model_whose_end_is_missing_is_refused(server: FileServer, fetch: Fetch, folder: Path) -> None:
    url = server.put("/a.gguf", SMALL[:-5000])
    assert "is not a usable model" in refusal(fetch, url)
    assert names(folder) == []


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_to_wait_is_waited_for(server: FileServer, fetch: Fetch, status: int) -> None:
    url = server.put("/a.gguf", SMALL, first=[(status, {"Retry-After": "1"})])
    seen: list[Pulling] = []
    begun = time.monotonic()
    assert fetch(url, progress=seen.append).read_bytes() == SMALL
    assert time.monotonic() - begun >= 1
    waits = [told.note for told in seen if told.stage == "waiting"]
    assert waits
    assert "again in 1 s" in waits[0]


def test_a_server_that_asks_for_hours_is_not_waited_for(server: FileServer, fetch: Fetch) -> None:
    url = server.put("/a.gguf", SMALL, first=[(429, {"Retry-After": "7200"})])
    assert "7200 s" in refusal(fetch, url)


def test_waiting_can_be_ended(server: FileServer, fetch: Fetch) -> None:
    url = server.put("/a.gguf", SMALL, first=[(503, {"Retry-After": "60"})])
    begun = time.monotonic()
    with pytest.raises(PullCancelled):
        fetch(url, cancelled=lambda: time.monotonic() - begun > 0.3)
    assert time.monotonic() - begun < 30


def test_a_silent_server_can_be_left(server: FileServer, fetch: Fetch, folder: Path) -> None:
    url = server.put("/a.gguf", LARGE, hold=(2 << 20, threading.Event()))
    served = server.files["/a.gguf"]
    part = folder / "a.gguf.part"
    begun = time.monotonic()
    with pytest.raises(PullCancelled):
        fetch(url, cancelled=lambda: served.held.is_set() and part.exists() and part.stat().st_size >= 1 << 20)
    assert time.monotonic() - begun < 20  # it is silent for two minutes
    kept = part.stat().st_size
    assert kept >= 1 << 20
    served.hold = None
    assert fetch(url).read_bytes() == LARGE
    assert server.ranges()[-1] == f"bytes={kept}-"


def test_a_server_in_trouble_is_tried_again_and_then_given_up(server: FileServer, fetch: Fetch, folder: Path) -> None:
    url = server.put("/a.gguf", SMALL, first=[(502, {})] * 3)
    assert fetch(url).read_bytes() == SMALL
    url = server.put("/b.gguf", SMALL, first=[(500, {})] * 9)
    assert "reports a server error (500" in refusal(fetch, url)
    assert names(folder) == ["a.gguf", "a.gguf.json"]


def test_a_missing_file_leaves_nothing_behind(server: FileServer, fetch: Fetch, folder: Path) -> None:
    assert "none.gguf does not exist" in refusal(fetch, server.address + "/none.gguf")
    assert len(server.asked) == 1
    assert not folder.exists()


def test_two_at_once_download_once(server: FileServer, folder: Path) -> None:
    release = threading.Event()
    url = server.put("/a.gguf", LARGE, hold=(1 << 20, release))
    first = puller(url, folder)
    until(server.files["/a.gguf"].held.is_set)
    seen: list[Pulling] = []
    done: list[Path] = []
    second = threading.Thread(target=lambda: done.append(pull(url, folder, progress=seen.append, known=Catalogue({}))))
    second.start()
    until(lambda: bool(seen) and seen[-1].stage == "waiting")
    assert f"process {first.pid} is downloading" in seen[-1].note
    release.set()
    second.join(60)
    assert first.wait(60) == 0, first.stderr.read() if first.stderr else ""
    assert done[0].read_bytes() == LARGE
    assert len(server.asked) == 1
    assert names(folder) == ["a.gguf", "a.gguf.json"]


def test_a_full_disk_is_said_and_what_came_is_kept(server: FileServer, fetch: Fetch, folder: Path) -> None:
    """A limit on the size of files is the one full disk that every machine has."""
    url = server.put("/a.gguf", LARGE)
    limit = 2_000_000
    child = puller(url, folder, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    _, said = child.communicate(timeout=120)
    assert child.returncode == 1
    assert "the disk is full" in said
    assert "pull again to resume" in said
    assert (folder / "a.gguf.part").read_bytes() == LARGE[:limit]
    assert fetch(url).read_bytes() == LARGE
    assert server.ranges() == ["", f"bytes={limit}-"]


def test_a_file_larger_than_the_disk_is_refused_at_once(server: FileServer, fetch: Fetch, folder: Path) -> None:
    huge = str(1 << 60)
    url = server.put("/a.gguf", SMALL, headers={"Content-Length": huge})
    assert f"needs {1 << 60:,} more bytes" in refusal(fetch, url)
    assert not (folder / "a.gguf.part").exists()


def test_a_set_of_files_comes_whole(server: FileServer, fetch: Fetch, folder: Path) -> None:
    parts = [f"big-{number:05d}-of-00003.gguf" for number in (1, 2, 3)]
    for number, part in enumerate(parts):
        server.put(f"/x/{part}", gguf(50_000, seed=number))
    path = fetch(f"{server.address}/x/{parts[1]}")
    assert path == folder / parts[0]
    assert [(folder / part).read_bytes() for part in parts] == [gguf(50_000, seed=n) for n in range(3)]


def test_someone_elses_file_is_not_replaced(server: FileServer, fetch: Fetch, folder: Path) -> None:
    folder.mkdir()
    (folder / "a.gguf").write_bytes(b"mine")
    url = server.put("/a.gguf", SMALL)
    assert "was not downloaded by termchat" in refusal(fetch, "tiny", **entry_for(url, size=len(SMALL)))
    assert (folder / "a.gguf").read_bytes() == b"mine"


def test_a_newer_version_replaces_ours_in_one_step(server: FileServer, fetch: Fetch, folder: Path) -> None:
    url = server.put("/a.gguf", SMALL)
    fetch("tiny", **entry_for(url, sha256=sha256(SMALL)))
    server.put("/a.gguf", LARGE, cut=[1000] + [0] * 9)
    known = entry_for(url, sha256=sha256(LARGE))
    refusal(fetch, "tiny", **known)
    assert (folder / "a.gguf").read_bytes() == SMALL
    server.files["/a.gguf"].cut = []
    assert fetch("tiny", **known).read_bytes() == LARGE


@pytest.mark.parametrize(
    "name", ["..%2f..%2fevil.gguf", "%2e%2e", "a%00b.gguf", "C%3Aevil.gguf", "nul.gguf", "%1b[31m.gguf"]
)
def test_names_that_would_escape_are_refused(server: FileServer, fetch: Fetch, home: Path, name: str) -> None:
    server.put(f"/{name}", SMALL)
    refusal(fetch, f"{server.address}/{name}")
    assert server.asked == []
    assert [path for path in home.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TERMCHAT_OFFLINE"])
def test_offline_nothing_is_asked(
    server: FileServer, fetch: Fetch, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    assert f"{variable} is set" in refusal(fetch, server.put("/a.gguf", SMALL))
    assert server.asked == []


def test_a_server_that_is_not_there(fetch: Fetch, server: FileServer, folder: Path) -> None:
    port = server.server_port
    server.server_close()
    assert f"cannot connect to 127.0.0.1:{port}" in refusal(fetch, f"http://127.0.0.1:{port}/a.gguf")
    assert not os.path.exists(folder)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("[Errno -2] Name or service not known", "host name not found; is this machine online?"),
        ("[Errno -3] Temporary failure in name resolution", "host name not found; is this machine online?"),
        ("[Errno 111] Connection refused", "Connection refused"),
    ],
)
def test_no_connection_is_told_in_plain_words(said: str, told: str) -> None:
    found = web.told(httpx.ConnectError(said), "https://h.co/a.gguf")
    assert isinstance(found, web.Later)
    assert found.reason == f"cannot connect to h.co: {told}"
