"""How a model is run: the form, its lines, and what becomes of it, on a fake engine and real files."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len

from termchat import paths
from termchat.chat.opening import choose_model
from termchat.config import per_model
from termchat.config.fields import OPTIONS
from termchat.config.per_model import Picked, RunSettings, run_of
from termchat.config.settings import Settings, load
from termchat.decoding.setting import SettingError
from termchat.models.gguf.header import read_header
from termchat.models.listing import ModelRow
from termchat.tui.lists.engine_dialog import (
    FIELDS,
    EngineDialog,
    EngineForm,
)
from termchat.tui.lists.gather import Facts
from termchat.tui.lists.model_lines import Item
from termchat.tui.lists.models_dialog import ModelsDialog
from termchat.tui.themes.library import PLAIN
from tests.models.gguf_files import U32, named
from tests.tui.fake_engine import INFO
from tests.tui.models_dialog import Shop, shop

pytestmark = pytest.mark.usefixtures("home")

ENGINE = [option for option in OPTIONS.values() if option.table == "engine" and option.kind != "texts"]


def config(flags: dict[str, object] | None = None, **variables: str) -> Settings:
    return load(flags or {}, {f"TERMCHAT_{name.upper()}": value for name, value in variables.items()}, Path("/none"))


def form(
    asked: Settings | None = None, measured: dict[str, int] | None = None, **picked: int | str | bool
) -> EngineForm:
    return EngineForm(RunSettings(asked or config(), Picked(picked), measured or {}))


def write(one: EngineForm, name: str, *keys: str) -> EngineForm:
    """Presses keys at a setting."""
    assert one.choose([field.name for field in FIELDS].index(name))
    for key in keys:
        assert one.press(key, key if len(key) == 1 else None)
    return one


def value(one: EngineForm, name: str) -> tuple[object, str]:
    one.accept()
    return one.config.value(name), one.config.origin[name]


# --- the form --------------------------------------------------------------------------------------------------------


def test_every_setting_of_the_engine_is_a_field_that_takes_what_its_option_takes() -> None:
    assert list(FIELDS) == ENGINE
    for option in ENGINE:
        if option.kind == "text":
            continue
        other = option.moved(option.default, 1)
        one = write(form(), option.name, *option.show(other))
        assert value(one, option.name) == (other, "picker")
        with pytest.raises(SettingError) as refusal:
            option.parse("12345678901")
        refused = write(form(), option.name, *"12345678901")
        assert not refused.accept()
        assert refused.error == str(refusal.value)
        assert all(limit in refused.error for limit in (str(option.low), str(option.high))) or option.kind != "int"
        assert refused.config.value(option.name) == option.default


def test_the_draft_model_is_typed_as_a_name_or_a_path() -> None:
    one = write(form(), "draft_model", *"~/My models/q-0.5+b.gguf")
    assert value(one, "draft_model") == ("~/My models/q-0.5+b.gguf", "picker")
    assert value(write(one, "draft_model", "right", "delete"), "draft_model") == ("", "default")


def test_arrows_move_a_number_in_its_range_and_choices_go_round() -> None:
    assert value(write(form(), "threads", "right", "right", "left"), "threads") == (1, "picker")
    assert value(write(form(), "threads", "left"), "threads") == (0, "default")
    assert value(write(form(), "context", "right", "right"), "context") == (2048, "picker")
    assert value(write(form(), "flash_attention", "left"), "flash_attention") == ("off", "picker")
    assert value(write(form(), "mlock", "space"), "mlock") == (True, "picker")


def test_each_value_says_where_it_is_from_and_taking_it_back_leads_there() -> None:
    one = form(config({"threads": 3}, kv_type="q8_0"), {"prefill_batch": 32}, mlock=True)
    origins = {"threads": "flag", "kv_type": "TERMCHAT_KV_TYPE", "prefill_batch": "tuned", "mlock": "picker"}
    assert {name: value(one, name)[1] for name in origins} == origins
    for name, typed, before in (("threads", "1", 3), ("kv_type", "f16", "q8_0"), ("prefill_batch", "16", 32)):
        changed = write(one, name, *typed)
        assert value(changed, name)[1] == "picker"
        assert value(write(changed, name, "delete"), name) == (before, origins[name])
    assert value(write(one, "mlock", "delete"), "mlock") == (False, "default")
    assert one.run.picked.settings == {}


def test_a_value_that_it_would_have_anyway_is_not_set() -> None:
    one = write(form(measured={"threads": 2}), "threads", "right", "left")
    assert (value(one, "threads"), one.run.picked.settings) == ((2, "tuned"), {})


def test_what_is_not_set_here_cannot_be_taken_back() -> None:
    assert "from TERMCHAT_THREADS" in write(form(config(threads="2")), "threads", "delete").error


def test_a_field_is_not_left_with_a_value_that_it_refuses() -> None:
    one = write(form(), "threads", *"5000")
    assert not one.choose(0)
    assert (one.field.name, one.typed) == ("threads", "5000")
    for _ in range(2):
        one.press("backspace", None)
    assert one.choose(0)
    assert value(one, "threads") == (50, "picker")


def test_settings_that_cannot_be_together_are_refused_before_they_are_kept() -> None:
    one = write(write(form(), "flash_attention", "left"), "kv_type", *"q4_0")
    assert not one.finish()
    assert one.error == "kv_type q4_0 needs flash_attention, which is off"
    assert write(one, "flash_attention", "delete").finish()


def test_what_is_typed_is_dropped_before_anything_else() -> None:
    one = write(form(), "threads", "7")
    assert one.drop()
    assert not one.drop()
    assert value(one, "threads") == (0, "default")


# --- lines -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [24, 36, 50, 76, 120])
def test_every_line_fits(width: int, tmp_path: Path) -> None:
    run = RunSettings(config({"threads": 3}), Picked({"kv_type": "bf16"}), {})
    facts = Facts(read_header(named("tiny", tmp_path)), None, "", {}, run)
    running = msgspec.structs.replace(INFO, threads=2, context=8192)
    row = ModelRow(wanted="tiny", name="tiny", state="ready")
    dialog = EngineDialog(PLAIN, Item(row, "loaded", facts, 10**9, running=running), None)  # type: ignore[arg-type]
    write(dialog.form, "main_gpu", *"99999999999999999").accept()
    lines = [dialog.line(row, width, chosen=row == dialog.form.field) for row in dialog.rows]
    lines += [dialog.render_heading(width), *dialog.render_details(dialog.form.field, width, 3)]
    assert max(cell_len(line.text) for line in lines) <= width


# --- what a person does ----------------------------------------------------------------------------------------------


async def opened(desk: Shop, name: str) -> None:
    """Opens the settings of a model in the list."""
    await desk.find(name)
    await desk.type("", "ctrl+t")
    await desk.until(lambda: isinstance(desk.app.screen, EngineDialog))


async def at(desk: Shop, name: str, *keys: str) -> None:
    """Presses keys at a setting, from wherever the dialog is."""
    rows = [field.name for field in FIELDS].index(name)
    await desk.type("", *["up"] * len(FIELDS), *["down"] * rows, *keys)


def line(desk: Shop, name: str) -> list[str]:
    """The words of a setting's line."""
    found = re.search(rf"│  {name} +(.*?)│", desk.text)
    return found[1].split() if found else []


def memory(desk: Shop) -> str:
    """What the model is said to take."""
    found = re.search(r"memory (\d[\d.]* \wB of .*? free)", desk.text)
    return found[1] if found else ""


async def test_a_model_goes_on_with_the_chat_as_it_was_set(tmp_path: Path) -> None:
    cached = {"llama.attention.head_count": (U32, 4), "llama.embedding_length": (U32, 64)}
    file = named("Alpha-Q8_0", tmp_path / "m", **cached)
    async with shop(tmp_path / "m", opened=False) as desk:
        await desk.sent("Hello", "Hi")
        desk.engine.end()
        await desk.type("", "f3")
        await desk.until(lambda: desk.line("Alpha-Q8_0"))
        await opened(desk, "alpha")
        assert "Settings for Alpha-Q8_0" in desk.text
        await at(desk, "threads", "3")
        await at(desk, "kv_type", "right")
        assert line(desk, "threads")[:2] == ["3", "picker"]
        assert line(desk, "kv_type")[:2] == ["f32", "picker"]
        await at(desk, "context", *"256")
        await desk.type("", "down")
        small = memory(desk)
        await at(desk, "context", *"100000")
        await desk.type("", "down")
        assert "" != small != memory(desk) != ""
        await at(desk, "context", "delete")
        await desk.type("", "enter")
        await desk.until(lambda: len(desk.loads) == 2 and not desk.open)
        spec = desk.loads[-1]
        assert (spec.path, spec.threads, spec.kv_type, spec.context) == (str(file), 3, "f32", 0)
        assert "Hello" in desk.text
        await desk.type("next", "enter")
        assert len(desk.engine.generated) == 2


async def test_what_was_set_is_kept_for_this_model_and_taken_back(tmp_path: Path) -> None:
    file = named("Alpha-Q8_0", tmp_path / "m")
    other = named("Beta-Q8_0", tmp_path / "m")
    async with shop(tmp_path / "m") as desk:
        await opened(desk, "alpha")
        await at(desk, "threads", "3", "enter")
        await desk.until(lambda: len(desk.loads) == 2 and not desk.open)
    assert choose_model(config(), str(file)).spec.threads == 3
    (tmp_path / "config.toml").write_text("[engine]\nthreads = 2\n")
    assert (
        choose_model(load({}, {}, tmp_path / "config.toml"), str(file)).spec.threads == 3
    )  # the file is for all models
    assert choose_model(config(threads="2"), str(file)).spec.threads == 2
    assert choose_model(config({"threads": 1}), str(file)).spec.threads == 1
    assert choose_model(config(), str(other)).spec.threads == 0
    async with shop(tmp_path / "m") as desk:
        await opened(desk, "alpha")
        assert line(desk, "threads")[:2] == ["3", "picker"]
        await at(desk, "threads", "delete")
        assert line(desk, "threads")[:2] == ["0", "default"]
        await desk.type("", "enter")
        await desk.until(lambda: len(desk.loads) == 2 and not desk.open)
        assert desk.loads[-1].threads == 0
    assert per_model.picks() == []


async def test_what_is_set_now_goes_before_the_flags_of_this_start(tmp_path: Path) -> None:
    named("Alpha-Q8_0", tmp_path / "m")
    async with shop(tmp_path / "m") as desk:
        desk.app._models._config = config({"threads": 2, "kv_type": "f32", "model_folders": str(tmp_path / "m")})
        await opened(desk, "alpha")
        assert line(desk, "threads")[:2] == ["2", "flag"]
        await at(desk, "threads", "1", "enter")
        await desk.until(lambda: len(desk.loads) == 2 and not desk.open)
        assert (desk.loads[-1].threads, desk.loads[-1].kv_type) == (1, "f32")


async def test_a_bad_value_is_refused_in_place_with_its_range(tmp_path: Path) -> None:
    named("Alpha-Q8_0", tmp_path / "m")
    async with shop(tmp_path / "m") as desk:
        await opened(desk, "alpha")
        await at(desk, "threads", *"5000", "enter")
        assert "threads must be a whole number from 0 to 1024, not '5000'" in desk.text
        await desk.type("", "down")
        assert line(desk, "threads")[0].startswith("5000")
        await desk.type("", "escape")
        assert line(desk, "threads")[0] == "0"
        assert "must be" not in desk.text
        await desk.type("", "escape")
        assert isinstance(desk.app.screen, ModelsDialog)
        assert len(desk.loads) == 1


async def test_while_a_reply_runs_it_says_to_stop_it_first_and_forgets_nothing(tmp_path: Path) -> None:
    named("Alpha-Q8_0", tmp_path / "m")
    async with shop(tmp_path / "m", opened=False) as desk:
        await desk.sent("Hello", "Hi")
        await desk.type("", "f3")
        await desk.until(lambda: desk.line("Alpha-Q8_0"))
        await opened(desk, "alpha")
        await at(desk, "threads", "3", "enter")
        assert "a reply is running; stop it first" in desk.text
        assert line(desk, "threads")[:2] == ["3", "picker"]
        assert len(desk.loads) == 1
        desk.engine.end()
        await desk.settle()
        await desk.type("", "enter")
        await desk.until(lambda: len(desk.loads) == 2)


async def test_settings_that_cannot_be_kept_are_used_and_that_is_told(tmp_path: Path) -> None:
    named("Alpha-Q8_0", tmp_path / "m")
    paths.tuned_file().parent.parent.mkdir(parents=True, exist_ok=True)
    paths.tuned_file().parent.write_text("a file where the folder should be")
    async with shop(tmp_path / "m") as desk:
        await opened(desk, "alpha")
        await at(desk, "threads", "3", "enter")
        await desk.until(lambda: len(desk.loads) == 2 and not desk.open)
        assert desk.loads[-1].threads == 3
        await desk.shows("the settings of Alpha-Q8_0 could not be saved")
        await desk.type("", "f3")
        await opened(desk, "alpha")
        assert {"3", "picker"} < set(line(desk, "threads"))


async def test_what_is_not_here_or_broken_has_no_settings(tmp_path: Path) -> None:
    file = named("Alpha-Q8_0", tmp_path / "m")
    async with shop(tmp_path / "m") as desk:
        await desk.find("smollm3")
        await desk.type("", "ctrl+t")
        await desk.shows("download it first to change its settings")
        file.write_bytes(file.read_bytes()[:200])
        await desk.find("alpha")
        await desk.type("", "ctrl+t")
        await desk.shows("Alpha-Q8_0.gguf ends at byte 200")
        assert isinstance(desk.app.screen, ModelsDialog)


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (140, 45)])
async def test_it_can_be_used_in_any_terminal(tmp_path: Path, size: tuple[int, int]) -> None:
    named("Alpha-Q8_0", tmp_path / "m")
    async with shop(tmp_path / "m", size=size) as desk:
        await opened(desk, "alpha")
        await at(desk, "fast_prefill", "right")
        assert line(desk, "fast_prefill")[:2] == ["on", "picker"]
        assert "Esc closes" in desk.text
        await desk.type("", "enter")
        await desk.until(lambda: len(desk.loads) == 2 and not desk.open)
        assert desk.loads[-1].fast_prefill


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_what_a_file_says_is_only_taken_where_an_option_takes_it(home: Path) -> None:
    file = named("Alpha-Q8_0", home / "m")
    identity = read_header(file).identity()
    hardware = per_model.hardware()
    settings = {"threads": 99999, "kv_type": "q8_0", "mlock": 1, "temperature": 2, "model": "x"}
    per_model.keep_pick(per_model.Pick(identity, "Alpha", hardware, settings))  # type: ignore[arg-type]
    per_model.keep_pick(per_model.Pick("0" * 64, "Beta", hardware, {"threads": 1}))
    per_model.keep_pick(per_model.Pick(identity, "Alpha", "another machine", {"threads": 7}))
    assert run_of(config(), identity).picked.settings == {"kv_type": "q8_0"}
    assert choose_model(config(), str(file)).spec.kv_type == "q8_0"
    os.truncate(paths.tuned_file(), 20)
    assert run_of(config(), identity).picked.settings == {}


@pytest.mark.usefixtures("home")
def test_what_was_measured_and_what_was_set_are_kept_beside_each_other() -> None:
    measured = per_model.Tuned("a" * 64, "Alpha", per_model.machine(), {"threads": 1}, 10.0, 20.0, 0.0)
    per_model.keep_pick(per_model.Pick("a" * 64, "Alpha", per_model.hardware(), {"kv_type": "q8_0"}))
    per_model.keep_measured(measured)
    found = run_of(config(), "a" * 64).config
    assert (found.engine.threads, found.engine.kv_type) == (1, "q8_0")
    assert (found.origin["threads"], found.origin["kv_type"]) == ("tuned", "picker")
    per_model.keep_pick(per_model.Pick("a" * 64, "Alpha", per_model.hardware(), {}))
    assert per_model.entries() == [measured]
    assert per_model.picks() == []


def test_whoever_set_the_threads_also_meant_those_of_prompts() -> None:
    measured = {"threads": 1, "threads_batch": 2, "prefill_batch": 32}
    run = RunSettings(config(), Picked({"threads": 4, "fast_prefill": True}), measured)
    assert {name: run.config.value(name) for name in measured} == {
        "threads": 4,
        "threads_batch": 0,
        "prefill_batch": 0,
    }
