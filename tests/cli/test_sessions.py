"""`termchat sessions`, as people and scripts use it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from termchat import paths
from termchat.cli import main
from tests.conversation.stored import saved_in_home

Sessions = Callable[..., Result]


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sessions:
    """`termchat sessions …` without a terminal, with folders of its own."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return lambda *args: CliRunner().invoke(main, ["sessions", *map(str, args)])


def asked(result: Result) -> dict[str, object]:
    assert result.exit_code == 0, result.stderr
    assert result.stdout.isascii()
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def titles(result: Result) -> list[object]:
    return [one["title"] for one in asked(result)["sessions"]]  # type: ignore[attr-defined]


def test_chats_are_listed_for_people_and_for_scripts(sessions: Sessions) -> None:
    assert asked(sessions("list", "--json")) == {"sessions": []}
    first, second = saved_in_home("a fox", "tell me", "it slept here"), saved_in_home("a be\x1bar", "and", "it ran")
    lines = sessions("list").stdout.splitlines()
    assert lines[0].split() == ["ID", "USED", "TURNS", "TOKENS", "MODEL", "TITLE"]
    assert [line.split()[0] for line in lines[1:]] == [second, first]
    assert lines[1].endswith("1       2  smollm2  a be␛ar")
    found = asked(sessions("list", "--json"))["sessions"]
    assert isinstance(found, list)
    assert {name: found[1][name] for name in ("id", "turns", "tokens", "model", "snippet")} == {
        "id": first, "turns": 1, "tokens": 3, "model": "smollm2", "snippet": "",
    }  # fmt: skip
    assert found[1]["created"].endswith("+00:00")
    assert titles(sessions("list", "-n", 1, "--json")) == ["a be\x1bar"]


def test_a_long_title_makes_no_long_lines(sessions: Sessions) -> None:
    saved_in_home("a fox", "tell me", "it slept here")
    saved_in_home("x" * 10_000, "and", "it ran")
    assert max(map(len, sessions("list").stdout.splitlines())) < 200
    assert max(map(len, sessions("search", "ran").stdout.splitlines())) < 300
    assert titles(sessions("list", "--json"))[0] == "x" * 10_000


@pytest.mark.parametrize("command", [("list",), ("search", "fox")])
@pytest.mark.parametrize("limit", [0, 10**6 + 1, 10**30])
def test_a_limit_beyond_what_there_can_be_is_refused_with_the_range(
    sessions: Sessions, command: tuple[str, ...], limit: int
) -> None:
    saved_in_home("a fox", "tell me", "it slept here")
    result = sessions(*command, "-n", limit)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "1<=x<=1000000" in result.stderr


def test_chats_are_found_by_their_words(sessions: Sessions) -> None:
    saved_in_home("a fox", "tell me", "it slept on the old mat")
    saved_in_home("a bear", "tell me", "it ran")
    assert titles(sessions("search", "tell", "SLE", "--json")) == ["a fox"]
    lines = sessions("search", "mat").stdout.splitlines()
    assert lines[1].endswith("it slept on the old mat")
    assert not set(lines[1]) & {"\x02", "\x03"}
    assert titles(sessions("search", '"quoted OR', "--json")) == []
    assert sessions("search").exit_code == 2


def test_a_chat_is_shown_as_text_and_as_facts(sessions: Sessions) -> None:
    session = saved_in_home("a fox", "where\x1b[2J?", "in the wood")
    shown = sessions("show", "last").stdout
    assert shown.startswith("# a fox\n")
    assert "where␛[2J?" in shown
    assert " in the wood" in shown
    told = asked(sessions("show", session, "--json"))
    assert (told["id"], told["system"], told["tokens"], told["named"]) == (session, "be brief", 3, False)
    assert told["turns"] == [
        {"role": "user", "text": "where\x1b[2J?"},
        {"role": "assistant", "text": " in the wood"},
    ]


def test_a_chat_without_a_title_is_told_to_have_none(sessions: Sessions) -> None:
    saved_in_home("", "tell me", "it slept")
    assert sessions("list").stdout.splitlines()[1].endswith("  untitled")
    assert titles(sessions("list", "--json")) == [""]


def test_a_chat_is_named_by_a_beginning_of_its_id(sessions: Sessions) -> None:
    session, other = saved_in_home("a fox", "a", "b"), saved_in_home("a bear", "c", "d")
    assert sessions("rename", session, "the fox").exit_code == 0
    assert titles(sessions("list", "--json")) == ["a bear", "the fox"]
    result = sessions("rename", session[:4], "neither")
    assert result.exit_code == 1
    assert other in result.stderr
    assert sessions("rename", "nobody", "x").exit_code == 1
    assert sessions("rename", session, "  ").exit_code == 2
    assert titles(sessions("list", "--json")) == ["a bear", "the fox"]


def test_an_id_that_is_no_text_names_no_chat(sessions: Sessions) -> None:
    saved_in_home("a fox", "tell me", "it slept")
    result = sessions("show", "\udcff")  # how Python gives a byte of the command line that is not UTF-8
    assert (result.exit_code, result.exception.__class__) == (1, SystemExit)
    assert "no saved chat" in result.stderr
    assert "no saved chat was named" in sessions("show", "").stderr  # as where a script's variable is empty


def test_a_removed_chat_comes_back_unless_it_was_removed_for_good(sessions: Sessions) -> None:
    session, other = saved_in_home("a fox", "a", "b"), saved_in_home("a bear", "c", "d")
    result = sessions("rm", session)
    assert result.exit_code == 0
    assert f"restore {session}" in result.stderr
    assert titles(sessions("list", "--json")) == ["a bear"]
    assert titles(sessions("list", "--deleted", "--json")) == ["a fox"]
    result = sessions("restore", "last")  # the last chat that is listed
    assert (result.exit_code, result.stderr.splitlines()[0]) == (1, f"termchat: {other} is not deleted")
    assert sessions("restore", session).exit_code == 0
    assert titles(sessions("list", "--json")) == ["a bear", "a fox"]
    assert sessions("rm", "--now", session, other).exit_code == 2  # nobody can be asked
    assert titles(sessions("list", "--json")) == ["a bear", "a fox"]
    assert sessions("rm", "--now", "--yes", session, other).exit_code == 0
    assert titles(sessions("list", "--deleted", "--json")) == titles(sessions("list", "--json")) == []
    assert sessions("restore", session).exit_code == 1


def test_a_folder_that_is_none_is_told(sessions: Sessions) -> None:
    folder = paths.store_file().parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("")
    for words in (["list"], ["search", "fox"], ["show", "last"]):
        done = sessions(*words)
        assert (done.exit_code, done.stdout) == (1, "")
        assert "Not a directory" in done.stderr


def test_every_command_has_its_help(sessions: Sessions) -> None:
    shown = sessions("--help")
    assert shown.exit_code == 0, shown.stderr or shown.exception
    listed = shown.stdout
    for name in ("list", "rename", "restore", "rm", "search", "show"):
        assert f"  {name} " in listed
        assert sessions(name, "--help").exit_code == 0


@pytest.mark.parametrize("moment", [1e18, 1e300, -1e12, float("inf")])
def test_a_date_that_no_calendar_has_spoils_no_list(sessions: Sessions, moment: object) -> None:
    """It may be damaged, or what a clock said."""
    good, bad = saved_in_home("good", "a", "b"), saved_in_home("bad", "a", "b")
    with closing(sqlite3.connect(paths.store_file())) as db, db:
        db.execute("UPDATE sessions SET created = ?, updated = ? WHERE id = ?", (moment, moment, bad))
    assert {line.split()[0] for line in sessions("list").stdout.splitlines()[1:]} == {good, bad}
    assert set(titles(sessions("search", "a", "--json"))) == {"good", "bad"}
    assert asked(sessions("show", bad, "--json"))["created"] == "1970-01-01T00:00:00+00:00"
    for form in ("md", "html", "jsonl"):
        assert sessions("export", bad, "--format", form).exit_code == 0
