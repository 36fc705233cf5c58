"""Presets: those that ship, those a person writes, and who wins over whom."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from termchat import paths
from termchat.chat.opening import choose_model, find_model, load_latest
from termchat.config import personas, presets, settings
from termchat.config.presets import CHAIN, Preset, PresetError
from termchat.config.settings import FlagError, Settings
from termchat.conversation.setting_changes import describe_changes
from termchat.conversation.store.store import Store
from termchat.decoding.records import SettingsRecord
from termchat.decoding.samplers import KNOBS, SamplerSettings, Tuning
from tests.conversation.stored import saved_with_knobs
from tests.models import gguf_files

SHIPPED = ["deterministic", "extraction", "code", "balanced", "creative", "brainstorm"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "CONFIG"))


@pytest.fixture
def own() -> Path:
    """The user's file, which is not there yet."""
    file = paths.presets_file()
    file.parent.mkdir(parents=True)
    return file


def test_the_presets_that_ship_set_the_whole_chain_and_nothing_else() -> None:
    found = presets.load()
    assert found.problems == ()
    assert list(found.entries) == SHIPPED
    for preset in found.entries.values():
        assert preset.description
        assert {*preset.knobs, "logit_bias"} == {*SamplerSettings.__struct_fields__}
        Tuning().turn_knobs(preset.knobs)
    assert Tuning().turn_knobs(found.entries["balanced"].knobs) == Tuning()
    assert found.entries["deterministic"].knobs["temperature"] == 0


def test_a_preset_of_ones_own_may_set_any_stage_and_the_order(own: Path) -> None:
    own.write_text(
        '[Mine]\ndescription = "d"\nmirostat = 2\ntop_k = "off"\norder = "min_p;temperature"\n'
        'dry_sequence_breakers = ["\\n"]\n[code]\ntemperature = 0.3\n'
    )
    found = presets.load()
    order = ("min_p", "temperature")
    assert found.get("mine").named == {
        "mirostat": 2, "top_k": 0, "order": order, "dry_sequence_breakers": ("\n",),
    }  # fmt: skip
    assert Tuning().turn_knobs(found.get("code").knobs) == Tuning(temperature=0.3)
    assert (found.get("code").own, found.get("creative").own) == (True, False)


def test_what_is_banned_stays_unless_a_preset_has_biases_of_its_own(own: Path) -> None:
    banned = Tuning().turn_knobs({"logit_bias": " fox=ban"})
    own.write_text('[own]\nlogit_bias = [" bear=-2"]\n')
    found = presets.load()
    assert banned.turn_knobs(found.get("code").knobs).logit_bias == banned.logit_bias != ()
    assert (
        banned.turn_knobs(found.get("own").knobs).logit_bias
        == Tuning().turn_knobs({"logit_bias": " bear=-2"}).logit_bias
    )
    assert presets.of_tuning("mine", banned).named == {"logit_bias": banned.logit_bias}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[good]\n[bad]\n\ntemprature = 1", "line 4: unknown key 'temprature' (did you mean temperature?)"),
        ("[good]\n[bad]\ntemperature = 99", "line 3: temperature must be a number from 0 to 5, not 99"),
        ("[good]\n[bad]\norder = 'top_q'", "line 3: order: unknown stage 'top_q'"),
        ("[good]\n[bad]\nseed = 1", "line 3: seed is not part of a preset"),
        ("bad = 1\n[good]", "line 1: bad must be a table, [bad]"),
    ],
)
def test_a_bad_entry_falls_alone_and_names_its_line(own: Path, text: str, said: str) -> None:
    own.write_text(text)
    found = presets.load()
    assert list(found.entries) == [*SHIPPED, "good"]
    (problem,) = found.problems
    assert said in problem
    assert problem.startswith("presets.toml")


# --- who wins ---------------------------------------------------------------------------------------------------------

RANKS = ["flag", "preset of a flag", "chat", "persona", "preset of a persona", "variable", "preset of a variable", "file",
         "preset of a file", "model", "default"]  # fmt: skip
"""Where the temperature may come from, the strongest first."""


def configured(tmp_path: Path, *said: str) -> Settings:
    """The settings where these say what the temperature is: each its own place among `RANKS` in tenths."""
    heat = {place: (at + 1) / 10 for at, place in enumerate(RANKS)}
    names = {place: f"p{at}" for at, place in enumerate(RANKS)}
    paths.presets_file().parent.mkdir(parents=True, exist_ok=True)
    paths.presets_file().write_text("".join(f"[{name}]\ntemperature = {heat[at]}\n" for at, name in names.items()))
    persona = f"temperature = {heat['persona']}\n" if "persona" in said else ""
    persona += f"preset = '{names['preset of a persona']}'\n" if "preset of a persona" in said else ""
    paths.personas_file().write_text(f"[me]\n{persona}")
    file = tmp_path / "config.toml"
    file.write_text(
        (f"preset = '{names['preset of a file']}'\n" if "preset of a file" in said else "")
        + ("persona = 'me'\n" if persona else "")
        + (f"[sampling]\ntemperature = {heat['file']}\n" if "file" in said else "")
    )
    flags = {"temperature": heat["flag"]} if "flag" in said else {}
    flags |= {"preset": names["preset of a flag"]} if "preset of a flag" in said else {}
    variables = {"TERMCHAT_TEMPERATURE": str(heat["variable"])} if "variable" in said else {}
    variables |= {"TERMCHAT_PRESET": names["preset of a variable"]} if "preset of a variable" in said else {}
    found = settings.load(flags, variables, file)
    if "chat" in said:
        found = found.with_left({"temperature": heat["chat"]}, {"temperature": "session"})
    return found.with_recommended({"temperature": heat["model"]} if "model" in said else {})


@pytest.mark.parametrize("pair", [*itertools.combinations(RANKS[:-1], 2)], ids=" over ".join)
def test_of_two_places_the_stronger_counts(tmp_path: Path, pair: tuple[str, str]) -> None:
    found = configured(tmp_path, *pair)
    assert found.tuning.temperature == (RANKS.index(pair[0]) + 1) / 10
    assert found.problems == ()


def test_where_all_say_something_the_strongest_counts_and_the_others_follow_in_order(tmp_path: Path) -> None:
    for at in range(len(RANKS) - 1):
        assert configured(tmp_path, *RANKS[at:-1]).tuning.temperature == (at + 1) / 10
    assert configured(tmp_path).tuning == Tuning()


def test_every_knob_of_the_chain_names_its_preset_and_the_flag_beside_it_is_a_flag(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[sampling]\ntop_k = 3\nstop = 'END'\n")
    found = settings.load({"preset": "CREATIVE", "min_p": "0.2"}, {}, file).with_recommended({"top_p": 0.5})
    creative = presets.load().entries["creative"]
    assert found.tuning == Tuning().turn_knobs({**creative.knobs, "min_p": 0.2, "stop": ("END",)})
    assert {found.origin[name] for name in CHAIN if name != "min_p"} == {"preset creative"}
    assert (found.origin["min_p"], found.origin["stop"], found.origin["preset"]) == ("flag", "config.toml", "flag")


def test_a_preset_that_there_is_not_is_refused_of_a_flag_and_told_of_others(tmp_path: Path) -> None:
    with pytest.raises(FlagError, match=r"unknown preset 'creativ' \(did you mean creative\?\)"):
        settings.load({"preset": "creativ"}, {}, tmp_path / "none")
    file = tmp_path / "config.toml"
    file.write_text("\npreset = 'code'\n")
    found = settings.load({}, {"TERMCHAT_PRESET": "creativ"}, file)
    assert (found.preset, found.origin["temperature"]) == ("code", "preset code")
    assert found.problems[0].startswith("TERMCHAT_PRESET: unknown preset 'creativ' (did you mean creative?)")
    file.write_text("\npreset = 'creativ'\n")
    found = settings.load({}, {}, file)
    assert (found.preset, found.tuning) == ("", Tuning())
    assert found.problems[0].startswith("config.toml, line 2: unknown preset")


def test_a_persona_names_a_preset_and_its_own_knobs_override_it() -> None:
    teacher = personas.load().get("teacher")
    assert teacher.preset is not None
    assert teacher.values == {**teacher.preset.knobs, "temperature": 0.6}
    assert teacher.origins == dict.fromkeys(CHAIN, "preset balanced") | {"temperature": "persona teacher"}


def test_a_chat_keeps_the_preset_that_was_applied_in_it(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[sampling]\ntop_k = 3\n")
    creative = presets.load().get("creative")
    left = Tuning().turn_knobs({**creative.knobs, "min_p": 0.3, "max_tokens": 9})  # min_p was turned after it
    drawn = dict(creative.named)
    store = Store.open(tmp_path / "sessions.db")
    saved_with_knobs(store, dict.fromkeys(CHAIN, creative.origin), left, **drawn)  # type: ignore[arg-type]
    found = load_latest(store, settings.load({}, {}, file))
    again = load_latest(store, settings.load({"preset": "code"}, {}, file))
    store.close()
    assert found is not None
    assert again is not None
    assert found.tuning == left
    assert [found.origins[name] for name in ("top_k", "top_p", "min_p")] == [creative.origin] * 2 + ["session"]
    assert again.tuning == Tuning(temperature=0.2, max_tokens=9)


# --- what a model recommends ------------------------------------------------------------------------------------------


def test_what_the_file_recommends_counts_in_the_defaults_place_and_can_be_switched_off(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    recommended = {
        "temp": (gguf_files.F32, 0.25), "top_k": (gguf_files.I32, 7), "penalty_repeat": (gguf_files.F32, 1.1),
        "mirostat": (gguf_files.I32, 0), "xtc_probability": (gguf_files.F32, 0.5), "xtc_threshold": (gguf_files.F32, 0.2),
        "sequence": (gguf_files.TEXT, "top_k;xtc;temperature"),
    }  # fmt: skip
    model.write_bytes(gguf_files.model({f"general.sampling.{key}": value for key, value in recommended.items()}))
    order = ("top_k", "xtc", "temperature")
    file = tmp_path / "config.toml"
    file.write_text("[sampling]\ntop_k = 3\n")
    found = find_model(settings.load({"model": str(model)}, {}, file))[0]
    assert found.tuning == Tuning(
        temperature=0.25, top_k=3, repeat_penalty=1.1, xtc_probability=0.5, xtc_threshold=0.2, order=order
    )
    of_model = {name for name in KNOBS if found.origin[name] == "model"}
    assert of_model == {"temperature", "repeat_penalty", "mirostat", "xtc_probability", "xtc_threshold", "order"}
    assert found.problems == ()
    file.write_text("recommendations = false\n")
    off = settings.load({"model": str(model)}, {}, file)
    assert find_model(off)[0].tuning == Tuning()
    assert choose_model(off, str(model)).recommended == {}


# --- the user's file --------------------------------------------------------------------------------------------------


def test_what_was_written_by_hand_outlives_what_is_saved_renamed_and_removed(own: Path) -> None:
    text = '# mine\n[a]\ntop_k = 1  # one\n\n[b]\ndescription = """\n[c]\n"""\n\n# of d\n[d]\nmin_p = 0.5\n'
    own.write_text(text)
    presets.save(presets.of_tuning("new", Tuning(temperature=0.3, order=("min_p", "temperature"), seed=4, stop=("x",))))
    found = presets.load()
    assert found.get("new").named == {"temperature": 0.3, "order": ("min_p", "temperature")}
    assert own.read_text().startswith(text)
    presets.rename("a", "e f")
    presets.remove("new")
    assert own.read_text().rstrip() == text.replace("[a]", '["e f"]').rstrip()
    presets.remove("b")
    assert [*presets.load().entries] == [*SHIPPED, "e f", "d"]
    assert "# of d\n[d]" in own.read_text()


def test_a_name_that_is_none_or_taken_is_refused(own: Path) -> None:
    presets.save(Preset("mine", {"top_k": 1}))
    before = own.read_text()
    for name in ("../x", "", "code"):
        with pytest.raises(PresetError):
            presets.rename("mine", name)
    with pytest.raises(PresetError, match="not a valid name"):
        presets.save(Preset("a/b"))
    own.write_text("mine.top_k = 1\n")
    with pytest.raises(PresetError, match="by hand"):
        presets.rename("mine", "yours")
    own.write_text(before)
    presets.remove("mine")
    assert [*presets.load().entries] == SHIPPED


def test_a_preset_is_one_change_that_names_it() -> None:
    def settings_of(origin: str, **knobs: object) -> SettingsRecord:
        return SettingsRecord(0, Tuning(**knobs).samplers(), (), dict.fromkeys(KNOBS, origin))  # type: ignore[arg-type]

    before = settings_of("default")
    assert describe_changes(before, settings_of("preset creative", temperature=1.3, top_k=0)) == [
        "preset creative: top_k 40 → off", "temperature 0.8 → 1.3",
    ]  # fmt: skip
    assert describe_changes(before, settings_of("panel", temperature=1.3)) == ["temperature 0.8 → 1.3"]
