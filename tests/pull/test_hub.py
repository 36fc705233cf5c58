"""The hub as it answers: which file is chosen, what is checked, and who sees the token."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from termchat import paths
from termchat.models.catalogue import Catalogue
from termchat.models.download.hub import Hub, Repository, understand
from termchat.models.download.progress import Pulling
from termchat.models.download.pull import PullCancelled
from termchat.models.entry import Entry
from termchat.models.errors import ModelError
from tests.pull.fetching import refusal
from tests.pull.file_server import FileServer, gguf, sha256

Fetch = Callable[..., Path]

COMMIT = "c0ffee" * 6 + "c0ff"
TOKEN = "hf_secretsecretsecret"
REPO = "someone/Tiny-GGUF"


@pytest.fixture
def hub(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> FileServer:
    """The server as the hub, with a repository, and a token that it may see."""
    monkeypatch.setenv("HF_ENDPOINT", server.address + "/")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return server


def share(hub: FileServer, files: dict[str, bytes], other: FileServer | None = None) -> None:
    """Puts files into the repository; with another host, that is where their content lies, as it does on the real hub."""
    siblings = []
    for name, data in files.items():
        siblings.append({"rfilename": name, "size": len(data), "lfs": {"sha256": sha256(data), "size": len(data)}})
        place = f"/{REPO}/resolve/{COMMIT}/{name}"
        linked = {"X-Linked-ETag": f'"{sha256(data)}"', "X-Linked-Size": str(len(data)), "X-Repo-Commit": COMMIT}
        target = other.put(f"/blobs/{name}", data) + "?signature=private" if other else ""
        hub.put(place, data, headers=linked, redirect=target)
    siblings.append({"rfilename": "README.md", "size": 10})
    hub.put(f"/api/models/{REPO}/revision/main", json.dumps({"sha": COMMIT, "siblings": siblings}).encode())


Q4, Q8, VISION = gguf(10_000, 4), gguf(10_000, 8), gguf(5_000, 9)
FILES = {"mmproj-F16.gguf": VISION, "Tiny-Q8_0.gguf": Q8, "Tiny-Q4_K_M.gguf": Q4}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (REPO, "Tiny-Q4_K_M.gguf"),
        (f"{REPO}:Q8_0", "Tiny-Q8_0.gguf"),
        (f"{REPO}:q8_0", "Tiny-Q8_0.gguf"),
        (f"{REPO}/Tiny-Q8_0.gguf", "Tiny-Q8_0.gguf"),
        (f"hf.co/{REPO}:Q8_0", "Tiny-Q8_0.gguf"),
        (f"https://huggingface.co/{REPO}", "Tiny-Q4_K_M.gguf"),
        (f"https://huggingface.co/{REPO}/blob/main/Tiny-Q8_0.gguf", "Tiny-Q8_0.gguf"),
        (f"https://hf.co/{REPO}/resolve/main/Tiny-Q8_0.gguf?download=true", "Tiny-Q8_0.gguf"),
    ],
)
def test_every_way_to_write_it_finds_its_file(hub: FileServer, fetch: Fetch, source: str, name: str) -> None:
    share(hub, FILES)
    path = fetch(source)
    assert path.name == name
    assert path.read_bytes() == FILES[name]


def test_without_the_usual_quantization_the_first_model_is_taken(hub: FileServer, fetch: Fetch) -> None:
    share(hub, {"mmproj.gguf": VISION, "a-Q8_0.gguf": Q8, "b-Q6_K.gguf": Q4})
    assert fetch(REPO).name == "a-Q8_0.gguf"


def test_it_lies_under_its_owner_and_repository(hub: FileServer, fetch: Fetch) -> None:
    share(hub, FILES)
    path = fetch(REPO, destination=None)
    assert path == paths.models_folder() / REPO / "Tiny-Q4_K_M.gguf"


def test_a_set_in_a_folder_comes_whole(hub: FileServer, fetch: Fetch) -> None:
    parts = {f"Q4_K_M/Big-Q4_K_M-{n:05d}-of-00002.gguf": gguf(9_000, n) for n in (1, 2)}
    share(hub, {"Small-Q8_0.gguf": Q8, **parts})
    seen: list[Pulling] = []
    first = fetch(REPO, destination=None, progress=seen.append)
    assert first == paths.models_folder() / REPO / "Q4_K_M/Big-Q4_K_M-00001-of-00002.gguf"
    assert first.with_name("Big-Q4_K_M-00002-of-00002.gguf").read_bytes() == gguf(9_000, 2)
    assert (seen[-1].done, seen[-1].total) == (len(gguf(9_000)) * 2, len(gguf(9_000)) * 2)


def test_a_name_that_is_not_there_says_what_is(hub: FileServer, fetch: Fetch) -> None:
    share(hub, FILES)
    assert "It has Tiny-Q4_K_M.gguf, Tiny-Q8_0.gguf." in refusal(fetch, f"{REPO}:Q5_K_M")
    assert "Tiny-Q8_0.gguf" in refusal(fetch, f"{REPO}/Tony.gguf")


@pytest.mark.parametrize(
    "evil", ["../../evil-Q4_K_M.gguf", "/etc/evil-Q4_K_M.gguf", "a/\x1b[2J-Q4_K_M.gguf", "con.gguf"]
)
def test_what_a_repository_calls_its_files_cannot_escape(hub: FileServer, fetch: Fetch, home: Path, evil: str) -> None:
    share(hub, {evil: Q4})
    assert "is not a safe file name" in refusal(fetch, REPO, destination=None)
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_the_hash_the_hub_tells_is_checked(hub: FileServer, fetch: Fetch, folder: Path) -> None:
    share(hub, FILES)
    place = f"/{REPO}/resolve/{COMMIT}/Tiny-Q4_K_M.gguf"
    hub.files[place].data = gguf(10_000, 77)
    hub.files[place].headers = {}
    said = refusal(fetch, REPO)
    assert sha256(Q4) in said
    assert sha256(gguf(10_000, 77)) in said
    assert list(folder.rglob("*")) == []


def test_a_catalogue_entry_needs_one_request_and_is_checked_by_its_headers(
    hub: FileServer, fetch: Fetch, other: FileServer
) -> None:
    share(hub, FILES, other)
    known = Catalogue({"tiny": Entry(description="Tiny", repo=REPO, file="Tiny-Q8_0.gguf", revision=COMMIT)})
    other.files["/blobs/Tiny-Q8_0.gguf"].data = gguf(10_000, 77)
    assert sha256(Q8) in refusal(fetch, "tiny", known=known)
    other.files["/blobs/Tiny-Q8_0.gguf"].data = Q8
    assert fetch("tiny", known=known).read_bytes() == Q8
    assert [asked.path for asked in hub.asked] == [f"/{REPO}/resolve/{COMMIT}/Tiny-Q8_0.gguf"] * 2


def test_the_token_goes_to_the_hub_and_to_nobody_else(
    hub: FileServer, other: FileServer, fetch: Fetch, home: Path
) -> None:
    share(hub, FILES, other)
    fetch(REPO)
    assert [asked.headers.get("authorization") for asked in hub.asked] == [f"Bearer {TOKEN}"] * 2
    assert len(other.asked) == 1
    assert "authorization" not in other.asked[0].headers
    assert TOKEN not in str(other.asked)
    kept = "".join(path.read_text() for path in home.rglob("*.json"))
    assert REPO in kept
    assert TOKEN not in kept
    assert "private" not in kept


@pytest.mark.usefixtures("hub")
def test_another_server_never_sees_it(other: FileServer, fetch: Fetch) -> None:
    fetch(other.put("/a.gguf", Q4))
    assert "authorization" not in other.asked[0].headers


def test_a_hub_in_the_clear_sees_no_token() -> None:
    there = Hub("http://hub.example", TOKEN)
    assert there.headers("http://hub.example/x") == {}
    safe = Hub("https://hub.example", TOKEN)
    assert safe.headers("https://hub.example/x") == {"Authorization": f"Bearer {TOKEN}"}
    for elsewhere in ("http://hub.example/x", "https://hub.example:8443/x", "https://hub.example.evil/x"):
        assert safe.headers(elsewhere) == {}
    assert safe.headers("https://hub.example@evil.example/x") == {}


def test_no_error_holds_the_token(hub: FileServer, fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.put(f"/api/models/{REPO}/revision/main", b"", first=[(401, {}), (403, {}), (500, {})] + [(500, {})] * 5)
    for _ in range(3):
        assert TOKEN not in refusal(fetch, REPO)
    monkeypatch.setenv("HF_TOKEN", f"{TOKEN}\nInjected: 1")
    assert TOKEN not in refusal(fetch, REPO)
    assert "Injected" not in str(hub.asked)


def test_a_model_behind_a_licence_says_what_to_do(
    hub: FileServer, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.put(f"/api/models/{REPO}/revision/main", b"", first=[(401, {})] * 2)
    assert "the token in HF_TOKEN must have access" in refusal(fetch, REPO)
    monkeypatch.delenv("HF_TOKEN")
    assert "set HF_TOKEN to your access token" in refusal(fetch, REPO)


def test_where_the_token_is_looked_for(tmp_path: Path) -> None:
    kept = tmp_path / "huggingface"
    kept.mkdir()
    (kept / "token").write_text("hf_file\n")
    (tmp_path / "elsewhere").write_text("hf_elsewhere")
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    assert Hub.from_environment(cache).token == "hf_file"
    assert Hub.from_environment({**cache, "HF_TOKEN": " hf_variable "}).token == "hf_variable"
    assert Hub.from_environment({**cache, "HF_TOKEN_PATH": str(tmp_path / "elsewhere")}).token == "hf_elsewhere"
    assert Hub.from_environment({"HF_HOME": str(kept)}).token == "hf_file"
    assert Hub.from_environment({**cache, "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}).token == ""


def test_a_redirect_in_circles_ends(hub: FileServer, fetch: Fetch) -> None:
    url = hub.put("/a.gguf", b"", redirect="/a.gguf")
    hub.files["/a.gguf"].redirect = url
    assert "redirects more than" in refusal(fetch, f"{hub.address.replace('127.0.0.1', 'localhost')}/a.gguf")


def test_asking_the_hub_can_be_ended(hub: FileServer, fetch: Fetch) -> None:
    share(hub, FILES)
    hub.files[f"/api/models/{REPO}/revision/main"].hold = (5, threading.Event())
    calls = iter(range(99))
    with pytest.raises(PullCancelled):
        fetch(REPO, cancelled=lambda: next(calls) > 3)


HOME = Hub()


@pytest.mark.parametrize(
    "text", ["", "model", "owner/", "/abs/x.gguf", "./x.gguf", "a/b/c.txt", "a/../b.gguf", "C:\\x.gguf"]
)
def test_what_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(ModelError):
        understand(text, HOME)


def test_a_commit_in_an_address_is_kept() -> None:
    url = f"https://huggingface.co/{REPO}/resolve/{COMMIT}/sub/x.gguf"
    assert understand(url, HOME) == Repository(REPO, COMMIT, "sub/x.gguf")
    assert understand("https://example.org/x.gguf", HOME) == "https://example.org/x.gguf"
