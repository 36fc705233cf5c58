"""Engines elsewhere in the settings: named, chosen, refused with the line, and where their keys come from."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from termchat import paths
from termchat.cli.main import main
from termchat.commands.doctor import Private
from termchat.config.settings import Settings, load
from termchat.config.sources import FlagError
from termchat.engine.access_key import read_key
from termchat.engine.address import HERE, AddressError, EngineAddress, address_of
from termchat.engine.port import EngineError

KEY = "sk-very-secret-0123456789"
LAB = '[engines.lab]\nurl = "ssh://ada@lab:2222"\nmodel = "llama-70b"\n'


@pytest.fixture
def written(tmp_path: Path):
    def written(text: str, flags: dict[str, object] | None = None, **variables: str) -> Settings:
        file = tmp_path / "config.toml"
        file.write_text(text)
        return load(flags, variables, file)

    return written


def test_a_named_engine_is_read_with_its_place(written) -> None:
    found = written(f"{LAB}remote_command = '/opt/termchat worker'\n")
    lab = found.engines["lab"]
    assert (lab.scheme, lab.user, lab.host, lab.port) == ("ssh", "ada", "lab", 2222)
    assert (lab.shown, lab.model, lab.remote_command) == ("lab", "llama-70b", "/opt/termchat worker")
    assert found.engine_places == {"lab": "config.toml, line 1"}
    assert found.address == HERE
    assert found.problems == ()


@pytest.mark.parametrize(
    ("text", "flags", "variables", "expected"),
    [
        ("", {"default_engine": "lab"}, {}, ("lab", "llama-70b")),
        ("default_engine = 'lab'\n", {}, {}, ("lab", "llama-70b")),
        ("default_engine = 'lab'\nmodel = 'mine'\n", {}, {}, ("lab", "llama-70b")),
        ("model = 'mine'\n", {"default_engine": "lab"}, {}, ("lab", "llama-70b")),
        ("model = 'mine'\n", {"default_engine": "lab", "model": "theirs"}, {}, ("lab", "theirs")),
        ("default_engine = 'lab'\n", {"model": "theirs"}, {}, ("lab", "theirs")),
        ("default_engine = 'lab'\n", {}, {"TERMCHAT_MODEL": "theirs"}, ("lab", "theirs")),
        ("default_engine = 'lab'\n", {"default_engine": "here"}, {}, ("this machine", "")),
        ("", {"default_engine": "lab"}, {"TERMCHAT_DEFAULT_ENGINE": "here"}, ("lab", "llama-70b")),
        ("", {"default_engine": "http://box:8080/"}, {}, ("http://box:8080", "")),
        ("default_engine = 'lab'\n", {"model": "https://box"}, {}, ("https://box", "")),
    ],
)
def test_flags_and_places_choose_engine_and_model(written, text: str, flags, variables, expected) -> None:
    address = written(text + LAB, flags, **variables).address
    assert (address.shown, address.model) == expected


@pytest.mark.parametrize(
    ("text", "flags", "variables", "expected"),
    [
        ("", {"default_engine": "ssh://lab", "remote_command": "mine"}, {}, "mine"),
        ("", {"model": "ssh://lab", "remote_command": "mine"}, {}, "mine"),
        ("", {"default_engine": "lab", "remote_command": "mine"}, {}, "mine"),
        ("", {"default_engine": "lab"}, {"TERMCHAT_REMOTE_COMMAND": "mine"}, "mine"),
        ("remote_command = 'mine'\n", {"default_engine": "ssh://lab"}, {}, "mine"),
        ("remote_command = 'mine'\n", {"default_engine": "lab"}, {}, "its own"),
        ("remote_command = 'mine'\n", {"default_engine": "http://lab"}, {}, ""),
        ("", {"remote_command": "mine"}, {}, ""),
    ],
)
def test_what_ssh_runs_is_the_flags_word_for_the_engine_that_is_configured(
    written, text: str, flags, variables, expected: str
) -> None:
    found = written(f"{text}{LAB}remote_command = 'its own'\n[engines.box]\nurl = 'ssh://box'\n", flags, **variables)
    assert found.address.remote_command == expected
    assert found.engine_at("box").remote_command == ""


def test_a_remote_command_for_a_server_is_refused_in_a_flag(written) -> None:
    for flags in ({"default_engine": "http://box:1"}, {"model": "https://box"}):
        with pytest.raises(FlagError, match=r"remote_command does not apply to https?://"):
            written("", {**flags, "remote_command": "mine"})


def test_a_model_for_this_machine_is_not_asked_for_elsewhere(written) -> None:
    """A url without a model leaves it to the engine, whatever this machine's own model is."""
    text = "model = 'mine'\n[engines.box]\nurl = 'http://box:1'\n"
    assert written(text, {"default_engine": "box"}).address.model == ""
    assert written("default_engine = 'box'\n" + text).address.model == "mine"


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("model = 'x'", "line 1: the engine lab needs a url"),
        ("\nurl = 'ftp://lab'", "line 3: url: an engine's URL starts with ssh://, http:// or https://"),
        ("url = 'ssh://-oProxyCommand=x'", "line 2: url: no valid host after ssh://"),
        ("url = 'ssh://-l@lab'", "line 2: url: no valid host"),
        ("url = 'http://lab:99999'", "line 2: url: the port must be from 1 to 65535"),
        ("url = 'ssh://lab/models/x.gguf'", "line 2: url: ssh:// takes no path"),
        ("url = 'http://la b'", "line 2: url: no valid host"),
        ("url = 5", "line 2: url must be a string, not 5"),
        ("url = 'ssh://lab'\nkey_env = 'K'", "line 3: key_env does not apply to ssh://"),
        ("url = 'http://lab'\nremote_command = 'x'", "line 3: remote_command does not apply to http://"),
        ("url = 'http://lab'\ndraws = 'there'", "line 3: draws must be one of here, server, not 'there'"),
        ("url = 'http://lab'\nmodl = 'x'", "line 3: unknown key 'modl' (did you mean model?)"),
        ("url = 'http://lab'\ninsecure_key = 'yes'", "line 3: insecure_key must be true or false"),
        ("url = 'http://lab'\nkey_env = 'A'\nkey_file = 'b'", "line 4: give one of key_env and key_file, not both"),
    ],
)
def test_a_mistake_in_an_engine_is_told_with_its_line_and_that_engine_alone_falls(written, table, problem) -> None:
    found = written(f"[engines.lab]\n{table}\n[engines.box]\nurl = 'http://box'\n")
    assert len(found.problems) == 1
    assert f"config.toml, {problem}" in found.problems[0]
    assert list(found.engines) == ["box"]


@pytest.mark.parametrize(
    "table",
    [
        f"url = 'http://me:{KEY}@lab'",
        f"url = 'https://{KEY}@lab'",
        f"url = 'ssh://me:{KEY}@lab'",
        f"url = 'http://lab/?api_key={KEY}'",
        f"url = 'http://lab'\nkey_env = '{KEY}'",
    ],
)
def test_a_key_written_in_the_wrong_place_is_refused_and_never_repeated(written, table: str) -> None:
    found = written(f"[engines.lab]\n{table}\n")
    assert found.engines == {}
    assert len(found.problems) == 1
    assert KEY not in found.problems[0]


def test_an_unknown_engine_is_a_usage_error_in_a_flag_and_passed_over_elsewhere(written) -> None:
    with pytest.raises(FlagError, match=r"unknown engine 'labb' \(did you mean lab\?\); known engines: lab"):
        written(LAB, {"default_engine": "labb"})
    for bare in ("127.0.0.1:8200", "localhost:8200", "[::1]:8200/v1"):
        with pytest.raises(FlagError) as caught:
            written(LAB, {"default_engine": bare})
        assert str(caught.value).endswith(f"unknown engine {bare!r} (did you mean http://{bare}?)")
    with pytest.raises(FlagError, match="no valid host"):
        written(LAB, {"model": "http://"})
    found = written(f"default_engine = 'old'\n{LAB}", TERMCHAT_DEFAULT_ENGINE="lab")
    assert found.address.name == "lab"
    found = written(f"default_engine = 'old'\n{LAB}")
    assert found.address == HERE
    assert "config.toml, line 1: default_engine: unknown engine 'old'" in found.problems[0]


@pytest.mark.parametrize(
    "url", ["http://[::1]:8080", "http://127.0.0.1:1", "http://localhost", "ssh://lab_2", "https://a.b/v1"]
)
def test_addresses_that_are_right(url: str) -> None:
    assert address_of(url + "/").url == url
    assert address_of(url).is_loopback == (":1" in url or "localhost" in url)


@pytest.mark.parametrize(
    "url",
    ["lab", "", "ssh://", "http://[::1", "http://a:b", "ssh://a\nb", "file:///etc/passwd", "http://a..b", "http://a/ü"],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(AddressError):
        address_of(url)


# --- keys ------------------------------------------------------------------------------------------------------------


def engine(**more: str | bool) -> EngineAddress:
    return EngineAddress(**{"name": "lab", "url": "https://lab", **more})


def test_a_key_comes_from_a_variable_or_a_file_that_nobody_else_can_open(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAB_KEY", f" {KEY}\n")
    assert read_key(engine(key_env="LAB_KEY")) == KEY
    file = tmp_path / "my key"
    file.write_text(f"{KEY}\n")
    file.chmod(0o600)
    assert read_key(engine(key_file=str(file))) == KEY
    assert read_key(engine()) == ""
    file.chmod(0o640)
    with pytest.raises(EngineError) as refused:
        read_key(engine(key_file=str(file)))
    assert refused.value.hint == f"chmod 600 '{file}'"
    assert KEY not in refused.value.message


def test_a_key_comes_from_a_keyring_where_there_is_one(monkeypatch) -> None:
    with_ring = engine(key_keyring="termchat")
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(EngineError, match="the package keyring is not installed"):
        read_key(with_ring)
    kept = {("termchat", "lab"): KEY}
    ring = SimpleNamespace(get_password=lambda service, user: kept.get((service, user)))
    monkeypatch.setitem(sys.modules, "keyring", ring)
    assert read_key(with_ring) == KEY
    kept.clear()
    with pytest.raises(EngineError) as refused:
        read_key(with_ring)
    assert refused.value.hint == "keyring set termchat lab"


@pytest.mark.parametrize("text", ["", f"{KEY}\r\nHost: evil", f"{KEY} {KEY}", f"{KEY}é"])
def test_what_cannot_be_a_key_is_refused_and_never_repeated(monkeypatch, text: str) -> None:
    monkeypatch.setenv("LAB_KEY", text)
    with pytest.raises(EngineError) as refused:
        read_key(engine(key_env="LAB_KEY"))
    assert refused.value.kind == "key"
    assert KEY not in f"{refused.value.message} {refused.value.hint}"


def test_a_key_travels_to_another_machine_encrypted_unless_that_is_allowed(monkeypatch) -> None:
    monkeypatch.setenv("LAB_KEY", KEY)
    with pytest.raises(EngineError, match="unencrypted"):
        read_key(engine(url="http://lab", key_env="LAB_KEY"))
    assert read_key(engine(url="http://lab", key_env="LAB_KEY", insecure_key=True)) == KEY
    assert read_key(engine(url="http://127.0.0.1:8080", key_env="LAB_KEY")) == KEY


# --- as a person meets them ------------------------------------------------------------------------------------------


def run(*args: str):
    return CliRunner().invoke(main, args, catch_exceptions=False)


@pytest.fixture
def config(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = paths.config_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def test_config_show_lists_the_engines_and_no_key(config: Path, monkeypatch) -> None:
    monkeypatch.setenv("BOX_KEY", KEY)
    config.write_text(f"{LAB}[engines.box]\nurl = 'https://box'\nkey_env = 'BOX_KEY'\n")
    shown = run("config", "show")
    assert "lab     ssh://ada@lab:2222  llama-70b            config.toml, line 1" in shown.stdout
    assert "box     https://box                    BOX_KEY   config.toml, line 4" in shown.stdout
    assert KEY not in shown.output + run("config", "show", "--json").output


def test_config_check_tells_of_keys_that_cannot_be_had(config: Path) -> None:
    config.write_text("[engines.box]\nurl = 'https://box'\nkey_env = 'BOX_KEY_THAT_IS_NOT_SET'\n")
    checked = run("config", "check")
    assert checked.exit_code == 1
    assert "config.toml, line 1: the engine box needs a key: the variable BOX_KEY_THAT_IS_NOT_SET" in checked.stdout


def test_config_set_writes_an_engine_and_unset_removes_it(config: Path) -> None:
    assert run("config", "set", "engines.lab.url", "ssh://lab").exit_code == 0
    assert run("config", "set", "engines.lab.model", "llama-70b").exit_code == 0
    assert config.read_text().endswith('[engines.lab]\nurl = "ssh://lab"\nmodel = "llama-70b"\n')
    assert load().engines["lab"].model == "llama-70b"
    assert run("config", "unset", "engines.lab.model").exit_code == 0
    assert load().engines["lab"].model == ""
    assert "one of url, model, key_env" in run("config", "set", "engines.lab.key", KEY).output


def test_the_flag_is_called_engine(config: Path) -> None:
    config.write_text(LAB)
    refused = run("run", "--engine", "labb", "hello")
    assert refused.exit_code == 2
    assert "Invalid value for --engine: unknown engine 'labb' (did you mean lab?)" in refused.output


def test_a_report_holds_no_key(monkeypatch) -> None:
    monkeypatch.setenv("LAB_KEY", KEY[3:])
    private = Private([engine(key_env="LAB_KEY")])
    assert private.clean(f"it said {KEY[3:]} aloud") == "it said … aloud"
    assert os.environ["LAB_KEY"] == KEY[3:]
