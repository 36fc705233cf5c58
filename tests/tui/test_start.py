"""The app as it is put together from a configuration."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from termchat import paths
from termchat.config.settings import load
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.tui import start
from tests.conversation.stored import say


def test_a_mistake_in_the_configuration_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    app = start.build(load({}, {"TERMCHAT_TOPP": "1"}, tmp_path / "none"))
    assert [notice.message.split(":")[0] for notice in app._notices] == ["TERMCHAT_TOPP"]
    app._at_end()


def test_of_many_mistakes_some_are_told_and_where_the_others_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    file = tmp_path / "config.toml"
    file.write_text("".join(f"wrong{n} = 1\n" for n in range(5)) + '[keys]\nnone = "ctrl+k"\n')
    app = start.build(load({}, {}, file))
    app._at_end()
    *some, last = app._notices
    assert [notice.message.split(":")[0] for notice in some] == ["config.toml, line 1", "config.toml, line 2"]
    assert (last.message, last.hint) == (
        "4 more configuration mistakes",
        "termchat config check lists them all",
    )


def test_mistakes_in_themes_push_no_other_off_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr("termchat.paths.themes_folder", lambda: tmp_path)
    (tmp_path / "bad.toml").write_text("name = 1\n")
    file = tmp_path / "config.toml"
    file.write_text('theme = "bad"\nwrong = 1\n')
    app = start.build(load({}, {}, file), resume="nobody")
    app._at_end()
    said = [(notice.message.split(":")[0], notice.hint) for notice in app._notices]
    assert said == [
        ("config.toml, line 2", ""),
        ("3 more configuration mistakes", "termchat config check lists them all"),
        ("the chat cannot be opened", "started a new one; F4 lists the others"),
    ]


def test_a_chat_that_cannot_be_kept_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (temporary := tmp_path / "tmp").mkdir()
    file = paths.store_file()
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE other (program)")
    script = """
from pathlib import Path
from termchat.config.settings import load
from termchat.tui import start
app = start.build(load({}, {}, Path("none")))
app._at_end()
print(app._notices[0].message, len(list(Path(start.tempfile.gettempdir()).iterdir())))
"""
    environ = {**os.environ, "TMPDIR": str(temporary)}
    ran = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("this chat will not be saved: ")
    assert ran.stdout.endswith(" 1\n")
    assert list(temporary.iterdir()) == []


def test_a_chat_is_resumed_by_a_beginning_of_its_id_or_as_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    config = load({}, {}, tmp_path / "none")
    store = Store.open(paths.store_file())
    ids = []
    for asked in ("first", "second"):
        chat = Conversation()
        ids.append(store.begin(chat))
        say(store, ids[-1], chat, asked, [1], [b"a"])
    store.close()

    def shown(resume: str | None) -> tuple[list[tuple[str, str]], list[str]]:
        app = start.build(config, resume=resume)
        app._at_end()
        return list(app.chat.conversation.list_turns()), [notice.message for notice in app._notices]

    assert shown(None) == ([], [])
    assert shown("last") == ([("user", "second"), ("assistant", "a")], [])
    assert shown(ids[0][:-1]) == ([("user", "first"), ("assistant", "a")], [])
    turns, told = shown("nobody")
    assert turns == []
    assert "no saved chat nobody" in told[0]


def test_a_theme_that_is_not_there_is_told_with_its_place_and_one_that_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    file = tmp_path / "config.toml"
    file.write_text('on_full = "stop"\ntheme = "forrest"\n')
    app = start.build(load({}, {}, file))
    app._at_end()
    assert [notice.message for notice in app._notices] == [
        "config.toml, line 2: unknown theme 'forrest' (did you mean forest?)"
    ]
