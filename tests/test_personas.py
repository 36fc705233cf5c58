"""Personas: those that ship, those a person writes, and what becomes of knobs that one sets."""

from __future__ import annotations

import json
import stat
import string
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat import paths
from termchat.chat.opening import load_latest
from termchat.config import origins, personas, settings
from termchat.config.personas import Persona, PersonaError
from termchat.config.presets import Preset
from termchat.conversation.store.store import Store
from termchat.decoding.samplers import KNOBS, Tuning
from tests.conversation.stored import saved_with_knobs
from tests.whole.terminal import environment


def test_every_persona_that_ships_can_be_used(tmp_path: Path) -> None:
    found = personas.load(tmp_path / "none.toml")
    assert found.problems == ()
    assert {"plain", "exact", "storyteller", "brainstorm", "translator", "teacher", "code"} <= found.entries.keys()
    for persona in found.entries.values():
        Tuning().turn_knobs(persona.values)
        assert persona.description
    assert found.entries["exact"].values["temperature"] == 0
    assert found.entries["storyteller"].values["min_p"]


def test_a_persona_of_ones_own_takes_the_place_of_one_that_ships(tmp_path: Path) -> None:
    own = tmp_path / "personas.toml"
    own.write_text('[code]\nsystem = "Rust only."\ntemperature = 0.1\nstop = ["END"]\ntop_k = "off"\n')
    persona = personas.load(own).get("CODE")
    assert persona == Persona("code", "Rust only.", knobs={"temperature": 0.1, "stop": ("END",), "top_k": 0}, own=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[good]\n[bad]\n\ntemprature = 1", "line 4: unknown key 'temprature' (did you mean temperature?)"),
        ("[good]\n[bad]\ntemperature = 99", "line 3: temperature must be a number from 0 to 5, not 99"),
        ("[good]\n[bad]\ntop_k = 1\npreset = 'creativ'", "line 4: unknown preset 'creativ' (did you mean creative?)"),
        ("[good]\n[bad]\nsystem = 3", "line 3: system must be a string, not 3"),
        ("bad = 1\n[good]", "line 1: bad must be a table, [bad]"),
        ("[good]\n[bad]\ntop_k = 1" + "0" * 400, "line 3:"),
    ],
)
def test_a_bad_entry_fails_alone_and_names_its_line(tmp_path: Path, text: str, said: str) -> None:
    own = tmp_path / "personas.toml"
    own.write_text(text)
    found = personas.load(own)
    assert "good" in found.entries
    assert "bad" not in found.entries
    assert len(found.problems) == 1
    assert said in found.problems[0]


def test_a_file_that_is_no_toml_leaves_those_that_ship(tmp_path: Path) -> None:
    own = tmp_path / "personas.toml"
    own.write_text("[code\n")
    found = personas.load(own)
    assert "code" in found.entries
    assert "personas.toml" in found.problems[0]


def test_one_that_there_is_not_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(PersonaError, match="did you mean storyteller"):
        personas.load(tmp_path / "none").get("storytelle")


def test_what_was_written_by_hand_outlives_a_persona_that_is_kept(tmp_path: Path) -> None:
    own = tmp_path / "deep" / "personas.toml"
    own.parent.mkdir()
    own.write_text('[poet]\nsystem = "old"\n[z]\nseed = 1\n[poet.more]\n')
    with pytest.raises(PersonaError, match="cannot be replaced"):
        personas.save(Persona("poet", "new"), own)
    own.write_text(
        '# mine\n[a]\nsystem = """\n[poet]\nno table"""\n\n[poet]\nsystem = "old"\n\n# of z\n[z]  # last\nseed = 1\n'
    )
    personas.save(Persona("poet", "new", knobs={"stop": ("\n",)}), own)
    found = personas.load(own).entries
    assert (found["poet"].system, found["poet"].knobs) == ("new", {"stop": ("\n",)})
    assert (found["a"].system, found["z"].knobs) == ("[poet]\nno table", {"seed": 1})
    assert own.read_text().startswith("# mine\n[a]\n")
    assert "\n# of z\n[z]  # last\n" in own.read_text()


def test_a_file_that_is_a_link_stays_one_and_keeps_its_mode(tmp_path: Path) -> None:
    real, own = tmp_path / "dotfiles.toml", tmp_path / "personas.toml"
    real.write_text("")
    real.chmod(0o644)
    own.symlink_to(real)
    personas.save(Persona("poet", "new"), own)
    assert own.is_symlink()
    assert "poet" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o644


def test_a_folder_that_cannot_be_looked_into_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot be read" in personas.load(tmp_path / "file" / "personas.toml").problems[0]


_NAMES = st.text(string.ascii_letters + string.digits + " ._+-é漢", min_size=1, max_size=40).filter(
    lambda name: name == name.strip() and name[0] not in "."
)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"])).map(str.strip)


@given(
    name=_NAMES,
    system=_TEXTS,
    stops=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), unique=True),
)
def test_what_is_kept_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, name: str, system: str, stops: list[str]
) -> None:
    own = tmp_path_factory.mktemp("p") / "personas.toml"
    persona = Persona(name, system, knobs={"temperature": 1.0, "stop": tuple(stops)}, own=True)
    for _ in range(2):
        personas.save(persona, own)
        assert personas.load(own).entries[name] == persona


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(
    st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))
    | st.dictionaries(st.sampled_from([*KNOBS, "system", "description", "x"]), _VALUES, max_size=6).map(
        lambda table: (
            b"[p]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in table.items()).encode("utf-8", "replace")
        )
    )
)
def test_no_file_is_more_than_a_problem(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    own = tmp_path_factory.mktemp("p") / "personas.toml"
    own.write_bytes(content)
    found = personas.load(own)
    assert "plain" in found.entries
    for persona in found.entries.values():
        Tuning().turn_knobs(persona.values)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value).replace("None", '"off"') if not isinstance(value, str) else f"'{value}'"


def test_a_persona_goes_before_all_but_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "CONFIG"))
    file = tmp_path / "config.toml"
    file.write_text('system = "mine"\npersona = "loose"\n[sampling]\nmin_p = 0.5\n')
    paths.personas_file().parent.mkdir(parents=True)
    paths.personas_file().write_text('[loose]\nsystem = "Be free."\nmin_p = 0.01\ntop_k = "off"\n')
    config = settings.load({"temperature": "0.25"}, {"TERMCHAT_TOP_K": "7"}, file)
    assert config.tuning == Tuning(temperature=0.25, min_p=0.01, top_k=0)
    assert config.system == "Be free."
    assert config.origin["temperature"] == "flag"
    assert config.origin["min_p"] == config.origin["system"] == "persona loose"
    assert config.origin["frequency_penalty"] == "default"


def test_a_persona_that_there_is_not_stops_only_whoever_asks_for_it_with_a_flag(tmp_path: Path) -> None:
    with pytest.raises(settings.FlagError, match="did you mean teacher"):
        settings.load({"persona": "teachr"}, {}, tmp_path / "none")
    file = tmp_path / "config.toml"
    file.write_text('\npersona = "teachr"\n')
    config = settings.load({}, {}, file)
    assert config.tuning == Tuning()
    assert "config.toml, line 2" in config.problems[-1]
    assert "did you mean teacher" in config.problems[-1]


def test_another_persona_leaves_nothing_of_the_one_before() -> None:
    origin = dict.fromkeys(KNOBS, "default") | {"top_p": "panel"}
    creative = Preset("creative", {"top_k": 0})
    tuning = Tuning(top_p=0.5)
    for persona in (
        Persona("a", knobs={"temperature": 1.5, "min_p": 0.2}),
        Persona("b", knobs={"min_p": 0.3, "stop": ("x",)}),
        Persona("c", knobs={"min_p": 0.4}, preset=creative),
        Persona("d", knobs={"min_p": 0.5}),
    ):
        values, places = origins.replaced(origin, persona.values, persona.origins)
        tuning, origin = tuning.turn_knobs(values), origin | places
        if persona.name == "b":
            assert tuning == Tuning(top_p=0.5, min_p=0.3, stop=("x",))
            assert (origin["temperature"], origin["min_p"], origin["stop"]) == ("default", "persona b", "persona b")
        if persona.name == "c":
            assert tuning == Tuning(top_k=0, min_p=0.4)
            assert (origin["top_k"], origin["top_p"], origin["min_p"]) == (*["preset creative"] * 2, "persona c")
    assert tuning == Tuning(min_p=0.5)
    assert {name for name, place in origin.items() if place != "default"} == {"min_p"}


def test_a_chat_that_is_opened_again_knows_its_persona(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    drawn = {"temperature": 1.3, "min_p": 0.1}
    places = {"temperature": "persona storyteller", "min_p": "persona storyteller", "max_tokens": "persona storyteller"}
    left = Tuning(temperature=1.3, min_p=0.2, max_tokens=9)  # min_p was turned after the reply
    saved_with_knobs(store, places, left, **drawn)
    found = load_latest(store, settings.load({}, {"TERMCHAT_TEMPERATURE": "0.1"}, tmp_path / "none"))
    store.close()
    assert found is not None
    assert found.tuning == Tuning(temperature=1.3, min_p=0.2, max_tokens=9)
    origin = [found.origins[name] for name in ("temperature", "min_p", "max_tokens")]
    assert origin == ["persona storyteller", "session", "persona storyteller"]


@pytest.mark.model
@pytest.mark.usefixtures("model_path")
def test_the_records_of_a_run_say_which_persona_set_a_knob(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "termchat",
        "run",
        "--json",
        "--persona",
        "translator",
        "--max-tokens",
        "3",
        "Hallo",
    ]
    environment_ = environment(tmp_path, {})
    run = subprocess.run(command, capture_output=True, text=True, env=environment_, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    record = next(one for one in map(json.loads, run.stdout.splitlines()) if one["record"] == "settings")
    assert record["samplers"]["temperature"] == 0.1
    assert record["origin"]["temperature"] == "preset extraction"
    assert record["origin"]["stop"] == "persona translator"
    assert record["origin"]["max_tokens"] == "flag"
