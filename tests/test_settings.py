"""Settings: who wins, where each value came from, and mistakes that are told and never stop the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from termchat import paths
from termchat.config.fields import OPTIONS, SETTINGS
from termchat.config.settings import Settings, load
from termchat.config.sources import FlagError
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.engine.port import ModelSpec


@pytest.fixture
def written(tmp_path: Path):
    def written(text: str, flags: dict[str, object] | None = None, **variables: str) -> Settings:
        file = tmp_path / "config.toml"
        file.write_text(text)
        return load(flags, variables, file)

    return written


def test_with_nothing_set_the_defaults_are_the_engines_and_the_knobs(tmp_path: Path) -> None:
    found = load({}, {}, tmp_path / "none.toml")
    assert found.tuning == Tuning()
    assert (found.model, found.system, found.theme) == ("", "", "auto")
    assert found.spec("tiny", Path("/m/tiny.gguf")) == ModelSpec(path="/m/tiny.gguf", name="tiny")
    assert set(found.origin.values()) == {"default"}
    assert set(found.origin) == {*OPTIONS, *KNOBS}
    assert found.problems == ()


def test_every_field_an_engine_takes_can_be_set() -> None:
    told = {"path", "path_bytes", "name", "sha256", "quantization", "layers", "proposed_threads", "thinking", "engine"}
    told |= {"measured", "said"}
    assert {name for name, option in OPTIONS.items() if option.table == "engine"} == set(
        ModelSpec.__struct_fields__
    ) - told | {"draft_model"}


def test_the_model_of_pydantic_has_the_fields_that_declare_the_settings() -> None:
    fields = Settings.model_fields
    alone = {name: setting for name, setting in SETTINGS.items() if not setting.table}
    assert fields.keys() == {*alone, "engine", "tuning", "keys", "engines"}
    assert {name: field.default for name, field in fields.items() if name in alone} == {
        name: setting.default for name, setting in alone.items()
    }
    kinds = {"float": float, "int": int, "bool": bool, "text": str, "choice": Literal, "texts": tuple}
    for name, setting in alone.items():
        assert (get_origin(fields[name].annotation) or fields[name].annotation) is kinds[setting.kind]


def test_a_draft_flag_that_is_none_of_its_words_names_a_model(written) -> None:
    for word in ("ngram", " Auto ", "off", "model"):
        found = written("", {"draft": word})
        assert (found.tuning.draft, found.engine.draft_model) == (word.strip().lower(), "")
    found = written('[engine]\ndraft_model = "other"\n', {"draft": "~/models/Small.gguf"}, TERMCHAT_DRAFT="ngram")
    assert (found.tuning.draft, found.engine.draft_model) == ("model", "~/models/Small.gguf")
    assert (found.origin["draft"], found.origin["draft_model"]) == ("flag", "flag")
    assert written("", {"draft": "small", "draft_model": "small"}).engine.draft_model == "small"
    with pytest.raises(FlagError, match="draft_model is 'large' already"):
        written("", {"draft": "small", "draft_model": "large"})


def test_only_a_flag_names_a_draft_model_in_place_of_a_word(written) -> None:
    found = written('[sampling]\ndraft = "small"\n')
    assert (found.tuning.draft, found.engine.draft_model) == ("off", "")
    (problem,) = found.problems
    assert "draft must be one of off, ngram, model, auto, not 'small'" in problem


def test_what_drafts_is_chosen_for_a_model_and_not_told_the_engine(written) -> None:
    found = written('[engine]\ndraft_model = "small"\n').with_picked({"draft_model": "half"})
    assert (found.engine.draft_model, found.origin["draft_model"]) == ("half", "picker")
    assert found.spec("tiny", Path("/m/tiny.gguf")) == ModelSpec(path="/m/tiny.gguf", name="tiny")


def test_every_setting_says_what_it_is_for() -> None:
    assert [name for name, setting in SETTINGS.items() if not setting.help] == []
    assert list(SETTINGS) == [*OPTIONS, *KNOBS]


def test_flags_win_over_variables_over_the_file_over_the_model_over_defaults(written) -> None:
    text = "[sampling]\ntop_k = 1\ntop_p = 0.1\nmin_p = 0.1\n"
    found = written(text, {"top_k": 3}, TERMCHAT_TOP_K="2", TERMCHAT_TOP_P="0.2")
    found = found.with_recommended({"top_k": 9, "top_p": 0.9, "min_p": 0.9, "temperature": 0.4})
    tuning = found.tuning
    assert (tuning.top_k, tuning.top_p, tuning.min_p, tuning.temperature) == (3, 0.2, 0.1, 0.4)
    names = ("top_k", "top_p", "min_p", "temperature", "seed")
    assert [found.origin[name] for name in names] == ["flag", "TERMCHAT_TOP_P", "config.toml", "model", "default"]
    assert set(found.knob_origin()) == set(KNOBS)


def test_folders_of_models_are_a_list(written) -> None:
    assert written("").model_folders == ()
    assert written("model_folders = ['~/models', '/srv/a b']").model_folders == ("~/models", "/srv/a b")
    assert written("model_folders = '~/models'").model_folders == ("~/models",)
    assert written("", TERMCHAT_MODEL_FOLDERS="/a::/b c:").model_folders == ("/a", "/b c")
    assert written("", TERMCHAT_MODEL_FOLDERS='["/a:b"]').model_folders == ("/a:b",)
    assert written("model_folders = ['/a']", {"model_folders": "/b"}).model_folders == ("/b",)
    wrong = written("model_folders = [1]")
    assert wrong.model_folders == ()
    assert "config.toml, line 1: model_folders must be a list of strings, not [1]" in wrong.problems[0]


def test_keys_are_bound_under_keys(written) -> None:
    found = written(
        'theme = "dark"\n[keys]\nsend = "ctrl+k"\nlook = ["f2", "ctrl+l"]\noff = ""\nfind = 3\n[engine]\nthreads = 1\n'
    )
    assert found.keys == {"send": "ctrl+k", "look": "f2,ctrl+l", "off": ""}
    assert found.key_places == {
        "send": "config.toml, line 3",
        "look": "config.toml, line 4",
        "off": "config.toml, line 5",
    }
    assert found.problems == ("config.toml, line 6: find must be a key or a list of keys, not 3 (ignored)",)
    assert found.engine.threads == 1
    assert "line 1: keys must be a table, [keys]" in written("keys = 'ctrl+k'").problems[0]
    assert written("").keys == {}


def test_a_whole_config_file(written) -> None:
    found = written(
        """
        model = "~/models/other.gguf"
        system = "Be brief."
        theme = "light"

        [engine]
        context = 4096
        threads = 2
        flash_attention = "on"
        kv_type = "bf16"
        fast_prefill = true

        [sampling]
        temperature = 1
        top_k = "off"
        seed = "fresh"
        stop = ["\\n\\n", "END"]
        """
    )
    assert found.problems == ()
    assert (found.model, found.system, found.theme) == ("~/models/other.gguf", "Be brief.", "light")
    assert found.spec("o", Path("o"), sha256="ab", quantization="Q4_1") == ModelSpec(
        path="o",
        name="o",
        context=4096,
        threads=2,
        flash_attention="on",
        kv_type="bf16",
        fast_prefill=True,
        sha256="ab",
        quantization="Q4_1",
    )
    assert found.tuning == Tuning(temperature=1.0, top_k=0, stop=("\n\n", "END"))
    assert isinstance(found.tuning.temperature, float)
    assert found.origin["seed"] == found.origin["context"] == "config.toml"


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("TERMCHAT_STOP", r"\n6.", ("\n6.",)),
        ("TERMCHAT_STOP", '["\\n", "END"]', ("\n", "END")),
        ("TERMCHAT_STOP", "[END]", ("[END]",)),
        ("TERMCHAT_STOP", "[1]", ("[1]",)),
        ("TERMCHAT_STOP", "", ()),
        ("TERMCHAT_SEED", "7", 7),
        ("TERMCHAT_SEED", "fresh", None),
        ("TERMCHAT_TEMPERATURE", "0", 0.0),
        ("TERMCHAT_TOP_K", "off", 0),
        ("TERMCHAT_TOP_K", "", 3),
    ],
)
def test_variables_are_read_as_a_person_types_them(written, variable: str, text: str, expected: object) -> None:
    config = '[sampling]\nstop = ["from the file"]\ntop_k = 3\nseed = 5\n'
    found = written(config, **{variable: text})
    assert getattr(found.tuning, variable.removeprefix("TERMCHAT_").lower()) == expected
    assert found.problems == ()


def test_variables_reach_the_engine_and_the_chat(written) -> None:
    found = written("system = 'x'\n", TERMCHAT_FAST_PREFILL="yes", TERMCHAT_GPU_LAYERS="-1", TERMCHAT_SYSTEM="")
    assert (found.engine.fast_prefill, found.engine.gpu_layers, found.system) == (True, -1, "")
    assert found.origin["gpu_layers"] == "TERMCHAT_GPU_LAYERS"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\n[sampling]\n\ntop_kk = 5\n", "config.toml, line 4: unknown setting 'top_kk' (did you mean top_k?)"),
        ("sampling.top_p = 7\n", "config.toml, line 1: top_p must be a number from 0 to 1, not 7"),
        ("[sampling]\nstop = [1]\n", "config.toml, line 2: stop must not contain empty strings (found 1)"),
        ("top_k = 5\n", "config.toml, line 1: top_k belongs under [sampling]"),
        ("[engine]\nmodel = 'x'\n", "config.toml, line 2: model belongs at the top, before any table"),
        ("[engine]\ncontext = true\n", "config.toml, line 2: context must be a whole number from 0 to 10000000"),
        ("[engine]\nkv_type = 'q9'\n", "config.toml, line 2: kv_type must be one of auto, f32, f16, bf16/f16"),
        ("[engines]\nthreads = 2\n", "config.toml, line 2: threads belongs under [engine]"),
        ("engine = 3\n", "config.toml, line 1: engine must be a table, [engine]"),
        ("theme = 3\n", "config.toml, line 1: theme must be a string, not 3"),
        ("[sampling\n", "is not valid TOML: Expected ']' at the end of a table declaration (at line 1"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_line(written, text: str, problem: str) -> None:
    found = written(text, {}, TERMCHAT_THREADS="2")
    assert len(found.problems) == 1
    assert problem in found.problems[0]
    assert found.problems[0].rstrip(")").endswith("ignored")
    assert found.tuning == Tuning()
    assert found.engine.threads == 2


def test_one_mistake_spoils_nothing_else(written) -> None:
    found = written("theme = 3\nsystem = 'kept'\n[sampling]\ntop_k = -1\nmin_p = 0.3\n")
    assert (found.system, found.tuning.min_p, found.tuning.top_k) == ("kept", 0.3, 40)
    assert len(found.problems) == 2


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"system = '\xff'\n")
    assert "is not UTF-8 text (byte 10)" in load({}, {}, file).problems[0]
    file.unlink()
    file.mkdir()
    assert load({}, {}, file).problems[0].endswith("not a regular file; remove or replace it; the file is ignored")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"top_k = 5\nsystem = 'a\0b'\n", "(at line 2, column 12)"),
        (b"theme = \nthreads\n", "(at line 1, column 9)"),
        ("theme = 'x'".encode("utf-16"), "is not UTF-8 text (byte 0)"),
        (b"# a comment\n" * 100_000, "is larger than 1024 KiB"),
        (b"x = " + b"[" * 100_000, "is not valid TOML: brackets are nested too deeply"),
        (b"x = " + b"9" * 100_000, "is not valid TOML: "),
    ],
    ids=["NUL", "broken", "UTF-16", "large", "deep", "number"],
)
def test_what_no_config_can_be_is_told_and_ignored(tmp_path: Path, data: bytes, problem: str) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(data)
    found = load({}, {}, file)
    assert (found.tuning, found.theme) == (Tuning(), "auto")
    assert [problem in one and one.endswith("the file is ignored") for one in found.problems] == [True]


def test_a_byte_order_mark_and_other_line_ends_are_read(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes("\ufefftheme = 'dark'\r\n[sampling]\r\ntop_k = 3\r\ntop_p = 3\r\n".encode())
    found = load({}, {}, file)
    assert (found.theme, found.tuning.top_k, found.places["top_k"]) == ("dark", 3, "config.toml, line 3")
    assert [one.partition(":")[0] for one in found.problems] == ["config.toml, line 4"]


def test_places_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    loop = tmp_path / "config.toml"
    loop.symlink_to(loop)
    assert "cannot be read: Too many levels of symbolic links" in load({}, {}, loop).problems[0]
    (tmp_path / "file").touch()
    assert "cannot be read: Not a directory" in load({}, {}, tmp_path / "file" / "config.toml").problems[0]


def test_a_file_that_is_all_wrong_is_told_in_short(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("".join(f"top_k{number} = {number}\n" for number in range(50_000)) + f"theme = [{'1,' * 50_000}]\n")
    found = load({}, {}, file)
    assert len(found.problems) == 21
    assert found.problems[-1] == "and 49,981 more mistakes"
    assert max(map(len, found.problems)) < 600


KEYS_OF_FILES = st.sampled_from(
    [*OPTIONS, *KNOBS, "engine", "sampling", "keys", "x.y", '"a b"', "engine.threads", "sampling.top_k", "keys.send"]
)
VALUES_OF_FILES = st.one_of(
    st.sampled_from(
        ["true", "1", "-1", "0.5", "nan", "inf", "'off'", "'fresh'", "''", "[]", "['a']", "[1]", "{a = 1}", "07:32:00"]
    ),
    st.integers().map(str),
    st.text(max_size=20).map(repr),
    st.text(max_size=20),
)
LINES_OF_FILES = st.one_of(
    st.tuples(KEYS_OF_FILES, VALUES_OF_FILES).map(" = ".join),
    KEYS_OF_FILES.map("[{}]".format),
    KEYS_OF_FILES.map("[[{}]]".format),
    st.text(max_size=20),
)


@given(
    lines=st.lists(LINES_OF_FILES, max_size=12),
    variables=st.dictionaries(
        st.one_of(
            KEYS_OF_FILES.map(lambda name: f"TERMCHAT_{name.upper()}"), st.text(max_size=9).map("TERMCHAT_".__add__)
        ),
        st.text(max_size=20),
        max_size=4,
    ),
)
def test_no_file_and_no_variable_stops_anything(tmp_path_factory, lines: list[str], variables: dict[str, str]) -> None:
    file = tmp_path_factory.mktemp("c") / "config.toml"
    file.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    found = load({}, variables, file)
    assert set(found.origin) == {*OPTIONS, *KNOBS}
    for name, option in OPTIONS.items():
        option.check(found.value(name))
    for name, knob in KNOBS.items():
        assert knob.check(found.value(name)) == found.value(name)
    assert set(found.keys) == set(found.key_places)


@given(st.binary(max_size=200))
def test_no_bytes_stop_anything(tmp_path_factory, data: bytes) -> None:
    file = tmp_path_factory.mktemp("c") / "config.toml"
    file.write_bytes(data)
    assert load({}, {}, file).engine == load({}, {}, file.with_name("none")).engine


def test_a_mistake_in_a_variable_is_told(written) -> None:
    found = written(
        "[sampling]\ntop_k = 7\n", TERMCHAT_TOP_K="many", TERMCHAT_TOPP="1", TERMCHAT_top_p="1", HOME="/", TERM="x"
    )
    assert found.tuning == Tuning(top_k=7)
    assert found.problems == (
        "TERMCHAT_TOP_K: top_k must be a whole number from 0 to 1000000, not 'many' (ignored)",
        "TERMCHAT_TOPP: unknown setting (did you mean TERMCHAT_TOP_P?) (ignored)",
        "TERMCHAT_top_p: unknown setting (did you mean TERMCHAT_TOP_P?) (ignored)",
    )


def test_texts_that_are_not_utf8_get_a_mark_and_paths_are_kept(tmp_path: Path) -> None:
    flags = {"stop": ["\udce9", r"\ud83d\ude00", r"\ud800"], "system": "caf\udce9", "model": "m\udce9.gguf"}
    found = load(flags, {}, tmp_path / "none")
    assert found.tuning.stop == ("\ufffd", "😀")
    assert (found.system, found.model) == ("caf\ufffd", "m\udce9.gguf")
    spec = found.spec("m\udce9", Path("/m/m\udce9.gguf"))
    assert (spec.name, spec.path, spec.path_bytes) == ("m\ufffd", "/m/m\ufffd.gguf", b"/m/m\xe9.gguf")
    assert found.spec("é", Path("/m/é.gguf")).path_bytes == b""


def test_a_bad_flag_is_an_error() -> None:
    with pytest.raises(FlagError, match="top_p must be a number from 0 to 1, not 2") as caught:
        load({"top_p": 2.0}, {}, Path("none"))
    assert caught.value.name == "top_p"
    with pytest.raises(FlagError, match="flash_attention must be one of auto, on, off, not 'maybe'"):
        load({"flash_attention": "maybe"}, {}, Path("none"))
    with pytest.raises(FlagError, match="threads must be a whole number"):
        load({"threads": "two"}, {}, Path("none"))


def test_flags_come_typed_or_as_text() -> None:
    given = {"stop": ["\\n6.", "END"], "temperature": "0.5", "top_k": 5, "seed": "fresh", "fast_prefill": True}
    found = load(given, {"TERMCHAT_SEED": "1"}, Path("none"))
    assert found.tuning == Tuning(stop=("\n6.", "END"), temperature=0.5, top_k=5)
    assert found.origin["seed"] == "flag"


def test_another_models_recommendation_replaces_the_first(tmp_path: Path) -> None:
    found = load({"top_k": 9}, {}, tmp_path / "none")
    first = found.with_recommended({"temperature": 0.3, "top_k": 1, "sampler_of_tomorrow": 2})
    second = first.with_recommended({"top_p": 0.5})
    assert first.tuning == Tuning(top_k=9, temperature=0.3)
    assert second.tuning == Tuning(top_k=9, top_p=0.5)
    assert (second.origin["temperature"], second.origin["top_p"]) == ("default", "model")
    assert second.with_recommended({}).tuning == found.tuning


def test_a_recommendation_that_a_knob_refuses_is_told(tmp_path: Path) -> None:
    found = load({}, {}, tmp_path / "none").with_recommended({"repeat_last_n": -1, "temperature": float("nan")})
    assert found.tuning == Tuning()
    assert found.problems[0].startswith("the model's recommendation is ignored: repeat_last_n must be a whole number")
    assert len(found.problems) == 2


def test_a_config_cannot_be_changed_by_accident(tmp_path: Path) -> None:
    found = load({}, {}, tmp_path / "none")
    with pytest.raises(ValidationError, match="frozen"):
        found.theme = "dark"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="immutable"):
        found.engine.threads = 2  # type: ignore[misc]
    assert load({"theme": "dark"}, {}, tmp_path / "none") != found


def test_the_xdg_variables_move_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    assert paths.config_file() == tmp_path / "CONFIG/termchat/config.toml"
    assert paths.store_file() == tmp_path / "DATA/termchat/sessions.db"
    assert paths.log_file().parent.is_relative_to(tmp_path / "STATE/termchat")
    assert not any(tmp_path.iterdir())
    paths.config_file().parent.mkdir(parents=True)
    paths.config_file().write_text("theme = 'mine'\n")
    assert load({}, {}).theme == "mine"


def test_it_is_quick_to_import() -> None:
    code = "import sys, termchat.config.settings; print({'numpy', 'llama_cpp', 'textual'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
