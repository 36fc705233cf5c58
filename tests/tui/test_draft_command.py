"""`/draft` and the knob: who drafts is turned like any other knob, also in mid-reply, and a model by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from termchat.decoding.drafting import DraftSettings
from termchat.engine.port import Adjust, LoadDraft
from tests.models.gguf_files import ARRAY, TEXT, named
from tests.pull.file_server import gguf
from tests.tui.drafted import say_plain
from tests.tui.models_dialog import family, shop
from tests.tui.running_app import command, desktop


@pytest.mark.parametrize("word", ["ngram", "auto", "AUTO"])
async def test_a_word_turns_the_knob_and_z_undoes_it(word: str) -> None:
    async with desktop() as desk:
        await command(desk, f"/draft {word}")
        assert desk.chat.tuning.draft == word.lower()
        assert f"draft {word.lower()} (panel)" in desk.text
        await desk.type("", "ctrl+t", "z", "escape")
        assert desk.chat.tuning.draft == "off"


async def test_in_mid_reply_it_works_from_the_next_token_on() -> None:
    async with desktop() as desk:
        await desk.sent("hi")
        say_plain(desk.engine, " Once", " upon")
        await command(desk, "/draft ngram")
        assert desk.engine.asked(Adjust)[-1].draft == DraftSettings("ngram")
        say_plain(desk.engine, " a")
        await desk.shows("┊ draft off → ngram at token 2")
        await command(desk, "/draft off")
        assert desk.engine.asked(Adjust)[-1].draft == DraftSettings("off")
        say_plain(desk.engine, " time")
        await desk.shows("┊ draft ngram → off at token 3")


async def test_the_knob_is_turned_in_tune() -> None:
    async with desktop() as desk:
        await desk.type("", "ctrl+t", "G", "right")
        assert desk.chat.tuning.draft == "ngram"
        await desk.shows("G draft    ngram")
        await desk.type("", "x")
        assert desk.chat.tuning.draft == "off"


async def test_without_a_word_its_page_is_opened() -> None:
    async with desktop((80, 24)) as desk:
        assert "SPECULATION" not in desk.text
        await command(desk, "/draft")
        await desk.shows("SPECULATION", "/draft auto turns it on")


async def test_a_model_is_loaded_by_its_name_and_drafts(home: Path) -> None:
    folder = home / "models"
    folder.mkdir()
    (folder / "small.gguf").write_bytes(gguf(100_000))
    async with shop(folder, opened=False) as desk:
        await command(desk, f"/draft {folder / 'small.gguf'}")
        await desk.until(lambda: desk.engine.asked(LoadDraft))
        spec = desk.engine.asked(LoadDraft)[-1].spec
        assert spec is not None
        assert spec.path == str(folder / "small.gguf")
        await desk.until(lambda: desk.chat.host.drafter is not None)
        assert desk.chat.tuning.draft == "model"
        assert "nothing is drafted" not in desk.text
        await command(desk, "/draft")
        await desk.shows("small drafts a token in 0.10 of the time")


async def test_what_names_no_model_is_said_and_changes_nothing(home: Path) -> None:
    async with shop(home, opened=False) as desk:
        await command(desk, "/draft ngrm")
        await desk.shows("ngrm")
        assert desk.chat.tuning.draft == "off"
        assert not desk.engine.asked(LoadDraft)


async def test_it_offers_what_can_draft_for_a_model_that_was_opened_by_its_path(home: Path) -> None:
    family(home / "apart")
    named("Foreign", home / "searched", **{"tokenizer.ggml.tokens": (ARRAY, (TEXT, ["a", "b", "x", "longer"]))})
    large = home / "apart" / "Large.gguf"
    async with shop(home / "searched", opened=False) as desk:
        await command(desk, f"/model {large}")
        await desk.until(lambda: any(spec.path == str(large) for spec in desk.loads))
        await desk.until(lambda: desk.chat.phase == "idle")
        desk.composer.insert("/draft ")

        def offered() -> list[str]:
            completion = desk.composer.popup.completion
            return [offer.text for offer in completion.offers] if completion is not None else []

        await desk.until(lambda: len(offered()) > 4)
        assert sorted(offered()[4:]) == [str(home / "apart" / f"{name}.gguf") for name in ("Least", "Small")]
