"""Presets on the screen: applied, taken back in one step, saved, renamed and removed."""

from __future__ import annotations

import pytest

from termchat import paths
from termchat.chat.loading import Choice
from termchat.config import presets
from termchat.config.presets import CHAIN, Preset
from termchat.decoding.samplers import Tuning
from termchat.engine.port import Adjust
from termchat.tui.lists.preset_dialog import PresetsDialog
from tests.chats import switch_to
from tests.tui.running_app import SPEC, Desktop, click, desktop

pytestmark = pytest.mark.usefixtures("home")

PRESETS = "f10"


async def highlight(desk: Desktop, name: str) -> PresetsDialog:
    """Opens the list, and goes to the preset of that name."""
    await desk.type("", PRESETS)
    dialog = desk.app.screen
    assert isinstance(dialog, PresetsDialog)
    dialog.action_move("first")
    await desk.type("", *["down"] * list(presets.load().entries).index(name))
    return dialog


def own() -> dict[str, Preset]:
    return {name: preset for name, preset in presets.load().entries.items() if preset.own}


async def test_a_preset_is_applied_to_a_running_reply_as_one_change_and_taken_back_as_one() -> None:
    creative = presets.load().get("creative")
    async with desktop() as desk:
        await desk.sent("go", "Once")
        desk.chat.adjust_setting("min_p", 0.2)
        await desk.settle()
        before, places, sent = desk.chat.tuning, dict(desk.chat.origin), len(desk.engine.asked(Adjust))
        await highlight(desk, "creative")
        assert "temperature" in desk.text
        assert "0.8 → 1.3" in desk.text
        await desk.type("", "enter")
        (change,) = desk.engine.asked(Adjust)[sent:]
        assert change.samplers == Tuning().turn_knobs(creative.knobs).samplers()
        assert {change.origin[name] for name in CHAIN} == {"preset creative"}
        assert "preset creative: " in desk.text
        assert "Ctrl+T z undoes it" in desk.text
        await desk.type("", "ctrl+t", "z")
        (_, back) = desk.engine.asked(Adjust)[sent:]
        assert back.samplers == before.samplers()
        assert (desk.chat.tuning, desk.chat.origin) == (before, places)
        await desk.type("", "z")
        assert "nothing to undo" in desk.text


async def test_a_preset_has_the_command_and_the_mouse_too() -> None:
    async with desktop() as desk:
        await desk.type("/preset det", "enter", "enter")  # completed, then done
        assert desk.chat.tuning == Tuning(seed=1, temperature=0)
        assert "Not at default: preset deterministic (temperature 0.0), seed 1" in desk.text
        await desk.type("/preset creativ", "escape", "enter")
        assert "unknown preset 'creativ' (did you mean creative?)" in desk.text
        assert desk.composer.text == "/preset creativ"
        desk.composer.clear()
        await desk.type("", PRESETS)
        await click(desk, "extraction")
        assert "0 → 0.1" in desk.text
        await click(desk, "extraction", times=2)
        assert desk.chat.tuning == Tuning(seed=1, temperature=0.1, top_k=20, top_p=0.9, min_p=0.05)
        assert "from preset extraction" in desk.text
        await click(desk, "from preset extraction")
        assert isinstance(desk.app.screen, PresetsDialog)


async def test_the_knobs_are_saved_as_a_preset_and_never_in_place_of_another_without_a_question() -> None:
    async with desktop() as desk:
        desk.chat.adjust_setting("temperature", 1.25)
        desk.chat.adjust_setting("stop", ["x"])
        await desk.type("", PRESETS, "s", "m", "y", "enter")
        assert {name: preset.named for name, preset in own().items()} == {"my": {"temperature": 1.25}}
        assert "my is saved in ~/.config/termchat/presets.toml" in desk.text
        desk.chat.adjust_setting("top_k", 3)
        for name in ("my", "code"):
            await desk.type("", "s", *name, "enter")
            assert own().get(name) != presets.of_tuning(name, desk.chat.tuning)
            assert f"{name} {'exists' if name == 'my' else 'ships with termchat'}" in desk.text
            assert "Enter again replaces it" in desk.text
            await desk.type("", "enter")
            assert own()[name] == presets.of_tuning(name, desk.chat.tuning)
        await desk.type("", "s", *"../x", "enter")
        assert "is not a valid name" in desk.text
        await desk.type("", "escape", "escape")
        assert desk.app.screen is desk.app.screen_stack[0]
        await desk.type("/preset save my", "escape", "enter")
        assert "my exists" in desk.text
        desk.composer.clear()
        await desk.type("/preset save other", "escape", "enter")
        assert "other" in own()


async def test_only_presets_of_ones_own_are_renamed_and_removed() -> None:
    paths.presets_file().parent.mkdir(parents=True)
    paths.presets_file().write_text("# mine\n[mine]\ntop_k = 3\n[code]\ntop_k = 9\n")
    async with desktop() as desk:
        await highlight(desk, "mine")
        await desk.type("", "r", "backspace", "d", "enter")
        assert set(own()) == {"mind", "code"}
        await desk.type("", "delete")
        assert "remove mind?" in desk.text
        await desk.type("", "up", "down", "delete")  # whoever looks elsewhere is asked anew
        assert set(own()) == {"mind", "code"}
        await desk.type("", "delete")
        assert set(own()) == {"code"}
        assert paths.presets_file().read_text().startswith("# mine\n")
        await desk.type("", "escape")
        await highlight(desk, "code")
        await desk.type("", "d", "d")
        assert own() == {}
        assert presets.load().get("code").knobs["temperature"] == 0.2  # the one that ships is there again
        await desk.type("", "d", "d", "r")
        assert "ships with termchat: it can be neither renamed nor removed" in desk.text


async def test_the_panel_says_what_the_model_recommends() -> None:
    async with desktop(load=lambda chat: switch_to(chat, Choice(SPEC, {"top_k": 7, "temperature": 0.6}))) as desk:
        assert "from model: top_k temp" in desk.text
        await desk.type("/preset code", "escape", "enter")
        assert "from preset code" in desk.text
        assert "model:" not in desk.text
        await desk.type("", "ctrl+t", "z", "escape")
        assert "from model: top_k temp" in desk.text
