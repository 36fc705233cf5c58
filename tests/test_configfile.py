"""Changing the config file: the one value, and nothing else in it."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.config.file import ConfigFileError, put, remove
from termchat.config.settings import load
from termchat.decoding.samplers import KNOBS
from termchat.toml import literal

LIVED_IN = """\
# mine
theme = "dark"   # as at home
model_folders = [  # all disks
  "/a#b",
  '/c',
]

[sampling]   # warm
# top_k = 40
top_p = 0.9

# how it runs
[engine]
threads = 2
"""


@pytest.mark.parametrize(
    ("name", "value", "before", "after"),
    [
        ("theme", "high contrast", '"dark"   # as at home', '"high contrast"   # as at home'),
        ("model_folders", ["/z"], "[  # all disks\n  \"/a#b\",\n  '/c',\n]\n", '["/z"]\n'),
        ("top_k", 5, "# top_k = 40\n", "# top_k = 40\ntop_k = 5\n"),
        ("min_p", 0.1, "top_p = 0.9\n", "top_p = 0.9\nmin_p = 0.1\n"),
        ("mlock", True, "threads = 2\n", "threads = 2\nmlock = true\n"),
        ("seed", None, "top_p = 0.9\n", 'top_p = 0.9\nseed = "fresh"\n'),
        ("system", 'a "b"\n\x7f\u2028', "'/c',\n]\n", '\'/c\',\n]\nsystem = "a \\"b\\"\\n\\u007f\\u2028"\n'),
        ("keys.send", "ctrl+k", "threads = 2\n", 'threads = 2\n\n[keys]\nsend = "ctrl+k"\n'),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_setting_is_put_where_it_belongs(
    tmp_path: Path, name: str, value: object, before: str, after: str, end: str, mark: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes((mark + LIVED_IN.replace("\n", end)).encode())
    assert put(name, value, file) == file  # type: ignore[arg-type]
    assert file.read_bytes().decode() == mark + LIVED_IN.replace(before, after, 1).replace("\n", end)


def test_what_is_put_is_what_is_loaded_and_removed_is_the_default_again(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "config.toml"
    put("temperature", 0.3, file)
    put("stop", ("\n", 'a"b'), file)
    put("theme", "light", file)
    put("engines.lab.url", "ssh://lab", file)
    found = load({}, {}, file)
    assert list(found.engines) == ["lab"]
    assert (found.tuning.temperature, found.tuning.stop, found.theme) == (0.3, ("\n", 'a"b'), "light")
    assert found.places["theme"] == "config.toml, line 1"
    assert [remove(name, file) for name in ("temperature", "stop", "theme", "theme")] == [True, True, True, False]
    assert remove("engines.lab.url", file)
    found = load({}, {}, file)
    assert (found.problems, set(found.origin.values())) == ((), {"default"})


def test_a_commented_default_stays_above_its_setting_and_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    before = '#theme = "auto"\n\n[engine]\n#threads = 0'
    file.write_text(before)
    put("theme", "dark", file)
    put("threads", 3, file)
    assert file.read_text() == '#theme = "auto"\ntheme = "dark"\n\n[engine]\n#threads = 0\nthreads = 3\n'
    remove("theme", file)
    remove("threads", file)
    assert file.read_text() == before + "\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sampling.top_p = 0.5\n", "sampling.top_p = 0.5\nsampling.top_k = 7\n"),
        (
            'system = """\n[sampling]\ntop_k = 1\n"""\n',
            'system = """\n[sampling]\ntop_k = 1\n"""\n\n[sampling]\ntop_k = 7\n',
        ),
        ('[sampling]\n"top_k" = 1 # c', '[sampling]\n"top_k" = 7 # c'),
        ("# hello\n\n# of threads\n[engine]\n", "# hello\n\n# of threads\n[engine]\n\n[sampling]\ntop_k = 7\n"),
    ],
)
def test_other_ways_to_write_it_are_kept(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    put("top_k", 7, file)
    assert file.read_text() == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sampling = {top_k = 1}", "line 1: sampling.top_k is inside another value; change it by hand"),
        ("sampling = {top_p = 1}", "line 1: sampling.top_k cannot be changed here; change it by hand"),
        ("sampling = 3", "line 1: sampling.top_k cannot be changed here"),
        ("[sampling", "is not valid TOML: Expected ']' at the end of a table declaration (at"),
    ],
)
def test_what_cannot_be_changed_is_left_alone(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(ConfigFileError) as caught:
        put("top_k", 7, file)
    assert problem in str(caught.value)
    assert file.read_text() == text
    assert [one.name for one in tmp_path.iterdir()] == ["config.toml"]


def test_a_misspelled_setting_gets_a_guess(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError, match=r"unknown setting 'top_kk' \(did you mean top_k\?\)"):
        put("top_kk", 7, tmp_path / "config.toml")
    with pytest.raises(ConfigFileError, match="only hold UTF-8 text"):
        put("system", "\udce9", tmp_path / "config.toml")
    assert not list(tmp_path.iterdir())


def test_modes_and_links_stay(tmp_path: Path) -> None:
    real, file = tmp_path / "dotfiles" / "termchat.toml", tmp_path / "config.toml"
    real.parent.mkdir()
    real.write_text("theme = 'dark'\n")
    real.chmod(0o640)
    file.symlink_to(real)
    put("theme", "light", file)
    assert file.is_symlink()
    assert real.read_text() == 'theme = "light"\n'
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert [one.name for one in real.parent.iterdir()] == ["termchat.toml"]


def test_a_folder_in_its_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(
        ConfigFileError, match="cannot be read: it is a folder, not a regular file; remove or replace it"
    ):
        put("theme", "dark", tmp_path / "config.toml")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigFileError, match="Not a directory"):
        put("theme", "dark", tmp_path / "file" / "config.toml")


VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=("Cs",))),
    st.lists(st.text(st.characters(exclude_categories=("Cs",)))),
)


@given(VALUES)
def test_every_value_is_read_as_it_was_written(value: object) -> None:
    assert tomllib.loads(f"a = {literal(value)}") == {"a": value}


@given(
    settings=st.dictionaries(
        st.sampled_from([*KNOBS, "theme", "model", "threads", "keys.send", "keys.a b"]), VALUES, min_size=1
    ),
    lines=st.lists(
        st.sampled_from(
            [
                "# a comment",
                "",
                "theme = 'x'",
                "model = '''\n[a]\n'''",
                "[sampling]",
                "top_k = [1, # ]\n 2]",
                "#top_p = 1",
                "[keys]",
                "send = 'a'",
                "[engine]",
                "engine.x = {a = 1}",
                "[[other]]",
            ]
        )
    ),
)
def test_whatever_the_file_says_it_says_still(tmp_path_factory, settings: dict[str, object], lines: list[str]) -> None:
    file = tmp_path_factory.mktemp("c") / "config.toml"
    text = "\n".join(lines)
    try:
        before = tomllib.loads(text)
    except ValueError:
        before, text = {}, ""
    file.write_text(text)
    kept = file.read_text()
    for name, value in settings.items():
        try:
            put(name, value, file)  # type: ignore[arg-type]
        except ConfigFileError:
            assert file.read_text() == kept
        else:
            before = _with(before, name, value)
            assert _plain(tomllib.loads(file.read_text())) == _plain(before)
            comments = [line for line in kept.splitlines() if line.startswith("#")]
            assert set(comments) <= set(file.read_text().splitlines())
        kept = file.read_text()


def _with(table: dict, name: str, value: object) -> dict:
    table_name, _, key = name.rpartition(".")
    table_name = table_name or ("sampling" if name in KNOBS else "engine" if name == "threads" else "")
    inner = {**table[table_name], key: value} if table_name in table else {key: value}
    return {**table, table_name: inner} if table_name else {**table, name: value}


def _plain(table: dict) -> dict:
    return {name: value for name, value in table.items() if value != {}}
