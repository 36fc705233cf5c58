"""Models on the disk, in trees laid out as the programs that made them lay them out."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from termchat.models.disk import program_folders, walk
from termchat.models.disk.discovery import FoundModel, Skipped, discover, names
from tests.models.gguf_files import BASE, TEXT, U32, model, named, whole

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def look(folders: Iterable[Path] = ()) -> tuple[dict[str, FoundModel], dict[Path, str]]:
    """What is found, by name, and why the rest is skipped, by path."""
    both = list(discover(folders))
    found = [one for one in both if isinstance(one, FoundModel)]
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}, {one.path: one.reason for one in both if isinstance(one, Skipped)}


def hub(folder: Path, repo: str, file: str, name: str, commit: str = COMMIT) -> Path:
    """A file in a Hugging Face cache: a blob, and a link to it in the snapshot of a commit."""
    repository = folder / f"models--{repo.replace('/', '--')}"
    data = model({"general.name": (TEXT, name)})
    blob = repository / "blobs" / hashlib.sha256(data).hexdigest()
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(data)
    link = repository / "snapshots" / commit / file
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(blob, link.parent))
    refs = repository / "refs"
    refs.mkdir(exist_ok=True)
    (refs / "main").write_text(commit)
    return link


def ollama(folder: Path, where: str, data: bytes, *, media: str = "application/vnd.ollama.image.model") -> Path:
    """A model in Ollama's folder: a manifest under its name, and blobs."""
    blobs = folder / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    layers = []
    for kind, content in ((media, data), ("application/vnd.ollama.image.license", b"Apache")):
        digest = hashlib.sha256(content).hexdigest()
        (blobs / f"sha256-{digest}").write_bytes(content)
        layers.append({"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)})
    manifest = folder / "manifests" / where
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(
        json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
                "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "digest": "sha256:0"},
                "layers": layers,
            }
        )
    )
    return blobs / f"sha256-{hashlib.sha256(data).hexdigest()}"


def test_an_empty_home_holds_nothing() -> None:
    assert look() == ({}, {})


def test_a_cache_of_hugging_face(home: Path) -> None:
    cache = home / ".cache/huggingface/hub"
    path = hub(cache, "owner/Some-Model-GGUF", "Some-Model-Q4_K_M.gguf", "some")
    deep = hub(cache, "owner/Some-Model-GGUF", "Q8_0/Some-Model-Q8_0.gguf", "deep")
    again = hub(cache, "owner/Some-Model-GGUF", "Some-Model-Q4_K_M.gguf", "some", commit="f" * 40)
    unfinished = path.parents[2] / "blobs" / f"{'a' * 64}.incomplete"
    unfinished.write_bytes(b"GGUF")
    broken = path.with_name("gone.gguf")
    broken.symlink_to("../../blobs/none")
    data = cache / "datasets--owner--data/snapshots/x/model.gguf"
    data.parent.mkdir(parents=True)
    data.write_bytes(model())
    found, skipped = look()
    assert {name: one.path for name, one in found.items()} == {"Some-Model-Q4_K_M": path, "Some-Model-Q8_0": deep}
    assert found["Some-Model-Q4_K_M"].place == "Hugging Face: owner/Some-Model-GGUF"
    assert found["Some-Model-Q4_K_M"].size == path.stat().st_size
    assert skipped == {
        unfinished: "is an unfinished download",
        broken: "is a broken link",
        again: f"is the same model as {path}",
    }


@pytest.mark.parametrize(
    ("variable", "inner"),
    [
        ("HF_HUB_CACHE", ""),
        ("HUGGINGFACE_HUB_CACHE", ""),
        ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
        ("LLAMA_CACHE", ""),
    ],
)
def test_variables_that_move_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path, variable: str, inner: str
) -> None:
    """The moved one and the one that was there before."""
    hub(tmp_path / inner, "o/a", "moved.gguf", "moved")
    hub(home / ".cache/huggingface/hub", "o/a", "before.gguf", "before")
    assert set(look()[0]) == {"before"}
    monkeypatch.setenv(variable, str(tmp_path))
    assert set(look()[0]) == {"before", "moved"}


def test_the_caches_of_llama_cpp(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = named("older", home / ".cache/llama.cpp", "ggml-org_Tiny-GGUF_Tiny-Q8_0.gguf")
    (older.parent / "ggml-org_Tiny-GGUF_Tiny-Q8_0.gguf.etag").write_text('"1"')
    (older.parent / "manifest=ggml-org=Tiny-GGUF=latest.json").write_text("{}")
    unfinished = older.parent / "o_m_Big-Q8_0.gguf.downloadInProgress"
    unfinished.write_bytes(b"GGUF")
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path))
    named("flat", tmp_path, "o_m_flat.gguf")
    hub(tmp_path, "o/m", "new.gguf", "new")
    found, skipped = look()
    assert {name: one.place for name, one in found.items()} == {
        "o_m_flat": "llama.cpp",
        "new": "llama.cpp: o/m",
        "ggml-org_Tiny-GGUF_Tiny-Q8_0": "llama.cpp",
    }
    assert skipped == {unfinished: "is an unfinished download"}


@pytest.mark.parametrize("inner", [".lmstudio", ".cache/lm-studio"])
def test_lm_studio(home: Path, inner: str) -> None:
    path = named("a", home / inner / "models/publisher/model-GGUF", "model-Q4_K_M.gguf")
    projector = path.with_name("mmproj-model-f16.gguf")
    projector.write_bytes(model({"general.type": (TEXT, "mmproj"), "general.architecture": (TEXT, "clip")}))
    found, skipped = look()
    assert (found["model-Q4_K_M"].path, found["model-Q4_K_M"].place) == (path, "LM Studio")
    assert skipped == {projector: "is a projector for images or audio, not a language model"}


def test_lm_studio_that_was_moved(home: Path, tmp_path: Path) -> None:
    (home / ".lmstudio-home-pointer").write_text(f"{tmp_path}/elsewhere\n")
    path = named("a", tmp_path / "elsewhere/models/p/m", "m.gguf")
    assert look()[0]["m"].path == path


@pytest.mark.parametrize("content", [b"", b"\0", b"\xff\xfe/no", b"relative", b"/" + b"x" * 100_000])
def test_a_pointer_that_points_nowhere(home: Path, content: bytes) -> None:
    (home / ".lmstudio-home-pointer").write_bytes(content)
    assert look() == ({}, {})


def test_ollama(home: Path) -> None:
    folder = home / ".ollama/models"
    blob = ollama(folder, "registry.ollama.ai/library/llama3.2/1b", model({"general.name": (TEXT, "llama")}))
    ollama(folder, "registry.ollama.ai/someone/theirs/latest", model({"general.name": (TEXT, "theirs")}))
    ollama(folder, "hf.co/bartowski/Tiny-GGUF/Q4_K_M", model({"general.name": (TEXT, "tiny")}))
    ollama(folder, "registry.ollama.ai/library/llama3.2/latest", model({"general.name": (TEXT, "llama")}))
    other = ollama(
        folder, "registry.ollama.ai/library/nomic-embed/latest", whole({"llama.pooling_type": (U32, 1)} | BASE)
    )
    remote = folder / "manifests/registry.ollama.ai/library/big/cloud"
    ollama(folder, "registry.ollama.ai/library/big/cloud", b"{}", media="application/vnd.ollama.image.config")
    bad = folder / "manifests/registry.ollama.ai/library/bad/latest"
    bad.parent.mkdir(parents=True)
    bad.write_bytes(b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../x"}]}')
    torn = folder / "manifests/registry.ollama.ai/library/torn/latest"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b'{"layers": [')
    unfinished = folder / f"blobs/sha256-{'b' * 64}-partial"
    unfinished.write_bytes(b"GGUF")
    found, skipped = look()
    assert {name: one.place for name, one in found.items()} == {
        "llama3.2:1b": "Ollama",
        "someone/theirs:latest": "Ollama",
        "hf.co/bartowski/Tiny-GGUF:Q4_K_M": "Ollama",
    }
    assert found["llama3.2:1b"].path == blob
    assert skipped.pop(other) == "is an embedding or fill-in model; it cannot generate text"
    assert skipped == {
        blob: "is the same model as llama3.2:1b",
        remote: "is a manifest without a GGUF file",
        bad: "is a manifest with an invalid digest",
        torn: "is a manifest without a GGUF file",
        unfinished: "is an unfinished download",
    }
    assert ("llama3.2:latest", blob) in list(names())


def test_ollama_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    ollama(tmp_path, "registry.ollama.ai/library/tiny/latest", model())
    assert set(look()[0]) == {"tiny:latest"}
    assert set(look([tmp_path])[0]) == {"tiny:latest"}


def test_jan_names_its_folders_and_gpt4all_its_files(home: Path) -> None:
    named("jan", home / ".local/share/Jan/data/llamacpp/models/janhq/Jan-v3-4b-Q8_0", "model.gguf")
    named("gpt", home / ".local/share/nomic.ai/GPT4All", "Meta-Llama-3-8B-Instruct.Q4_0.gguf")
    unfinished = home / ".local/share/nomic.ai/GPT4All/incomplete-phi3.gguf"
    unfinished.write_bytes(b"GGUF")
    found, skipped = look()
    assert {name: one.place for name, one in found.items()} == {
        "Jan-v3-4b-Q8_0": "Jan",
        "Meta-Llama-3-8B-Instruct.Q4_0": "GPT4All",
    }
    assert skipped == {unfinished: "is an unfinished download"}


def test_our_own_folder_comes_first(home: Path, tmp_path: Path) -> None:
    ours = named("same", home / ".local/share/termchat/models/same")
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(ours.read_bytes())
    found, skipped = look([tmp_path])
    assert found["same"].place == "termchat"
    assert skipped == {copy: f"is the same model as {ours}"}


def test_folders_of_the_config_are_looked_into_to_the_bottom(tmp_path: Path) -> None:
    named("top", tmp_path)
    named("deep", tmp_path / "a/b/c d/ü")
    named("UPPER", tmp_path, "UPPER.GGUF")
    (tmp_path / "notes.txt").write_text("no model")
    found, skipped = look([tmp_path])
    assert set(found) == {"top", "deep", "UPPER"}
    assert found["deep"].place == "folders in the config"
    assert skipped == {}


def test_folders_that_are_not_there_are_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    _, skipped = look([tmp_path / "none", file, Path("~nobody-of-that-name/models"), Path("a\0b")])
    assert skipped[tmp_path / "none"] == "cannot be read: No such file or directory"
    assert skipped[file] == "cannot be read: Not a directory"
    assert "cannot resolve the home folder" in skipped[Path("~nobody-of-that-name/models")]
    assert "null" in skipped[Path("a\0b")]


def test_a_folder_given_twice_is_told_of_once(tmp_path: Path) -> None:
    named("one", tmp_path / "in")
    found, skipped = look([tmp_path, tmp_path / "in", tmp_path])
    assert set(found) == {"one"}
    assert skipped == {}


def test_rings_of_links_and_what_is_no_file(tmp_path: Path) -> None:
    inner = named("one", tmp_path / "a").parent
    (inner / "up").symlink_to(tmp_path)
    (tmp_path / "ring").symlink_to(tmp_path / "ring")
    (tmp_path / "ring.gguf").symlink_to(tmp_path / "ring.gguf")
    (tmp_path / "folder.gguf").mkdir()
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "empty.gguf").touch()
    (tmp_path / "pointer.gguf").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    found, skipped = look([tmp_path])
    assert set(found) == {"one"}
    assert {path.name: reason for path, reason in skipped.items()} == {
        "ring.gguf": "cannot be accessed: Too many levels of symbolic links",
        "pipe.gguf": "is a pipe, not a regular file",
        "empty.gguf": "is empty",
        "pointer.gguf": "is not a GGUF file. At byte 0 it looks like a Git LFS pointer; the real file was not fetched",
    }


def test_one_file_by_many_ways_is_one_model(tmp_path: Path) -> None:
    path = named("one", tmp_path, "a.gguf")
    os.link(path, tmp_path / "b.gguf")
    (tmp_path / "c.gguf").symlink_to(path)
    (tmp_path / "d.gguf").write_bytes(path.read_bytes())
    other = named("two", tmp_path, "e.gguf")
    assert other.stat().st_size == path.stat().st_size
    found, skipped = look([tmp_path])
    assert set(found) == {"a", "e"}
    assert {one.name for one in skipped} == {"b.gguf", "c.gguf", "d.gguf"}
    assert set(skipped.values()) == {f"is the same model as {path}"}
    assert {name for name, first in names([tmp_path]) if first == path} == {"a", "b", "c", "d"}


def test_files_of_one_size_that_differ_only_in_their_weights_are_two(tmp_path: Path) -> None:
    path = named("one", tmp_path, "a.gguf")
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    (tmp_path / "b.gguf").write_bytes(data)
    assert set(look([tmp_path])[0]) == {"a", "b"}


def part(folder: Path, number: int, count: int, name: str = "Big-Q4_K_M") -> Path:
    path = folder / f"{name}-{number:05d}-of-{count:05d}.gguf"
    split = {"split.no": (U32, number - 1), "split.count": (U32, count)}
    path.write_bytes(whole(split | BASE | {"general.name": (TEXT, f"{name}{number}")}))
    return path


def test_a_model_in_parts_is_one(tmp_path: Path) -> None:
    files = tuple(part(tmp_path, number, 3) for number in (1, 2, 3))
    found, skipped = look([tmp_path])
    assert found["Big-Q4_K_M"].files == files
    assert found["Big-Q4_K_M"].path == files[0]
    assert found["Big-Q4_K_M"].size == sum(path.stat().st_size for path in files)
    assert skipped == {}


def test_a_model_in_parts_of_which_some_lack(tmp_path: Path) -> None:
    second = part(tmp_path, 2, 3)
    assert look([tmp_path]) == ({}, {second: "belongs to a model in 3 parts; missing: 1 and 3"})
    first = part(tmp_path, 1, 3)
    assert look([tmp_path]) == ({}, {first: "belongs to a model in 3 parts; missing: 3"})
    (tmp_path / "Big-Q4_K_M-00003-of-00003.gguf").touch()
    assert look([tmp_path])[1] == {tmp_path / "Big-Q4_K_M-00003-of-00003.gguf": "is empty"}


def test_a_later_part_under_another_name(tmp_path: Path) -> None:
    """As llama-gguf-split writes it: nothing but which part it is."""
    path = tmp_path / "renamed.gguf"
    path.write_bytes(whole({"split.no": (U32, 1), "split.count": (U32, 3)}))
    assert look([tmp_path]) == ({}, {path: "is part 2 of 3 of a model"})


def test_a_part_under_another_name(tmp_path: Path) -> None:
    path = part(tmp_path, 1, 3).rename(tmp_path / "renamed.gguf")
    reason = "is one of 3 parts of a model; the other parts are not in its folder"
    assert look([tmp_path]) == ({}, {path: reason})


@pytest.mark.parametrize("name", ["m-00000-of-00002.gguf", "m-00003-of-00002.gguf", "m-00001-of-99999.gguf"])
def test_names_that_only_look_like_parts(tmp_path: Path, name: str) -> None:
    named("m", tmp_path, name)
    assert len(look([tmp_path])[0]) == 1


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named("open", tmp_path / "b")
    (tmp_path / "a").mkdir()
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "a":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(walk.os, "scandir", refuse)
    found, skipped = look([tmp_path])
    assert set(found) == {"open"}
    assert skipped == {tmp_path / "a": "cannot be read: Permission denied"}


def test_a_programs_folder_that_may_not_be_entered_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = home / ".lmstudio/models"
    stat = os.stat

    def refuse(path: object, **options: object) -> os.stat_result:
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied")
        return stat(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", refuse)
    assert look() == ({}, {closed: "cannot be read: Permission denied"})


def test_a_file_that_vanishes_meanwhile(tmp_path: Path) -> None:
    named("a", tmp_path)
    named("b", tmp_path)
    steps = discover([tmp_path])
    next(steps)
    (tmp_path / "b.gguf").unlink()
    (gone,) = list(steps)
    assert isinstance(gone, Skipped)
    assert gone.reason == "does not exist"


def test_depth_and_number_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deepest = tmp_path.joinpath(*["d"] * (walk.MAX_DEPTH + 1))
    named("reached", deepest.parent)
    named("beyond", deepest)
    found, skipped = look([tmp_path])
    assert set(found) == {"reached"}
    assert skipped == {deepest.parent: f"is {walk.MAX_DEPTH} folders deep; its subfolders were not searched"}
    monkeypatch.setattr(walk, "MAX_ENTRIES", 5)
    _, skipped = look([tmp_path])
    assert any("too many files under" in reason for reason in skipped.values())


def test_nothing_is_written(home: Path, tmp_path: Path) -> None:
    """The folders are left as they were, to the time of their last change."""
    hub(home / ".cache/huggingface/hub", "o/m", "m.gguf", "m")
    ollama(home / ".ollama/models", "registry.ollama.ai/library/tiny/latest", model())
    named("own", tmp_path)

    def state() -> list[tuple[str, int, int]]:
        paths = [path for root in (home, tmp_path) for path in root.rglob("*")]
        return sorted((str(path), path.lstat().st_mtime_ns, path.lstat().st_size) for path in paths)

    before = state()
    assert len(look([tmp_path])[0]) == 3
    assert state() == before


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("darwin", {}, ["Library/Caches/llama.cpp", "Library/Application Support/Jan/data/llamacpp"]),
        ("darwin", {}, ["Library/Application Support/nomic.ai/GPT4All", ".ollama/models", ".lmstudio/models"]),
        ("win32", {"LOCALAPPDATA": "Local"}, ["Local/llama.cpp", "Local/nomic.ai/GPT4All"]),
        ("win32", {"APPDATA": "Roaming"}, ["Roaming/Jan/data/llamacpp"]),
        ("linux", {"XDG_DATA_HOME": "data"}, ["data/nomic.ai/GPT4All", "data/Jan/data/llamacpp"]),
    ],
)
def test_the_places_of_other_systems(home: Path, platform: str, variables: dict[str, str], expected: list[str]) -> None:
    for inner in expected:
        (home / inner).mkdir(parents=True)
    environ = {name: str(home / value) for name, value in variables.items()}
    assert {root.path for root in program_folders.roots(environ, platform)} == {home / inner for inner in expected}
