"""`termchat config` and `termchat locate`, as a person at a shell has them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from termchat import paths
from termchat.cli import main
from termchat.config.fields import SETTINGS, TABLES
from termchat.config.settings import load

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    return lambda *args: CliRunner().invoke(main, list(map(str, args)))


@pytest.fixture
def file(home: Path) -> Path:
    made = home / "CONFIG" / "termchat" / "config.toml"
    made.parent.mkdir(parents=True)
    return made


def test_the_written_file_says_the_defaults_line_by_line(run: Run, file: Path) -> None:
    assert run("config", "init").exit_code == 0
    written = file.read_text()
    told, silent = load({}, {}, file), load({}, {}, file.with_name("none"))
    assert [told.value(name) for name in SETTINGS] == [silent.value(name) for name in SETTINGS]
    assert (told.origin, told.problems) == (silent.origin, ())
    bare = [line[1:] if line.startswith("#") and line[1:2] != " " else line for line in written.splitlines()]
    file.write_text("\n".join(line for line in bare if line != ""))
    found, plain = load({}, {}, file), load({}, {}, file.with_name("none"))
    assert found.problems == ()
    assert (found.tuning, found.engine, found.theme) == (plain.tuning, plain.engine, plain.theme)
    assert set(found.origin.values()) == {"config.toml"}
    assert set(found.origin) == set(SETTINGS)
    checked = run("config", "check")
    assert (checked.exit_code, checked.stdout.partition(" in ")[0]) == (0, "no mistakes")


def test_the_written_file_binds_every_key_there_is(run: Run, file: Path) -> None:
    from termchat.tui.keys.tables import GROUPS

    run("config", "init")
    file.write_text("\n".join(line.lstrip("#") for line in file.read_text().splitlines() if line[:2] != "# "))
    keys = {key.id: key.keys for group in GROUPS for key in group.table if key.action}
    assert load({}, {}, file).keys == keys


def test_a_file_that_is_there_is_not_replaced_unasked(run: Run, file: Path) -> None:
    file.write_text("theme = 'light'\n")
    refused = run("config", "init")
    assert refused.exit_code == 1
    assert "config.toml already exists" in refused.stderr
    assert file.read_text() == "theme = 'light'\n"
    assert run("config", "init", "--print").stdout.startswith("# termchat settings.")
    assert run("config", "init", "--force").exit_code == 0
    assert "#theme = " in file.read_text()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("draws", "nonsense", "draws must be one of here, server"),
        ("kind", "nonsense", "kind must be one of llama-server"),
        ("url", "127.0.0.1:8200", "an engine's URL starts with"),
        ("key_env", "sk-1", "key_env must be the name of a variable"),
    ],
)
def test_a_value_that_an_engine_cannot_have_is_not_written(
    run: Run, file: Path, key: str, value: str, says: str
) -> None:
    file.write_text("[engines.lab]\nurl = 'http://lab'\n")
    refused = run("config", "set", f"engines.lab.{key}", value)
    assert refused.exit_code == 1
    assert says in refused.stderr
    assert file.read_text() == "[engines.lab]\nurl = 'http://lab'\n"


def test_show_says_where_each_value_comes_from(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("theme = 'light'\n[sampling]\ntop_k = 7\ntop_p = 0.5\n[keys]\nsend = 'f12'\n")
    monkeypatch.setenv("TERMCHAT_TOP_P", "0.6")
    told = json.loads(run("config", "show", "--json").stdout)
    rows = {row["name"]: row for row in told["settings"]}
    assert list(rows) == list(SETTINGS)
    assert rows["top_k"] == {
        "name": "top_k",
        "table": "sampling",
        "value": 7,
        "origin": "config.toml",
        "place": "config.toml, line 3",
        "default": 40,
        "range": "0 to 1000000; off is 0",
        "help": SETTINGS["top_k"].help,
    }
    assert [rows[name]["place"] for name in ("theme", "top_p", "min_p")] == [
        "config.toml, line 1",
        "TERMCHAT_TOP_P",
        "default",
    ]
    assert told["keys"] == [{"id": "send", "keys": "f12", "place": "config.toml, line 6"}]
    lines = run("config", "show").stdout.splitlines()
    assert lines[0].split() == ["NAME", "VALUE", "FROM", "DEFAULT", "ALLOWED"]
    assert "top_p 0.6 TERMCHAT_TOP_P 0.95 0 to 1; off is 1" in [" ".join(line.split()) for line in lines]
    assert run("config", "show", "min_p").stdout.splitlines()[1].split()[:3] == ["min_p", "0.05", "default"]
    wrong = run("config", "show", "top_kk")
    assert (wrong.exit_code, "did you mean top_k?" in wrong.stderr) == (2, True)


def test_show_knows_what_its_model_recommends(run: Run, file: Path, model_path: Path) -> None:
    (file.parent / "models.toml").write_text(
        f"[mine]\ndescription = 'm'\npath = {json.dumps(str(model_path))}\n[mine.recommended]\ntemperature = 0.25\n"
    )
    told = json.loads(run("config", "show", "--model", "mine", "--json", "temperature", "top_k").stdout)
    assert [(row["value"], row["origin"]) for row in told["settings"]] == [(0.25, "model"), (40, "default")]


def test_check_finds_every_kind_of_mistake(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(
        "theem = 'x'\ntheme = 'drak'\nmodel = 'none-such'\n"
        "[engin]\n[engine]\nkv_type = 'q8_0'\nflash_attention = 'off'\n[sampling]\ntop_p = 2\n[keys]\nsned = 'f12'\n"
    )
    (file.parent / "themes").mkdir()
    (file.parent / "themes" / "bad.toml").write_text("name = 3\n")
    (file.parent / "models.toml").write_text("[m]\nurl = 3\n")
    (file.parent / "personas.toml").write_text("[p]\ntop_p = 3\n")
    (file.parent / "presets.toml").write_text("[p]\ntop_p = 4\n")
    monkeypatch.setenv("TERMCHAT_TOPK", "1")
    found = run("config", "check")
    assert found.exit_code == 1
    wanted = [
        "config.toml, line 1: unknown setting 'theem' (did you mean theme?) (ignored)",
        "config.toml, line 2: unknown theme 'drak' (did you mean dark?); using the default",
        "config.toml, line 3: no model named 'none-such'",
        "config.toml, line 4: unknown setting 'engin' (did you mean engine?) (ignored)",
        "config.toml, line 6: kv_type q8_0 needs flash_attention, which is off",
        "config.toml, line 9: top_p must be a number from 0 to 1, not 2 (ignored)",
        "config.toml, line 11: unknown key id 'sned' (did you mean send?) (ignored)",
        "TERMCHAT_TOPK: unknown setting (did you mean TERMCHAT_TOP_K?) (ignored)",
        "bad.toml, line 1: name must be",
        "models.toml, line 1: model 'm' is ignored",
        "presets.toml, line",
        "personas.toml, line",
    ]
    lines = found.stdout.splitlines()
    assert [one for one in wanted if not any(one in line for line in lines)] == []
    assert len(lines) == len(wanted)
    assert json.loads(run("config", "check", "--json").stdout)["problems"] == lines


def test_set_and_unset_change_one_line(run: Run, file: Path) -> None:
    run("config", "init")
    before = file.read_text()
    for args in (("top_k", "off"), ("temperature", "0.2"), ("stop", r"\n6.", "END"), ("keys.send", "alt+k", "ctrl+k")):
        assert run("config", "set", *args).exit_code == 0
    assert run("config", "set", "gpu_layers", "-1").exit_code == 0
    found = load({}, {}, file)
    assert (found.tuning.top_k, found.tuning.temperature, found.tuning.stop) == (0, 0.2, ("\n6.", "END"))
    assert (found.keys, found.origin["gpu_layers"]) == ({"send": "alt+k,ctrl+k"}, "config.toml")
    for name in ("top_k", "temperature", "stop", "keys.send", "gpu_layers"):
        assert f"{name} is no longer set" in run("config", "unset", name).stderr
    assert file.read_text() == before
    assert "top_k is not set in" in run("config", "unset", "top_k").stderr


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("top_k", "many"), 1, "top_k must be a whole number from 0 to 1000000, not 'many'"),
        (("top_kk", "1"), 1, "unknown setting 'top_kk' (did you mean top_k?)"),
        (("sampling.top_k", "1"), 1, "unknown setting 'sampling.top_k' (did you mean top_k?)"),
        (("system", "Be", "brief"), 2, "system takes one value"),
        (("kv_type", "q9"), 1, "kv_type must be one of"),
    ],
)
def test_set_refuses_what_the_setting_does(
    run: Run, file: Path, args: tuple[str, ...], code: int, message: str
) -> None:
    refused = run("config", "set", *args)
    assert (refused.exit_code, message in refused.stderr) == (code, True)
    assert not file.exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("keys.tun", "f12"), "unknown key id 'tun' (did you mean tune?)"),
        (("keys.look", "ctrl+k"), "Ctrl+K is already used by tune; look keeps Ctrl+L"),
        (("theme", "dsuk"), "unknown theme 'dsuk' (did you mean dusk?)"),
    ],
)
@pytest.mark.usefixtures("file")
def test_set_tells_of_what_it_makes_wrong_and_of_nothing_else(run: Run, args: tuple[str, ...], message: str) -> None:
    run("config", "set", "keys.tune", "ctrl+k")
    told = run("config", "set", *args)
    assert (told.exit_code, message in told.stderr) == (1, True)
    again = run("config", "set", "model_folders", "/none")
    assert (again.exit_code, again.stderr.count("\n")) == (0, 1)


def test_edit_opens_the_editor_on_a_file_that_explains_itself_and_checks_it(
    run: Run, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "my editor.py"
    editor.write_text("import sys\nopen(sys.argv[-1], 'a').write('\\nsned = \"f12\"\\n')\n")
    monkeypatch.setenv("EDITOR", "false")
    monkeypatch.setenv("VISUAL", f"{sys.executable} '{editor}' --wait")
    edited = run("config", "edit")
    assert edited.exit_code == 1
    assert "unknown key id 'sned' (did you mean send?)" in edited.stdout
    assert file.read_text().startswith("# termchat settings.")
    monkeypatch.delenv("VISUAL")
    assert "the editor false exited with code 1" in run("config", "edit").stderr
    monkeypatch.setenv("EDITOR", "/none/such")
    assert "the editor /none/such cannot be run: No such file" in run("config", "edit").stderr


def test_path_is_where_it_would_be(run: Run, home: Path) -> None:
    assert run("config", "path").stdout == f"{home}/CONFIG/termchat/config.toml\n"


def test_locate_knows_every_place_and_makes_none(run: Run, home: Path) -> None:
    told = {row["name"]: row for row in json.loads(run("locate", "--json").stdout)["files"]}
    ours = {
        str(function())
        for name, function in vars(paths).items()
        if name.endswith(("_file", "_folder")) and not name.startswith("shipped")
    }
    assert ours <= {row["path"] for row in told.values()}
    assert all(row["what"] for row in told.values())
    assert told["store"] == {**told["store"], "path": f"{home}/DATA/termchat/sessions.db", "size": None}
    assert list(home.iterdir()) == []
    store = home / "DATA/termchat/sessions.db"
    store.parent.mkdir(parents=True)
    store.write_bytes(b"x" * 2000)
    (store.parent / "models" / "a").mkdir(parents=True)
    (store.parent / "models" / "a" / "a.gguf").write_bytes(b"x" * 3_000_000)
    lines = [line.split()[:3] for line in run("locate").stdout.splitlines()]
    assert ["store", "2", "kB"] in lines
    assert ["models", "3.00", "MB"] in lines
    assert run("locate", "store").stdout == f"{store}\n"
    wrong = run("locate", "stroe")
    assert (wrong.exit_code, "did you mean store?" in wrong.stderr) == (1, True)


@pytest.mark.parametrize("value", ["", "relative/folder", "~/x"])
def test_an_xdg_variable_that_is_no_absolute_path_is_as_if_not_set(
    home: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    for kind in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", value)
    assert paths.config_file() == home / ".config/termchat/config.toml"
    assert paths.store_file() == home / ".local/share/termchat/sessions.db"
    assert paths.log_file() == home / ".local/state/termchat/termchat.log"


def test_every_setting_has_a_table_of_the_file() -> None:
    assert set(TABLES) == set(SETTINGS)
