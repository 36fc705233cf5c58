"""How the program takes and leaves a terminal, and what it says there: at the worst moments, and of the worst names."""

from __future__ import annotations

import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from tests.attacks import CONTROLS, outside_the_grammar
from tests.whole.chat_steps import FLAGS, Open

HOSTILE = CONTROLS["title"] + CONTROLS["C1 CSI"] + CONTROLS["bidi override"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_as_soon_as_the_terminal_is_ours_gives_it_back(open_terminal: Open, number: int) -> None:
    terminal = open_terminal(*FLAGS)
    terminal.wait(lambda: b"\x1b[?1049h" in terminal.output)
    terminal.process.send_signal(number)
    assert terminal.ended() == 128 + number
    assert terminal.restored()
    assert not outside_the_grammar(bytes(terminal.output))


def test_continued_more_than_once_it_still_knows_how_the_terminal_was(open_terminal: Open) -> None:
    terminal = open_terminal(*FLAGS)
    terminal.wait(lambda: terminal.is_ready)
    for _ in range(5):
        terminal.process.send_signal(signal.SIGCONT)
        terminal.read(0.01)
    terminal.settle()
    terminal.keys("a message")
    terminal.wait("a message")
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    assert terminal.restored()


def test_why_a_chat_could_not_be_saved_is_told_with_marks(open_terminal: Open, tmp_path: Path) -> None:
    taken = tmp_path / HOSTILE
    taken.write_text("no folder can be made here")
    terminal = open_terminal(*FLAGS, "--max-tokens", "1", XDG_DATA_HOME=str(taken))
    terminal.wait(lambda: terminal.is_ready)
    terminal.keys("Hello", "enter")
    terminal.wait(lambda: "not saved" in terminal.text and "· seed 1" in terminal.text)
    terminal.keys("ctrl+q", "ctrl+q")
    assert terminal.ended() == 0
    assert b"termchat: the chat was not saved: " in terminal.output
    assert not outside_the_grammar(bytes(terminal.output))


@pytest.mark.parametrize("args", [("locate", "store"), ("config", "path")], ids=" ".join)
def test_a_path_alone_on_a_terminal_has_marks(open_terminal: Open, args: tuple[str, ...]) -> None:
    place = "/nowhere/" + HOSTILE
    terminal = open_terminal(*args, XDG_DATA_HOME=place, XDG_CONFIG_HOME=place)
    assert terminal.ended() == 0
    assert "/nowhere/␛]0;owned␇".encode() in terminal.output
    assert not outside_the_grammar(bytes(terminal.output))


def test_a_chat_is_removed_by_an_id_of_controls(open_terminal: Open, tmp_path: Path) -> None:
    file = tmp_path / "data" / "termchat" / "sessions.db"
    store = Store.open(file)
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, chat.grow("user", parent=None, at=0, text="hello"))
    assert store.close()
    with closing(sqlite3.connect(file)) as db, db:
        for table in ("sessions", "nodes"):
            db.execute(f"UPDATE {table} SET {'id' if table == 'sessions' else 'session'} = ?", (HOSTILE,))
    for args, said in (
        (("rm", "last"), "deleted ␛]0;owned␇"),
        (("rm", "--now", HOSTILE), "Permanently delete ␛]0;owned␇"),
    ):
        terminal = open_terminal("sessions", *args)
        if "--now" in args:
            terminal.wait("Permanently delete")
            terminal.keys("y", "enter")
        assert terminal.ended() == 0
        assert said.encode() in terminal.output
        assert not outside_the_grammar(bytes(terminal.output))


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/null"])
def test_without_stderr_it_draws_on_stdout(open_terminal: Open, closed: str) -> None:
    line = f"import os; os.execvp('sh', ['sh', '-c', 'exec {sys.executable} -m termchat {' '.join(FLAGS)} {closed}'])"
    terminal = open_terminal(program=("-c", line))
    terminal.wait(lambda: terminal.is_ready)
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    assert terminal.restored()
